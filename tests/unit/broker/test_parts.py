"""Requests that name many things are served a block at a time, and answered as if they had been served at once."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import pytest

from ottla.broker.coordination.coordinators import Coordinators
from ottla.broker.failures import Changes
from ottla.broker.scheduler import Scheduler
from ottla.broker.serving.parts import sorted_slowly
from ottla.broker.serving.purgatory import DelayedOperation, DelayedReply, Purgatory
from ottla.broker.serving.request import NO_REPLY, Close, Ready
from ottla.log.producer_state.producers import ProducerState
from ottla.ports import Now
from ottla.sim.clock import SimClock
from ottla.wire.api.describe_topic_partitions import DescribeTopicPartitionsRequest
from ottla.wire.errors import INVALID_REQUEST, NONE, NOT_COORDINATOR, UNKNOWN_TOPIC_OR_PARTITION
from ottla.wire.framing import FrameHeader, encode_request
from tests.support.machine import Machine
from tests.support.messages import request
from tests.unit.broker.test_computed import Hasty
from tests.unit.broker.test_old_versions import machine_with

LIST_OFFSETS, METADATA, OFFSET_COMMIT, OFFSET_FETCH, CREATE_TOPICS, DELETE_TOPICS = 2, 3, 8, 9, 19, 20
JOIN_GROUP, LEAVE_GROUP, SYNC_GROUP = 11, 13, 14
DESCRIBE_GROUPS, DESCRIBE_PRODUCERS = 15, 61
LIST_GROUPS, DESCRIBE_LOG_DIRS, CREATE_PARTITIONS, DESCRIBE_TOPIC_PARTITIONS = 16, 35, 37, 75


@pytest.fixture
def slow() -> Machine:
    """A machine whose slices are over after two looks at the clock."""
    machine = machine_with("t")
    grown = [{"name": "t", "count": 900, "assignments": None}]
    assert (
        machine.ask(CREATE_PARTITIONS, 3, request(CREATE_PARTITIONS, 3, topics=grown, timeout_ms=1000)).results[0].error_code == 0
    )
    machine.ask(10, 4, request(10, 4, coordinator_keys=["g", "h"]))
    machine.broker.scheduler._clock = Hasty(machine.clock)
    return machine


def finished(machine: Machine, key: int, version: int, body: Any) -> Any:
    """The answer to a request that has to take several slices."""
    pending = machine.begin(key, version, body)
    assert isinstance(pending, DelayedReply)
    assert pending.blocking, "later requests of this client are answered later"
    for _ in range(100_000):
        if pending.done:
            return machine.finish(key, version, pending)
        machine.pass_time(1)
    raise AssertionError("it was not answered")


def test_the_partitions_of_one_topic_stay_together(slow: Machine) -> None:
    asked = [{"partition_index": index, "timestamp": -1} for index in range(1000)]
    topics = [{"name": "t", "partitions": asked}, {"name": "u", "partitions": asked[:3]}]
    answer = finished(slow, LIST_OFFSETS, 7, request(LIST_OFFSETS, 7, topics=topics))
    assert [(topic.name, len(topic.partitions)) for topic in answer.topics] == [("t", 1000), ("u", 3)]
    assert [part.partition_index for part in answer.topics[0].partitions] == list(range(1000))
    assert [part.error_code for part in answer.topics[0].partitions[:2]] == [NONE, NONE]
    assert {part.error_code for part in answer.topics[0].partitions[900:]} == {UNKNOWN_TOPIC_OR_PARTITION}


@pytest.mark.parametrize("version", [4, 5, 12, 13])
def test_many_unknown_topics_are_each_told(slow: Machine, version: int) -> None:
    names = [f"no-such-topic-{number}" for number in range(1000)]
    wanted = request(METADATA, version, topics=[{"name": name} for name in names], allow_auto_topic_creation=False)
    answer = finished(slow, METADATA, version, wanted)
    assert [topic.name for topic in answer.topics] == names
    assert {topic.error_code for topic in answer.topics} == {UNKNOWN_TOPIC_OR_PARTITION}
    assert [broker.node_id for broker in answer.brokers] == [1]


def test_offsets_of_several_groups_are_committed_and_fetched_in_blocks(slow: Machine) -> None:
    indexes = list(range(900))
    for group in "gh":
        parts = [{"partition_index": index, "committed_offset": 5 + index, "committed_metadata": ""} for index in indexes]
        body = request(OFFSET_COMMIT, 8, group_id=group, topics=[{"name": "t", "partitions": parts}])
        committed = finished(slow, OFFSET_COMMIT, 8, body)
        assert [(topic.name, {part.error_code for part in topic.partitions}) for topic in committed.topics] == [("t", {NONE})]
    topics = [{"name": "t", "partition_indexes": indexes}]
    wanted = request(OFFSET_FETCH, 8, groups=[{"group_id": group, "topics": topics} for group in "gh"])
    fetched = finished(slow, OFFSET_FETCH, 8, wanted)
    assert [group.group_id for group in fetched.groups] == ["g", "h"]
    for group in fetched.groups:
        assert [[part.committed_offset for part in topic.partitions] for topic in group.topics] == [
            [5 + index for index in indexes]
        ]


@pytest.fixture
def failing_over(slow: Machine, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have coordinators be absent for the blocks of these numbers: the test fills in which."""
    absent, asked = list[int](), itertools.count()
    find = Coordinators._find

    def found(self: Any, index: int) -> Any:
        return None if next(asked) in absent else find(self, index)

    monkeypatch.setattr(Coordinators, "_find", found)
    return absent


