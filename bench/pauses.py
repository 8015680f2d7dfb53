"""Where the time of the broker's event loop goes while one producer sends a thousand records a second: `python -m bench.pauses`.

The producer is the one of bench-log (one record of 100 bytes, acks=1), alone and beside other loads. `bench.pause_probe` records
the loop from inside. Two tables for each load: what the slowest hundredth of the producer's requests waited for, and a histogram
of the loop's pauses by cause. Writes bench/RESULTS-pauses.md; names of loads as arguments run these alone, and write nothing.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import sys
import tempfile
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bench.log_served import RATE, create, delete
from bench.paced import Latency, for_s, latency, paced, paced_times
from bench.raw import batch, connect, produce_request
from ottla.testing.process import BrokerProcess

PAGE = Path(__file__).with_name("RESULTS-pauses.md")
ROOT = Path(__file__).parents[1]
SECONDS = 5
WARM_S = 1
IN_FLIGHT = 5
BELOW_MS = (0.25, 0.5, 1, 2, 5, 10)
"""Pauses are counted from each of these lengths, in ms, to the next."""

OUTSIDE = "nothing: the loop waits for events, the client or the network is slow"
LEAST_SHARE = 0.005
NOTE = f"""One producer sends {RATE} records a second, one at a time, with acks=1; a request that could not be sent in
time counts from when it was due. A pause is one iteration of the loop, between two of its questions for events. Its time is divided
among causes, and each cause is counted in the column of its own time in that pause. The shares of the system are the kernel's own
count of the time for which the thread was ready to run (/proc/thread-self/schedstat). The first latencies are without the
recording, which costs some microseconds a request."""

Span = tuple[int, int, int]
"""Begin and end in ns, and the number of a cause: 0 while the loop waits for events."""


class ProbedBroker(BrokerProcess):
    """A broker that records its loop. `spans` is there once it has stopped."""

    @property
    def _file(self) -> Path:
        return self.data_dir.with_name("spans.json")

    def command(self) -> list[str]:
        return [sys.executable, "-m", "bench.pause_probe", str(self._file), *super().command()[3:]]

    def spans(self) -> tuple[list[str], list[Span]]:
        """Return the causes by number, and the spans in order."""
        found = json.loads(self._file.read_text(encoding="utf-8"))
        numbers = iter(found["spans"])
        return found["causes"], sorted(zip(numbers, numbers, numbers, strict=True))


class Found(NamedTuple):
    """What one load shows: latencies without and with the recording, shares of the slowest requests, and pauses by cause."""

    plain: Latency
    probed: Latency
    slowest_ms: float
    shares: Mapping[str, float]
    pauses: Mapping[str, list[int]]
    worst_ms: Mapping[str, float]
    busy: Mapping[str, float]


def send(address: str, topic: str, duration_s: float, *, records: int, acks: int, rate: int) -> None:
    """Produce `rate` ready-made batches a second, with at most `IN_FLIGHT` requests unanswered."""
    frame = produce_request(topic, batch(bytes(100), records), acks=acks)
    answer_bytes = 4 + 4 + 4 + 2 + len(topic) + 4 + 4 + 2 + 8 + 8 + 8 + 4
    began, sent, done, rest = time.monotonic(), 0, 0, 0
    with connect(address) as connection:
        while (passed := time.monotonic() - began) < duration_s:
            count = min(IN_FLIGHT - (sent - done), int(passed * rate) + 1 - sent)
            if count > 0:
                connection.sendall(frame * count)
                sent += count
            elif sent == done:
                time.sleep(sent / rate - passed)
                continue
            more, rest = divmod(rest + len(connection.recv(1 << 16)), answer_bytes)
            done += more


def make_topics(address: str, _: str, duration_s: float) -> None:
    """Make and delete topics of twenty partitions."""
    number, end = 0, time.monotonic() + duration_s
    while time.monotonic() < end:
        create(address, f"made-{number}", 20)
        delete(address, [f"made-{number}"])
        number += 1


Load = Callable[[str, str, float], None]


LOADS: Mapping[str, tuple[str, Load | None]] = {
    "alone": ("alone", None),
    "small": ("beside 4000 batches of 16 KB a second, acks=1", partial(send, records=150, acks=1, rate=4000)),
    "large": ("beside 600 batches of 110 KB a second, acks=1", partial(send, records=1000, acks=1, rate=600)),
    "synced": ("beside 600 batches of 110 KB a second, acks=all", partial(send, records=1000, acks=-1, rate=600)),
    "topics": ("beside a client that makes and deletes topics of 20 partitions", make_topics),
}


@contextmanager
def beside(load: Load | None, address: str, duration_s: float) -> Iterator[None]:
    """Run a load in a process of its own inside the context."""
    if load is None:
        yield
        return
    process = multiprocessing.get_context("spawn").Process(target=load, args=(address, "bulk", duration_s))
    process.start()
    time.sleep(1)
    try:
        yield
    finally:
        process.join()
    assert process.exitcode == 0, "the load failed"


def measure(load: Load | None, seconds: float) -> Found:
    """Run one load, without the recording and with it."""
    with tempfile.TemporaryDirectory(prefix="ottla-bench-pauses-") as root:
        plain = latency([ended - began for began, ended in _run(BrokerProcess(f"{root}/plain"), load, seconds)])
        broker = ProbedBroker(f"{root}/data", environment={"PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))})
        times = _run(broker, load, seconds)
        causes, spans = broker.spans()
    return judge(plain, times, causes, spans)


def _run(broker: BrokerProcess, load: Load | None, seconds: float) -> list[tuple[float, float]]:
    with broker:
        for topic in ("paced", "bulk"):
            create(broker.address, topic, retention_ms=-1)
        paced(broker.address, "paced", RATE, for_s(WARM_S))
        with beside(load, broker.address, seconds + 1.5):
            return paced_times(broker.address, "paced", RATE, for_s(seconds))


def judge(plain: Latency, times: Sequence[tuple[float, float]], causes: list[str], spans: list[Span]) -> Found:
    """Divide the time of the slowest hundredth of requests, and that of the loop's pauses, among causes."""
    began, ended = int(times[0][0] * 1e9), int(times[-1][1] * 1e9)
    spans = [span for span in spans if began <= span[0] and span[1] <= ended]
    slowest = sorted(times, key=lambda pair: pair[1] - pair[0])[-len(times) // 100 :]
    begins, waits, total_ns = [span[0] for span in spans], Counter[str](), 0
    for start, end in slowest:
        start_ns, end_ns = int(start * 1e9), int(end * 1e9)
        total_ns += end_ns - start_ns
        left_ns = end_ns - start_ns
        for at in range(max(0, bisect_left(begins, start_ns) - 2), bisect_left(begins, end_ns)):
            shared_ns = min(spans[at][1], end_ns) - max(spans[at][0], start_ns)
            if shared_ns > 0 and spans[at][2] != 0:
                waits[causes[spans[at][2]]] += shared_ns
                left_ns -= shared_ns
        waits[OUTSIDE] += max(left_ns, 0)
    shares = {cause: ns / total_ns for cause, ns in waits.most_common()}
    probed = latency([end - start for start, end in times])
    pauses, worst_ms, busy = histogram(causes, spans)
    used = {cause: ns / (ended - began) for cause, ns in busy.most_common()}
    return Found(plain, probed, total_ns / 1e6 / len(slowest), shares, pauses, worst_ms, used)


def histogram(causes: list[str], spans: list[Span]) -> tuple[dict[str, list[int]], dict[str, float], Counter[str]]:
    """Return the counts of pauses by cause and length, the longest in ms, and the total time in ns by cause."""
    counts: dict[str, list[int]] = {}
    worst_ms, busy, own = dict[str, float](), Counter[str](), Counter[str]()
    for begin, end, number in [*spans, (0, 0, 0)]:
        if number == 0:
            for cause, ns in own.items():
                busy[cause] += ns
                worst_ms[cause] = max(worst_ms.get(cause, 0), ns / 1e6)
                column = sum(ns / 1e6 >= least for least in BELOW_MS)
                if column:
                    counts.setdefault(cause, [0] * len(BELOW_MS))[column - 1] += 1
            own.clear()
        else:
            own[causes[number]] += end - begin
    return counts, worst_ms, busy


def section(title: str, found: Found) -> str:
    """Return the two tables of a load."""
    lines = [
        f"## {title[0].upper()}{title[1:]}",
        "",
        f"p50 / p99 / worst, ms: {found.plain}; while the loop is recorded: {found.probed}.",
        "",
        f"| the slowest hundredth of requests ({found.slowest_ms:.2f} ms each) waited for | share |",
        "|---|---|",
        *(f"| {cause} | {share:.1%} |" for cause, share in found.shares.items() if share >= LEAST_SHARE),
        "",
        f"| cause of pauses | share of time | {' | '.join(f'≥ {least} ms' for least in BELOW_MS)} | longest, ms |",
        f"|---|---|{'---|' * len(BELOW_MS)}---|",
    ]
    for cause, share in found.busy.items():
        counts = found.pauses.get(cause, [0] * len(BELOW_MS))
        if share >= LEAST_SHARE or any(counts):
            cells = " | ".join(str(count or "") for count in counts)
            lines.append(f"| {cause} | {share:.1%} | {cells} | {found.worst_ms[cause]:.2f} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.pauses", description=__doc__)
    parser.add_argument("loads", nargs="*", help=f"some of {', '.join(LOADS)}")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"how long each load runs, twice (default {SECONDS})")
    wanted = parser.parse_args()
    if not set(wanted.loads) <= set(LOADS):
        parser.error(f"choose among {', '.join(LOADS)}")
    sections = []
    for name in wanted.loads or LOADS:
        title, load = LOADS[name]
        sections.append(section(title, measure(load, wanted.seconds)))
        print(sections[-1], flush=True)
    if not wanted.loads:
        head = f"# What `make bench-pauses` measured last\n\n{os.cpu_count()} cores, Python {platform.python_version()}. {NOTE}\n\n"
        PAGE.write_text(head + "\n".join(sections), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
