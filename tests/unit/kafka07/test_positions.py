"""Positions of Kafka 0.7 when the log under them changes: what is deleted, cut, compacted or damaged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ottla.kafka07.log.format import PositionsFormat07
from ottla.kafka07.log.sidecar import RECORD_BYTES, Damaged07
from ottla.kafka07.records.messages import message_set
from ottla.kafka07.records.renderer import Kind07
from ottla.log.check import check, findings, repairs
from ottla.log.cleaner.compaction import Compaction
from ottla.log.cleaner.dirty_range import dirtiness
from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.ports import Now
from ottla.records.batches.builder import build
from ottla.records.batches.header import batches
from ottla.records.compression import codecs
from ottla.sim.disk import SimDisk
from tests.unit.kafka07.lives import PATH, START, OldClient, produce, produce07, sync, values_today

CONFIG = LogConfig(segment_bytes=600, file_delete_delay_ms=0)
FORMAT = PositionsFormat07()


class Case:
    """A log of several segments, and a client of 0.7 that has seen all of it."""

    def __init__(self, config: LogConfig = CONFIG) -> None:
        self.disk = SimDisk()
        self.config = config
        self.log = Log.open(self.disk, PATH, config, START, sidecars=FORMAT)
        self.client = OldClient(self.log, self.disk)

    def fill(self, first: int = 0, count: int = 12) -> None:
        for number in range(first, first + count):
            produce07(self.log, message_set([b"old %d" % number] * 3, codec=codecs.GZIP if number % 2 else 0))
            produce(self.log, [b"today %d" % number], codec=number % 5)
        self.client.show()

    def restart(self, *, clean: bool = True) -> None:
        end = self.log.log_end_offset
        if clean:
            self.log.close()
        self.disk.kill()
        point = end if clean else 0
        self.log = Log.open(
            self.disk, PATH, self.config, START, clean=clean, recovery_point=point, was_killed=not clean, sidecars=FORMAT
        )
        self.client = OldClient(self.log, self.disk)

    def names(self, suffix: str) -> list[int]:
        return [int(name[:20]) for name in self.disk.list(PATH) if name.endswith(suffix)]


@pytest.fixture
def case() -> Case:
    made = Case()
    made.fill()
    return made


def retain(log: Log) -> None:
    """What a broker does: have the names synced after each segment."""
    while log.retain(START, most=1):
        log.directory.sync()
        log.names_are_synced()


def test_each_segment_has_positions_of_its_own(case: Case) -> None:
    assert case.names(".positions07") == case.names(".log")
    assert case.client.offsets()[::-1][0] == 0
    assert len(case.client.offsets()) == len(case.log.segments) + 1
    assert case.client.values() == values_today(case.log)


def test_retention_moves_the_smallest_position_and_removes_files_with_their_segments(case: Case) -> None:
    listed = case.client.offsets()[::-1]
    case.log.config = replace(CONFIG, retention_bytes=900)
    retain(case.log)
    deleted = len(listed) - 1 - len(case.log.segments)
    assert deleted >= 2
    assert case.names(".positions07") == case.names(".log")
    assert set(case.names(".kept07")) <= set(case.names(".log"))
    assert (case.client.start(), case.client.fetch(listed[deleted] - 1)) == (listed[deleted], None)
    assert case.client.values() == values_today(case.log)


def test_what_was_deleted_before_anybody_saw_it_leaves_a_gap_of_one_byte(case: Case) -> None:
    seen = case.client.end
    for number in range(40):
        produce(case.log, [b"unseen %d" % number])
    case.log.config = replace(CONFIG, retention_bytes=500)
    sync(case.log)
    retain(case.log)
    assert len(case.names(".positions07")) == 1, "the last one knows which positions were given"
    case.restart()
    case.client.show()
    assert case.client.start() == seen + 1
    assert case.client.fetch(seen) is None, "who stood there is not given later messages silently"
    assert case.client.values() == values_today(case.log)
    retain(case.log)
    assert len(case.names(".positions07")) == len(case.log.segments)


def test_a_file_that_the_disk_refused_to_begin_makes_nobody_forget_what_was_given(case: Case) -> None:
    seen = case.client.end
    produce(case.log, [b"unseen"])
    case.log.roll()
    produce(case.log, [b"later"])
    case.log.close()
    case.disk.write_file(f"{PATH}/{case.names('.log')[-1]:020d}.positions07", b"")
    case.restart()
    case.log.config = replace(CONFIG, retention_bytes=0)
    retain(case.log)
    case.restart()
    produce(case.log, [b"last"])
    case.client.show()
    assert (case.client.start(), case.client.values()) == (seen + 1, [b"last"])


def test_deleted_records_are_not_seen_up_to_the_very_record(case: Case) -> None:
    produce(case.log, [b"a", b"b", b"c"], codec=codecs.ZSTD)
    produce07(case.log, message_set([b"d", b"e"], codec=codecs.GZIP))
    case.client.show()
    end = case.log.log_end_offset
    starts = []
    for offset in range(end - 5, end + 1):
        case.log.delete_records(offset)
        starts.append(case.client.end - case.client.start())
    kept = len(message_set([b"d", b"e"], codec=codecs.GZIP))
    assert starts == [33 + kept, 22 + kept, 11 + kept, kept, 0, 0], "of those compressed together none is seen without the first"


def test_a_log_that_is_cut_gives_none_of_its_positions_again(case: Case) -> None:
    seen = case.client.end
    case.log.truncate_to(20)
    case.fill(100, 2)
    assert case.client.start() == seen + 1
    assert case.client.values() == values_today(case.log)[-8:]
    case.restart(clean=False)
    case.client.show()
    assert (case.client.start(), case.client.fetch(seen)) == (seen + 1, None)


def test_a_log_that_begins_anew_elsewhere_gives_none_of_its_positions_again(case: Case) -> None:
    seen = case.client.end
    case.log.restart_at(1000)
    case.fill(100, 2)
    assert (case.client.start(), case.client.values()) == (seen + 1, values_today(case.log))


def test_compaction_ends_all_positions_and_they_are_not_given_again() -> None:
    case = Case()
    case.fill()
    seen = case.client.end
    case.log.roll()
    case.log.config = replace(CONFIG, cleanup_policy="compact", min_cleanable_dirty_ratio=0.0)
    now = Now(START.wall_ms + 10**9, 10**9)
    for files in Compaction(case.log, case.disk, dirtiness(case.log, 0, now), now, bytes(16), 1 << 20).run():
        for file in files or ():
            file.sync()
    case.log.finish_swap()
    case.log.config = CONFIG
    case.fill(200, 2)
    assert case.client.start() == seen + 1
    assert case.client.values() == values_today(case.log)[-8:]


@pytest.mark.parametrize("codec", [codecs.NONE, codecs.ZSTD])
def test_a_batch_from_which_compaction_took_records_is_seen_up_to_the_very_record(codec: int) -> None:
    """Its records are fewer than its offsets."""
    case = Case(replace(CONFIG, cleanup_policy="compact", min_cleanable_dirty_ratio=0.0))
    batch = build([b"a", b"b", b"a", b"c"], [b"0", b"1", b"2", b"3"], START.wall_ms, codec=codec)
    case.log.append(batch, [header for _, header in batches(batch)], 0, START)
    case.log.roll()
    now = Now(START.wall_ms + 10**9, 10**9)
    for files in Compaction(case.log, case.disk, dirtiness(case.log, 0, now), now, bytes(16), 1 << 20).run():
        for file in files or ():
            file.sync()
    case.log.finish_swap()
    case.log.config = CONFIG
    seen = []
    for offset in range(5):
        case.log.delete_records(offset)
        case.client.show()
        seen.append(case.client.values())
    assert seen == [[b"1", b"2", b"3"], [b"1", b"2", b"3"], [b"2", b"3"], [b"3"], []]


def test_a_sidecar_that_does_not_fit_its_log_is_noticed(case: Case) -> None:
    case.log.close()
    names = case.disk.list(PATH)
    other = Case()
    for number in range(40):
        produce(other.log, [b"something else %d" % number])
    other.log.close()
    for name in names:
        if name.endswith("07"):
            other.disk.write_file(f"{PATH}/{name}", case.disk.read_file(f"{PATH}/{name}"))
    other.restart(clean=False)
    with pytest.raises(Damaged07, match="does not fit"):
        _see(other.client)
    assert values_today(other.log)[0] == b"something else 0"


def _see(client: OldClient) -> list[bytes]:
    client.show()
    return client.values()


@pytest.mark.expects_errors("cannot be read")
def test_a_damaged_log_is_passed_over_with_a_gap() -> None:
    case = Case(replace(CONFIG, segment_bytes=10_000))
    for number in range(10):
        produce(case.log, [b"value %d" % number * 20])
    case.log.close()
    case.disk.flip_bit(f"{PATH}/{0:020d}.log", 8 * 1000)
    case.restart(clean=True)
    case.client.show()
    values = case.client.values()
    assert 5 < len(values) < 10
    assert (values[0][:7], values[-1][:7]) == (b"value 0", b"value 9")


def test_a_reader_of_0_6_has_entries_for_each_batch_that_it_saw() -> None:
    case = Case()
    produce(case.log, [b"a"])
    case.client.show(Kind07.PLAIN0)
    produce(case.log, [b"b"])
    case.restart(clean=False)
    case.client.show(Kind07.PLAIN1)
    assert case.client.fetch(0) == message_set([b"a"], magic=0) + message_set([b"b"])


# `ottla log check`


def faults(case: Case) -> list[tuple[str, str, int]]:
    return [finding[:3] for finding in check.check_partition(case.disk, PATH, sidecars=FORMAT) if "07" in finding.path]


def test_sound_positions_are_in_order(case: Case) -> None:
    case.log.close()
    assert check.check_partition(case.disk, PATH, sidecars=FORMAT) == []
    assert repairs.repair_partition(case.disk, PATH, START, sidecars=FORMAT) == []


def test_each_damaged_byte_is_found_and_nothing_wrong_is_shown(case: Case) -> None:
    before = case.client.everything()
    case.log.close()
    names = [name for name in case.disk.list(PATH) if name.endswith("07")]
    assert len(names) > 6
    newest = case.names(".positions07")[-1]
    for name in names:
        path = f"{PATH}/{name}"
        whole = case.disk.read_file(path)
        for byte in range(0, len(whole), 7):
            case.disk.write_file(path, whole[:byte] + bytes([whole[byte] ^ 0x55]) + whole[byte + 1 :])
            kind, found, _ = faults(case)[0]
            assert found == path, f"byte {byte} of {name}"
            assert kind == findings.UNSERVED or (kind == findings.LEFTOVER and int(name[:20]) == newest), "the newest may be torn"
            _see_nothing_else(case, before)
        case.disk.write_file(path, whole)
    assert faults(case) == []


def _see_nothing_else(case: Case, before: list[tuple[int, bytes]]) -> None:
    log = Log.open(case.disk, PATH, CONFIG, START, clean=True, sidecars=FORMAT)
    client = OldClient(log, case.disk)
    for position, data in before:
        try:
            client.show()
            found = client.fetch(position)
        except Damaged07:
            continue
        assert found is None or found == data, "what is shown is what was shown"
    assert values_today(log)[0] == b"old 0"


def test_a_file_that_is_missing_between_others_is_noticed(case: Case) -> None:
    middle = case.client.bases()[1]
    position = case.client.positions.sidecars[0].begin.position
    case.log.close()
    case.disk.remove(f"{PATH}/{middle:020d}.positions07")
    assert [found[0] for found in faults(case)][-1] == findings.UNSERVED
    case.restart()
    case.client.show()
    with pytest.raises(Damaged07, match="is missing"):
        case.client.fetch(position)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[: 2 * RECORD_BYTES] + data[3 * RECORD_BYTES :],
        lambda data: data[:RECORD_BYTES],
        lambda data: bytes(len(data)),
        lambda data: data[:-5],
        lambda data: b"",
    ],
)
def test_a_repair_lets_positions_begin_anew_where_none_was_given(case: Case, damage: Callable[[bytes], bytes]) -> None:
    seen = case.client.end
    case.log.close()
    path = f"{PATH}/{case.names('.positions07')[1]:020d}.positions07"
    case.disk.write_file(path, damage(case.disk.read_file(path)))
    assert [found[0] for found in faults(case)][:1] == [findings.UNSERVED]
    said = repairs.repair_partition(case.disk, PATH, START, sidecars=FORMAT)
    assert "restart" in said[-1]
    assert faults(case) == []
    case.restart(clean=False)
    case.client.show()
    assert case.client.start() > seen
    assert case.client.values() == values_today(case.log)