@pytest.mark.parametrize("lost", [[0], [2], [4], [1, 3]])
@pytest.mark.parametrize("version", [2, 7])
def test_a_coordinator_that_moves_within_a_large_fetch_of_offsets_fails_all_of_it(
    slow: Machine, failing_over: list[int], lost: list[int], version: int
) -> None:
    """Else a consumer would take the rest for never committed, and reset."""
    failing_over += lost
    topics = [{"name": "t", "partition_indexes": list(range(900))}]
    answer = finished(slow, OFFSET_FETCH, version, request(OFFSET_FETCH, version, group_id="g", topics=topics))
    assert (answer.error_code, answer.topics) == (NOT_COORDINATOR, [])


@pytest.mark.slow
@pytest.mark.parametrize("lost", [[0], [2], [4], [1, 3], [0, 1, 2, 3, 4]])
def test_a_coordinator_that_moves_within_a_large_fetch_of_offsets_fails_its_group(
    slow: Machine, failing_over: list[int], lost: list[int]
) -> None:
    failing_over += lost
    topics = [{"name": "t", "partition_indexes": list(range(900))}]
    wanted = request(OFFSET_FETCH, 8, groups=[{"group_id": group, "topics": topics} for group in "gh"])
    answer = finished(slow, OFFSET_FETCH, 8, wanted)
    lost_of_h = [number for number in lost if number >= 5]
    assert [group.group_id for group in answer.groups] == ["g", "h"]
    assert (answer.groups[0].error_code, answer.groups[0].topics) == (NOT_COORDINATOR, [])
    if not lost_of_h and 4 not in lost:
        assert answer.groups[1].error_code == NONE
        assert sum(len(topic.partitions) for topic in answer.groups[1].topics) == 900


