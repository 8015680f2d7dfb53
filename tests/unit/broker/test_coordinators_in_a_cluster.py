"""Groups and transactions whose coordinator, partitions and offsets are on different brokers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from ottla.broker.serving.purgatory import DelayedReply, Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import Route, serves
from ottla.cluster.layout import CONTROLLER as CONTROLLER_PATH
from ottla.cluster.layout import controller_json
from ottla.cluster.registry_entries import apply_entry
from ottla.coord.coordinator_partitions import partition_of
from ottla.coord.records import OffsetForgotten, encode_record
from ottla.records.batches.builder import build
from ottla.wire.api.add_partitions_to_txn import AddPartitionsToTxnRequest
from ottla.wire.api.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.wire.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.api.describe_transactions import DescribeTransactionsRequest
from ottla.wire.api.end_txn import EndTxnRequest
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.init_producer_id import InitProducerIdRequest
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.api.offset_commit import OffsetCommitRequest
from ottla.wire.api.offset_fetch import OffsetFetchRequest
from ottla.wire.api.produce import ProduceRequest
from ottla.wire.api.txn_offset_commit import TxnOffsetCommitRequest
from ottla.wire.api.write_txn_markers import WriteTxnMarkersRequest
from ottla.wire.errors import (
    BROKER_ID_NOT_REGISTERED,
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    INVALID_REPLICATION_FACTOR,
    INVALID_TXN_STATE,
    LEADER_NOT_AVAILABLE,
    NONE,
    NOT_CONTROLLER,
    NOT_COORDINATOR,
    NOT_ENOUGH_REPLICAS,
    REQUEST_TIMED_OUT,
    STALE_BROKER_EPOCH,
    TRANSACTION_ABORTABLE,
)
from tests.support.neighbours import Neighbour, Street

METADATA, ALLOCATE = 3, 67
PRODUCE, OFFSET_COMMIT, OFFSET_FETCH, FIND, INIT, ADD, END, WRITE_MARKERS, TXN_COMMIT, DESCRIBE = (
    0, 8, 9, 10, 22, 24, 26, 27, 28, 65,
)  # fmt: skip
ID, GROUP = "id", "group"
OFFSETS, STATE = "__consumer_offsets", "__transaction_state"
OF = partition_of(ID, 3)
"""The partition of `__transaction_state` that has the id."""


def new_street(version: str = "2.8") -> Street:
    """Three brokers: the second coordinates the id, the third coordinates the group and leads the only partition of `t`."""
    street = Street(3, inter_broker_protocol_version=version)
    street.topic(STATE, [1 if index != OF else 2 for index in range(3)])
    street.topic(OFFSETS, [1 if index != partition_of(GROUP, 3) else 3 for index in range(3)])
    street.topic("t", [3])
    return street


@pytest.fixture
def street() -> Street:
    return new_street()


class Copier:
    """A transactional producer that talks to the right brokers."""

    def __init__(self, street: Street) -> None:
        self.street = street
        self.coordinator, self.leader = street.machines[2], street.machines[3]
        response = self.coordinator.ask(INIT, 4, InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000))
        assert response.error_code == NONE
        self.producer_id, self.epoch = response.producer_id, response.producer_epoch

    def add(self, topic: str = "t", index: int = 0) -> int:
        wanted = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=[index])
        body = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=ID,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[wanted],
        )
        response = self.coordinator.ask(ADD, 3, body)
        return int(response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)

    def write(self, version: int = 11) -> int:
        return self.written(self.leader.ask(PRODUCE, version, self.records()))

    def written(self, answer: Any) -> int:
        return int(answer.responses[0].partition_responses[0].error_code)

    def records(self) -> ProduceRequest:
        now_ms = self.street.world.clock.now().wall_ms
        records = build(
            None, [b"x"], now_ms, producer_id=self.producer_id, producer_epoch=self.epoch, base_sequence=0, transactional=True
        )
        data = ProduceRequest.PartitionProduceData(index=0, records=records)
        topics = [ProduceRequest.TopicProduceData(name="t", partition_data=[data])]
        return ProduceRequest(transactional_id=ID, acks=-1, timeout_ms=1000, topic_data=topics)

    def commit_offset(self, offset: int) -> int:
        return int(self.leader.ask(TXN_COMMIT, 3, self.offsets(offset)).topics[0].partitions[0].error_code)

    def offsets(self, offset: int) -> TxnOffsetCommitRequest:
        part = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=""
        )
        return TxnOffsetCommitRequest(
            transactional_id=ID,
            group_id=GROUP,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name="t", partitions=[part])],
        )

    def end(self, *, committed: bool = True) -> int:
        body = EndTxnRequest(transactional_id=ID, producer_id=self.producer_id, producer_epoch=self.epoch, committed=committed)
        return int(self.coordinator.ask(END, 3, body).error_code)

    def mark(self, topic: str, index: int) -> None:
        """Have the end of a transaction come to a partition of its leader."""
        topics = [WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=topic, partition_indexes=[index])]
        marker = WriteTxnMarkersRequest.WritableTxnMarker(
            producer_id=self.producer_id, producer_epoch=self.epoch, transaction_result=True, topics=topics
        )
        self.leader.begin(WRITE_MARKERS, 1, WriteTxnMarkersRequest(markers=[marker]))

    def known(self) -> str:
        """The same as its coordinator has it in memory."""
        (shard,) = self.coordinator.broker.transactions.coordinators.shards
        return str(shard.machine.by_id[ID].status.label)

    def stands(self) -> str:
        """The state of its transaction."""
        described = self.coordinator.ask(DESCRIBE, 0, DescribeTransactionsRequest(transactional_ids=[ID]))
        return str(described.transaction_states[0].transaction_state)


def hidden(street: Street) -> int:
    """How many offsets of `t` readers of committed records may not see."""
    log = street.found("t", 0)[1].log
    return log.log_end_offset - log.last_stable_offset


def committed_offset(machine: Neighbour) -> Any:
    topics = [OffsetFetchRequest.OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    wanted = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=GROUP, topics=topics)
    answered = machine.ask(OFFSET_FETCH, 8, OffsetFetchRequest(groups=[wanted], require_stable=True)).groups[0]
    return answered.error_code or answered.topics[0].partitions[0].committed_offset


def found(machine: Neighbour, key: str, key_type: int) -> tuple[int, int, str, int]:
    (one,) = machine.ask(FIND, 4, FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])).coordinators
    return one.error_code, one.node_id, one.host, one.port


def test_every_broker_tells_who_leads_the_partition_of_a_key(street: Street) -> None:
    for node_id, machine in street.machines.items():
        own = ("127.0.0.1", 9092)
        assert found(machine, ID, 1) == (NONE, 2, *(own if node_id == 2 else ("localhost", 2)))
        assert found(machine, GROUP, 0) == (NONE, 3, *(own if node_id == 3 else ("localhost", 3)))


def test_a_key_whose_partition_nobody_leads_has_no_coordinator_now(street: Street) -> None:
    street.unlead(STATE, OF)
    assert found(street.machines[1], ID, 1)[:2] == (COORDINATOR_NOT_AVAILABLE, -1)
    street.lead(STATE, OF)
    assert found(street.machines[1], ID, 1)[:2] == (NONE, 2)


def test_commits_are_there_when_the_leadership_has_come_back(street: Street) -> None:
    index = partition_of(GROUP, 3)
    machine = street.machines[3]
    part = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[part])
    assert (
        machine.ask(OFFSET_COMMIT, 8, OffsetCommitRequest(group_id=GROUP, topics=[topic])).topics[0].partitions[0].error_code == 0
    )
    street.unlead(OFFSETS, index)
    assert committed_offset(machine) == NOT_COORDINATOR
    street.lead(OFFSETS, index)
    street.run(100)
    assert committed_offset(machine) == 7


@pytest.mark.parametrize(("protocol", "stored"), [("2.8", 3), ("3.4", 3), ("3.5", 4), ("3.9", 4)])
def test_offsets_are_stored_in_a_version_that_all_brokers_of_the_protocol_version_read(protocol: str, stored: int) -> None:
    street, index = new_street(protocol), partition_of(GROUP, 3)
    assert street.machines[3].ask(OFFSET_COMMIT, 8, commit_body(7)).topics[0].partitions[0].error_code == NONE
    log = street.found(OFFSETS, index)[1].log
    piece = log.read(0, 1 << 16, until_offset=log.log_end_offset)
    assert piece is not None
    key = encode_record(OffsetForgotten(GROUP, "t", 0))[0]
    _, found, behind = bytes(piece.read()).partition(key)
    assert found
    assert int.from_bytes(behind[1:3], "big") == stored, "behind one byte that is the value's length"


def commit_body(offset: int) -> OffsetCommitRequest:
    part = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    return OffsetCommitRequest(group_id=GROUP, topics=[OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[part])])


def test_nobody_hears_of_a_commit_before_all_replicas_in_sync_have_it(street: Street) -> None:
    index, machine = partition_of(GROUP, 3), street.machines[3]
    street.lead(OFFSETS, index, followers=(1,), in_sync=(1,))
    pending = machine.begin(OFFSET_COMMIT, 8, commit_body(7))
    street.run(1_000)
    assert isinstance(pending, DelayedReply)
    assert not pending.done
    partition = street.found(OFFSETS, index)[1]
    partition.follower_fetched(1, partition.log.log_end_offset, 0, street.world.clock.now())
    machine.settle()
    assert machine.finish(OFFSET_COMMIT, 8, pending).topics[0].partitions[0].error_code == NONE
    assert committed_offset(machine) == 7


def test_a_commit_that_waits_for_other_replicas_is_refused_when_the_leadership_goes(street: Street) -> None:
    index, machine = partition_of(GROUP, 3), street.machines[3]
    street.lead(OFFSETS, index, followers=(1,), in_sync=(1,))
    pending = machine.begin(OFFSET_COMMIT, 8, commit_body(7))
    assert isinstance(pending, DelayedReply)
    street.unlead(OFFSETS, index)
    machine.settle()
    assert machine.finish(OFFSET_COMMIT, 8, pending).topics[0].partitions[0].error_code == NOT_COORDINATOR


def test_a_commit_waits_for_other_replicas_as_long_as_the_settings_say_and_may_hold_later(street: Street) -> None:
    index, machine = partition_of(GROUP, 3), street.machines[3]
    street.lead(OFFSETS, index, followers=(1,), in_sync=(1,))
    first = machine.begin(OFFSET_COMMIT, 8, commit_body(7))
    street.run(3_000)
    second = machine.begin(OFFSET_COMMIT, 8, commit_body(8))
    assert isinstance(first, DelayedReply)
    assert isinstance(second, DelayedReply)
    street.run(1_900)
    assert (first.done, second.done) == (False, False)
    street.run(200)
    assert (first.done, second.done) == (True, False)
    assert machine.finish(OFFSET_COMMIT, 8, first).topics[0].partitions[0].error_code == COORDINATOR_NOT_AVAILABLE
    partition = street.found(OFFSETS, index)[1]
    partition.follower_fetched(1, partition.log.log_end_offset, 0, street.world.clock.now())
    machine.settle()
    assert machine.finish(OFFSET_COMMIT, 8, second).topics[0].partitions[0].error_code == NONE
    assert committed_offset(machine) == 8


def test_too_few_replicas_in_sync_take_no_commit_and_show_what_is_committed(street: Street) -> None:
    index, machine = partition_of(GROUP, 3), street.machines[3]
    assert machine.ask(OFFSET_COMMIT, 8, commit_body(7)).topics[0].partitions[0].error_code == NONE
    partition = street.found(OFFSETS, index)[1]
    partition.configure(replace(partition.config, min_insync_replicas=2))
    street.lead(OFFSETS, index, followers=(1,))
    refused = machine.ask(OFFSET_COMMIT, 8, commit_body(8)).topics[0].partitions[0].error_code
    assert (refused, committed_offset(machine)) == (COORDINATOR_NOT_AVAILABLE, 7)


def test_a_transaction_ends_in_partitions_of_other_brokers(street: Street) -> None:
    copier = Copier(street)
    assert [copier.add(), copier.add(OFFSETS, partition_of(GROUP, 3))] == [NONE, NONE]
    assert [copier.write(), copier.commit_offset(5)] == [NONE, NONE]
    assert hidden(street) == 1
    assert copier.end() == NONE
    assert street.run(1_000, lambda: not hidden(street))
    assert street.run(1_000, lambda: copier.known() == "CompleteCommit")
    assert committed_offset(street.machines[3]) == 5
    assert copier.stands() == "CompleteCommit"


def test_many_ends_for_one_broker_leave_in_few_requests() -> None:
    street = new_street()
    street.topic("many", [3] * 50)
    copier = Copier(street)
    assert [copier.add("many", index) for index in range(50)] == [NONE] * 50
    assert copier.end(committed=False) == NONE
    assert street.run(1_000, lambda: copier.known() == "CompleteAbort")
    assert [request for request in street.requests if request[1] == WRITE_MARKERS] == [(3, WRITE_MARKERS)]


def test_an_end_that_cannot_be_written_is_tried_until_it_can(street: Street) -> None:
    copier = Copier(street)
    assert [copier.add(), copier.write(), hidden(street)] == [NONE, NONE, 1]
    street.cut.add(3)
    assert copier.end() == NONE
    street.run(2_000)
    assert copier.stands() == "PrepareCommit"
    street.cut.clear()
    assert street.run(10_000, lambda: not hidden(street))
    assert street.run(1_000, lambda: copier.known() == "CompleteCommit")


def test_an_end_waits_for_a_leader(street: Street) -> None:
    copier = Copier(street)
    assert [copier.add(), copier.write()] == [NONE, NONE]
    street.unlead("t", 0)
    assert copier.end() == NONE
    street.run(2_000)
    street.lead("t", 0)
    assert street.run(10_000, lambda: not hidden(street))


def test_a_topic_that_is_gone_keeps_no_transaction_from_its_end(street: Street) -> None:
    copier = Copier(street)
    assert [copier.add(), copier.write()] == [NONE, NONE]
    for machine in street.machines.values():
        apply_entry(machine.broker.image, "/brokers/topics/t", None)
    assert copier.end() == NONE
    assert street.run(1_000, lambda: copier.known() == "CompleteCommit")


def test_a_coordinator_that_knows_no_topics_yet_takes_none_for_gone(street: Street) -> None:
    copier = Copier(street)
    assert [copier.add(), copier.write()] == [NONE, NONE]
    street.cut.add(3)
    assert copier.end() == NONE
    street.unlead(STATE, OF)
    street.lead(STATE, OF)
    topics = copier.coordinator.broker.image.topics
    known = dict(topics)
    topics.clear()
    street.run(2_000)
    assert (hidden(street), copier.known()) == (1, "PrepareCommit")
    topics.update(known)
    street.cut.clear()
    assert street.run(10_000, lambda: not hidden(street))
    assert street.run(1_000, lambda: copier.known() == "CompleteCommit")


def test_the_next_coordinator_ends_what_the_one_before_has_decided(street: Street) -> None:
    copier = Copier(street)
    assert [copier.add(), copier.write()] == [NONE, NONE]
    street.cut.add(3)
    assert copier.end() == NONE
    street.run(500)
    street.unlead(STATE, OF)
    street.run(20_000)
    asked = len(street.requests)
    street.cut.clear()
    street.run(20_000)
    assert (hidden(street), len(street.requests)) == (1, asked)
    street.lead(STATE, OF)
    assert street.run(1_000, lambda: not hidden(street))
    assert street.run(1_000, lambda: copier.known() == "CompleteCommit")


def test_a_marker_of_an_older_coordinator_is_fenced(street: Street) -> None:
    copier = Copier(street)
    assert [copier.add(), copier.write(), copier.end()] == [NONE, NONE, NONE]
    assert street.run(1_000, lambda: copier.known() == "CompleteCommit")
    street.unlead(STATE, OF)
    street.lead(STATE, OF)
    street.run(100)
    assert [copier.add(), copier.end()] == [NONE, NONE]
    assert street.run(1_000, lambda: copier.known() == "CompleteCommit")
    producers = street.found("t", 0)[1].log.producers
    assert producers.by_id[copier.producer_id].coordinator_epoch == street.found(STATE, OF)[1].leader_epoch


def test_records_go_into_no_partition_that_another_brokers_coordinator_does_not_know() -> None:
    street = new_street("3.9")
    copier = Copier(street)
    assert copier.write() == TRANSACTION_ABORTABLE
    assert copier.write(10) == INVALID_TXN_STATE
    assert copier.add() == NONE
    assert copier.write() == NONE
    assert copier.commit_offset(5) == INVALID_TXN_STATE


@pytest.mark.parametrize(("version", "code"), [(11, INVALID_TXN_STATE), (12, NONE)])
def test_records_may_come_before_the_end_of_the_transaction_before_them_only_where_they_add_to_theirs(
    version: int, code: int
) -> None:
    street = new_street("3.9")
    copier = Copier(street)
    assert copier.add() == NONE
    waiting = copier.leader.begin(PRODUCE, version, copier.records())
    copier.mark("t", 0)
    assert street.run(1_000, lambda: waiting.done)
    assert copier.written(copier.leader.finish(PRODUCE, version, waiting)) == code


@pytest.mark.parametrize(("version", "code"), [(3, INVALID_TXN_STATE), (5, NONE)])
def test_offsets_may_come_before_the_end_of_the_transaction_before_them_only_where_they_add_to_theirs(
    version: int, code: int
) -> None:
    street = new_street("3.9")
    copier = Copier(street)
    place = OFFSETS, partition_of(GROUP, 3)
    assert copier.add(*place) == NONE
    waiting = copier.leader.begin(TXN_COMMIT, version, copier.offsets(5))
    copier.mark(*place)
    assert street.run(1_000, lambda: waiting.done)
    assert copier.leader.finish(TXN_COMMIT, version, waiting).topics[0].partitions[0].error_code == code


def test_records_make_their_partition_part_of_a_transaction_of_another_brokers_coordinator() -> None:
    street = new_street("3.9")
    copier = Copier(street)
    assert copier.write(12) == NONE
    assert copier.stands() == "Ongoing"
    asked = len(street.requests)
    assert copier.write(12) == NONE
    assert len(street.requests) == asked
    assert copier.end() == NONE
    assert street.run(1_000, lambda: not hidden(street))


@pytest.mark.parametrize("away", ["cut", "leaderless"])
def test_records_are_refused_for_now_while_the_coordinator_cannot_be_asked(away: str) -> None:
    street = new_street("3.9")
    copier = Copier(street)
    assert copier.add() == NONE
    if away == "cut":
        street.cut.add(2)
    else:
        street.unlead(STATE, OF)
    assert copier.write() == NOT_ENOUGH_REPLICAS
    assert copier.commit_offset(5) == COORDINATOR_NOT_AVAILABLE
    assert hidden(street) == 0


def test_brokers_of_releases_that_verify_nothing_are_not_asked(street: Street) -> None:
    copier = Copier(street)
    assert copier.write() == NONE
    assert not street.requests


@pytest.mark.parametrize("version", ["2.8", "3.9"])
def test_no_producer_id_is_given_out_by_two_brokers(version: str) -> None:
    street = Street(3, inter_broker_protocol_version=version)
    given: list[int] = []
    for _ in range(1_500):
        for machine in street.machines.values():
            answered = machine.ask(INIT, 4, InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000))
            assert answered.error_code == NONE
            given.append(answered.producer_id)
    assert len(set(given)) == len(given)


def test_no_producer_id_is_given_out_while_there_is_no_controller() -> None:
    street = Street(2)
    street.tell(CONTROLLER_PATH, controller_json(-1, 0))
    body = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    assert street.machines[2].ask(INIT, 4, body).error_code == COORDINATOR_LOAD_IN_PROGRESS
    street.tell(CONTROLLER_PATH, controller_json(1, 0))
    assert street.machines[2].ask(INIT, 4, body).error_code == NONE


@pytest.mark.parametrize(("node_id", "epoch", "refusal"), [(7, 1, BROKER_ID_NOT_REGISTERED), (2, 1, STALE_BROKER_EPOCH)])
def test_a_block_is_for_a_broker_that_is_registered_in_the_life_that_it_says(node_id: int, epoch: int, refusal: int) -> None:
    body = AllocateProducerIdsRequest(broker_id=node_id, broker_epoch=epoch)
    street = Street(2)
    assert street.machines[1].ask(ALLOCATE, 0, body).error_code == refusal
    assert street.machines[2].ask(ALLOCATE, 0, body).error_code == NOT_CONTROLLER


def test_a_controller_that_does_not_reach_the_registry_has_a_block_asked_for_again(caplog: pytest.LogCaptureFixture) -> None:
    street = Street(2)
    street.ensemble.is_down = True
    body = AllocateProducerIdsRequest(broker_id=2, broker_epoch=1)
    assert street.machines[1].ask(ALLOCATE, 0, body).error_code == REQUEST_TIMED_OUT
    assert "broker 2 was given no block of producer ids: /: the registry is not reached" in caplog.text


def creating(street: Street) -> Route:
    """CreateTopics as a controller serves it that has each topic led by its last broker, a moment later."""

    @serves(CreateTopicsRequest, controller_only=True, most=10)
    def create(request: Request[CreateTopicsRequest]) -> Reply:
        for topic in request.body.topics:
            if topic.replication_factor == 1:
                place = partial(street.topic, topic.name, [len(street.machines)] * topic.num_partitions)
                street.world.after(300, place)
        answers = [
            CreateTopicsResponse.CreatableTopicResult(
                name=topic.name, error_code=NONE if topic.replication_factor == 1 else INVALID_REPLICATION_FACTOR
            )
            for topic in request.body.topics
        ]
        return CreateTopicsResponse(topics=answers)

    return create


def test_the_first_request_for_a_coordinator_has_the_controller_make_its_topic() -> None:
    street = Street(2, routes=creating, offsets_topic_replication_factor=1, offsets_topic_num_partitions=3)
    assert found(street.machines[2], GROUP, 0)[0] == COORDINATOR_NOT_AVAILABLE
    assert found(street.machines[1], GROUP, 0)[0] == COORDINATOR_NOT_AVAILABLE
    street.run(1_000)
    assert found(street.machines[1], GROUP, 0)[:2] == (NONE, 2)


def test_an_internal_topic_is_not_made_with_fewer_replicas_than_the_settings_say() -> None:
    street = Street(2, routes=creating)
    assert found(street.machines[2], GROUP, 0)[0] == COORDINATOR_NOT_AVAILABLE
    street.run(2_000)
    assert found(street.machines[2], GROUP, 0)[0] == COORDINATOR_NOT_AVAILABLE


def test_a_topic_that_is_named_is_made_by_the_controller_and_answered_with_its_leaders() -> None:
    street = Street(2, routes=creating, num_partitions=2)
    wanted = [MetadataRequest.MetadataRequestTopic(name="new")]
    answered = street.machines[2].ask(METADATA, 9, MetadataRequest(topics=wanted, allow_auto_topic_creation=True))
    (topic,) = answered.topics
    assert (topic.error_code, [part.leader_id for part in topic.partitions]) == (NONE, [2, 2])


def test_a_topic_that_is_named_while_there_is_no_controller_has_no_leader_yet() -> None:
    street = Street(2, routes=creating)
    street.tell(CONTROLLER_PATH, controller_json(-1, 0))
    wanted = [MetadataRequest.MetadataRequestTopic(name="new")]
    answered = street.machines[2].ask(METADATA, 9, MetadataRequest(topics=wanted, allow_auto_topic_creation=True))
    assert [topic.error_code for topic in answered.topics] == [LEADER_NOT_AVAILABLE]


def test_a_groups_offsets_of_a_deleted_topic_are_forgotten_where_its_coordinator_is(street: Street) -> None:
    machine = street.machines[3]
    machine.ask(OFFSET_COMMIT, 8, commit_body(7))
    for each in street.machines.values():
        apply_entry(each.broker.image, "/brokers/topics/t", None)
        each.broker.groups.topics_deleted(["t"], street.world.clock.now())
        assert not each.broker.groups.is_forgetting("t") or each is machine
    machine.settle()
    assert not machine.broker.groups.is_forgetting("t")
    assert committed_offset(machine) == -1
