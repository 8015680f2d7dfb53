"""A log that lives through power cuts: random work on a simulated disk, cut off at a random operation, checked after each restart.

    python -m ottla.sim.crashes --points 20000     every seed from 0 on, until so many power cuts were survived
    python -m ottla.sim.crashes --seed 17          one seed again: the same work, the same power cuts

Everything comes from the seed. A fault is printed with the command that shows it again.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import time
from collections.abc import Callable

from ottla.log.compaction import Compaction
from ottla.log.dirtiness import dirtiness
from ottla.log.log import Log, LogConfig
from ottla.ports import Now
from ottla.records.batch import batches
from ottla.records.build import build
from ottla.records.columns import Record, open_batches
from ottla.sim import invariants
from ottla.sim.disk import SimDisk

CUTS_PER_SEED = 25
KEYS = 12
START_MS = 1_700_000_000_000
PATH = "t-0"


class PowerCut(BaseException):
    """Nothing may catch it: the machine is off."""


class CutDisk(SimDisk):
    """A simulated disk whose power fails before a chosen operation."""

    cut_at = -1

    def may(self, operation: str, path: str, size: int = 0) -> None:
        if self.operations == self.cut_at:
            self.cut_at = -1
            raise PowerCut(f"before {operation} of {path}")
        super().may(operation, path, size)


class Life:
    """One log with its disk and what is known of it. `compacts` half of the seeds."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.disk = CutDisk()
        self.now = Now(START_MS, 0)
        self.compacts = self.random.random() < 0.6
        self.config = LogConfig(
            segment_bytes=self.random.choice([400, 900, 3000]),
            index_interval_bytes=self.random.choice([0, 150, 1000]),
            cleanup_policy="compact" if self.compacts else "delete",
            delete_retention_ms=self.random.choice([0, 5000]),
            file_delete_delay_ms=self.random.choice([0, 3000]),
        )
        self.known: list[Record] = []
        self.gone: dict[bytes | None, int] = {}
        self.synced = self.recovery_point = self.cleaned = self.compacted_to = self.written_to = 0
        self.sequences = {1: 0, 2: 0}
        self.has_lost = False
        self.log = self.open()

    def open(self) -> Log:
        return Log.open(self.disk, PATH, self.config, self.now, recovery_point=self.recovery_point)

    def live(self) -> int:
        """Work through power cuts; how many there were. Raises AssertionError at the first fault."""
        for _ in range(CUTS_PER_SEED):
            self.disk.cut_at = self.disk.operations + self.random.randrange(1, 120)
            try:
                while True:
                    self.random.choice(self.acts())()
            except PowerCut:
                self.restart()
        return CUTS_PER_SEED

    def acts(self) -> list[Callable[[], None]]:
        acts = [self.append] * 8 + [self.append_idempotently] * 4 + [self.sync] * 3 + [self.roll, self.pass_time, self.checkpoint]
        return acts + [self.compact] * 3 if self.compacts else acts

    def append(self) -> None:
        self._append(-1, -1)

    def append_idempotently(self) -> None:
        producer_id = self.random.choice([1, 2])
        self.sequences[producer_id] += self._append(producer_id, self.sequences[producer_id])

    def _append(self, producer_id: int, sequence: int) -> int:
        count = self.random.randrange(1, 5)
        keys = [b"key-%d" % self.random.randrange(KEYS) for _ in range(count)]
        values = [None if self.random.random() < 0.15 else self.random.randbytes(self.random.randrange(60)) for _ in keys]
        epoch = 0 if producer_id >= 0 else -1
        codec = self.random.choice([0, 0, 3, 4])
        batch = build(
            keys, values, self.now.wall_ms, codec=codec, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
        )
        appended = self.log.append(batch, [header for _, header in batches(batch)], 0, self.now)
        assert (appended.error_code, appended.duplicate) == (0, False), f"an append was answered with {appended}"
        self.known += open_batches(batch).records()
        self.written_to = appended.last_offset + 1
        return count

    def sync(self) -> None:
        end = self.log.log_end_offset
        for file in self.log.dirty_files():
            file.sync()
        self.log.mark_synced(end)
        self.synced = end

    def roll(self) -> None:
        self.log.roll()

    def checkpoint(self) -> None:
        self.recovery_point = self.log.checkpoint()

    def pass_time(self) -> None:
        self.now = Now(self.now.wall_ms + 2000, self.now.mono_ms + 2000)
        self.log.retain(self.now)

    def compact(self) -> None:
        found = dirtiness(self.log, self.cleaned, self.now)
        if not found.dirty_bytes:
            return
        memory_bytes = self.random.choice([1, 1 << 20])
        self.compacted_to = max(self.compacted_to, found.end_offset)
        compaction = Compaction(self.log, self.disk, found, self.now, self.random.randbytes(16), memory_bytes)
        for files in compaction.run():
            for file in files or ():
                file.sync()
            self.synced = max(self.synced, found.end_offset)  # a pass begins with a sync of all that it will look at
            if self.random.random() < 0.1:
                self._append(-1, -1)
        self.cleaned = compaction.result.cleaned_offset
        self._note_gone()

    def _note_gone(self) -> None:
        """A pass that is through is durable: what it left out must never be seen again."""
        for record in self.known:
            if record.offset < self.cleaned:
                self.gone[record.key] = record.offset

    def restart(self) -> None:
        """The power is back."""
        self.disk.crash(self.random)
        self.log = self.open()
        end = self.log.log_end_offset
        last = self.written_to
        assert self.synced <= end, f"the log ends at {end}, though everything below {self.synced} had been synced"
        assert end <= last + 4, f"the log ends at {end}, though nothing was written beyond {last}"
        self._take_what_was_not_answered(last)
        self.written_to = end
        self._forget_what_was_not_synced(end)
        self.synced = max(self.synced, self.log.synced_offset)
        for producer_id in self.sequences:
            producer = self.log.producers.by_id.get(producer_id)
            self.sequences[producer_id] = producer.batches[-1].last_sequence + 1 if producer and producer.batches else 0
        faults = self.faults()
        assert not faults, "; ".join(faults[:5])

    def _take_what_was_not_answered(self, last: int) -> None:
        """The append that was cut off may be there: nobody was told that it is not."""
        self.known += [record for record in invariants.stored_records(self.log) if record.offset >= last]

    def _forget_what_was_not_synced(self, end: int) -> None:
        """In a compacted log a lost segment looks like one whose records were compacted away: later ones may be left."""
        there = {record.offset for record in invariants.stored_records(self.log)} if self.compacts else range(end)
        kept = [record for record in self.known if record.offset < end and (record.offset < self.synced or record.offset in there)]
        self.has_lost |= len(kept) < len(self.known)
        self.known = kept

    def faults(self) -> list[str]:
        log = self.log
        found = invariants.offsets_grow(log) + invariants.sizes_add_up(log) + invariants.indexes_point_at_batches(log, self.disk)
        if not (self.compacts and self.has_lost):
            found += invariants.producers_equal_a_replay(log)
        if self.compacts:
            found += invariants.newest_of_every_key_is_kept(log, self.known, self.compacted_to)
            return found + invariants.no_older_record_comes_back(log, self.gone)
        return found + invariants.offsets_are_dense(log) + invariants.acknowledged_records_are_readable(log, self.known)


