"""The machine of share coordinators: what it stores is what it knows after a restart, and older epochs are fenced."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.coord.runtime.record_reader import UnreadableRecord
from ottla.coord.share_state.inputs import (
    MOST_BATCHES,
    Chore,
    DeletedTopics,
    DeleteState,
    InitializeState,
    PruneLog,
    ReadState,
    SharePartitionKey,
    SharePlace,
    ShareStateSettings,
    StateOperation,
    StateRequest,
    StateResult,
    StatesDeleted,
    WriteState,
    parse_coordinator_key,
    refuse,
)
from ottla.coord.share_state.machine import MOST_AT_ONCE, PAUSE_MS
from ottla.coord.share_state.records import (
    ShareSnapshot,
    ShareStateReader,
    ShareUpdate,
    StateRecord,
    Tombstone,
    decode_record,
    encode_record,
)
from ottla.wire import Unencodable, encode
from ottla.wire.data.share_group_state import ShareSnapshotValue, ShareUpdateValue
from ottla.wire.errors import (
    FENCED_LEADER_EPOCH,
    FENCED_STATE_EPOCH,
    INVALID_REQUEST,
    NONE,
    NOT_COORDINATOR,
    POLICY_VIOLATION,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from tests.support.share_coordinator import OTHER, TOPIC, UNKNOWN, ShareCoordinator, rows_of

MINUTE_MS = 60_000
MOST_CALLS = 10_000
"""In one step: about two milliseconds of work."""


@pytest.fixture
def share() -> ShareCoordinator:
    share = ShareCoordinator()
    share.take(share.machine.recall(share.now))
    return share


def test_what_is_written_is_read_back(share: ShareCoordinator) -> None:
    assert share.initialize(state_epoch=2, start=10) == StateResult()
    assert share.read() == StateResult(state_epoch=2, start_offset=10)
    assert share.write((10, 19, 2, 1), (15, 15, 0, 2), state=2, start=10, complete=9) == StateResult()
    assert share.read().batches == ((10, 14, 2, 1), (15, 15, 0, 2), (16, 19, 2, 1))
    assert share.summary() == StateResult(state_epoch=2, leader_epoch=0, start_offset=10, delivery_complete_count=9)
    assert share.write((16, 19, 4, 1), start=16, state=2).error_code == NONE
    assert share.read() == StateResult(state_epoch=2, start_offset=16, batches=((16, 19, 4, 1),))


def test_a_write_without_a_start_offset_keeps_the_known_one(share: ShareCoordinator) -> None:
    share.initialize(start=10)
    share.write((5, 12, 2, 1))
    assert share.read() == StateResult(start_offset=10, batches=((10, 12, 2, 1),))


def test_a_start_offset_that_moves_alone_takes_batches_away(share: ShareCoordinator) -> None:
    share.initialize(start=0)
    share.write((0, 9, 2, 1))
    share.read()
    share.write(start=4)
    assert share.read() == StateResult(start_offset=4, batches=((4, 9, 2, 1),))
    share.write(start=2)
    assert share.read() == StateResult(start_offset=2, batches=((4, 9, 2, 1),))


def test_what_was_never_initialized_is_neither_read_nor_written(share: ShareCoordinator) -> None:
    assert share.read().error_code == INVALID_REQUEST
    assert share.write((0, 0, 2, 1)).error_code == INVALID_REQUEST
    assert share.summary() == StateResult(start_offset=-1)
    assert share.delete() == StateResult()
    assert not share.log


def place_of(operation: StateOperation, topic_id: bytes, partition: int) -> SharePlace:
    """A place of an operation that nothing but its partition can be wrong with."""
    if operation is StateOperation.INITIALIZE:
        return InitializeState(topic_id, partition, 0, 0)
    if operation is StateOperation.WRITE:
        return WriteState(topic_id, partition, 0, 0, 0, 0, ())
    return DeleteState(topic_id, partition) if operation is StateOperation.DELETE else ReadState(topic_id, partition, 0)


@pytest.mark.parametrize("operation", StateOperation)
def test_a_negative_partition_is_an_invalid_request_and_a_missing_one_unknown(
    share: ShareCoordinator, operation: StateOperation
) -> None:
    share.initialize()
    assert share.ask(operation, place_of(operation, TOPIC, -1))[0].error_code == INVALID_REQUEST
    missing = INVALID_REQUEST if operation in (StateOperation.READ, StateOperation.WRITE) else UNKNOWN_TOPIC_OR_PARTITION
    assert [share.ask(operation, place_of(operation, *at))[0].error_code for at in ((TOPIC, 4), (UNKNOWN, 0))] == [missing] * 2
    assert len(share.log) == 1


def test_a_known_partition_of_a_deleted_topic_is_unknown(share: ShareCoordinator) -> None:
    share.initialize()
    share.machine._partitions_of = lambda topic_id: 0
    assert share.read().error_code == share.write().error_code == UNKNOWN_TOPIC_OR_PARTITION


def test_a_newer_leader_fences_the_writes_and_reads_of_earlier_ones(share: ShareCoordinator) -> None:
    share.initialize()
    assert share.read(leader_epoch=5) == StateResult(start_offset=-1)
    assert share.summary().leader_epoch == 5
    assert share.read(leader_epoch=4).error_code == FENCED_LEADER_EPOCH
    assert share.read(leader_epoch=-1).error_code == FENCED_LEADER_EPOCH
    assert share.write(leader=4).error_code == FENCED_LEADER_EPOCH
    assert [share.write(leader=leader).error_code for leader in (-1, 5, 6)] == [NONE] * 3
    assert share.summary().leader_epoch == 5, "a write tells no leader epoch"
    stored = len(share.log)
    assert share.read(leader_epoch=5).error_code == NONE
    assert len(share.log) == stored, "the same leader changes nothing"


def test_a_newer_state_epoch_fences_earlier_ones(share: ShareCoordinator) -> None:
    share.initialize(state_epoch=3)
    assert share.write(state=2).error_code == FENCED_STATE_EPOCH
    assert share.initialize(state_epoch=2).error_code == FENCED_STATE_EPOCH
    assert [share.write(state=state).error_code for state in (-1, 3, 4)] == [NONE] * 3
    assert share.initialize(state_epoch=3, start=7) == StateResult()
    assert share.initialize(state_epoch=-1) == StateResult()
    assert share.summary().state_epoch == -1
    assert share.write(state=2).error_code == FENCED_STATE_EPOCH, "the newest epoch counts"


def test_a_new_initialization_begins_with_an_empty_state(share: ShareCoordinator) -> None:
    share.initialize()
    share.write((0, 9, 2, 1), start=0, complete=10)
    share.initialize(state_epoch=1, start=100)
    assert share.read() == StateResult(state_epoch=1, start_offset=100)
    assert share.summary().delivery_complete_count == 0
    share.initialize(state_epoch=2)
    assert share.summary().delivery_complete_count == -1


def test_a_batch_that_ends_before_it_begins_changes_nothing(share: ShareCoordinator) -> None:
    share.initialize()
    assert share.write((0, 0, 2, 1), (9, 8, 2, 1)).error_code == INVALID_REQUEST
    assert share.read().batches == ()


def test_a_write_has_no_more_batches_than_one_step_can_store(share: ShareCoordinator) -> None:
    share.initialize()
    most = [(2 * at, 2 * at, 2, 1) for at in range(MOST_BATCHES + 1)]
    assert share.write(*most).error_code == INVALID_REQUEST
    assert share.write(*most[:-1]).error_code == NONE
    assert len(share.read().batches) == MOST_BATCHES


def calls_of(work: Callable[[], object]) -> int:
    """The calls of functions in a piece of work."""
    calls = 0

    def profile(frame: object, event: str, arg: object) -> None:
        nonlocal calls
        calls += event.endswith("call")

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("per_snapshot", [500, 0], ids=["update", "snapshot"])
@pytest.mark.parametrize("shape", ["scattered", "whole"])
def test_a_write_to_a_state_of_very_many_batches_is_little_work(shape: str, per_snapshot: int) -> None:
    share = ShareCoordinator(share_coordinator_snapshot_update_records_per_snapshot=500)
    share.initialize(start=0)
    for start in range(0, 10_000, MOST_BATCHES):
        share.write(*[(3 * at, 3 * at, 2, 1) for at in range(start, start + MOST_BATCHES)])
    assert len(share.read().batches) == 10_000
    share.machine.configure(ShareStateSettings(share_coordinator_snapshot_update_records_per_snapshot=per_snapshot))
    added = [(120 * at + 1, 120 * at + 1, 4, 2) for at in range(MOST_BATCHES)] if shape == "scattered" else [(1, 30_000, 4, 2)]
    assert calls_of(lambda: share.write(*added)) <= MOST_CALLS
    assert len(share.read().batches) == (10_000 + MOST_BATCHES if shape == "scattered" else 2)


def test_a_snapshot_follows_the_most_updates_that_one_may_have() -> None:
    share = ShareCoordinator(share_coordinator_snapshot_update_records_per_snapshot=2)
    share.initialize()
    for offset in range(4):
        share.write((offset, offset, 2, offset + 1), complete=offset)
    kinds = [type(decode_record(*pair)) for pair in share.log]
    assert kinds == [ShareSnapshot, ShareUpdate, ShareUpdate, ShareSnapshot, ShareUpdate]
    snapshot = decode_record(*share.log[3])
    assert isinstance(snapshot, ShareSnapshot)
    assert (snapshot.snapshot_epoch, snapshot.delivery_complete_count, len(snapshot.batches)) == (1, 2, 3)


def test_a_snapshot_after_each_update_is_a_snapshot_alone() -> None:
    share = ShareCoordinator(share_coordinator_snapshot_update_records_per_snapshot=0)
    share.initialize()
    share.read(leader_epoch=1)
    share.write((0, 0, 2, 1), leader=1)
    assert {type(decode_record(*pair)) for pair in share.log} == {ShareSnapshot}
    assert share.summary().leader_epoch == 1


def test_a_deleted_state_is_gone_and_begins_anew_without_fences(share: ShareCoordinator) -> None:
    share.initialize(state_epoch=5)
    share.read(leader_epoch=5)
    assert share.delete() == StateResult()
    assert share.log[-1][1] is None
    assert share.read().error_code == INVALID_REQUEST
    assert share.machine.weight == 0
    assert share.initialize() == StateResult()
    assert share.read() == StateResult(start_offset=-1)


def test_a_place_that_is_named_twice_is_decided_twice(share: ShareCoordinator) -> None:
    first, second = InitializeState(TOPIC, 0, 2, 5), InitializeState(TOPIC, 0, 1, 9)
    assert [each.error_code for each in share.ask(StateOperation.INITIALIZE, first, second)] == [NONE, FENCED_STATE_EPOCH]
    writes = [WriteState(TOPIC, 0, 2, 0, 5, 0, ((offset, offset, 2, 1),)) for offset in (5, 6)]
    assert [each.error_code for each in share.ask(StateOperation.WRITE, *writes)] == [NONE, NONE]
    assert share.read().batches == ((5, 6, 2, 1),)
    share.ask(StateOperation.DELETE, DeleteState(TOPIC, 0), DeleteState(TOPIC, 0))
    assert [value for _, value in share.log].count(None) == 1


def test_states_of_groups_are_apart(share: ShareCoordinator) -> None:
    share.initialize(start=1)
    share.ask(StateOperation.INITIALIZE, InitializeState(TOPIC, 0, 0, 2), group="h")
    assert share.summary().start_offset == 1


def test_old_snapshots_are_repeated_so_that_the_log_can_be_pruned(share: ShareCoordinator) -> None:
    share.initialize(0)
    share.initialize(1)
    for offset in range(5):
        share.write((offset, offset, 2, 1), partition=1)
    orders = share.pass_time(5 * MINUTE_MS)
    assert [type(decode_record(*pair)) for pair in share.log[-2:]] == [ShareSnapshot] * 2
    assert orders == [PruneLog(7)], "all but the two new snapshots is redundant"
    share.prune(orders)
    before = share.summary(1), share.read(1)
    share.restart()
    assert (share.summary(1), share.read(1)) == before
    assert share.machine.redundant_offset == 7


def test_when_nothing_changed_for_long_no_snapshot_is_repeated(share: ShareCoordinator) -> None:
    share.initialize()
    share.pass_time(6 * MINUTE_MS)
    stored = len(share.log)
    share.pass_time(60 * MINUTE_MS)
    assert len(share.log) == stored
    share.initialize(1)
    share.pass_time(10 * MINUTE_MS)
    assert len(share.log) == stored + 4, "an active share partition has all of them repeated"


def test_many_snapshots_are_repeated_in_steps(share: ShareCoordinator) -> None:
    for number in range(2 * MOST_AT_ONCE + 5):
        share.ask(StateOperation.INITIALIZE, InitializeState(TOPIC, 0, 0, 0), group=f"g{number}")
    stored = len(share.log)
    share.pass_time(5 * MINUTE_MS)
    assert len(share.log) - stored == MOST_AT_ONCE
    assert share.timers[Chore.SNAPSHOTS] <= share.now.mono_ms + PAUSE_MS
    share.pass_time(3 * PAUSE_MS)
    assert len(share.log) - stored == 2 * MOST_AT_ONCE + 5


def test_few_snapshots_of_many_batches_are_repeated_in_a_step(share: ShareCoordinator) -> None:
    for number in range(4):
        share.ask(StateOperation.INITIALIZE, InitializeState(TOPIC, 0, 0, 0), group=f"g{number}")
        for start in range(0, 10 * MOST_BATCHES, MOST_BATCHES):
            batches = tuple((2 * at, 2 * at, 2, 1) for at in range(start, start + MOST_BATCHES))
            share.ask(StateOperation.WRITE, WriteState(TOPIC, 0, 0, 0, -1, 0, batches), group=f"g{number}")
    stored = len(share.log)
    share.pass_time(5 * MINUTE_MS)
    assert len(share.log) - stored == 2
    share.pass_time(2 * PAUSE_MS)
    assert len(share.log) - stored == 4


def test_the_oldest_of_the_last_snapshots_bounds_what_is_redundant(share: ShareCoordinator) -> None:
    share.initialize(0)
    share.initialize(1)
    share.initialize(0, state_epoch=1)
    assert share.machine.redundant_offset == 1
    share.delete(1)
    assert share.machine.redundant_offset == 2
    share.delete(0)
    assert share.machine.redundant_offset == 4, "a tombstone ends what it deletes"


def test_a_request_for_several_places_has_each_snapshot_at_its_own_offset(share: ShareCoordinator) -> None:
    share.ask(StateOperation.INITIALIZE, *[InitializeState(TOPIC, index, 0, 0) for index in range(4)])
    for index in range(3):
        share.initialize(index, state_epoch=1)
        assert share.machine.redundant_offset == index + 1


def test_states_of_deleted_topics_are_deleted_in_steps(share: ShareCoordinator) -> None:
    for number in range(MOST_AT_ONCE + 1):
        share.ask(StateOperation.INITIALIZE, InitializeState(TOPIC, 0, 0, 0), group=f"g{number}")
    share.initialize(topic=OTHER)
    gone = DeletedTopics(frozenset({TOPIC, UNKNOWN}))
    assert share.decide(gone).replies[0].message == StatesDeleted(NONE, are_more=True)
    assert share.decide(gone).replies[0].message == StatesDeleted(NONE)
    assert [key.topic_id for key in share.machine.states] == [OTHER]


def test_more_memory_than_allowed_is_refused_but_not_what_needs_none() -> None:
    share = ShareCoordinator(ottla_max_share_state_bytes=3_000)
    share.initialize(0)
    share.initialize(1)
    assert share.write(*((2 * at, 2 * at, 2, 1) for at in range(8)), start=0).error_code == POLICY_VIOLATION
    assert share.write(*((2 * at, 2 * at, 2, 1) for at in range(5)), start=0).error_code == NONE
    assert share.initialize(2).error_code == POLICY_VIOLATION
    assert share.write(*((at, at, 2, 1) for at in (20, 22, 24))).error_code == POLICY_VIOLATION
    assert share.write((0, 8, 4, 1), start=0).error_code == NONE, "it joins all batches into one"
    assert share.initialize(0, state_epoch=1) == StateResult()
    assert share.delete(1) == StateResult()


def test_records_have_kafkas_bytes() -> None:
    """As Apache Kafka 4.3 stores them: checked with its own serializers."""
    key = SharePartitionKey("g", bytes(range(16)), 3)
    snapshot = ShareSnapshot(key, 1, 2, 3, 4, 5, 6, 7, ((8, 9, 2, 1),))
    update = ShareUpdate(key, 1, 3, 4, -1, ((8, 9, 0, 2),))
    end = "000167" + bytes(range(16)).hex() + "00000003"
    assert [each.hex() for each in encode_record(snapshot) if each is not None] == [
        "0000" + end,
        "0000"
        "00000001"
        "00000002"
        "00000003"
        "0000000000000004"
        "0000000000000006"
        "0000000000000007"
        "02"
        "0000000000000008"
        "0000000000000009"
        "02"
        "0001"
        "00"
        "01"
        "00"
        "04"
        "00000005",
    ]
    assert [each.hex() for each in encode_record(update) if each is not None] == [
        "0001" + end,
        "00000000000100000003000000000000000402000000000000000800000000000000090000020000",
    ]
    assert encode_record(Tombstone(key)) == (bytes.fromhex("0000" + end), None)
    for record in (snapshot, update, Tombstone(key)):
        assert decode_record(*encode_record(record)) == record


@pytest.mark.parametrize("number", [0, 1, 125, 126, 127, 128, 16_381, 16_382, 16_383, 16_384])
@pytest.mark.parametrize("complete", [-1, 0, 7])
def test_records_of_any_size_are_those_of_the_declared_messages(number: int, complete: int) -> None:
    key = SharePartitionKey("g", TOPIC, 0)
    batches = tuple((at, at, 2, 1) for at in range(number))
    snapshot = ShareSnapshot(key, 1, 2, 3, 4, complete, 6, 7, batches)
    update = ShareUpdate(key, 1, 3, 4, complete, batches)
    one = ShareSnapshotValue.StateBatch
    declared = [one(first_offset=at, last_offset=at, delivery_state=2, delivery_count=1) for at in range(number)]
    values = [
        ShareSnapshotValue(
            snapshot_epoch=1,
            state_epoch=2,
            leader_epoch=3,
            start_offset=4,
            delivery_complete_count=complete,
            create_timestamp=6,
            write_timestamp=7,
            state_batches=declared,
        ),
        ShareUpdateValue(
            snapshot_epoch=1, leader_epoch=3, start_offset=4, delivery_complete_count=complete, state_batches=declared
        ),
    ]
    records: list[StateRecord] = [snapshot, update]
    for record, value in zip(records, values, strict=True):
        assert encode_record(record)[1] == b"\0\0" + encode(value, 0)
        assert decode_record(*encode_record(record)) == record


def test_records_of_other_kinds_are_passed_over_and_broken_ones_refused() -> None:
    key, value = encode_record(ShareUpdate(SharePartitionKey("g", TOPIC, 0), 0, 0, 0, 0, ()))
    assert decode_record(b"\0\x07" + key[2:], value) is None
    for broken in ((key, None), (key, b"\0\x01"), (key, b""), (key[:-1], value), (b"\0", value), (key, (value or b"")[:-1])):
        with pytest.raises(UnreadableRecord):
            decode_record(*broken)


def test_a_group_id_that_is_too_long_is_not_stored() -> None:
    with pytest.raises(Unencodable):
        encode_record(Tombstone(SharePartitionKey("g" * 32_768, TOPIC, 0)))
    longest = Tombstone(SharePartitionKey("g" * 32_767, TOPIC, 0))
    assert decode_record(*encode_record(longest)) == longest


def test_records_before_a_snapshot_are_not_decoded() -> None:
    key = SharePartitionKey("g", TOPIC, 0)
    old, new = (ShareSnapshot(key, epoch, 0, 0, 0, 0, 0, 0, ()) for epoch in range(2))
    update = ShareUpdate(key, 1, 0, 0, 0, ((0, 0, 2, 1),))
    pairs = [encode_record(each) for each in (old, update, new, update)]
    decoded: list[int] = []

    def read_row(row: int) -> StateRecord | None:
        decoded.append(row)
        return decode_record(*pairs[row])

    assert list(ShareStateReader().read_all(rows_of(pairs, 10), read_row)) == [new._replace(offset=12), update]
    assert not {0, 1} & set(decoded)


def test_an_unreadable_snapshot_leaves_the_one_before() -> None:
    key = SharePartitionKey("g", TOPIC, 0)
    snapshot = ShareSnapshot(key, 0, 0, 0, 7, 0, 0, 0, ())
    pairs = [encode_record(snapshot), (encode_record(snapshot)[0], b"\0")]
    reader = ShareStateReader()

    def read_row(row: int) -> StateRecord | None:
        try:
            return reader.read(*pairs[row])
        except UnreadableRecord:
            return None

    assert list(reader.read_all(rows_of(pairs), read_row)) == [snapshot._replace(offset=0)]


def test_updates_whose_snapshot_is_gone_make_a_state_that_the_next_snapshot_replaces(share: ShareCoordinator) -> None:
    key = SharePartitionKey("g", TOPIC, 0)
    share.machine.apply(ShareUpdate(key, 3, 2, 5, 0, ((5, 5, 2, 1),)))
    assert share.read(leader_epoch=2) == StateResult(start_offset=5, batches=((5, 5, 2, 1),))


def test_refusals_have_a_result_for_each_place() -> None:
    places = [ReadState(TOPIC, index, 0) for index in range(3)]
    results = refuse(StateRequest(StateOperation.READ, "g", places), NOT_COORDINATOR)
    assert isinstance(results, list)
    assert [each.error_code for each in results] == [NOT_COORDINATOR] * 3
    assert refuse(DeletedTopics(frozenset()), NOT_COORDINATOR) == StatesDeleted(NOT_COORDINATOR)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("g:AAECAwQFBgcICQoLDA0ODw:3", SharePartitionKey("g", bytes(range(16)), 3)),
        ("a:b:c:AAECAwQFBgcICQoLDA0ODw:0", SharePartitionKey("a:b:c", bytes(range(16)), 0)),
        ("g:AAECAwQFBgcICQoLDA0ODw==:0", SharePartitionKey("g", bytes(range(16)), 0)),
        ("g:_-ECAwQFBgcICQoLDA0ODw:-1", SharePartitionKey("g", bytes((255, 225)) + bytes(range(2, 16)), -1)),
        ("", None),
        ("g", None),
        ("g:0", None),
        (":AAECAwQFBgcICQoLDA0ODw:0", None),
        ("  :AAECAwQFBgcICQoLDA0ODw:0", None),
        ("g:short:0", None),
        ("g:AAECAwQFBgcICQoLDA0ODwAAECAwQFBgc:0", None),
        ("g:AAECAwQFBgcICQoLDA0ODw:x", None),
        ("g:AAECAwQFBgcICQoLDA0ODw:1_0", None),
        ("g:AAECAwQFBgcICQoLDA0O!!:0", None),
        ("g:AAECAwQFBgcICQoLDA0ODw:+7::", SharePartitionKey("g", bytes(range(16)), 7)),
        ("a\nb:AAECAwQFBgcICQoLDA0ODw:0", SharePartitionKey("a\nb", bytes(range(16)), 0)),
        ("g:AAECAwQFBgcICQoLDA0ODw:", None),
        ("g:AAECAwQFBgcICQoLDA0ODw:2147483648", None),
        ("g:AAECAwQFBgcICQoLDA0OD\u00e9:0", None),
    ],
)
def test_keys_of_share_coordinators_are_parsed_as_kafka_does(text: str, key: SharePartitionKey | None) -> None:
    assert parse_coordinator_key(text) == key
    if key is not None:
        assert parse_coordinator_key(key.coordinator_key()) == key


operations = st.lists(
    st.one_of(
        st.builds(lambda p, e, s: ("initialize", (p, e, s)), st.integers(0, 2), st.integers(-1, 3), st.integers(-1, 9)),
        st.builds(lambda p, e: ("read", (p, e)), st.integers(0, 2), st.integers(-1, 4)),
        st.builds(lambda p: ("delete", (p,)), st.integers(0, 2)),
        st.builds(
            lambda p, s, e, first, more, state: (
                "write",
                ((first, first + more, state, 1 + first % 3), p, s, e),
            ),
            st.integers(0, 2),
            st.integers(-1, 3),
            st.integers(-1, 4),
            st.integers(0, 20),
            st.integers(0, 9),
            st.sampled_from((0, 2, 4)),
        ),
        st.builds(lambda ms: ("pass", (ms,)), st.sampled_from((1_000, 5 * MINUTE_MS))),
    ),
    max_size=40,
)


@settings(max_examples=200, deadline=None)
@given(operations, st.integers(0, 3))
def test_any_history_is_the_same_after_a_restart_and_pruning(history: list[tuple[str, tuple[Any, ...]]], updates: int) -> None:
    share = ShareCoordinator(share_coordinator_snapshot_update_records_per_snapshot=updates)
    share.take(share.machine.recall(share.now))
    for what, values in history:
        if what == "initialize":
            share.initialize(*values)
        elif what == "read":
            share.read(*values)
        elif what == "delete":
            share.delete(*values)
        elif what == "pass":
            share.prune(share.pass_time(values[0]))
        else:
            batch, partition, state, leader = values
            share.write(batch, partition=partition, state=state, leader=leader)
    before = {
        key: (state.start_offset, state.batches, state.state_epoch, state.leader_epoch)
        for key, state in share.machine.states.items()
    }
    facts = share.machine.redundant_offset, share.machine.weight > 0
    share.restart()
    after = {
        key: (state.start_offset, state.batches, state.state_epoch, state.leader_epoch)
        for key, state in share.machine.states.items()
    }
    assert after == before
    assert (share.machine.redundant_offset, share.machine.weight > 0) == facts