def test_what_must_be_named_once_is_refused_wherever_it_is_named_again(slow: Machine) -> None:
    topics = [
        {"name": "twice" if number in (3, 90) else f"new-{number}", "num_partitions": 1, "replication_factor": 1}
        for number in range(100)
    ]
    created = finished(slow, CREATE_TOPICS, 7, request(CREATE_TOPICS, 7, topics=topics, timeout_ms=1000))
    assert {topic.error_code for topic in created.topics if topic.name == "twice"} == {INVALID_REQUEST}
    assert {topic.error_code for topic in created.topics if topic.name != "twice"} == {NONE}
    assert len(slow.broker.image.topics) == 2 + 98
    again = [{"name": "new-1" if number == 70 else f"new-{number}"} for number in range(100)]
    deleted = finished(slow, DELETE_TOPICS, 6, request(DELETE_TOPICS, 6, topics=again, timeout_ms=1000))
    assert {topic.error_code for topic in deleted.responses if topic.name == "new-1"} == {INVALID_REQUEST}
    assert set(slow.broker.image.topics) == {"t", "__consumer_offsets", "new-1", "new-70"}


def test_no_request_makes_more_partitions_than_another_because_it_is_served_in_blocks(slow: Machine) -> None:
    topics = [{"name": f"new-{number}", "num_partitions": 300, "replication_factor": 1} for number in range(60)]
    wanted = request(CREATE_TOPICS, 7, topics=topics, timeout_ms=1000, validate_only=True)
    created = finished(slow, CREATE_TOPICS, 7, wanted)
    assert sum(topic.error_code == NONE for topic in created.topics) == 33


def test_a_request_that_names_too_many_things_ends_its_connection() -> None:
    machine = Machine()
    names = [f"{number}" for number in range(100_001)]
    pending = machine.begin(DELETE_TOPICS, 5, request(DELETE_TOPICS, 5, topic_names=names))
    while isinstance(pending, DelayedReply) and not pending.done:
        machine.pass_time(1)
    outcome = machine.finish(DELETE_TOPICS, 5, pending) if isinstance(pending, DelayedReply) else pending
    assert isinstance(outcome, Close)
    assert "has more than 100000 items in its arrays" in outcome.reason


def test_what_cannot_be_divided_may_name_fewer_things() -> None:
    machine = machine_with("t")
    machine.ask(10, 4, request(10, 4, coordinator_keys=["g"]))
    asked = partial(request, group_id="g", session_timeout_ms=10_000, member_id="", protocol_type="consumer")
    for count in (1000, 1001):
        protocols = [{"name": f"{number}", "metadata": b""} for number in range(count)]
        answer = machine.begin(JOIN_GROUP, 3, asked(JOIN_GROUP, 3, rebalance_timeout_ms=10_000, protocols=protocols))
        if count == 1000:
            assert isinstance(answer, DelayedReply) or answer.error_code == NONE
        else:
            assert isinstance(answer, Close)
            assert "has more than 1000 items in its arrays: send fewer at a time" in answer.reason
    members = [{"member_id": f"{number}", "assignment": b""} for number in range(10_001)]
    synced = request(SYNC_GROUP, 2, group_id="g", generation_id=1, member_id="", assignments=members)
    assert isinstance(machine.begin(SYNC_GROUP, 2, synced), Close)
    leaving = request(LEAVE_GROUP, 3, group_id="g", members=[{"member_id": one["member_id"]} for one in members])
    assert isinstance(machine.begin(LEAVE_GROUP, 3, leaving), Close)


def test_one_whose_last_field_is_missing_does_nothing(slow: Machine) -> None:
    topics = [{"name": f"new-{number}", "num_partitions": 1, "replication_factor": 1} for number in range(100)]
    parts = encode_request(FrameHeader(CREATE_TOPICS, 4, 1, "test"), request(CREATE_TOPICS, 4, topics=topics, timeout_ms=1000))
    frame = memoryview(b"".join(parts))[4:-1]
    pending = slow.broker.receive(frame, slow.peer, slow.clock.now())
    assert isinstance(pending, DelayedReply)
    while not pending.done:
        slow.pass_time(1)
    assert isinstance(pending.answer, Close)
    assert set(slow.broker.image.topics) == {"t", "__consumer_offsets"}


def all_topics(machine: Machine, version: int = 12) -> Any:
    return machine.begin(METADATA, version, request(METADATA, version, topics=None))


