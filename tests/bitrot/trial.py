"""One damage and what comes of it: a broker starts on it, is read, used, left alone for a while, stopped, and started again.

What may come of it: nothing that clients see; something healed, and logged; something refused, and named in the log or in the
sentence with which the start is refused. Everything else is silent loss, a loop or a traceback.
"""

from __future__ import annotations

import copy
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from ottla.net.startup.data_directory import DataDirectoryError
from ottla.records.batches.builder import build
from ottla.sim.clock import SimClock
from ottla.wire.errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    CORRUPT_MESSAGE,
    DUPLICATE_SEQUENCE_NUMBER,
    KAFKA_STORAGE_ERROR,
    NOT_COORDINATOR,
)
from tests.bitrot import damage
from tests.bitrot.damage import Case
from tests.bitrot.life import Life, Stuck
from tests.bitrot.looks import Key, Look, Partition, look
from tests.bitrot.template import GROUPS, MINUTE_MS, Acknowledged, Template, commit, idempotent, note, send

NONE, HEALED, UNKNOWABLE, REFUSED, SILENT = "no effect", "healed", "unknowable", "refused", "SILENT"
OUTCOMES = (NONE, HEALED, UNKNOWABLE, REFUSED, SILENT)
"""Unknowable is one thing alone: a log that was not closed and ends with a whole batch, behind which others were."""
TIMEOUT_S = 60
PARTITION_REFUSALS = {KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE}
GROUP_REFUSALS = {COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS}
OFFSETS = "__consumer_offsets"


@dataclass
class Verdict:
    """What came of one damage. `faults` are what must not be, `told` what the broker said of it."""

    case: Case
    outcome: str = NONE
    faults: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    def be(self, outcome: str) -> None:
        """Of several outcomes the last one of `OUTCOMES` counts."""
        self.outcome = max(self.outcome, outcome, key=OUTCOMES.index)

    def blame(self, fault: str) -> None:
        self.be(SILENT)
        if fault not in self.faults:
            self.faults.append(fault)


