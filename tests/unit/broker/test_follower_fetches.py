"""A leader's side of Fetch: followers read to the end of its log and are noted, consumers may be sent to one of them."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.serving.purgatory import DelayedReply
from ottla.cluster import layout
from ottla.ports import Change
from ottla.records.batches.builder import build
from ottla.wire.api.fetch import FetchRequest, FetchResponse
from ottla.wire.api.list_offsets import ListOffsetsRequest
from ottla.wire.api.update_metadata import UpdateMetadataRequest
from ottla.wire.errors import (
    FENCED_LEADER_EPOCH,
    NONE,
    NOT_LEADER_OR_FOLLOWER,
    OFFSET_NOT_AVAILABLE,
    OFFSET_OUT_OF_RANGE,
    UNKNOWN_LEADER_EPOCH,
)
from tests.support.cluster_machine import TOPIC_ID, ClusterMachine, role
from tests.support.producing import produce, request

PRODUCE, FETCH, LIST_OFFSETS = 0, 1, 2
EPOCH = 5
SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class Leader(ClusterMachine):
    """Broker 1, which leads t-0, with brokers 2 and 3, played by the test, in sync."""

    def __init__(self, **settings: object) -> None:
        super().__init__(**settings)
        self.tell_brokers(1, 2, 3)
        assert self.tell_roles(role(1, EPOCH)) == [NONE]

    def fetched(
        self, offset: int, node_id: int = 2, *, version: int = 17, session: tuple[int, int] = (0, -1), **fields: Any
    ) -> DelayedReply | FetchResponse:
        """What is answered to a fetch of broker `node_id`; -1: of a consumer. `session` is its id and epoch."""
        given = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20, "current_leader_epoch": EPOCH} | {
            name: value for name, value in fields.items() if name in FetchRequest.FetchPartition.__slots__
        }
        body = FetchRequest(max_wait_ms=500, min_bytes=1, session_id=session[0], session_epoch=session[1])
        if offset >= 0:
            part = FetchRequest.FetchPartition(**given)
            body.topics = [FetchRequest.FetchTopic(topic="t", topic_id=TOPIC_ID, partitions=[part])]
        body.rack_id = fields.get("rack_id", "")
        if version >= 15 and node_id >= 0:
            body.replica_state = FetchRequest.ReplicaState(replica_id=node_id, replica_epoch=200 + node_id)
        else:
            body.replica_id = node_id
        answer: DelayedReply | FetchResponse = self.begin(FETCH, version, body)
        return answer

    def now(self, offset: int, node_id: int = 2, **fields: Any) -> FetchResponse.PartitionData:
        """The same where it is answered at once."""
        answer = self.fetched(offset, node_id, **fields)
        assert isinstance(answer, FetchResponse)
        return answer.responses[0].partitions[0]

    def wanted(self) -> set[int] | None:
        """The in-sync set that it asks the controller for."""
        replicas: Any = self.replica().replicas
        return None if replicas.pending is None else set(replicas.pending.isr)

    def append(self, *values: bytes) -> None:
        assert produce(self, *values, acks=1).error_code == NONE


def test_followers_read_to_the_logs_end_and_consumers_to_what_all_in_sync_have() -> None:
    leader = Leader()
    leader.append(b"1", b"2")
    assert isinstance(leader.fetched(0, -1), DelayedReply)
    for node_id in (2, 3):
        data = leader.now(0, node_id)
        assert (bool(data.records), data.high_watermark) == (True, 0)
    assert isinstance(leader.fetched(2, 2), DelayedReply)
    assert isinstance(leader.fetched(2, 3), DelayedReply)
    assert leader.now(0, -1).high_watermark == 2


@pytest.mark.parametrize("version", [11, 12, 14, 17])
def test_a_reply_with_acks_all_leaves_when_all_in_sync_have_fetched_on(version: int) -> None:
    leader = Leader()
    answer = leader.begin(PRODUCE, 9, request(build(None, [b"1"], 1000)))
    for node_id in (2, 3):
        assert isinstance(answer, DelayedReply)
        assert not answer.done
        assert leader.now(0, node_id, version=version).records
        assert isinstance(leader.fetched(1, node_id, version=version), DelayedReply)
    assert leader.finish(PRODUCE, 9, answer).responses[0].partition_responses[0].error_code == NONE


def test_a_follower_that_waits_is_answered_by_the_next_append() -> None:
    leader = Leader()
    waiting = leader.fetched(0)
    assert isinstance(waiting, DelayedReply)
    leader.append(b"1")
    answer = leader.finish(FETCH, 17, waiting)
    assert answer.responses[0].partitions[0].records


def test_a_follower_in_a_session_is_told_news_alone_and_noted_by_what_it_names() -> None:
    leader = Leader()
    leader.append(b"1")
    full = leader.fetched(0, session=(0, 0))
    assert isinstance(full, FetchResponse)
    waiting = leader.fetched(1, session=(full.session_id, 1))
    assert isinstance(waiting, DelayedReply)
    assert isinstance(leader.fetched(1, 3), DelayedReply)
    assert leader.replica().high_watermark == 1
    leader.pass_time(500)
    told = leader.finish(FETCH, 17, waiting).responses[0].partitions[0]
    assert (told.high_watermark, told.records) == (1, b"")
    quiet = leader.fetched(-1, session=(full.session_id, 2))
    assert isinstance(quiet, DelayedReply)
    leader.append(b"2")
    told = leader.finish(FETCH, 17, quiet).responses[0].partitions[0]
    assert told.records


def test_a_follower_of_an_idle_partition_joins_those_in_sync_though_it_could_not_when_it_first_fetched() -> None:
    leader = Leader()
    leader.tell_brokers(1, 3)
    assert leader.tell_roles(role(1, EPOCH + 1, isr=(1, 3))) == [NONE]
    full = leader.fetched(0, session=(0, 0), current_leader_epoch=EPOCH + 1)
    assert isinstance(full, DelayedReply)
    leader.pass_time(500)
    session_id = leader.finish(FETCH, 17, full).session_id
    assert leader.wanted() is None
    leader.fetched(-1, session=(session_id, 1))
    assert leader.wanted() is None
    leader.tell_brokers(1, 2, 3)
    leader.fetched(-1, session=(session_id, 2))
    assert leader.wanted() == {1, 2, 3}


def test_a_follower_that_catches_up_while_the_controller_puts_it_out_joins_again_though_nothing_is_appended() -> None:
    leader = Leader()
    leader.append(b"1")
    full = leader.fetched(0, session=(0, 0))
    assert isinstance(full, FetchResponse)
    leader.fetched(1, 3)
    leader.pass_time(60_000)
    assert leader.wanted() == {1, 3}
    for offset, epoch in ((1, 1), (-1, 2)):
        waiting = leader.fetched(offset, session=(full.session_id, epoch))
        assert isinstance(waiting, DelayedReply)
        leader.pass_time(500)
        leader.finish(FETCH, 17, waiting)
    replicas: Any = leader.replica().replicas
    leader.replica().isr_changed(replicas.pending, (1, 3), EPOCH, replicas.partition_epoch + 1, leader.clock.now())
    assert leader.wanted() is None
    leader.fetched(-1, session=(full.session_id, 3))
    assert leader.wanted() == {1, 2, 3}


def test_followers_that_had_all_are_in_sync_when_the_first_append_comes_after_long_idleness() -> None:
    leader = Leader()
    leader.append(b"1")
    for node_id in (2, 3):
        leader.fetched(1, node_id)
    leader.pass_time(3_600_000)
    leader.append(b"2")
    leader.replica().shrink_isr(leader.clock.now())
    assert leader.wanted() is None
    leader.pass_time(40_000)
    assert leader.wanted() == {1}


def test_whoever_is_named_in_sync_and_is_no_replica_any_more_leaves_those_in_sync() -> None:
    leader = Leader()
    assert leader.tell_roles(role(1, EPOCH + 1, isr=(1, 2, 3, 4))) == [NONE]
    for node_id in (2, 3):
        leader.fetched(0, node_id, current_leader_epoch=EPOCH + 1)
    leader.replica().shrink_isr(leader.clock.now())
    assert leader.wanted() == {1, 2, 3}


def test_the_epoch_of_a_brokers_life_is_noted_with_its_fetches() -> None:
    leader = Leader()
    leader.fetched(0, 3)
    replicas: Any = leader.replica().replicas
    assert replicas.followers[3].broker_epoch == 203


def test_a_follower_whose_log_differs_is_told_where_this_one_ends_with_that_epoch() -> None:
    leader = Leader()
    leader.append(b"1", b"2")
    assert leader.tell_roles(role(1, EPOCH + 2)) == [NONE]
    leader.append(b"3")
    data = leader.now(5, current_leader_epoch=EPOCH + 2, last_fetched_epoch=EPOCH + 1)
    assert data.diverging_epoch == FetchResponse.EpochEndOffset(epoch=EPOCH, end_offset=2)
    assert (data.error_code, data.records) == (NONE, b"")
    data = leader.now(2, current_leader_epoch=EPOCH + 2, last_fetched_epoch=EPOCH)
    assert data.diverging_epoch is None
    assert data.records


def test_one_that_differs_is_not_counted_as_having_what_it_asks_from() -> None:
    leader = Leader()
    leader.append(b"1", b"2")
    assert leader.tell_roles(role(1, EPOCH + 2)) == [NONE]
    for node_id in (2, 3):
        leader.now(9, node_id, current_leader_epoch=EPOCH + 2, last_fetched_epoch=EPOCH + 1)
    assert leader.replica().high_watermark == 0


@pytest.mark.parametrize(
    ("fields", "error_code"),
    [
        ({"current_leader_epoch": EPOCH - 1}, FENCED_LEADER_EPOCH),
        ({"current_leader_epoch": EPOCH + 1}, UNKNOWN_LEADER_EPOCH),
        ({"node_id": 9}, UNKNOWN_LEADER_EPOCH),
        ({"node_id": 9, "current_leader_epoch": -1}, NOT_LEADER_OR_FOLLOWER),
        ({"offset": 7}, OFFSET_OUT_OF_RANGE),
    ],
)
def test_a_follower_that_may_not_fetch_learns_why(fields: dict[str, int], error_code: int) -> None:
    leader = Leader()
    assert leader.now(**{"offset": 0} | fields).error_code == error_code


def test_a_new_leader_names_no_last_offset_before_it_knows_what_all_have() -> None:
    leader = Leader()
    leader.append(b"1", b"2")
    assert leader.tell_roles(role(1, EPOCH + 1)) == [NONE]

    def latest(replica_id: int) -> tuple[int, int]:
        part = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-1)
        topic = ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=[part])
        answer = leader.ask(LIST_OFFSETS, 7, ListOffsetsRequest(replica_id=replica_id, topics=[topic]))
        found = answer.topics[0].partitions[0]
        return found.error_code, found.offset

    assert latest(-1) == (OFFSET_NOT_AVAILABLE, -1)
    assert latest(2) == (NONE, 2)
    for node_id in (2, 3):
        leader.fetched(2, node_id, current_leader_epoch=EPOCH + 1)
    assert latest(-1) == (NONE, 2)


# The closest replica


def racks(leader: Leader, **by_broker: str) -> None:
    live = [
        UpdateMetadataRequest.UpdateMetadataBroker(
            id=node_id,
            rack=by_broker.get(f"b{node_id}"),
            endpoints=[UpdateMetadataRequest.UpdateMetadataEndpoint(port=9092, host=f"h{node_id}", listener="PLAINTEXT")],
        )
        for node_id in (1, 2, 3)
    ]
    body = UpdateMetadataRequest(controller_id=9, controller_epoch=1, broker_epoch=100, live_brokers=live)
    assert leader.ask(6, 8, body).error_code == NONE


def test_a_consumer_is_sent_to_the_replica_in_its_rack() -> None:
    leader = Leader(replica_selector_class=SELECTOR)
    racks(leader, b1="a", b2="b", b3="c")
    leader.append(b"1")
    for node_id in (2, 3):
        leader.fetched(0, node_id, log_start_offset=0)
        leader.fetched(1, node_id, log_start_offset=0)
    data = leader.now(0, -1, rack_id="c")
    assert (data.preferred_read_replica, data.records, data.high_watermark) == (3, b"", 1)
    for rack in ("a", "elsewhere", ""):
        data = leader.now(0, -1, rack_id=rack)
        assert data.preferred_read_replica == -1
        assert data.records


def test_a_consumer_is_not_sent_to_a_replica_that_is_not_in_sync() -> None:
    leader = Leader(replica_selector_class=SELECTOR)
    racks(leader, b1="a", b2="b", b3="c")
    leader.append(b"1", b"2")
    leader.tell_roles(role(1, EPOCH + 1, isr=(1, 2)))
    leader.fetched(2, 2, log_start_offset=0, current_leader_epoch=EPOCH + 1)
    leader.fetched(1, 3, log_start_offset=0, current_leader_epoch=EPOCH + 1)
    assert leader.now(0, -1, current_leader_epoch=EPOCH + 1, rack_id="b").preferred_read_replica == 2
    data = leader.now(0, -1, current_leader_epoch=EPOCH + 1, rack_id="c")
    assert data.preferred_read_replica == -1
    assert data.records


def test_without_a_selector_everybody_reads_from_the_leader() -> None:
    leader = Leader()
    racks(leader, b1="a", b2="b", b3="c")
    leader.append(b"1")
    for node_id in (2, 3):
        leader.fetched(1, node_id, log_start_offset=0)
    assert leader.now(0, -1, rack_id="b").preferred_read_replica == -1


def test_a_follower_serves_consumers_that_know_of_it_what_its_leader_has_shown() -> None:
    leader = Leader()
    leader.append(b"1", b"2")
    for node_id in (2, 3):
        leader.fetched(2, node_id)
    assert leader.tell_roles(role(2, EPOCH + 1)) == [NONE]
    assert leader.now(0, -1, current_leader_epoch=EPOCH + 1).records
    assert leader.now(0, -1, version=10, current_leader_epoch=EPOCH + 1).error_code == NOT_LEADER_OR_FOLLOWER
    assert leader.now(0, -1, current_leader_epoch=EPOCH).error_code == FENCED_LEADER_EPOCH
    assert leader.now(0, -1, current_leader_epoch=EPOCH + 2).error_code == UNKNOWN_LEADER_EPOCH


# Throttles


def test_a_throttled_follower_that_is_not_in_sync_gets_nothing_once_the_rate_is_used_up() -> None:
    leader = Leader(leader_replication_throttled_rate=10)
    configs = layout.config_json({"leader.replication.throttled.replicas": "0:1"})
    leader.shared.entries.commit([Change(layout.topic_config_path("u"), configs)])
    assert leader.tell_roles(role(1, EPOCH, isr=(1, 2)), topic="u", topic_id=bytes(15) + b"u") == [NONE]
    assert produce(leader, b"1" * 100, topic="u", acks=1).error_code == NONE

    def fetch(node_id: int) -> Any:
        part = FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20, current_leader_epoch=EPOCH)
        topic = FetchRequest.FetchTopic(topic="u", topic_id=bytes(15) + b"u", partitions=[part])
        state = FetchRequest.ReplicaState(replica_id=node_id, replica_epoch=1)
        return leader.begin(FETCH, 17, FetchRequest(max_wait_ms=500, min_bytes=1, replica_state=state, topics=[topic]))

    assert fetch(3).responses[0].partitions[0].records
    held_back = fetch(3)
    assert isinstance(held_back, DelayedReply)
    assert fetch(2).responses[0].partitions[0].records
    leader.pass_time(500)
    assert not leader.finish(FETCH, 17, held_back).responses[0].partitions[0].records
    leader.pass_time(60_000)
    assert fetch(3).responses[0].partitions[0].records
