"""Speed of the log, each figure beside the limit that the system itself sets in the same run: `python -m bench.log`.

Appends beside `os.writev` of the same buffers, reads beside `os.pread`, acks=all of many producers beside one sync per request,
and what starts, recoveries, look-ups and compaction take. Writes bench/RESULTS-log.md.
"""

from __future__ import annotations

import os
import random
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.raw import batch as raw_batch
from bench.raw import connect, produce_request, reply
from ottla import Admin
from ottla.log.compaction import Compaction
from ottla.log.dirtiness import dirtiness
from ottla.log.log import Log, LogConfig
from ottla.net.disk import RealDisk
from ottla.ports import Now
from ottla.records.batch import BatchHeader, read_header
from ottla.records.build import build
from ottla.testing.process import BrokerProcess

PAGE = Path(__file__).with_name("RESULTS-log.md")
MB = 1 << 20
BATCH_BYTES = 16_384
ROUNDS = 5
PRODUCERS = 100


class Figure(NamedTuple):
    """One line of the page. `limit` is what the system did in the same run, empty where a target stands alone."""

    name: str
    value: str
    limit: str
    wanted: str
    reached: bool


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
    """256 MB in batches of 16 KB, page cache only, in turns with writev of the same buffer to a file."""
    batch, headers = batch_of(BATCH_BYTES - 80)
    count, ours, theirs = 128 * MB // len(batch), [], []
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
    ours, theirs = [], []

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
    for _ in range(ROUNDS):
        theirs.append(seconds(pread))
        ours.append(seconds(read))
    os.close(fd)
    share = median(theirs) / median(ours)
    rate, limit = (size / MB / median(took) for took in (ours, theirs))
    log.close()
    disk.close()
    return [Figure("sequential read, MB/s", f"{rate:.0f}", f"os.pread: {limit:.0f}", f"≥ 90 %: {share:.0%}", share >= 0.9)]


