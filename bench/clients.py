"""Ottla's clients beside confluent-kafka, aiokafka and kafka-python: `make bench-clients`, and part of `make bench`.

    python -m bench.clients [--rounds 3] [--seconds 420] [--only iterate] [--no-kafka]
    python -m bench.clients --serve            prints the options --running NAME=ADDRESS=PID of filled brokers, until its input ends
    python -m bench.clients --running Ottla=127.0.0.1:9092=123 --only "send 1 KB"

Each client does each task in a process of its own, in turn, with the brokers of Ottla and of Apache Kafka. The page shows medians.
The second form starts brokers alone, so that the third can measure single rows in a quiet minute.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import ottla
from bench.apache_kafka import Unavailable
from bench.client_jobs import BATCH_BYTES, LINGER_MS, PARTITIONS, TASKS, WAITING_LINGER_MS, Figures, Job
from bench.report import Results, machine, number, spread
from bench.servers import Kafka, Ottla, Server

RESULTS = Path(__file__).with_name("RESULTS-clients.md")
CLIENTS = tuple(TASKS)
OURS, CONFLUENT, AIOKAFKA = CLIENTS[:3]
SIZES = {100: "100 B", 1000: "1 KB"}
PRIORITY = -15
JOB_S = 120
SECONDS = 420
SLOW = {"aiokafka": 8, "kafka-python": 16}
"""By how much less these clients do, so that they take about as long."""


class Running(NamedTuple):
    """A broker that another process has started and filled."""

    name: str
    address: str
    pid: int

    @classmethod
    def parse(cls, text: str) -> Running:
        name, address, pid = text.split("=")
        return cls(name, address, int(pid))

    def __str__(self) -> str:
        return f"--running '{self.name}={self.address}={self.pid}'"


class Wanted(NamedTuple):
    """A goal for Ottla's figure: `sign` is ≥ or ≤, `of` a client whose figure is multiplied, or None."""

    sign: str
    factor: float
    of: str | None = None

    def verdict(self, figures: Mapping[str, float]) -> str:
        """Return the goal, and whether the medians of a row reach it. Return nothing for a goal without figures."""
        if OURS not in figures or (self.of is not None and self.of not in figures):
            return ""
        limit = self.factor * (figures[self.of] if self.of is not None else 1)
        reached = figures[OURS] >= limit if self.sign == "≥" else figures[OURS] <= limit
        goal = number(self.factor) if self.of is None else f"{self.factor:g} times {self.of}"
        return f"{self.sign} {goal}: {'reached' if reached else '**missed**'}"


GOALS: Mapping[str, Sequence[Wanted]] = {
    "send": (Wanted("≥", 1, CONFLUENT), Wanted("≥", 3, AIOKAFKA)),
    "send_table 100 B": (Wanted("≥", 5e6),),
    "iterate": (Wanted("≥", 3, CONFLUENT),),
    "iterate, asyncio": (Wanted("≥", 5, AIOKAFKA),),
    "arrow 100 B": (Wanted("≥", 1e7),),
    "latency": (Wanted("≤", 1, CONFLUENT),),
    "memory": (Wanted("≤", 1.3),),
    "start": (Wanted("≤", 150),),
}
"""Goals by the beginning of a row's name. Those of CPU time are only shown."""