def test_what_metadata_says_of_all_topics_is_made_once_for_all_who_ask(slow: Machine) -> None:
    pending = [all_topics(slow) for _ in range(5)]
    assert all(isinstance(one, DelayedReply) for one in pending)
    while not all(one.done for one in pending):
        slow.pass_time(1)
    (array,) = [part for part in pending[0].answer if len(part) > 10_000]
    assert all(any(part is array for part in one.answer) for one in pending)
    answers = [slow.finish(METADATA, 12, one) for one in pending]
    assert {len(topic.partitions) for answer in answers for topic in answer.topics if topic.name == "t"} == {900}
    assert len(all_topics(slow).topics) == 2, "nothing has changed: it is at hand"


def test_metadata_of_all_topics_never_says_less_than_was_true_when_it_was_asked(slow: Machine) -> None:
    early = all_topics(slow)
    assert isinstance(early, DelayedReply)
    topics = [{"name": "new", "num_partitions": 1, "replication_factor": 1}]
    slow.ask(CREATE_TOPICS, 5, request(CREATE_TOPICS, 5, topics=topics, timeout_ms=1000))
    late = all_topics(slow)
    while isinstance(late, DelayedReply) and not late.done:
        slow.pass_time(1)
    answer = slow.finish(METADATA, 12, late) if isinstance(late, DelayedReply) else late
    assert {topic.name for topic in answer.topics} == {"t", "__consumer_offsets", "new"}


def test_metadata_of_all_topics_tells_that_a_partition_went_offline(slow: Machine) -> None:
    def leaders() -> set[int]:
        answer = slow.ask(METADATA, 12, request(METADATA, 12, topics=None))
        return {part.leader_id for topic in answer.topics for part in topic.partitions}

    assert leaders() == {1}
    partition = slow.broker.partitions.get("t", 7)
    assert partition is not None
    partition.fail_offline("its disk is gone")
    assert leaders() == {1, -1}


def test_who_waits_for_all_topics_is_answered_though_the_first_who_asked_has_gone(slow: Machine) -> None:
    first, second = all_topics(slow), all_topics(slow)
    slow.broker.forget(first)
    for _ in range(1000):
        slow.pass_time(1)
    assert second.done
    assert len(slow.finish(METADATA, 12, second).topics) == 2


def test_topics_that_metadata_creates_are_made_in_parts(slow: Machine) -> None:
    names = [f"new-{number}" for number in range(250)]
    wanted = request(METADATA, 12, topics=[{"name": name} for name in names], allow_auto_topic_creation=True)
    answer = finished(slow, METADATA, 12, wanted)
    assert [(topic.name, topic.error_code, len(topic.partitions)) for topic in answer.topics] == [(name, NONE, 1) for name in names]
    assert all(slow.broker.partitions.get(name, 0) is not None for name in names)


def test_pages_of_partitions_are_described_in_slices(slow: Machine) -> None:
    answer = finished(slow, DESCRIBE_TOPIC_PARTITIONS, 0, request(DESCRIBE_TOPIC_PARTITIONS, 0, topics=[], cursor=None))
    assert [(topic.name, len(topic.partitions)) for topic in answer.topics] == [("__consumer_offsets", 50), ("t", 900)]
    assert [part.partition_index for part in answer.topics[1].partitions] == list(range(900))


