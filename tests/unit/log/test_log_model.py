"""The log against a plain list: random appends, reads, rolls, cuts, faults, crashes and restarts on a simulated disk."""

from __future__ import annotations

import contextlib
import random
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ottla.log.log import Log, LogConfig
from ottla.ports import StorageFailed
from ottla.records.batches.header import batches, read_header
from ottla.sim.disk import IO_ERROR, NO_SPACE, SimDisk
from tests.unit.log.batches import NOW, append, index_faults, make_batch, read_all, sync

CONFIG = LogConfig(segment_bytes=900, index_interval_bytes=150, retention_bytes=2500, file_delete_delay_ms=0)


@dataclass(slots=True)
class Known:
    """One batch that the log acknowledged."""

    base_offset: int
    next_offset: int
    data: bytes


class LogAgainstList(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.disk = SimDisk()
        self.known: list[Known] = []
        self.floor = self.start = self.synced = self.recovery_point = self.kept_start = self.epoch = 0
        self.sequences = {1: 0, 2: 0}
        self.log = self.open()

    def open(self, *, clean: bool = False) -> Log:
        return Log.open(
            self.disk, "t-0", CONFIG, NOW, clean=clean, recovery_point=self.recovery_point, log_start_offset=self.kept_start
        )

    @property
    def end(self) -> int:
        return self.known[-1].next_offset if self.known else self.floor

    def accept(self, batch: bytearray) -> None:
        base = self.end
        appended = append(self.log, batch, leader_epoch=self.epoch)
        assert (appended.error_code, appended.base_offset, appended.duplicate) == (0, base, False)
        position = 0
        for position, header in list(batches(batch)):
            data = bytes(batch[position : position + header.size])
            self.known.append(Known(header.base_offset, header.next_offset, data))
        assert appended.last_offset == self.end - 1

    @rule(count=st.integers(1, 4), size=st.integers(0, 300))
    def appends(self, count: int, size: int) -> None:
        self.accept(make_batch(count, size))

    @rule(sizes=st.lists(st.integers(0, 120), min_size=2, max_size=3))
    def appends_several(self, sizes: list[int]) -> None:
        self.accept(bytearray(b"".join(make_batch(2, size) for size in sizes)))

    @rule(producer_id=st.sampled_from([1, 2]), count=st.integers(1, 3))
    def appends_idempotently(self, producer_id: int, count: int) -> None:
        sequence = self.sequences[producer_id]
        self.accept(make_batch(count, 20, producer_id=producer_id, epoch=0, sequence=sequence))
        self.sequences[producer_id] = sequence + count

    @rule(producer_id=st.sampled_from([1, 2]), back=st.integers(0, 4))
    def repeats(self, producer_id: int, back: int) -> None:
        producer = self.log.producers.by_id.get(producer_id)
        if producer is None or not producer.batches:
            return
        old = producer.batches[max(-len(producer.batches), -1 - back)]
        count = old.last_offset - old.base_offset + 1
        again = append(self.log, make_batch(count, 20, producer_id=producer_id, epoch=0, sequence=old.first_sequence))
        assert again == (0, old.base_offset, old.last_offset, old.timestamp, True)

    @rule(after=st.integers(0, 6), reason=st.sampled_from([IO_ERROR, NO_SPACE]), size=st.integers(0, 300))
    def append_on_a_failing_disk(self, after: int, reason: str, size: int) -> None:
        batch = make_batch(1, size)
        self.disk.fail(after, reason)
        try:
            self.accept(batch)
        except StorageFailed:
            assert self.log.log_end_offset == self.end
        self.heal()

    def heal(self) -> None:
        """The disk is well again. Where a sync of names had failed, another process goes on: this one can't rely on them."""
        self.disk.heal()
        if self.disk.has_failed_names:
            self.disk.kill()
            self.log = self.open()
            assert self.log.log_end_offset == self.end
            assert self.kept_start <= self.log.log_start_offset <= self.start
            self.start = self.log.log_start_offset
            self.forget(self.end)

    @rule(raise_by=st.integers(1, 3))
    def a_new_leader_epoch_begins(self, raise_by: int) -> None:
        self.epoch += raise_by

    @rule(max_bytes=st.integers(1, 2000), at=st.floats(0, 1), until=st.floats(0, 1), min_one=st.booleans())
    def reads(self, max_bytes: int, at: float, until: float, min_one: bool) -> None:
        live = [one for one in self.known if one.next_offset > self.start]
        if not live:
            return
        offset = max(self.start, live[int(at * (len(live) - 1))].base_offset)
        until_offset = live[int(until * (len(live) - 1))].next_offset
        found = self.log.read(offset, max_bytes, until_offset=until_offset, min_one_batch=min_one)
        whole = [one for one in live if one.next_offset > offset and one.next_offset <= until_offset]
        data = found.read() if found else b""
        assert b"".join(one.data for one in whole).startswith(data)
        taken = len(list(batches(data)))
        assert sum(len(one.data) for one in whole[:taken]) == len(data)
        assert len(data) <= max_bytes or (min_one and taken == 1)
        if whole and (min_one or len(whole[0].data) <= max_bytes):
            assert data

    @rule()
    def rolls(self) -> None:
        self.log.roll()

    @rule()
    def syncs(self) -> None:
        sync(self.log)
        self.synced = self.end

    @rule()
    def checkpoints(self) -> None:
        self.recovery_point = self.log.checkpoint()
        self.kept_start = self.log.log_start_offset
        assert self.recovery_point == self.synced

    @rule()
    def retains(self) -> None:
        self.log.retain(NOW)
        assert self.log.log_start_offset >= self.start
        assert self.log.log_start_offset in {self.start, *(one.base_offset for one in self.known), self.end}
        self.start = self.log.log_start_offset

    @rule(after=st.integers(0, 12), reason=st.sampled_from([IO_ERROR, NO_SPACE]))
    def retains_on_a_failing_disk(self, after: int, reason: str) -> None:
        self.disk.fail(after, reason)
        self.retains()
        self.heal()

    @rule(after=st.integers(0, 8), reason=st.sampled_from([IO_ERROR, NO_SPACE]))
    def rolls_on_a_failing_disk(self, after: int, reason: str) -> None:
        self.disk.fail(after, reason)
        with contextlib.suppress(StorageFailed):
            self.log.roll()
        self.heal()

    @rule(at=st.floats(0, 1))
    def deletes_records(self, at: float) -> None:
        offset = self.start + int(at * (self.end - self.start))
        self.log.delete_records(offset)
        self.start = max(self.start, offset)

    @rule(back=st.integers(1, 4))
    def truncates(self, back: int) -> None:
        kept = self.known[:-back]
        offset = max(kept[-1].next_offset if kept else self.floor, self.start)
        self.recovery_point = min(self.recovery_point, offset)
        self.log.truncate_to(offset)
        self.known = [one for one in self.known if one.next_offset <= offset]
        if offset > self.end:
            self.known, self.floor = [], offset
        assert self.log.log_start_offset == self.start
        self.forget(offset)

    @rule()
    def restarts_in_order(self) -> None:
        self.log.close()
        self.synced = self.end
        self.recovery_point = self.end
        self.kept_start = self.start
        self.log = self.open(clean=True)

    @rule(seed=st.integers(0, 2**32))
    def crashes(self, seed: int) -> None:
        self.disk.crash(random.Random(seed))
        self.log = self.open()
        end = self.log.log_end_offset
        assert self.synced <= end <= self.end
        assert end in (self.floor, self.kept_start) or any(one.next_offset == end for one in self.known)
        assert self.kept_start <= self.log.log_start_offset <= self.start
        self.start = self.log.log_start_offset
        self.known = [one for one in self.known if one.next_offset <= end]
        if end == self.start:  # nothing is left, and what was deleted may have been lost before
            self.known, self.floor = [], end
        self.forget(end)

    def forget(self, end: int) -> None:
        """What lies beyond `end` is gone: producers go on from what is left, epochs too."""
        self.synced = min(max(self.synced, self.log.synced_offset), end)
        for producer_id in self.sequences:
            producer = self.log.producers.by_id.get(producer_id)
            self.sequences[producer_id] = producer.batches[-1].last_sequence + 1 if producer and producer.batches else 0

    @invariant()
    def reads_what_was_appended(self) -> None:
        live = [one for one in self.known if one.next_offset > self.start]
        assert self.log.log_end_offset == self.end
        assert [data for _, data in read_all(self.log)] == [one.data for one in live]

    @invariant()
    def sizes_add_up(self) -> None:
        assert self.log.size_bytes == sum(segment.size for segment in self.log.segments)

    @invariant()
    def producers_equal_a_replay(self) -> None:
        """The last batch of each is remembered, and before it none but what it wrote: a lost snapshot may leave some out."""
        written: dict[int, list[tuple[int, int]]] = {}
        for one in self.known:
            header = read_header(one.data)
            if header.producer_id >= 0:
                written.setdefault(header.producer_id, []).append((header.base_sequence, one.base_offset))
        for producer_id, batches_of_it in written.items():
            if batches_of_it[-1][1] >= self.start:
                remembered = [(batch.first_sequence, batch.base_offset) for batch in self.log.producers.by_id[producer_id].batches]
                known = [batch for batch in remembered if batch[1] >= self.floor]
                assert known[-1:] == batches_of_it[-1:]
                assert [batch for batch in batches_of_it if batch in known] == known

    @invariant()
    def epochs_are_those_of_the_batches(self) -> None:
        starts: dict[int, int] = {}
        for one in self.known:
            if one.next_offset > self.start:
                starts.setdefault(read_header(one.data).leader_epoch, max(one.base_offset, self.start))
        entries = dict(self.log.epochs.entries)
        assert all(entries.get(epoch) == offset for epoch, offset in starts.items()), (starts, entries)

    def teardown(self) -> None:
        assert index_faults(self.log, self.disk) == []


LogAgainstList.TestCase.settings = settings(
    max_examples=150, stateful_step_count=40, deadline=None, report_multiple_bugs=False, suppress_health_check=list(HealthCheck)
)
TestLogAgainstList = pytest.mark.expects_errors("Input/output error", "No space left on device")(LogAgainstList.TestCase)