def survive(seed: int) -> int:
    """Live one seed; how many power cuts there were. A fault raises AssertionError, with the way to see it again."""
    try:
        return Life(seed).live()
    except Exception as failure:
        again = f"python -m ottla.sim.crashes --seed {seed}"
        raise AssertionError(f"seed {seed}: {type(failure).__name__}: {failure}. See it again: {again}") from failure


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m ottla.sim.crashes", description="Logs that live through power cuts.")
    parser.add_argument("--points", type=int, default=20_000, help="how many power cuts to survive")
    parser.add_argument("--seconds", type=float, default=600, help="stop after so long, and say so")
    parser.add_argument("--first", type=int, default=0, help="the seed to begin with")
    parser.add_argument("--seed", type=int, help="live this seed alone")
    chosen = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    if chosen.seed is not None:
        print(f"seed {chosen.seed}: survived {survive(chosen.seed)} power cuts")
        return 0
    started, survived, seed = time.monotonic(), 0, chosen.first
    while survived < chosen.points and time.monotonic() - started < chosen.seconds:
        try:
            survived += survive(seed)
        except AssertionError as failure:
            print(failure)
            return 1
        seed += 1
    took = time.monotonic() - started
    print(f"survived {survived} power cuts of seeds {chosen.first} to {seed - 1} in {took:.0f} s")
    return 0 if survived >= chosen.points else 2


if __name__ == "__main__":
    sys.exit(main())
