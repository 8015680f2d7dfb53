"""One log on a real disk: appends, reads, look-ups and compaction, each beside what the system itself does with the same bytes."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median

from bench.figures import MB, Figure, thousands
from ottla.log.cleaner.compaction import Compaction
from ottla.log.cleaner.dirty_range import dirtiness
from ottla.log.log import Log, LogConfig
from ottla.net.disk.disk import RealDisk
from ottla.ports import Now
from ottla.records.batches.builder import build
from ottla.records.batches.header import BatchHeader, read_header

BATCH_BYTES = 16_384
ROUNDS = 5
COMPACTED_BYTES = 2048 * MB
KEYS = 1_000_000
"""About as many as a table of 32 MB holds."""


def now() -> Now:
    return Now(int(time.time() * 1000), int(time.monotonic() * 1000))


def open_log(directory: str, **config: object) -> tuple[RealDisk, Log]:
    disk = RealDisk(directory, lambda call: call())
    return disk, Log.open(disk, "t-0", LogConfig(**config), now())  # type: ignore[arg-type]  # settings of several types


def batch_of(value_bytes: int) -> tuple[bytearray, list[BatchHeader]]:
    batch = build(None, [random.randbytes(value_bytes)], now().wall_ms)
    return batch, [read_header(batch)]


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def appending(directory: str) -> list[Figure]:
    """128 MB in batches of 16 KB, page cache only, in turns with writev of the same buffer to a file."""
    batch, headers = batch_of(BATCH_BYTES - 80)
    count, ours, theirs = 128 * MB // len(batch), list[float](), list[float]()
    disk, log = open_log(directory)

    def append() -> None:
        for _ in range(count):
            log.append(batch, headers, 0, at)

    def write() -> None:
        for _ in range(count):
            os.writev(fd, [batch])

    at = now()
    for number in range(ROUNDS):
        fd = os.open(f"{directory}/plain-{number}", os.O_CREAT | os.O_WRONLY)
        theirs.append(seconds(write))
        os.close(fd)
        os.unlink(f"{directory}/plain-{number}")
        ours.append(seconds(append))
        if number + 1 < ROUNDS:
            log.delete()
            log = Log.open(disk, "t-0", LogConfig(), at)
    share = median(theirs) / median(ours)
    rate, limit = (count * len(batch) / MB / median(took) for took in (ours, theirs))
    log.close()
    disk.close()
    return [Figure("append of 16 KB batches, MB/s", f"{rate:.0f}", f"os.writev: {limit:.0f}", f"≥ 70 %: {share:.0%}", share >= 0.7)]


def reading(directory: str) -> list[Figure]:
    """What `appending` left, 1 MB at a time as fetches ask for it, in turns with pread."""
    disk, log = open_log(directory)
    path = f"{directory}/t-0/{0:020d}.log"
    size = os.path.getsize(path)
    ours, theirs = list[float](), list[float]()

    def read() -> None:
        offset, end = 0, log.log_end_offset
        while offset < end:
            part = log.read(offset, MB, until_offset=end)
            assert part is not None
            offset += len(part.read()) * end // size

    def pread() -> None:
        for position in range(0, size, MB):
            os.pread(fd, MB, position)

    fd = os.open(path, os.O_RDONLY)
    for _ in range(3 * ROUNDS):
        theirs.append(seconds(pread))
        ours.append(seconds(read))
    os.close(fd)
    share = median(theirs) / median(ours)
    rate, limit = (size / MB / median(took) for took in (ours, theirs))
    log.close()
    disk.close()
    return [Figure("sequential read, MB/s", f"{rate:.0f}", f"os.pread: {limit:.0f}", f"≥ 90 %: {share:.0%}", share >= 0.9)]


def looking_up(directory: str) -> list[Figure]:
    """Random offsets in one segment of 1 GB, warm, when its index is in the file."""
    batch, headers = batch_of(4000)
    disk, log = open_log(directory)
    at = now()
    for _ in range(MB * 1000 // len(batch)):
        log.append(batch, headers, 0, at)
    log.segments[-1].flush_indexes()
    segment, choice, times = log.segments[-1], random.Random(1), list[float]()
    for _ in range(5000):
        offset = choice.randrange(log.log_end_offset)
        started = time.perf_counter()
        segment.locate(offset)
        times.append(time.perf_counter() - started)
    took_us = median(times) * 1e6
    log.delete()
    disk.close()
    return [Figure("offset look-up in 1 GB, µs", f"{took_us:.0f}", "", "< 50", took_us < 50)]


def compacting(directory: str) -> list[Figure]:
    """2 GB of records of 100 B under a million keys, in a process of its own, with the 32 MB for keys that are the default."""
    for act in ("fill", "compact"):
        command = [sys.executable, "-m", "bench.log_files", act, directory]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    records, took_s, longest_ms, before_mb, after_mb, syncs_s, grown_mb = map(float, done.stdout.split())
    rate = records / took_s
    shrunk = f"{before_mb:.0f} to {after_mb:.0f} MB; syncs {syncs_s:.1f} s beside"
    return [
        Figure("compaction, records/s of 100 B", thousands(rate), shrunk, "≥ 400 000", rate >= 400_000),
        Figure("memory that it takes, MB", f"{grown_mb:.0f}", "32 MB for keys", "< 48", grown_mb < 48),
        Figure("CPU of one step of it, 99.9 %, ms", f"{longest_ms:.2f}", "", "< 3", longest_ms < 3),
    ]


def open_compacted(directory: str) -> tuple[RealDisk, Log]:
    return open_log(directory, cleanup_policy="compact", segment_bytes=256 * MB, file_delete_delay_ms=0)


def fill(directory: str) -> None:
    """Write what `compact` is to work on."""
    disk, log = open_compacted(directory)
    choice, at, number, value = random.Random(1), now(), 0, bytes(80)
    batches = []
    for _ in range(10_000):
        batch = build([b"key-%08d" % choice.randrange(KEYS) for _ in range(160)], [value] * 160, at.wall_ms)
        batches.append((batch, [read_header(batch)]))
    while log.size_bytes < COMPACTED_BYTES:
        batch, headers = batches[number % len(batches)]
        log.append(batch, headers, 0, at)
        number += 1
    log.roll()
    log.close()
    disk.close()


def compact(directory: str) -> None:
    """Prints the figures that `compacting` asks another process for."""
    disk, log = open_compacted(directory)
    at, before, resident = now(), log.size_bytes, resident_mb("VmRSS")
    compaction = Compaction(log, disk, dirtiness(log, 0, at), at, os.urandom(16))
    steps, syncs, started = list[float](), 0.0, time.thread_time()
    for files in compaction.run():
        steps.append(time.thread_time() - started)
        for file in files or ():
            syncs += seconds(file.sync)
        started = time.thread_time()
    longest_ms = sorted(steps)[-max(1, len(steps) // 1000)] * 1000
    grown = resident_mb("VmHWM") - resident
    print(log.log_end_offset, sum(steps), longest_ms, before / MB, log.size_bytes / MB, syncs, grown)
    log.delete()
    disk.close()


def resident_mb(field: str) -> float:
    """A line of /proc/self/status, such as VmRSS (resident now) or VmHWM (at most)."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(field)) / 1024


if __name__ == "__main__":
    {"fill": fill, "compact": compact}[sys.argv[1]](sys.argv[2])