class Judge:
    """Holds what is seen of a broker against what has to be there. What is lost and said is not expected any more."""

    def __init__(self, template: Template, verdict: Verdict) -> None:
        self.expected = copy.deepcopy(template.seen)
        self.synced = template.synced
        self.verdict = verdict
        self._warnings: list[str] = []

    def judge(self, seen: Look, warnings: list[str]) -> None:
        """Compare what is seen; `warnings` is what the broker said in this life."""
        self._warnings = warnings
        expected = self.expected
        for name in sorted(expected.topics.keys() | seen.topics.keys()):
            if seen.topics.get(name) != expected.topics.get(name):
                self._claim(name, HEALED, f"topic {name} is {seen.topics.get(name)}, and was {expected.topics.get(name)}")
        for name, configs in expected.configs.items():
            if seen.configs.get(name) != configs:
                self.verdict.blame(f"the settings of {name} are {seen.configs.get(name)}, and were {configs}")
        for key, part in expected.partitions.items():
            if key in seen.partitions:
                self._judge_partition(key, part, seen.partitions[key])
        self._judge_commits(seen)
        if warnings:
            self.verdict.be(HEALED)

    def _claim(self, subject: str, outcome: str, fault: str) -> None:
        """Something is not as it was: fine if the log speaks of `subject`."""
        said = [line for line in self._warnings if subject in line]
        if said:
            self.verdict.be(outcome)
        else:
            self.verdict.blame(f"{fault}, and the log says nothing of it")

    def _judge_partition(self, key: Key, expected: Partition, seen: Partition) -> None:
        name = f"{key[0]}-{key[1]}"
        for wrong in seen.wrong:
            self.verdict.blame(f"{name}: {wrong}")
        for offset, code in seen.errors.items():
            if code not in PARTITION_REFUSALS:
                self.verdict.blame(f"{name}: reading at {offset} is refused with error {code}")
            self._claim(name, REFUSED, f"{name} refuses to be read at {offset}")
        if seen.wrong:
            return
        self._judge_records(key, expected, seen)
        if seen.errors:
            return
        if seen.start != expected.start:
            self._claim(name, HEALED, f"{name} begins at {seen.start}, and began at {expected.start}")
            expected.start = seen.start
        if seen.end == expected.end:
            self._judge_lookups(name, key, expected, seen)
        else:
            expected.end, expected.stable = seen.end, seen.stable
            expected.lookups, expected.epochs, expected.committed = {}, {}, []

    def _judge_lookups(self, name: str, key: Key, expected: Partition, seen: Partition) -> None:
        if key[0] == OFFSETS:
            return
        for timestamp, found in expected.lookups.items():
            if key[0] != "compacted" and seen.lookups.get(timestamp) != found:
                self._claim(name, HEALED, f"{name}: time {timestamp} is found at {seen.lookups.get(timestamp)}, and was at {found}")
        if any(seen.epochs.get(epoch) != end for epoch, end in expected.epochs.items()):
            self._claim(name, HEALED, f"{name}: the epochs end at {seen.epochs}, and ended at {expected.epochs}")
        if seen.stable != expected.stable:
            self._claim(name, HEALED, f"{name} is stable below {seen.stable}, and was below {expected.stable}")
        if expected.committed and set(seen.committed) != set(expected.committed) & set(seen.records):
            self._claim(name, HEALED, f"{name}: committed are {seen.committed}, and were {expected.committed}")

    def _judge_records(self, key: Key, expected: Partition, seen: Partition) -> None:
        """Nothing else may be read than what was written; what is not read has to be explained."""
        name = f"{key[0]}-{key[1]}"
        for offset, record in seen.records.items():
            was = expected.records.get(offset)
            if was is not None and was != record:
                self.verdict.blame(f"{name}: at {offset} is {record}, and it was {was}")
            elif was is None and key[0] != OFFSETS:
                self._claim(name, HEALED, f"{name}: at {offset} is {record}, which had been deleted")
        newest = {record.key: offset for offset, record in expected.records.items()}
        for offset in sorted(expected.records.keys() - seen.records.keys()):
            superseded = key[0] in ("compacted", OFFSETS) and newest[expected.records[offset].key] != offset
            if superseded and not seen.errors:
                del expected.records[offset]
            elif not superseded and not seen.errors:
                self._lost(name, offset, is_below=offset < self.synced.get(key, 0), is_end=offset >= seen.end)
                del expected.records[offset]

    def _lost(self, name: str, offset: int, *, is_below: bool, is_end: bool) -> None:
        """A record below the recovery point may be refused, never cut off. One above it may be cut off with a word of it."""
        is_said = any(name in line for line in self._warnings)
        if is_end and not is_below and not is_said and self.verdict.case.stop == "kill":
            self.verdict.be(UNKNOWABLE)
        elif is_below:
            self.verdict.blame(f"{name}: the record at {offset} is gone, and nothing refuses to be read")
        else:
            self._claim(name, HEALED, f"{name}: the record at {offset} is gone")

    def _judge_commits(self, seen: Look) -> None:
        for group, code in seen.group_errors.items():
            if code not in GROUP_REFUSALS:
                self.verdict.blame(f"group {group} is refused with error {code}")
            self._claim(OFFSETS, REFUSED, f"group {group} is refused")
        for place, value in self.expected.commits.items():
            if place[0] not in seen.group_errors and seen.commits.get(place) != value:
                self._claim(OFFSETS, HEALED, f"{place} has committed {seen.commits.get(place)}, and it was {value}")
        if not seen.group_errors:
            self.expected.commits = dict(seen.commits)


