"""A short `make soak`, and the ledger that it rests on: what it would take for a lost record to be missed by nobody."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from bench.apache_kafka import Unavailable, class_path
from tests.torture.soak import process
from tests.torture.soak.clock import JUMP_MS, Clock
from tests.torture.soak.kinds import Goes, Kind
from tests.torture.soak.ledger import Ledger, Partition
from tests.torture.soak.process import Life, Sample
from tests.torture.soak.run import Soak
from tests.torture.soak.schedule import CALM_S, KILL, LEAST_RESTARTS, MOVE, RESTART_EVERY_S, STOP, schedule

MINUTES = 2.0
NOW_MS = 1_000_000

KEPT = Kind("kept", "confluent", 1, 1, {})
AGED = Kind("aged", "confluent", 1, 1, {}, Goes.BY_TIME, retention_ms=1000)
SIZED = Kind("sized", "confluent", 1, 1, {}, Goes.BY_SIZE, retention_bytes=300)
CUT = Kind("cut", "confluent", 1, 1, {}, Goes.BY_REQUEST)
COMPACTED = Kind("compacted", "confluent", 1, 1, {}, Goes.BY_KEY, keys=3)


def written(kind: Kind, count: int = 5, timestamp_ms: int = NOW_MS) -> Partition:
    """A partition of the ledger to which `count` records were acknowledged, each at the offset of its number."""
    part = Partition(kind, 0)
    for offset in range(count):
        part.acknowledged(part.next_number(), offset, timestamp_ms)
    return part


def read(part: Partition, *offsets: int, now_ms: int = NOW_MS) -> list[str]:
    """What is wrong once the records of these numbers were read from the offsets of the same."""
    for offset in offsets:
        part.read(offset, part.kind.key(offset), part.kind.value(offset), now_ms)
    return part.faults


def whole(part: Partition, *offsets: int, now_ms: int = NOW_MS) -> list[str]:
    """What is wrong when nothing else is there at the end."""
    part.check_all({offset: part.kind.value(offset) for offset in offsets}, now_ms)
    return part.faults


def test_what_is_read_as_it_was_acknowledged_is_right() -> None:
    part = written(KEPT)
    assert read(part, 0, 1, 2, 3, 4) == []
    assert whole(part, 0, 1, 2, 3, 4) == []


def test_a_record_may_be_read_before_its_producer_hears_of_it() -> None:
    part = written(KEPT, 2)
    number = part.next_number()
    assert read(part, 0, 1, 2) == []
    part.acknowledged(number, 2, NOW_MS)
    assert part.faults == []


def test_a_record_that_was_never_acknowledged_may_be_missing() -> None:
    part = written(KEPT, 2)
    part.next_number()
    assert read(part, 0, 1) == []
    assert whole(part, 0, 1) == []


@pytest.mark.parametrize("check", [read, whole])
def test_a_lost_record_is_missed(check: object) -> None:
    part = written(KEPT)
    assert callable(check)
    assert check(part, 0, 1, 3, 4) == ["kept-0: record 2, acknowledged at offset 2, is lost"]


def test_another_record_in_the_place_of_one_is_told() -> None:
    part = written(KEPT, 2)
    part.read(0, None, KEPT.value(7), NOW_MS)
    assert part.faults == ["kept-0: offset 0 holds record 7, but record 0 was acknowledged there"]


def test_a_changed_byte_is_told() -> None:
    part = written(KEPT, 1)
    value = KEPT.value(0) or b""
    part.read(0, None, value[:-1] + b"x", NOW_MS)
    assert "not as it was sent" in part.faults[0]


def test_a_record_that_is_there_twice_is_told() -> None:
    part = written(KEPT, 2)
    part.read(0, None, KEPT.value(0), NOW_MS)
    part.read(1, None, KEPT.value(0), NOW_MS)
    assert "out of order, or there twice" in part.faults[0]


def test_a_log_whose_end_went_back_is_told() -> None:
    assert "the log's end went back" in read(written(KEPT), 0, 1, 2, 1)[0]


def test_only_what_is_old_enough_goes_by_time() -> None:
    assert read(written(AGED), 3, now_ms=NOW_MS + 1000) == []
    assert "is lost" in read(written(AGED), 3, now_ms=NOW_MS + 999)[0]


def test_only_what_is_too_much_goes_by_size() -> None:
    assert whole(written(SIZED), 2, 3, 4) == []
    assert "record 2" in whole(written(SIZED), 3, 4)[0]


def test_only_what_was_asked_for_goes_by_request() -> None:
    part = written(CUT)
    part.cut_to = 3
    assert whole(part, 3, 4) == []
    part = written(CUT)
    part.cut_to = 2
    assert whole(part, 3, 4) == ["cut-0: record 2, acknowledged at offset 2, is lost"]


def test_the_last_value_of_a_key_stays() -> None:
    assert read(written(COMPACTED), 2, 3, 4) == []
    assert whole(written(COMPACTED), 2, 3, 4) == []
    assert "record 2" in whole(written(COMPACTED), 0, 3, 4)[0]
    part = written(COMPACTED)
    part.check_keys(part.latest(), {b"key-0": 3, b"key-1": 1, b"key-2": 2}, NOW_MS)
    assert part.faults == ["compacted-0: the last value of b'key-1', record 4 at offset 4, is lost"]


def test_a_deleted_key_may_be_gone_with_its_mark() -> None:
    part = written(COMPACTED, 11)
    assert COMPACTED.value(10) is None
    part.check_keys(part.latest(), {b"key-0": 9, b"key-2": 8}, NOW_MS)
    assert part.faults == []


def test_a_ledger_knows_every_partition_and_its_faults() -> None:
    ledger = Ledger((KEPT, COMPACTED))
    assert set(ledger.partitions) == {("kept", 0), ("compacted", 0)}
    ledger.partitions["kept", 0].fault("is not there")
    assert ledger.faults == ["kept-0: is not there"]


def life(*rss_mb: float, files: int = 10) -> Life:
    """One of a sample a second."""
    made = Life()
    made.samples = [Sample(float(age), held, files) for age, held in enumerate(rss_mb)]
    return made


def test_a_process_that_grows_on_and_on_is_told() -> None:
    assert process.growth([life(*(40 + age / 10 for age in range(100)))])[1] != []
    assert process.growth([life(*(min(60, 40 + age) for age in range(100)))])[1] == []


def test_late_lives_that_hold_more_than_early_ones_are_told() -> None:
    lives = [life(*[40.0 + 10 * number] * 30) for number in range(6)]
    assert process.growth(lives)[1] == ["memory is not flat: 45 MB in the first lives, 85 MB in the last ones at the same age"]


@pytest.mark.parametrize("seconds", [240, 1800])
def test_the_broker_is_killed_and_stopped_and_its_clock_is_moved_when_nothing_else_happens(seconds: int) -> None:
    events = schedule(seconds, random.Random(3))
    restarts = [event.at_s for event in events if event.what in (KILL, STOP)]
    moves = [event.at_s for event in events if event.what == MOVE]
    assert {KILL, STOP, MOVE} <= {event.what for event in events}
    assert len(restarts) >= min(LEAST_RESTARTS - 3, seconds / RESTART_EVERY_S / 2)
    assert all(abs(move - restart) > CALM_S for move in moves for restart in restarts)


ASK_THE_TIME = "import json, time; print(json.dumps([time.time(), time.monotonic()]))"


def test_a_moved_clock_leaves_the_monotonic_one_alone(tmp_path: Path) -> None:
    clock = Clock(tmp_path)
    if clock.library is None:
        pytest.skip("the soak does not move the clock here: there is no libfaketime, which Debian's package faketime has")

    def told() -> list[float]:
        command, environment = [sys.executable, "-c", ASK_THE_TIME], {**os.environ, **clock.environment()}
        return [float(one) for one in json.loads(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)]

    wall_s, mono_s = told()
    clock.move_ahead()
    moved_wall_s, moved_mono_s = told()
    assert round((moved_wall_s - wall_s) / 60) == pytest.approx(JUMP_MS / 60_000, abs=2)
    assert 0 < moved_mono_s - mono_s < 60
    assert not clock.is_settled
    assert clock.most_ms() - clock.now_ms() == pytest.approx(JUMP_MS, abs=1000)


def test_javas_clients_take_part() -> None:
    try:
        assert class_path()
    except Unavailable as missing:
        pytest.skip(f"the soak goes without Java's clients here: {missing}")


@pytest.mark.full(seconds=150)
@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.timeout(MINUTES * 60 + 480)
def test_a_broker_under_everything_at_once_keeps_what_it_said(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def tell(line: str) -> None:
        with capfd.disabled():
            print(f"soak: {line}", flush=True)

    soak = Soak(tmp_path, 1, tell)
    for sentence in soak.result.left_out:
        tell(f"left out: {sentence}")
    result = soak.run(MINUTES * 60)
    assert not result.faults, "\n".join([*result.said, *result.faults])
    assert result.events[KILL] >= 2
    assert result.events[STOP] >= 2
    assert result.acknowledged > 10_000