def test_names_of_topics_that_are_not_there_are_told_in_order_each_once(slow: Machine) -> None:
    names = [f"{number * 7919 % 3000:04}" for number in range(3000)]
    topics = [{"name": name} for name in ["t", *names, *names[:1000]]]
    answer = finished(slow, DESCRIBE_TOPIC_PARTITIONS, 0, request(DESCRIBE_TOPIC_PARTITIONS, 0, topics=topics, cursor=None))
    assert [topic.name for topic in answer.topics] == [*sorted(names), "t"]
    assert {topic.error_code for topic in answer.topics[:-1]} == {UNKNOWN_TOPIC_OR_PARTITION}
    assert len(answer.topics[-1].partitions) == 900
    cursor = DescribeTopicPartitionsRequest.Cursor(topic_name="2990")
    page = finished(slow, DESCRIBE_TOPIC_PARTITIONS, 0, request(DESCRIBE_TOPIC_PARTITIONS, 0, topics=topics, cursor=cursor))
    assert [topic.name for topic in page.topics] == [*sorted(names)[2990:], "t"]
    nowhere = DescribeTopicPartitionsRequest.Cursor(topic_name="gone")
    refused = finished(slow, DESCRIBE_TOPIC_PARTITIONS, 0, request(DESCRIBE_TOPIC_PARTITIONS, 0, topics=topics, cursor=nowhere))
    assert [topic.name for topic in refused.topics] == [*sorted(names), "t"]
    assert {topic.error_code for topic in refused.topics} == {INVALID_REQUEST}


class Compared(str):
    """A name that counts how often names are compared."""

    times = 0
    __hash__ = str.__hash__

    def __lt__(self, other: str) -> bool:
        Compared.times += 1
        return str.__lt__(self, other)

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return str.__eq__(self, other)


def test_many_names_are_put_in_order_a_few_at_a_time() -> None:
    names: list[str] = [Compared(number * 7919 % 20_000) for number in range(20_000)]
    steps, most = sorted_slowly([names[:150], names[150:], [], names[:9]]), 0
    while True:
        before = Compared.times
        try:
            next(steps)
        except StopIteration as end:
            found = end.value
            break
        finally:
            most = max(most, Compared.times - before)
    assert found == sorted(set(map(str, names)))
    assert most < 15_000, "a few milliseconds at most"


def test_the_directory_of_all_partitions_is_described_in_slices(slow: Machine) -> None:
    answer = finished(slow, DESCRIBE_LOG_DIRS, 1, request(DESCRIBE_LOG_DIRS, 1, topics=None))
    assert [(topic.name, len(topic.partitions)) for topic in answer.results[0].topics] == [("t", 900), ("__consumer_offsets", 50)]
    asked = [{"topic": "t", "partitions": list(range(900))}]
    some = finished(slow, DESCRIBE_LOG_DIRS, 1, request(DESCRIBE_LOG_DIRS, 1, topics=asked))
    assert [[len(topic.partitions) for topic in result.topics] for result in some.results] == [[900]]


def test_groups_are_listed_one_coordinator_after_the_other(slow: Machine) -> None:
    names = [f"group-{number}" for number in range(100)]
    part = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    topics = [{"name": "t", "partitions": [part]}]
    for name in names:
        committed = request(OFFSET_COMMIT, 8, group_id=name, generation_id_or_member_epoch=-1, member_id="", topics=topics)
        assert slow.ask(OFFSET_COMMIT, 8, committed).topics[0].partitions[0].error_code == NONE
    answer = finished(slow, LIST_GROUPS, 4, request(LIST_GROUPS, 4, states_filter=[]))
    assert answer.error_code == NONE
    assert sorted(group.group_id for group in answer.groups) == sorted(names)


def test_a_header_with_very_many_tagged_fields_is_refused_unread() -> None:
    machine = Machine()
    frame = b"\x00\x12\x00\x03\x00\x00\x00\x07\x00\x00" + b"\xa0\x8d\x06" + b"\x05\x00" * 100_000
    outcome = machine.broker.receive(frame, machine.peer, machine.clock.now())
    assert isinstance(outcome, Close)
    assert "more than 1000 tagged fields" in outcome.reason


