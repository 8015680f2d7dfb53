"""ListOffsets by time: over segments, indexes, batches and the records in them."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.log.log import Log, LogConfig
from ottla.records.build import build
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
    newest = log.max_timestamp_offset()
    assert newest is None or newest in live
    if not start:
        assert newest == next((found for found in records if found[0] == max(records)[0]), None)


def test_records_that_cannot_be_opened_are_found_by_their_batch() -> None:
    log = Log.open(SimDisk(), "t-0", CONFIG, NOW)
    append(log, make_batch(3, timestamp=10))
    append(log, make_batch(3, timestamp=20))
    assert log.offset_for_timestamp(15) == (20, 3)
    assert log.offset_for_timestamp(21) is None


def test_an_empty_log_has_no_times() -> None:
    log = Log.open(SimDisk(), "t-0", CONFIG, NOW)
    assert (log.offset_for_timestamp(0), log.max_timestamp_offset()) == (None, None)