class Trial:
    """One case, in a directory of its own."""

    def __init__(self, case: Case, template: Template, root: Path) -> None:
        self.case = case
        self.verdict = Verdict(case)
        self._template = template
        self._path = root / "data"
        self._clock = SimClock(template.wall_ms)
        self._judge = Judge(template, self.verdict)
        self._acknowledged = copy.deepcopy(template.acknowledged)

    def run(self) -> Verdict:
        shutil.rmtree(self._path, ignore_errors=True)
        damage.copy(self._template.path, self._path)
        damage.apply(self.case, self._path)
        try:
            with _bounded():
                self._run()
        except Stuck as stuck:
            self.verdict.blame(f"it does not end: {stuck}")
        except DataDirectoryError as refusal:
            self.verdict.blame(f"a later start is refused: {refusal}")
        except Exception as escaped:
            self.verdict.blame(f"an exception escapes: {type(escaped).__name__}: {escaped}")
        return self.verdict

    def _run(self) -> None:
        try:
            life = Life(str(self._path), self._clock)
        except DataDirectoryError as refusal:
            self._refused(refusal)
            return
        with self._watched(life):
            self._look(life, closely=True)
            self._use(life)
            life.keep_house(3 * MINUTE_MS)
            self._look(life)
        life = Life(str(self._path), self._clock)
        with self._watched(life):
            self._look(life)

    @contextmanager
    def _watched(self, life: Life) -> Iterator[None]:
        """One life, to its orderly end."""
        try:
            yield
        finally:
            life.stop()
            self.verdict.told += [line for line in life.entries.warnings if line not in self.verdict.told]
            for trace in life.entries.traces:
                self.verdict.blame(f"a traceback: {trace.splitlines()[0]} … {trace.splitlines()[-1]}")

    def _look(self, life: Life, *, closely: bool = False) -> None:
        if life.failure is not None:
            return
        expected = self._judge.expected
        hints = {key: part.bases for key, part in expected.partitions.items()}
        near = [key for key in expected.partitions if closely and self.case.path.startswith(f"{key[0]}-{key[1]}/")]
        seen = look(life, self._template.wanted, hints, near)
        self._judge.judge(seen, life.entries.warnings)

    def _use(self, life: Life) -> None:
        """Produce a little to every partition, and commit an offset."""
        if life.failure is not None:
            return
        for key, part in self._judge.expected.partitions.items():
            if key[0] != OFFSETS and not (key[0] == "idempotent" and self._repeat(life, key, part)):
                keys = [b"new"] if key[0] == "compacted" else None
                self._produce(life, key, part, bytes(build(keys, [b"after"], life.clock.now().wall_ms)))
        for group in GROUPS:
            code = commit(life, group, "plain", 7)
            if not code:
                self._judge.expected.commits[group, "plain", 0] = (7, "m")
            elif code not in GROUP_REFUSALS or not any(OFFSETS in line for line in life.entries.warnings):
                self.verdict.blame(f"group {group} cannot commit: error {code}, and the log says nothing of it")

    def _repeat(self, life: Life, key: Key, part: Partition) -> bool:
        """Send the idempotent producer's last batch again: it must be known. Then its next one. False if its state was lost."""
        noted = self._acknowledged[key]
        if noted.end != part.end:
            return False
        code, offset = send(life, key, noted.last)
        if code not in (0, DUPLICATE_SEQUENCE_NUMBER, *PARTITION_REFUSALS) or (not code and offset != noted.last_offset):
            self.verdict.blame(f"idempotent-0: a repeated batch is answered by error {code}, offset {offset}")
        if code not in PARTITION_REFUSALS:
            self._produce(life, key, part, idempotent(noted, life.clock.now().wall_ms, 99))
        return True

    def _produce(self, life: Life, key: Key, part: Partition, batch: bytes) -> None:
        """One batch; it must get the offset where the partition ends."""
        name = f"{key[0]}-{key[1]}"
        code, offset = send(life, key, batch)
        if code:
            said = any(name in line for line in life.entries.warnings)
            if not said or code not in PARTITION_REFUSALS:
                self.verdict.blame(f"{name} takes no records (error {code})" + ("" if said else ", and the log says nothing of it"))
            return
        if offset != part.end:
            self.verdict.blame(f"{name}: a record is written at {offset}, and the partition ended at {part.end}")
        noted = Acknowledged()
        note(noted, batch, offset)
        part.records.update(noted.records)
        part.bases.append(offset)
        part.end = noted.end
        self._forget_lookups(part, key, noted)

    def _forget_lookups(self, part: Partition, key: Key, noted: Acknowledged) -> None:
        """What newer records change."""
        part.lookups, part.epochs = {}, {}
        if part.stable == min(noted.records):
            part.stable = noted.end
        if part.committed:
            part.committed += [offset for offset in noted.records if offset < part.stable]

    def _refused(self, refusal: DataDirectoryError) -> None:
        """A refused start names what is wrong, refuses again, and leaves everything as it was."""
        self.verdict.be(REFUSED)
        self.verdict.told.append(str(refusal))
        words = {self.case.path.rpartition("/")[2], self.case.path.partition("/")[0], "registry"}
        if not any(word in str(refusal) for word in words):
            self.verdict.blame(f"the start is refused without a name: {refusal}")
        try:
            Life(str(self._path), self._clock).stop()
            self.verdict.blame("the start was refused, and the next one was not")
        except DataDirectoryError:
            pass
        self._restore()
        life = Life(str(self._path), self._clock)
        with self._watched(life):
            self._look(life)

    def _restore(self) -> None:
        """Put back what was damaged, as somebody with a copy would."""
        source, target = self._template.path / self.case.path, self._path / self.case.path
        if source.is_dir():
            shutil.rmtree(target, ignore_errors=True)
            damage.copy(source, target)
        else:
            target.write_bytes(source.read_bytes())


@contextmanager
def _bounded() -> Iterator[None]:
    """End what goes on for ever."""

    def stuck(number: int, frame: FrameType | None) -> None:
        raise Stuck(f"not in {TIMEOUT_S} s")

    before = signal.signal(signal.SIGALRM, stuck)
    signal.setitimer(signal.ITIMER_REAL, TIMEOUT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
