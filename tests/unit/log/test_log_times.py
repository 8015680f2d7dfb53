"""ListOffsets by time: over segments, indexes, batches and the records in them."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.log.log import Log, LogConfig
from ottla.log.segments.timestamps import PASSED_AT_ONCE, Answer, Further
from ottla.records.batches.builder import build
from ottla.sim.disk import SimDisk
from tests.unit.log.batches import NOW, append, make_batch

CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=100)


@settings(deadline=None, max_examples=60)
@given(
    batches=st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=5), max_size=30),
    wanted=st.integers(0, 55),
    start=st.integers(0, 20),
    codec=st.sampled_from([0, 0, 2]),
    restart=st.sampled_from([None, True, False]),
)
def test_the_first_record_at_or_after_a_time(
    batches: list[list[int]], wanted: int, start: int, codec: int, restart: bool | None
) -> None:
    disk = SimDisk()
    log = Log.open(disk, "t-0", CONFIG, NOW)
    records: list[tuple[int, int]] = []
    for times in batches:
        records += [(time, len(records) + at) for at, time in enumerate(times)]
        append(log, build(None, [b"value"] * len(times), times, codec=codec))
    if restart is not None:
        log.close()
        log = Log.open(disk, "t-0", CONFIG, NOW, clean=restart)
    log.delete_records(start)
    live = [(time, offset) for time, offset in records if offset >= log.log_start_offset]
    assert log.offset_for_timestamp(wanted) == next((found for found in live if found[0] >= wanted), None)
    assert log.max_timestamp_offset() == next((found for found in live if found[0] == max(live)[0]), None)


def test_records_that_cannot_be_opened_are_found_by_their_batch() -> None:
    log = Log.open(SimDisk(), "t-0", CONFIG, NOW)
    append(log, make_batch(3, timestamp=10))
    append(log, make_batch(3, timestamp=20))
    assert log.offset_for_timestamp(15) == (20, 3)
    assert log.offset_for_timestamp(21) is None


def test_an_empty_log_has_no_times() -> None:
    log = Log.open(SimDisk(), "t-0", CONFIG, NOW)
    assert (log.offset_for_timestamp(0), log.max_timestamp_offset()) == (None, None)


def found_in_steps(log: Log, found: Answer) -> tuple[Answer, int]:
    """Go on with a search until it is over: (answer, pauses)."""
    pauses = 0
    while isinstance(found, Further):
        pauses += 1
        found = log.continue_search(found)
    return found, pauses


def test_the_newest_record_is_found_though_newer_ones_before_it_were_deleted() -> None:
    log = Log.open(SimDisk(), "t-0", LogConfig(), NOW)
    for times in ([9, 1], [50, 3, 2], [7, 8, 1]):
        append(log, build(None, [b"v"] * len(times), times))
    for start, newest in ((1, (50, 2)), (2, (50, 2)), (3, (8, 6)), (5, (8, 6)), (7, (1, 7))):
        log.delete_records(start)
        assert log.max_timestamp_offset() == newest
    log.delete_records(8)
    assert log.max_timestamp_offset() is None


def test_the_newest_record_is_found_in_a_batch_whose_beginning_was_deleted() -> None:
    log = Log.open(SimDisk(), "t-0", LogConfig(), NOW)
    for times in ([50, 9, 12, 12], [5, 8]):
        append(log, build(None, [b"v"] * len(times), times))
    log.delete_records(1)
    assert log.max_timestamp_offset() == (12, 2), "neither the first that is newer than all behind it, nor the deleted one"


def test_searches_behind_deleted_records_that_were_newer_keep_nobody_waiting() -> None:
    log = Log.open(SimDisk(), "t-0", LogConfig(), NOW)
    append(log, make_batch(timestamp=10_000_000))
    for number in range(3 * PASSED_AT_ONCE):
        append(log, make_batch(timestamp=number))
    log.delete_records(1)
    wanted = 3 * PASSED_AT_ONCE - 1
    assert found_in_steps(log, log.max_timestamp_offset())[1] >= 2
    assert found_in_steps(log, log.offset_for_timestamp(wanted)) == ((wanted, wanted + 1), 2)
    assert found_in_steps(log, log.offset_for_timestamp(wanted + 1))[0] is None
