"""Looks at the broker's process from outside: memory, open files, checkpoints, and what its log says."""

from __future__ import annotations

import os
import re
import statistics
import threading
import time
from pathlib import Path
from typing import NamedTuple

import psutil

from ottla.log.checkpoints import HIGH_WATERMARKS, RECOVERY_POINTS
from ottla.testing import BrokerProcess

EVERY_S = 1.0
CHECKPOINT_EVERY_S = 1.0
CHECKPOINT_LATE_S = 9.0
SYNCS_BEFORE = 100
"""How much later than its interval a checkpoint may be: so many seconds, and what the disk takes for so many syncs.

Every partition that was written to is synced first, and a disk that others use, too, may take a second for each.
"""

MOST_GROWTH_MB_A_MINUTE = 2.0
"""What the broker may grow by in the second half of its longest life."""

GRAIN_MB = 4.0
"""What is no growth, however short the time: the allocator takes memory in such pieces."""

MOST_MORE_FILES = 40
"""How many more files may be open in the second half of its longest life than in the first; segments come and go."""

MOST_GROWTH_OF_LIVES = 1.15
LIVES_GRAIN_MB = 8.0
"""How much more a late life may hold than an early one: a share of it, and so much beside."""

MOST_FAULTS = 40

LINE = re.compile(r"\S+Z (\w+) +([\w.]+): ")
"""How a line of Ottla's own begins: time, level, logger."""


class Sample(NamedTuple):
    """What one process held `age_s` seconds after its start."""

    age_s: float
    rss_mb: float
    files: int


class Life:
    """One process of the broker, from its start to its end."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.samples: list[Sample] = []

    @property
    def seconds(self) -> float:
        return self.samples[-1].age_s if self.samples else 0.0


class Watch(threading.Thread):
    """Samples the process that runs. `begin` and `end` are called by whoever starts and stops it."""

    def __init__(self, broker: BrokerProcess) -> None:
        super().__init__(name="watch", daemon=True)
        self.stopping = threading.Event()
        self.lives: list[Life] = []
        self._faults: list[str] = []
        self.oldest_checkpoint_s = 0.0
        self.slowest_sync_s = 0.0
        self.is_loaded = True
        """Whether records are written all the time; else there is nothing new for a checkpoint."""
        self.lines = 0
        self.warnings = 0
        self._broker = broker
        self._probe = broker.data_dir.with_name("probe")
        self._sync_s = 0.0
        self._late: dict[str, str] = {}
        self._lock = threading.Lock()
        self._life: Life | None = None
        self._read = 0

    @property
    def faults(self) -> list[str]:
        return [*self._faults, *self._late.values()]

    def begin(self) -> None:
        with self._lock:
            self._life = Life()
            self.lives.append(self._life)

    def end(self) -> None:
        with self._lock:
            self._life = None

    def run(self) -> None:
        last = time.monotonic()
        while not self.stopping.wait(EVERY_S):
            self._sync_as_others_do()
            now = time.monotonic()
            is_punctual, last = now - last < 3 * EVERY_S, now  # a machine that stood still says nothing about the broker
            with self._lock:
                if self._life is not None and self._broker.is_running:
                    self._sample(self._life, now)
                    if is_punctual and self.is_loaded:
                        self._look_at_checkpoints(self._life, now)
            self.read_log()

    def _sample(self, life: Life, now: float) -> None:
        try:
            process = psutil.Process(self._broker.pid)
            life.samples.append(Sample(now - life.began, process.memory_info().rss / 1e6, process.num_fds()))
        except (psutil.Error, RuntimeError):
            return  # it ended just now

    def _sync_as_others_do(self) -> None:
        """How long the disk takes now; a slow sync is forgotten slowly."""
        began = time.monotonic()
        with self._probe.open("wb") as file:
            file.write(b"probe")
            file.flush()
            os.fsync(file.fileno())
        took_s = time.monotonic() - began
        self._sync_s = max(took_s, 0.9 * self._sync_s)
        self.slowest_sync_s = max(self.slowest_sync_s, took_s)

    def _look_at_checkpoints(self, life: Life, now: float) -> None:
        for name in (RECOVERY_POINTS, HIGH_WATERMARKS):
            path = self._broker.data_dir / name
            age_s = min(now - life.began, time.time() - path.stat().st_mtime if path.exists() else now)
            self.oldest_checkpoint_s = max(self.oldest_checkpoint_s, age_s)
            if age_s > CHECKPOINT_EVERY_S + CHECKPOINT_LATE_S + SYNCS_BEFORE * self._sync_s:
                self._late.setdefault(name, f"{name} was written {age_s:.0f} s ago, though the disk syncs in {self._sync_s:.3f} s")

    def read_log(self) -> None:
        """Every line is Ottla's own, and none an error."""
        path = self._broker.log_path
        if not path.exists():
            return
        with path.open("rb") as log:
            log.seek(self._read)
            data = log.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        strange: list[str] = []
        for line in whole.decode(errors="replace").splitlines():
            self.lines += 1
            found = LINE.match(line)
            if found is None or not found[2].startswith("ottla"):
                strange.append(line)
            elif found[1] == "WARNING":
                self.warnings += 1
            elif found[1] != "INFO":
                self._fault(f"the broker's log says: {line[:300]}")
        if strange:
            self._fault("the broker's log has lines that are no messages of its own:\n" + "\n".join(strange)[:2000])

    def _fault(self, sentence: str) -> None:
        if sentence not in self._faults and len(self._faults) < MOST_FAULTS:
            self._faults.append(sentence)