def test_very_many_replies_that_wait_on_one_key_are_retried_in_their_order_a_slice_at_a_time() -> None:
    clock = SimClock()
    purgatory = Purgatory(Scheduler(Hasty(clock)), Changes())
    told: list[int] = []

    def retry(number: int, now: Now, expired: bool) -> Ready:
        told.append(number)
        return NO_REPLY

    for number in range(100):
        purgatory.watch(DelayedOperation(("key",), None, partial(retry, number)), lambda reply: None)
    purgatory.wake("key")
    purgatory.evaluate_woken(clock.now())
    assert 0 < len(told) < 100
    while len(told) < 100:
        before = len(told)
        purgatory.evaluate_woken(clock.now())
        assert len(told) > before
    assert told == list(range(100))


@pytest.mark.slow
@pytest.mark.parametrize("turns", [0, 3, 10, 30])
def test_topics_that_were_created_for_a_client_that_has_gone_have_their_leaders(slow: Machine, turns: int) -> None:
    topics = [{"name": f"new-{number}", "num_partitions": 2, "replication_factor": 1} for number in range(100)]
    pending = slow.begin(CREATE_TOPICS, 7, request(CREATE_TOPICS, 7, topics=topics, timeout_ms=1000))
    assert isinstance(pending, DelayedReply)
    for _ in range(turns):
        slow.pass_time(1)
    slow.broker.forget(pending)
    for _ in range(2000):
        slow.pass_time(1)
    leaders = {part.leader for topic in slow.broker.image.topics.values() for part in topic.partitions}
    assert leaders == {1}
    assert len(slow.broker.image.topics) < 2 + 100


def test_the_producers_of_one_partition_are_described_some_at_a_time(slow: Machine) -> None:
    partition = slow.broker.partitions.get("t", 0)
    assert partition is not None
    for producer_id in range(2_500):
        partition.log.producers.by_id[producer_id] = ProducerState(epoch=3)
    body = request(
        DESCRIBE_PRODUCERS, 0, topics=[{"name": "t", "partition_indexes": [0, 1]}, {"name": "u", "partition_indexes": [0]}]
    )
    pending = slow.begin(DESCRIBE_PRODUCERS, 0, body)
    assert isinstance(pending, DelayedReply)
    del partition.log.producers.by_id[7]  # others write meanwhile
    while not pending.done:
        slow.pass_time(1)
    [known, unknown] = slow.finish(DESCRIBE_PRODUCERS, 0, pending).topics
    assert [(part.partition_index, len(part.active_producers)) for part in known.partitions] == [(0, 2_500), (1, 0)]
    assert [producer.producer_id for producer in known.partitions[0].active_producers] == list(range(2_500))
    assert [part.error_code for part in unknown.partitions] == [UNKNOWN_TOPIC_OR_PARTITION]


def _noted(decide: Any, seen: list[str], asked: Any, now: Now) -> Any:
    seen += getattr(asked.body, "groups", ())
    return decide(asked, now)


def test_groups_with_much_in_them_are_described_one_after_the_other(slow: Machine) -> None:
    names = ["g", "nobody", "h", "g"]
    for group in "gh":
        protocols = [{"name": "range", "metadata": bytes(2 << 20)}]
        body = request(
            JOIN_GROUP,
            3,
            group_id=group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="x",
            protocols=protocols,
        )
        assert slow.ask(JOIN_GROUP, 3, body).error_code == NONE
    asked: list[str] = []
    for shard in slow.broker.groups.coordinators.shards:
        shard.machine.decide = partial(_noted, shard.machine.decide, asked)  # type: ignore[method-assign]  # to count
    pending = slow.begin(DESCRIBE_GROUPS, 5, request(DESCRIBE_GROUPS, 5, groups=names))
    assert isinstance(pending, DelayedReply)
    assert asked == ["g"]
    while not pending.done:
        slow.pass_time(1)
    described = slow.finish(DESCRIBE_GROUPS, 5, pending).groups
    assert [(group.group_id, group.group_state, len(group.members)) for group in described] == [
        ("g", "CompletingRebalance", 1),
        ("nobody", "Dead", 0),
        ("h", "CompletingRebalance", 1),
        ("g", "CompletingRebalance", 1),
    ]