@dataclass(frozen=True)
class Sizes:
    """The number of records of 100 B of each task. There are a fifth as many records of 1 KB."""

    sent: int = 400_000
    queued: int = 2_000_000
    read: int = 2_000_000
    latencies: int = 1_000
    waiting: int = 1_000_000

    def divided(self, by: int) -> Sizes:
        return Sizes(self.sent // by, self.queued // by, self.read // by, max(200, self.latencies // by), self.waiting // by)


def row_jobs(server: Server | Running, sizes: Sizes) -> Iterator[tuple[str, Job]]:
    """Yield the name of each row, and its job without a client."""
    base = Job("", "", server.address, "written", 0)
    for size, label in SIZES.items():
        share = size // 100 // 2 or 1
        for acks in ("1", "all"):
            sends = replace(base, size=size, acks=acks)
            yield f"send {label}, acks={acks}", replace(sends, task="send", count=sizes.sent // share)
            for task in ("send_values", "send_table"):
                yield f"{task} {label}, acks={acks}", replace(sends, task=task, count=sizes.queued // share)
        reads = replace(base, size=size, topic=topic_of(size), count=sizes.read // share)
        for task in ("iterate", "iterate, asyncio", "arrow"):
            yield f"{task} {label}", replace(reads, task=task)
    for acks in ("1", "all"):
        for task in ("latency", "latency, asyncio"):
            yield f"{task}, acks={acks}", replace(base, task=task, acks=acks, linger_ms=0, count=sizes.latencies)
    yield (
        "memory of waiting records of 100 B",
        replace(base, task="memory", linger_ms=WAITING_LINGER_MS, count=sizes.waiting, broker_pid=server.pid),
    )
    yield "start: import and first producer", replace(base, task="start")


def topic_of(size: int) -> str:
    return f"read-{size}"


def client_jobs(job: Job) -> Iterator[Job]:
    """Yield the job of each client that has the task."""
    for client, tasks in TASKS.items():
        if job.task in tasks:
            slower = SLOW.get(client, 1) if "latency" not in job.task else 1
            yield replace(job, client=client, count=job.count // slower)


def fill(server: Server | Running, sizes: Sizes) -> None:
    """Make the topics, and write the records that are read."""
    import pyarrow

    with ottla.Admin(server.address) as admin:
        admin.create_topics([ottla.NewTopic(name, PARTITIONS, 1) for name in ("written", *map(topic_of, SIZES))])
    for name, job in row_jobs(server, sizes):
        if name.startswith("iterate ") and job.task == "iterate":
            rows = job.count // 10
            table = pyarrow.table({"value": pyarrow.array([job.value] * rows, pyarrow.binary())})
            with ottla.Producer(server.address) as producer:
                for turn in range(12):  # more than are read: a loop ends before it waits
                    producer.send_table(job.topic, table, partition=turn % PARTITIONS)


def run(job: Job) -> Figures:
    """Run a job in a process of its own. Raises `RuntimeError` if it fails."""
    command = [sys.executable, "-m", "bench.client_jobs", str(job)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=JOB_S)
    if done.returncode:
        raise RuntimeError(f"{job.client}, {job.task}: {done.stderr[-500:]}")
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def measure(server: Server | Running, results: Results, sizes: Sizes, wanted: argparse.Namespace) -> int:
    """Add the figures of all rounds to `results`. Begin no round that would not end in time. Return their number."""
    rounds, seconds = wanted.rounds, wanted.seconds
    began, done = time.monotonic(), 0
    while done < rounds and (time.monotonic() - began) * (done + 1) / max(done, 1) <= seconds:
        for name, row in row_jobs(server, sizes):
            if not name.startswith(tuple(wanted.only)):
                continue
            jobs = list(client_jobs(row))
            for job in jobs if done % 2 else reversed(jobs):
                results.add(job.client, {f"{name}, {unit}": value for unit, value in run(job).items()})
        done += 1
    return done


def verdicts(name: str, figures: Mapping[str, float]) -> str:
    """Return the goals of a row. The longest beginning of its name has them."""
    if "CPU" in name or "p50" in name:
        return ""
    found = max((start for start in GOALS if name.startswith((f"{start} ", f"{start},"))), key=len, default=None)
    goals = GOALS[found] if found is not None else ()
    return "; ".join(filter(None, (goal.verdict(figures) for goal in goals)))


def table(results: Results) -> str:
    """Return Markdown with a line for each figure: medians with the range of the rounds."""
    head = ["median (range)", *CLIENTS, "ottla ÷ confluent-kafka", "to reach"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for name, rounds in results.rounds.items():
        medians = {client: value for client in CLIENTS if (value := results.median(name, client)) is not None}
        cells = [number(medians.get(client)) + (spread(rounds[client]) if client in rounds else "") for client in CLIENTS]
        ratio = f"{medians[OURS] / medians[CONFLUENT]:.2f}" if {OURS, CONFLUENT} <= set(medians) else "-"
        lines.append(f"| {' | '.join([name, *cells, ratio, verdicts(name, medians)])} |")
    return "\n".join(lines)


def page(tables: Mapping[str, str], notes: Sequence[str]) -> str:
    """Return the whole page of results."""
    shown = "\n\n".join(f"## {broker}\n\n{each}" for broker, each in tables.items())
    versions = ", ".join(f"{client} {version(client)}" for client in CLIENTS)
    said = "\n".join(f"- {note}" for note in notes)
    return f"""# What `make bench-clients` measured last

{machine()}. {versions}. Clients and broker share the cores; such
figures differ from machine to machine and from hour to hour, so that only the ratios of one run count. Higher is better for figures
per second, lower for all others.

{shown}

{said}
"""


def notes() -> list[str]:
    slower = ", ".join(f"{client} 1/{by}" for client, by in SLOW.items())
    return [
        f"Each figure is of a process of its own, and begins once its client is connected. Slow clients do less: {slower}.",
        f"Producers: {PARTITIONS} partitions, linger {LINGER_MS} ms (latency: 0), batches of {BATCH_BYTES} bytes, no compression, "
        "idempotent with acks=all, until all records are acknowledged. Ottla's broker syncs to disk before it answers acks=all.",
        "send_values: lists of 1000 values; confluent-kafka's is produce_batch. send_table: one table of Arrow.",
        "Iterate: a loop over single records that takes the size of each value. confluent-kafka: consume(500) in a loop, with "
        "fetch.queue.backoff.ms=5: by default it fetches nothing for a second once 100 000 records of a partition wait.",
        "Latency: one record at a time, until its outcome is known.",
        "Memory: the growth of the process while records wait for a stopped broker, divided by the bytes of their values.",
        "Start: without the start of Python itself. aiokafka's producer connects in its start().",
    ]


def options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.clients", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="the number of runs of each job (default 3)")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help=f"no round begins that ends later (default {SECONDS}, each broker)"
    )
    parser.add_argument("--divide", type=int, default=1, metavar="N", help="make every job N times smaller")
    parser.add_argument(
        "--only", nargs="+", default=[""], metavar="TEXT", help="only rows whose names begin with one of these texts"
    )
    parser.add_argument("--serve", action="store_true", help="start and fill brokers, without measuring anything")
    parser.add_argument(
        "--running", type=Running.parse, action="append", metavar="NAME=ADDRESS=PID", help="measure with this broker"
    )
    parser.add_argument("--no-kafka", action="store_true", help="measure with Ottla's broker alone")
    parser.add_argument("--to", type=Path, default=RESULTS, help="the page to write")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    wanted = options(argv)
    try:
        os.nice(PRIORITY)
    except PermissionError:
        print("Measured without a raised priority, which needs rights.", file=sys.stderr)
    tables, said = {}, notes()
    sizes = Sizes().divided(wanted.divide)
    with ExitStack() as stack:
        for server in wanted.running or started(stack, sizes, said, with_kafka=not wanted.no_kafka):
            if wanted.serve:
                print(Running(server.name, server.address, server.pid), flush=True)
                continue
            results = Results(list(CLIENTS))
            rounds = measure(server, results, sizes, wanted)
            tables[f"{server.name}, {rounds} round{'s' * (rounds != 1)}"] = table(results)
            stack.close()  # an idle broker costs something too
        if wanted.serve:
            sys.stdin.read()
            return 0
    wanted.to.write_text(page(tables, said), encoding="utf-8")
    print(wanted.to.read_text(encoding="utf-8"))
    return 0


def started(stack: ExitStack, sizes: Sizes, said: list[str], *, with_kafka: bool) -> Iterator[Server]:
    """Yield each broker once it is filled. `stack` stops it. Note in `said` why there is no other."""
    makers: list[Callable[[], Server]] = [Ottla, Kafka] if with_kafka else [Ottla]
    for make in makers:
        try:
            server = stack.enter_context(make())
        except Unavailable as missing:
            said.append(f"Measured without Apache Kafka: {missing}.")
            continue
        fill(server, sizes)
        yield server


if __name__ == "__main__":
    sys.exit(main())