def looking_up(directory: str) -> list[Figure]:
    """Random offsets in one segment of 1 GB, warm."""
    batch, headers = batch_of(4000)
    disk, log = open_log(directory)
    at = now()
    for _ in range(MB * 1000 // len(batch)):
        log.append(batch, headers, 0, at)
    log.segments[-1].flush_indexes()
    segment, choice, times = log.segments[-1], random.Random(1), []
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
    """Two million records of 100 B under 200 000 keys, in batches of 160; the longest step is what others wait for."""
    disk, log = open_log(directory, cleanup_policy="compact", segment_bytes=64 * MB, file_delete_delay_ms=0)
    choice, at, records = random.Random(1), now(), 0
    value = bytes(80)
    while records < 2_000_000:
        batch = build([b"key-%08d" % choice.randrange(200_000) for _ in range(160)], [value] * 160, at.wall_ms)
        log.append(batch, [read_header(batch)], 0, at)
        records += 160
    log.roll()
    before = log.size_bytes
    compaction = Compaction(log, disk, dirtiness(log, 0, at), at, os.urandom(16))
    steps, syncs, started = [], 0.0, time.perf_counter()
    for files in compaction.run():
        steps.append(time.perf_counter() - started)
        synced = time.perf_counter()
        for file in files or ():
            file.sync()
        started = time.perf_counter()
        syncs += started - synced
    took = sum(steps)
    rate, longest_ms = records / took, sorted(steps)[-len(steps) // 1000] * 1000
    shrunk = f"{before / MB:.0f} to {log.size_bytes / MB:.0f} MB, syncs {syncs:.1f} s beside"
    log.delete()
    disk.close()
    return [
        Figure("compaction, records/s of 100 B", f"{rate:,.0f}".replace(",", " "), shrunk, "≥ 400 000", rate >= 400_000),
        Figure("one step of compaction, 99.9 %, ms", f"{longest_ms:.2f}", "", "< 3", longest_ms < 3),
    ]


def syncing(directory: str) -> list[Figure]:
    """One record per request, acks=all: 100 connections with one request in flight each, beside a sync each, one by one."""
    frame = produce_request("t", raw_batch(b"x" * 100), acks=-1)
    with BrokerProcess(f"{directory}/data", {"num.partitions": 1}) as broker:
        with Admin(bootstrap_servers=broker.address) as admin:
            admin.create_topic("t")
        first = connect(broker.address)
        for _ in range(20):
            first.sendall(frame)
            reply(first)
            time.sleep(0.02)
        alone = sum_of([first], frame, 2.0)
        connections = [first, *(connect(broker.address) for _ in range(PRODUCERS - 1))]
        together = sum_of(connections, frame, 3.0)
        for connection in connections:
            connection.close()
    plain = one_sync_each(f"{directory}/plain", 2.0)
    share = together / plain
    limit = f"write and fdatasync, one by one: {plain:.0f}; one connection: {alone:.0f}"
    return [Figure("acks=all, 100 producers, requests/s", f"{together:.0f}", limit, f"≥ 20 times: {share:.1f}", share >= 20)]


def sum_of(connections: list[socket.socket], frame: bytes, duration_s: float) -> float:
    """Requests per second of all connections, each with one request in flight."""
    counts, deadline = [0] * len(connections), time.monotonic() + duration_s

    def drive(number: int) -> None:
        while time.monotonic() < deadline:
            connections[number].sendall(frame)
            reply(connections[number])
            counts[number] += 1

    threads = [threading.Thread(target=drive, args=(number,)) for number in range(len(connections))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / duration_s


def one_sync_each(path: str, duration_s: float) -> float:
    fd, count, deadline = os.open(path, os.O_CREAT | os.O_WRONLY), 0, time.monotonic() + duration_s
    while time.monotonic() < deadline:
        os.write(fd, bytes(170))
        os.fdatasync(fd)
        count += 1
    os.close(fd)
    return count / duration_s


STARTS = """
import sys, time
from ottla.net.disk import RealDisk
from ottla.log.log import Log, LogConfig
from ottla.ports import Now
disk, config, now = RealDisk(sys.argv[1], lambda call: call()), LogConfig(), Now(int(time.time() * 1000), 0)
resident = lambda: int(open("/proc/self/statm").read().split()[1]) * 4
before = resident()
started = time.perf_counter()
logs = [Log.open(disk, f"t-{number}", config, now, clean=True) for number in range(int(sys.argv[2]))]
print(time.perf_counter() - started, resident(), before)
"""


def starting(directory: str, partitions: int = 10_000) -> list[Figure]:
    """Logs opened after a clean stop, one in a hundred with data, in a process of their own."""
    disk = RealDisk(directory, lambda call: call())
    batch, headers = batch_of(1000)
    at = now()
    disk.make_dirs([f"t-{number}" for number in range(partitions)])
    for number in range(0, partitions, 100):
        log = Log.open(disk, f"t-{number}", LogConfig(), at)
        log.append(batch, headers, 0, at)
        log.close()
    disk.close()
    done = subprocess.run([sys.executable, "-c", STARTS, directory, str(partitions)], capture_output=True, text=True, check=True)
    took, peak_kb, before_kb = map(float, done.stdout.split())
    each = (peak_kb - before_kb) * 1024 / partitions
    return [
        Figure("10 000 logs opened after a clean stop, s", f"{took:.2f}", "", "< 3", took < 3),
        Figure("resident memory then, MB", f"{peak_kb / 1024:.0f}", f"{each:.0f} B each", "< 150", peak_kb / 1024 < 150),
    ]


def recovering(directory: str) -> list[Figure]:
    """1 GB in ten partitions, 2 MB of each past its recovery point: only those are read."""
    disk = RealDisk(directory, lambda call: call())
    batch, headers = batch_of(BATCH_BYTES - 80)
    at = now()
    points = []
    for number in range(10):
        log = Log.open(disk, f"r-{number}", LogConfig(), at)
        for written in range(100 * MB // len(batch)):
            log.append(batch, headers, 0, at)
            if written == 98 * MB // len(batch):
                points.append(log.log_end_offset)
        for file in log.dirty_files():
            file.sync()
        log.checkpoint()
    disk.close()
    again = RealDisk(directory, lambda call: call())
    took = seconds(lambda: [Log.open(again, f"r-{number}", LogConfig(), at, recovery_point=points[number]) for number in range(10)])
    whole = seconds(lambda: [Log.open(again, f"r-{number}", LogConfig(), at) for number in range(10)])
    again.close()
    return [Figure("recovery of 1 GB after a kill, s", f"{took:.2f}", f"reading all of it: {whole:.2f}", "< 1", took < 1)]


def page(figures: list[Figure], took_s: float) -> str:
    head = "| what | figure | limit in the same run | wanted | |\n|---|---|---|---|---|\n"
    lines = [f"| {f.name} | {f.value} | {f.limit} | {f.wanted} | {'reached' if f.reached else '**missed**'} |" for f in figures]
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return (
        "# What `make bench-log` measured last\n\n"
        f"{os.cpu_count()} cores, Python {sys.version.split()[0]}, {took_s:.0f} s, {peak_mb} MB at most. Other work on the\n"
        "machine and the disk below it change every figure: only the shares of one run count.\n\n" + head + "\n".join(lines) + "\n"
    )


def main() -> None:
    started = time.monotonic()
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="ottla-bench-log-") as root:
        for number, bench in enumerate((appending, reading, looking_up, compacting, syncing, starting, recovering)):
            directory = f"{root}/{0 if bench is reading else number}"
            os.makedirs(directory, exist_ok=True)
            for figure in bench(directory):
                print(f"{figure.name}: {figure.value} ({figure.limit}), wanted {figure.wanted}", flush=True)
                figures.append(figure)
    PAGE.write_text(page(figures, time.monotonic() - started), encoding="utf-8")


if __name__ == "__main__":
    main()
