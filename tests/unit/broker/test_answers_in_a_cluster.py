"""What clients are answered by a broker of a cluster where a lone one has nothing to say, or says it at once."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.quotas.client_quotas import Client
from ottla.cluster.layout import consumer_offset_path
from ottla.cluster.quotas import CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, QuotaEntity
from ottla.records.batches.builder import build
from ottla.wire.api.add_partitions_to_txn import AddPartitionsToTxnResponse
from ottla.wire.api.delete_records import DeleteRecordsRequest
from ottla.wire.api.describe_producers import DescribeProducersRequest
from ottla.wire.api.describe_topic_partitions import DescribeTopicPartitionsRequest
from ottla.wire.api.fetch import FetchRequest
from ottla.wire.api.list_offsets import ListOffsetsRequest
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.api.offset_commit import OffsetCommitRequest
from ottla.wire.api.offset_fetch import OffsetFetchRequest
from ottla.wire.api.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from ottla.wire.api.produce import ProduceRequest
from ottla.wire.api.write_txn_markers import WriteTxnMarkersRequest
from ottla.wire.errors import (
    FENCED_LEADER_EPOCH,
    LEADER_NOT_AVAILABLE,
    NONE,
    NOT_LEADER_OR_FOLLOWER,
    OFFSET_METADATA_TOO_LARGE,
    REPLICA_NOT_AVAILABLE,
    UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from tests.support.cluster_machine import TOPIC_ID, ClusterMachine, role, told
from tests.support.fort import batch

PRODUCE, FETCH, LIST_OFFSETS, METADATA, OFFSET_COMMIT, OFFSET_FETCH, DELETE_RECORDS, OFFSET_FOR_LEADER_EPOCH = (
    0,
    1,
    2,
    3,
    8,
    9,
    21,
    23,
)
WRITE_TXN_MARKERS, DESCRIBE_PRODUCERS, DESCRIBE_TOPIC_PARTITIONS = 27, 61, 75


# Offsets in the registry, as releases before 0.8.2 keep them


def committed(machine: ClusterMachine, offset: int, *, topic: str = "t", metadata: str = "") -> int:
    part = OffsetCommitRequest.OffsetCommitRequestPartition(committed_offset=offset, committed_metadata=metadata)
    topics = [OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=[part])]
    answer = machine.ask(OFFSET_COMMIT, 0, OffsetCommitRequest(group_id="g", topics=topics))
    return int(answer.topics[0].partitions[0].error_code)


def fetched(machine: ClusterMachine, topic: str = "t") -> tuple[int, int]:
    topics = [OffsetFetchRequest.OffsetFetchRequestTopic(name=topic, partition_indexes=[0])]
    part = machine.ask(OFFSET_FETCH, 0, OffsetFetchRequest(group_id="g", topics=topics)).topics[0].partitions[0]
    return part.error_code, part.committed_offset


@pytest.fixture
def machine() -> ClusterMachine:
    machine = ClusterMachine()
    machine.tell_brokers(1, 2, 3)
    machine.tell_topic(told(0, 2))
    return machine


def test_offsets_of_version_0_are_where_consumers_of_old_look_for_them(machine: ClusterMachine) -> None:
    assert fetched(machine) == (UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert committed(machine, 42, metadata="dropped") == NONE
    assert fetched(machine) == (NONE, 42)
    path = consumer_offset_path("g", "t", 0)
    assert path is not None
    entry = machine.shared.entries.get(path)
    assert entry is not None
    assert entry.value == b"42"
    assert committed(machine, 43) == NONE
    assert fetched(machine) == (NONE, 43)


def test_offsets_of_version_0_are_refused_where_they_cannot_be_kept(machine: ClusterMachine) -> None:
    assert committed(machine, 1, topic="nowhere") == UNKNOWN_TOPIC_OR_PARTITION
    assert fetched(machine, "nowhere") == (UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert committed(machine, 1, metadata="m" * 4097) == OFFSET_METADATA_TOO_LARGE
    machine.shared.is_away = True
    assert committed(machine, 1) == UNKNOWN_SERVER_ERROR
    assert fetched(machine) == (UNKNOWN_SERVER_ERROR, -1)


# A leader that is no more


def described(machine: ClusterMachine, key: int) -> list[Any]:
    if key == METADATA:
        asked = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="t")], allow_auto_topic_creation=False)
        parts = machine.ask(METADATA, 9, asked).topics[0].partitions
    else:
        wanted = [DescribeTopicPartitionsRequest.TopicRequest(name="t")]
        parts = machine.ask(key, 0, DescribeTopicPartitionsRequest(topics=wanted)).topics[0].partitions
    return [(part.error_code, part.leader_id, part.leader_epoch) for part in parts]


@pytest.mark.parametrize("key", [METADATA, DESCRIBE_TOPIC_PARTITIONS])
def test_a_leader_that_is_not_alive_is_told_as_none(machine: ClusterMachine, key: int) -> None:
    assert described(machine, key) == [(NONE, 2, 3)]
    machine.tell_brokers(1, 3)
    assert described(machine, key) == [(LEADER_NOT_AVAILABLE, -1, 3)]
    machine.tell_brokers(1, 2, 3)
    assert described(machine, key) == [(NONE, 2, 3)]


@pytest.mark.parametrize("names", [("t",), ()])
def test_version_0_names_only_replicas_that_are_alive_since_its_clients_look_up_each(
    machine: ClusterMachine, names: tuple[str, ...]
) -> None:
    def told_of(version: int, topics: list[Any] | None) -> list[tuple[int, int, list[int], list[int]]]:
        answer = machine.ask(METADATA, version, MetadataRequest(topics=topics, allow_auto_topic_creation=version == 0))
        parts = answer.topics[0].partitions
        return [(part.error_code, part.leader_id, part.replica_nodes, part.isr_nodes) for part in parts]

    asked = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    whole = told_of(0, asked)
    assert whole == told_of(9, asked or None)
    (_, leader, replicas, isr) = whole[0]
    machine.tell_brokers(1, 2)
    assert told_of(9, asked or None) == whole
    assert told_of(0, asked) == [
        (REPLICA_NOT_AVAILABLE, leader, [node for node in replicas if node != 3], [node for node in isr if node != 3])
    ]
    machine.tell_brokers(1, 3)
    assert told_of(0, asked)[0][:2] == (LEADER_NOT_AVAILABLE, -1)


# Whom to ask instead


def produced(machine: ClusterMachine, version: int, index: int = 0) -> Any:
    part = ProduceRequest.PartitionProduceData(index=index, records=batch())
    topics = [ProduceRequest.TopicProduceData(name="t", topic_id=TOPIC_ID, partition_data=[part])]
    return machine.ask(PRODUCE, version, ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics))


def read(machine: ClusterMachine, version: int, *, index: int = 0, leader_epoch: int = -1, replica_id: int = -1) -> Any:
    part = FetchRequest.FetchPartition(partition=index, current_leader_epoch=leader_epoch, partition_max_bytes=1000)
    topics = [FetchRequest.FetchTopic(topic="t", topic_id=TOPIC_ID, partitions=[part])]
    return machine.ask(FETCH, version, FetchRequest(topics=topics, max_bytes=1000, **follower(version, replica_id)))


def follower(version: int, node_id: int) -> dict[str, Any]:
    return {"replica_state": FetchRequest.ReplicaState(replica_id=node_id)} if version >= 15 else {"replica_id": node_id}


def leader_of(part: Any) -> tuple[Any, ...] | None:
    return part.current_leader and (part.current_leader.leader_id, part.current_leader.leader_epoch)


def endpoints(response: Any) -> list[tuple[Any, ...]]:
    return [(one.node_id, one.host, one.port) for one in response.node_endpoints]


@pytest.mark.parametrize(("version", "is_told"), [(9, False), (10, True), (12, True), (13, True)])
def test_a_producer_hears_who_leads_instead(machine: ClusterMachine, version: int, is_told: bool) -> None:
    machine.tell_roles(role(2, 4))
    response = produced(machine, version)
    (part,) = response.responses[0].partition_responses
    assert part.error_code == NOT_LEADER_OR_FOLLOWER
    assert leader_of(part) == ((2, 4) if is_told else None)
    assert endpoints(response) == ([(2, "h2", 9092)] if is_told else [])


def test_a_producer_hears_no_address_of_a_leader_that_is_not_alive(machine: ClusterMachine) -> None:
    machine.tell_roles(role(2, 4))
    machine.tell_brokers(1, 3)
    response = produced(machine, 12)
    assert leader_of(response.responses[0].partition_responses[0]) == (2, 4)
    assert endpoints(response) == []


def test_a_producer_who_was_waiting_hears_who_leads_instead(machine: ClusterMachine) -> None:
    machine.tell_roles(role(1, 4))
    part = ProduceRequest.PartitionProduceData(index=0, records=batch())
    topics = [ProduceRequest.TopicProduceData(name="t", partition_data=[part])]
    waiting = machine.begin(PRODUCE, 12, ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=topics))
    machine.tell_roles(role(3, 5))
    response = machine.finish(PRODUCE, 12, waiting)
    (answered,) = response.responses[0].partition_responses
    assert (answered.error_code, leader_of(answered)) == (NOT_LEADER_OR_FOLLOWER, (3, 5))
    assert endpoints(response) == [(3, "h3", 9092)]


@pytest.mark.parametrize(("version", "is_told"), [(12, False), (15, False), (16, True), (17, True)])
def test_a_reader_hears_who_leads_instead(machine: ClusterMachine, version: int, is_told: bool) -> None:
    machine.tell_roles(role(1, 2))
    machine.stop(leader_epoch=3, delete=False)
    response = read(machine, version)
    (part,) = response.responses[0].partitions
    assert (part.error_code, leader_of(part)) == (NOT_LEADER_OR_FOLLOWER, (2, 3) if is_told else None)
    assert endpoints(response) == ([(2, "h2", 9092)] if is_told else [])


@pytest.mark.parametrize("leader", [1, 2])
def test_a_reader_of_an_earlier_epoch_hears_of_the_present_one(machine: ClusterMachine, leader: int) -> None:
    machine.tell_roles(role(leader, 4))
    response = read(machine, 16, leader_epoch=3)
    (part,) = response.responses[0].partitions
    assert (part.error_code, leader_of(part)) == (FENCED_LEADER_EPOCH, (leader, 4))
    assert endpoints(response) == [(leader, "127.0.0.1" if leader == 1 else "h2", 9092)]


# Replicas that are elsewhere, and those that follow


def list_offsets(machine: ClusterMachine, index: int) -> int:
    part = ListOffsetsRequest.ListOffsetsPartition(partition_index=index, timestamp=-1)
    topics = [ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=[part])]
    return int(machine.ask(LIST_OFFSETS, 7, ListOffsetsRequest(topics=topics)).topics[0].partitions[0].error_code)


def delete_records(machine: ClusterMachine, index: int) -> int:
    part = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=index, offset=1)
    topics = [DeleteRecordsRequest.DeleteRecordsTopic(name="t", partitions=[part])]
    return int(machine.ask(DELETE_RECORDS, 2, DeleteRecordsRequest(topics=topics)).topics[0].partitions[0].error_code)


def leader_epoch_end(machine: ClusterMachine, index: int) -> int:
    part = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(partition=index)
    topics = [OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic="t", partitions=[part])]
    return int(
        machine.ask(OFFSET_FOR_LEADER_EPOCH, 4, OffsetForLeaderEpochRequest(topics=topics)).topics[0].partitions[0].error_code
    )


def described_producers(machine: ClusterMachine, index: int) -> Any:
    topics = [DescribeProducersRequest.TopicRequest(name="t", partition_indexes=[index])]
    return machine.ask(DESCRIBE_PRODUCERS, 0, DescribeProducersRequest(topics=topics)).topics[0].partitions[0]


def errors(machine: ClusterMachine, index: int) -> list[int]:
    return [
        produced(machine, 12, index).responses[0].partition_responses[0].error_code,
        read(machine, 16, index=index).responses[0].partitions[0].error_code,
        list_offsets(machine, index),
        delete_records(machine, index),
        leader_epoch_end(machine, index),
        described_producers(machine, index).error_code,
    ]


def test_whoever_asks_a_broker_that_has_no_replica_is_told_that_another_leads(machine: ClusterMachine) -> None:
    assert errors(machine, 0) == [NOT_LEADER_OR_FOLLOWER] * 6
    assert errors(machine, 1) == [UNKNOWN_TOPIC_OR_PARTITION] * 6
    assert leader_of(produced(machine, 12).responses[0].partition_responses[0]) == (2, 3)


def test_a_follower_tells_who_produces_as_its_leader_does(machine: ClusterMachine) -> None:
    machine.tell_roles(role(1, 4))
    assert described_producers(machine, 0).error_code == NONE
    machine.tell_roles(role(2, 5))
    assert described_producers(machine, 0).error_code == NONE
    machine.stop(leader_epoch=6, delete=False)
    assert described_producers(machine, 0).error_code == NOT_LEADER_OR_FOLLOWER


# Quotas, which brokers have not


def test_requests_of_brokers_are_not_held_back_by_quotas(machine: ClusterMachine) -> None:
    everybody = QuotaEntity("", "")
    machine.tell_roles(role(1, 4))
    produced(machine, 12)
    machine.broker.image.quotas[everybody] = {CONSUMER_BYTE_RATE: 1.0, REQUEST_PERCENTAGE: 0.001}
    machine.broker.quotas.load()
    client = Client(machine.peer.principal, "test")
    machine.broker.quotas.use(CONSUMER_BYTE_RATE, client, 1000)
    machine.broker.quotas.use(REQUEST_PERCENTAGE, client, 1000)
    assert read(machine, 16).throttle_time_ms > 0
    assert not machine.peer.is_broker
    for version in (12, 16):
        response = read(machine, version, replica_id=2)
        assert (response.throttle_time_ms, machine.rest_ms) == (0, 0)
        assert bytes(response.responses[0].partitions[0].records)
        assert machine.peer.is_broker
    machine.ask(WRITE_TXN_MARKERS, 1, WriteTxnMarkersRequest())
    assert machine.rest_ms == 0
    machine.tell_brokers(1, 2, 3)
    assert machine.rest_ms == 0
    assert read(machine, 16).throttle_time_ms > 0


# Records of transactions


def test_records_for_a_partition_that_is_led_here_only_since_the_coordinator_was_asked_are_sent_once_more() -> None:
    machine = ClusterMachine(transaction_state_log_num_partitions=1)
    machine.tell_brokers(1, 2, 3)
    machine.tell_topic(told(0, 2), topic="__transaction_state", topic_id=bytes(range(16)))
    assert machine.tell_roles(role(1, isr=[1], replicas=[1])) == [NONE]
    records = build(None, [b"x"], 1, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    parts = [ProduceRequest.PartitionProduceData(index=index, records=records) for index in (0, 1)]
    topics = [ProduceRequest.TopicProduceData(name="t", partition_data=parts)]
    body = ProduceRequest(transactional_id="copier", acks=-1, timeout_ms=1000, topic_data=topics)
    pending = machine.begin(PRODUCE, 12, body)
    [(_, asked, _)] = machine.links.sent
    assert [topic.partitions for topic in asked.transactions[0].topics] == [[0]]
    assert machine.tell_roles(role(1, isr=[1], replicas=[1], index=1)) == [NONE]
    added = AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=NONE)
    of_topic = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult(name="t", results_by_partition=[added])
    result = AddPartitionsToTxnResponse.AddPartitionsToTxnResult(transactional_id="copier", topic_results=[of_topic])
    machine.links.answer(AddPartitionsToTxnResponse(results_by_transaction=[result]))
    machine.pass_time(100)
    answer = machine.finish(PRODUCE, 12, pending)
    codes = [(part.index, part.error_code) for part in answer.responses[0].partition_responses]
    assert codes == [(0, NONE), (1, NOT_LEADER_OR_FOLLOWER)]