def slope_mb_a_minute(samples: list[Sample]) -> float:
    """By least squares."""
    return statistics.linear_regression([one.age_s for one in samples], [one.rss_mb for one in samples]).slope * 60


def growth(lives: list[Life]) -> tuple[str, list[str]]:
    """A sentence about memory and files, and what is wrong with them."""
    longest = max(lives, key=lambda life: life.seconds)
    half = len(longest.samples) // 2
    if half < 10:
        return "no life was long enough to judge its memory", []
    early, late = longest.samples[:half], longest.samples[half:]
    slope = slope_mb_a_minute(late)
    grown = slope * (late[-1].age_s - late[0].age_s) / 60
    more_files = max(one.files for one in late) - max(one.files for one in early)
    said = f"longest life {longest.seconds:.0f} s: {late[-1].rss_mb:.0f} MB, {slope:+.1f} MB a minute in its second half, "
    said += f"{max(one.files for one in late)} open files ({more_files:+d})"
    faults = []
    if slope > MOST_GROWTH_MB_A_MINUTE and grown > GRAIN_MB:
        faults.append(f"memory is not flat: {slope:.1f} MB a minute, {grown:.1f} MB, in the second half of the longest life")
    if more_files > MOST_MORE_FILES:
        faults.append(f"open files are not flat: {more_files} more in the second half of the longest life")
    return said, faults + _growth_of_lives(lives)


def _growth_of_lives(lives: list[Life]) -> list[str]:
    """Lives of one age are compared, the first third with the last: what a start reads may grow, what it keeps may not."""
    lasting = [life for life in lives if len(life.samples) >= 10]
    third = len(lasting) // 3
    if not third:
        return []
    age = min(len(life.samples) for life in lasting) - 1
    early, late = (statistics.median(life.samples[age].rss_mb for life in part) for part in (lasting[:third], lasting[-third:]))
    if late > early * MOST_GROWTH_OF_LIVES + LIVES_GRAIN_MB:
        return [f"memory is not flat: {early:.0f} MB in the first lives, {late:.0f} MB in the last ones at the same age"]
    return []


def is_marked_clean(data_dir: Path) -> bool:
    """Whether the last stop left the mark that spares the next start its scan."""
    from ottla.log.checkpoints import CLEAN_SHUTDOWN

    return (data_dir / CLEAN_SHUTDOWN).exists()
