"""Followers: what a broker asks the leaders of its partitions, and what it does with their answers."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from ottla.broker.replication.replica import Replica
from ottla.cluster import layout
from ottla.cluster.image import NO_TOPIC_ID
from ottla.ports import Change
from ottla.records.batches.builder import build
from ottla.wire.api.fetch import FetchResponse
from ottla.wire.api.list_offsets import ListOffsetsResponse
from ottla.wire.api.offset_for_leader_epoch import OffsetForLeaderEpochResponse
from ottla.wire.errors import (
    FENCED_LEADER_EPOCH,
    FETCH_SESSION_ID_NOT_FOUND,
    NOT_LEADER_OR_FOLLOWER,
    OFFSET_OUT_OF_RANGE,
)
from tests.support.cluster_machine import TOPIC_ID, ClusterMachine, role

FETCH, LIST_OFFSETS, EPOCHS = 1, 2, 23
SESSION = 7
PartitionData = FetchResponse.PartitionData


class Follower(ClusterMachine):
    """Broker 1, which follows broker 2, played by the test."""

    def follow(self, *indexes: int, epoch: int = 3) -> None:
        self.tell_brokers(1, 2, 3)
        assert set(self.tell_roles(*(role(2, epoch, index=index) for index in indexes))) == {0}
        self.run()

    def run(self, ms: int = 20) -> None:
        """Let time pass, a little at a time."""
        for _ in range(20):
            self.pass_time(ms // 20)

    def next(self, key: int = FETCH) -> Any:
        """The request that is under way."""
        (sent,) = self.links.sent
        header, body, _ = sent
        assert header.api_key == key
        return body

    @property
    def version(self) -> int:
        return int(self.links.sent[0][0].api_version)

    def answer(self, response: Any) -> None:
        self.links.answer(response)
        self.run()

    def record_fetch(self, *parts: PartitionData, session_id: int = SESSION, **fields: Any) -> None:
        topics = [FetchResponse.FetchableTopicResponse(topic="t", topic_id=TOPIC_ID, partitions=list(parts))] if parts else []
        self.answer(FetchResponse(session_id=session_id, responses=topics, **fields))

    def named(self) -> list[tuple[int, int, int, int]]:
        """(index, offset, last fetched epoch, leader epoch) of what the request under way names."""
        return [
            (part.partition, part.fetch_offset, part.last_fetched_epoch, part.current_leader_epoch)
            for topic in self.next().topics
            for part in topic.partitions
        ]

    def forgotten(self) -> list[int]:
        return [index for topic in self.next().forgotten_topics_data for index in topic.partitions]


def part(records: bytes = b"", index: int = 0, **fields: Any) -> PartitionData:
    given = {"high_watermark": 0, "log_start_offset": 0} | fields
    return PartitionData(partition_index=index, records=records, **given)


def records(base_offset: int, count: int = 1, epoch: int = 3) -> bytes:
    """One batch as its leader stored it."""
    batch = build(None, [b"x"] * count, 1000)
    batch[0:8] = base_offset.to_bytes(8, "big")
    batch[12:16] = epoch.to_bytes(4, "big")
    return bytes(batch)


@pytest.fixture
def follower() -> Follower:
    return Follower()


def test_the_first_fetch_begins_a_session_and_later_ones_name_what_has_changed(follower: Follower) -> None:
    follower.follow(0, 1)
    request = follower.next()
    assert follower.version == 17
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (1, 100)
    assert (request.session_id, request.session_epoch, request.max_wait_ms, request.min_bytes) == (0, 0, 500, 1)
    assert sorted(follower.named()) == [(0, 0, -1, 3), (1, 0, -1, 3)]
    follower.record_fetch(part(records(0, 3), high_watermark=2), part(index=1))
    assert (follower.next().session_id, follower.next().session_epoch) == (SESSION, 1)
    assert follower.named() == [(0, 3, 3, 3)]
    assert (follower.replica().log.log_end_offset, follower.replica().high_watermark) == (3, 2)
    follower.record_fetch(part(high_watermark=3))
    assert (follower.next().session_epoch, follower.named()) == (2, [])
    assert follower.replica().high_watermark == 3


def test_a_topic_that_gets_an_id_is_fetched_by_it_from_then_on(follower: Follower) -> None:
    follower.tell_brokers(1, 2, 3)
    assert follower.tell_roles(role(2, 3), topic_id=NO_TOPIC_ID) == [0]
    follower.run()
    assert follower.version == 12
    follower.tell_roles(role(2, 3))
    follower.answer(FetchResponse(session_id=SESSION))
    assert follower.version == 17
    assert [topic.topic_id for topic in follower.next().topics] == [TOPIC_ID]


@pytest.mark.parametrize("leader_epoch", [3, 4])
def test_a_topic_is_fetched_by_name_from_a_leader_of_which_an_older_controller_tells_no_id(
    follower: Follower, leader_epoch: int
) -> None:
    follower.follow(0)
    assert follower.version == 17
    follower.tell_roles(role(2, leader_epoch), topic_id=NO_TOPIC_ID)
    follower.answer(FetchResponse(session_id=SESSION))
    assert (follower.version, [topic.topic for topic in follower.next().topics]) == (12, ["t"])
    assert follower.named() == [(0, 0, -1, leader_epoch)]
    follower.tell_roles(role(2, leader_epoch))  # a controller of 2.8 or later again
    follower.answer(FetchResponse(session_id=SESSION))
    assert (follower.version, [topic.topic_id for topic in follower.next().topics]) == (17, [TOPIC_ID])


@pytest.mark.parametrize("leader_epoch", [5, 6])
def test_a_topic_may_get_its_id_after_its_leaders(leader_epoch: int) -> None:
    machine = ClusterMachine()
    machine.tell_brokers(1, 2, 3)
    assert machine.tell_roles(role(1, 5), topic_id=NO_TOPIC_ID) == [0]
    machine.tell_roles(role(1, 4))
    assert machine.replica().topic_id == NO_TOPIC_ID
    machine.tell_roles(role(1, leader_epoch))
    assert machine.replica().topic_id == TOPIC_ID
    assert machine.replica().leader_error(leader_epoch) == 0


def test_a_partition_with_a_new_leader_is_forgotten_here_and_fetched_there(follower: Follower) -> None:
    follower.follow(0, 1)
    follower.record_fetch(part(), part(index=1))
    follower.tell_roles(role(3, 4))
    follower.run()
    (_, first, _), (_, second, _) = follower.links.sent
    assert [topic.partitions[0].current_leader_epoch for topic in second.topics] == [4]
    follower.links.answer(FetchResponse(session_id=SESSION))
    follower.run()
    first = follower.links.sent[-1][1]
    assert [topic.partitions for topic in first.forgotten_topics_data] == [[0]]


def test_what_was_asked_in_an_earlier_leader_epoch_is_not_taken(follower: Follower) -> None:
    follower.follow(0)
    follower.tell_roles(role(2, 4))
    follower.record_fetch(part(records(0)))
    assert follower.replica().log.log_end_offset == 0
    assert follower.named() == [(0, 0, -1, 4)]


def test_a_log_that_differs_is_cut_where_the_leader_says_and_fetched_on(follower: Follower) -> None:
    follower.follow(0)
    follower.record_fetch(part(records(0, 2, epoch=1) + records(2, 4, epoch=2)))
    diverging = FetchResponse.EpochEndOffset(epoch=2, end_offset=2)
    follower.record_fetch(part(diverging_epoch=FetchResponse.EpochEndOffset(epoch=1, end_offset=1)))
    assert follower.named() == [(0, 0, -1, 3)]  # the whole batch that reaches beyond goes
    follower.record_fetch(part(records(0, 2, epoch=1) + records(2, 4, epoch=2)))
    follower.record_fetch(part(diverging_epoch=diverging))
    assert follower.named() == [(0, 2, 1, 3)]


def test_an_epoch_that_is_not_known_here_is_answered_with_what_is_and_asked_again(follower: Follower) -> None:
    follower.follow(0)
    follower.record_fetch(part(records(0, 1, epoch=0) + records(1, 2, epoch=2)))
    follower.record_fetch(part(diverging_epoch=FetchResponse.EpochEndOffset(epoch=1, end_offset=9)))
    assert follower.named() == [(0, 1, 0, 3)]


@pytest.mark.parametrize("answer", [None, FetchResponse(error_code=-1)])
def test_a_leader_that_does_not_answer_is_asked_again_after_a_rest_in_a_new_session(follower: Follower, answer: Any) -> None:
    follower.follow(0)
    follower.record_fetch(part())
    follower.answer(answer)
    assert follower.links.sent == []
    follower.run(1000)
    assert (follower.next().session_id, follower.next().session_epoch) == (SESSION, 0)
    assert follower.named() == [(0, 0, -1, 3)]


def test_a_session_that_the_leader_has_dropped_begins_anew_at_once(follower: Follower) -> None:
    follower.follow(0)
    follower.record_fetch(part())
    follower.record_fetch(session_id=0, error_code=FETCH_SESSION_ID_NOT_FOUND)
    assert (follower.next().session_epoch, follower.named()) == (0, [(0, 0, -1, 3)])
    follower.record_fetch(session_id=0, error_code=FETCH_SESSION_ID_NOT_FOUND)
    assert follower.links.sent == []


def test_a_leader_without_sessions_is_told_all_each_time(follower: Follower) -> None:
    follower.follow(0, 1)
    for _ in range(2):
        follower.record_fetch(part(), part(index=1), session_id=0)
        assert (follower.next().session_id, follower.next().session_epoch) == (0, -1)
        assert len(follower.named()) == 2


def test_a_partition_with_an_error_rests_and_others_are_fetched_on(follower: Follower) -> None:
    follower.follow(0, 1)
    follower.record_fetch(part(error_code=NOT_LEADER_OR_FOLLOWER), part(records(0), index=1))
    assert follower.named() == [(1, 1, 3, 3)]
    assert follower.forgotten() == [0]
    follower.run(1000)
    follower.record_fetch()
    assert follower.named() == [(0, 0, -1, 3)]


def test_a_fenced_partition_waits_for_the_controller(follower: Follower) -> None:
    follower.follow(0)
    follower.record_fetch(part(error_code=FENCED_LEADER_EPOCH))
    follower.run(5000)
    assert follower.links.sent == []
    follower.tell_roles(role(2, 4))
    follower.run()
    assert follower.named() == [(0, 0, -1, 4)]


def offsets(offset: int) -> ListOffsetsResponse:
    found = ListOffsetsResponse.ListOffsetsPartitionResponse(partition_index=0, offset=offset)
    return ListOffsetsResponse(topics=[ListOffsetsResponse.ListOffsetsTopicResponse(name="t", partitions=[found])])


def test_a_follower_beyond_its_leaders_end_drops_what_is_beyond(follower: Follower) -> None:
    follower.follow(0)
    follower.record_fetch(part(records(0, 2) + records(2, 2)))
    follower.record_fetch(part(error_code=OFFSET_OUT_OF_RANGE))
    asked = follower.next(LIST_OFFSETS)
    assert (asked.replica_id, asked.topics[0].partitions[0].timestamp) == (1, -1)
    follower.answer(offsets(2))
    assert follower.named() == [(0, 2, 3, 3)]


def test_a_follower_before_its_leaders_start_begins_anew_there(follower: Follower) -> None:
    follower.follow(0)
    follower.record_fetch(part(records(0, 2)))
    follower.record_fetch(part(error_code=OFFSET_OUT_OF_RANGE))
    follower.answer(offsets(90))
    assert follower.next(LIST_OFFSETS).topics[0].partitions[0].timestamp == -2
    follower.answer(offsets(50))
    assert follower.named() == [(0, 50, -1, 3)]
    log = follower.replica().log
    assert (log.log_start_offset, log.log_end_offset, follower.replica().high_watermark) == (50, 50, 50)
    follower.record_fetch(part(records(50, 2), high_watermark=52, log_start_offset=50))
    assert follower.named() == [(0, 52, 3, 3)]


def test_an_empty_log_takes_the_batch_within_which_its_leader_begins(follower: Follower) -> None:
    follower.follow(0)
    follower.record_fetch(part(error_code=OFFSET_OUT_OF_RANGE))
    follower.answer(offsets(90))
    follower.answer(offsets(10))
    assert follower.named() == [(0, 10, -1, 3)]
    whole = records(7, 4) + records(11, 2)
    follower.record_fetch(part(whole, high_watermark=13, log_start_offset=10))
    assert follower.named() == [(0, 13, 3, 3)]
    log = follower.replica().log
    assert (log.log_start_offset, log.log_end_offset, follower.replica().high_watermark) == (10, 13, 13)
    stored = log.read(10, 1 << 16, until_offset=13)
    assert stored is not None
    assert stored.read() == whole
    follower.kill()
    follower.tell_brokers(1, 2, 3)
    assert follower.tell_roles(role(2, 4)) == [0]
    assert (follower.replica().log.log_start_offset, follower.replica().log.log_end_offset) == (10, 13)


def test_a_leader_whose_log_begins_later_lets_this_one_begin_there_too(follower: Follower) -> None:
    follower.follow(0)
    follower.record_fetch(part(records(0, 2) + records(2, 2), high_watermark=4, log_start_offset=2))
    follower.run(10)
    assert follower.replica().log.log_start_offset == 2
    follower.record_fetch(part(high_watermark=4, log_start_offset=2))
    (named,) = follower.next().topics[0].partitions
    assert named.log_start_offset == 2


def test_what_is_no_batch_is_not_taken_and_asked_for_again(follower: Follower, caplog: pytest.LogCaptureFixture) -> None:
    follower.follow(0)
    damaged = bytearray(records(0, 3))
    damaged[-1] ^= 1
    follower.record_fetch(part(bytes(damaged)))
    assert follower.replica().log.log_end_offset == 0
    assert "fetched again" in caplog.text
    follower.run(1000)
    follower.record_fetch(part(records(0, 3)))
    assert follower.named() == [(0, 3, 3, 3)]


def test_a_replica_that_stops_is_copied_no_longer_and_its_fetcher_ends(follower: Follower) -> None:
    follower.follow(0)
    assert follower.stop(leader_epoch=3, delete=False) == 0
    follower.record_fetch(part(records(0)))
    assert follower.links.sent == []
    assert follower.replica().log.log_end_offset == 0


def test_more_fetchers_share_the_partitions() -> None:
    follower = Follower(num_replica_fetchers=4)
    follower.tell_brokers(1, 2, 3)
    follower.tell_roles(*(role(2, 3, index=index) for index in range(32)))
    follower.run()
    assert {header.client_id for header, _, _ in follower.links.sent} == {f"broker-1-fetcher-{number}" for number in range(4)}
    assert sum(len(topic.partitions) for _, body, _ in follower.links.sent for topic in body.topics) == 32


def test_before_2_7_the_leader_is_asked_where_epochs_end_before_anything_is_fetched() -> None:
    follower = Follower(inter_broker_protocol_version="2.6")
    follower.follow(0)
    assert (follower.version, follower.next().replica_id) == (11, 1)
    follower.record_fetch(part(records(0, 2, epoch=1) + records(2, 4, epoch=2)))
    follower.tell_roles(role(2, 5))
    follower.record_fetch(part(records(6)))
    asked = follower.next(EPOCHS)
    (one,) = asked.topics[0].partitions
    assert (asked.replica_id, one.leader_epoch, one.current_leader_epoch) == (1, 2, 5)
    told = OffsetForLeaderEpochResponse.EpochEndOffset(partition=0, leader_epoch=1, end_offset=2)
    topic = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(topic="t", partitions=[told])
    follower.answer(OffsetForLeaderEpochResponse(topics=[topic]))
    assert follower.named() == [(0, 2, -1, 5)]


def test_a_throttled_replica_that_lags_rests_once_the_rate_is_used_up() -> None:
    follower = Follower(follower_replication_throttled_rate=100)
    configs = layout.config_json({"follower.replication.throttled.replicas": "*"})
    follower.shared.entries.commit([Change(layout.topic_config_path("t"), configs)])
    follower.follow(0, 1)
    follower.record_fetch(part(records(0, 50), high_watermark=1000), part(index=1, high_watermark=0))
    assert follower.forgotten() == [0]
    assert follower.named() == []
    follower.run(60_000)
    follower.record_fetch()
    assert follower.named() == [(0, 50, 3, 3)]


# On stable storage first


def test_where_each_record_is_flushed_a_fetch_names_only_what_is_on_stable_storage(monkeypatch: pytest.MonkeyPatch) -> None:
    follower = Follower(log_flush_interval_messages=1)
    follower.follow(0, 1)
    with monkeypatch.context() as patch:
        patch.setattr(follower.disk, "run_syncs", lambda: 0)
        follower.record_fetch(part(records(0, 3)), part(index=1))
        assert follower.replica().log.log_end_offset == 3
        assert not follower.links.sent
    follower.run()
    assert follower.named() == [(0, 3, 3, 3)]


def test_another_leader_hears_of_copies_only_when_they_are_flushed_and_holds_the_other_partitions_up_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    follower = Follower(log_flush_interval_messages=1)
    follower.follow(0, 1)
    with monkeypatch.context() as patch:
        patch.setattr(follower.disk, "run_syncs", lambda: 0)
        follower.record_fetch(part(records(0, 3)), part(index=1))
        follower.tell_roles(role(3, 4))
        follower.run()
        assert follower.named() == []  # of the leader before, of which the other partition is copied on
        assert follower.forgotten() == [0]
        follower.links.sent.clear()
    follower.run()
    assert follower.named() == [(0, 3, 3, 4)]


def test_where_some_records_may_be_lost_a_fetch_waits_for_no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    follower = Follower(log_flush_interval_messages=10)
    follower.follow(0)
    monkeypatch.setattr(follower.disk, "run_syncs", lambda: 0)
    follower.record_fetch(part(records(0, 3)))
    assert follower.named() == [(0, 3, 3, 3)]
    follower.record_fetch(part(records(3, 7)))
    assert not follower.links.sent


@pytest.mark.parametrize("size_bytes", [-1, 131_072])
def test_a_follower_reaches_its_leader_with_the_receive_buffer_that_is_set(size_bytes: int) -> None:
    machine = ClusterMachine(replica_socket_receive_buffer_bytes=size_bytes)
    machine.tell_brokers(1, 2, 3)
    assert machine.tell_roles(role(2, 5)) == [0]
    machine.pass_time(10)
    assert machine.links.receive_buffers_bytes == [size_bytes]


def replicas() -> list[Replica]:
    """All that there are, also of other tests."""
    return [one for one in gc.get_objects() if isinstance(one, Replica)]


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("ending", ["its last", "one of two"])
def test_nothing_holds_a_replica_that_is_deleted(follower: Follower, ending: str, index: int) -> None:
    """Its files are freed when nobody holds them, and the collector does not look at what has lived for long."""
    indexes = [index] if ending == "its last" else [0, 1]
    others = replicas()
    follower.follow(*indexes)
    follower.record_fetch(*(part(records(0), index=each, high_watermark=1) for each in indexes))
    gc.collect()
    gc.disable()
    try:
        assert follower.stop(index, leader_epoch=3, delete=True) == 0
        follower.record_fetch()
        if ending == "one of two":
            assert follower.forgotten() == [index]
        follower.run(10_000)
        left = [one.index for one in replicas() if one not in others]
        assert left == [each for each in indexes if each != index]
    finally:
        gc.enable()
