"""`make bench-cluster`: three brokers of Ottla, and three of Apache Kafka 3.9.1 in ZooKeeper mode, under the same loads in turn.

Every partition has a replica on each broker, `min.insync.replicas` is 2, and what is written is acks=all. Both clusters run from
the beginning to the end, are warmed up alike, and are measured in turn, several times; so is `--processes 2` beside one process.
All processes share the machine's cores with the client. The page goes to bench/RESULTS-cluster.md after each step, so that a step
that fails takes nothing along.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from bench import cluster_processes
from bench.apache_kafka import Unavailable
from bench.cluster_loads import (
    ClusterSizes,
    controller_started,
    failed_over,
    latencies,
    prepare_controllers,
    prepare_failover,
    records,
)
from bench.cluster_sides import SESSION_MS, Side, apache_kafka, ottla, resident_mb
from bench.loads import Figures
from bench.report import Results, machine, table
from tests.support.zookeeper import ZooKeeper

RESULTS: Final = Path(__file__).with_name("RESULTS-cluster.md")
WARM_UPS: Final = 3
NOTES: Final = (
    "acks=all: on Ottla the leader has synced the records to its disk, too; Apache Kafka answers from the page cache. From that: "
    "topics with ottla.acks.all.sync=false there.",
    "100 B and 1 KB: confluent-kafka, 6 partitions, no compression. Ready-made batches: a raw socket sends the same batch of 1000 "
    "records again and again, ten in flight, to the leader of one partition. One record at a time: a raw socket.",
    "Each load begins when the topic of the one before and its files are gone, and nothing waits to be written back.",
    "CPU and memory are those of all brokers together. Java has a heap of 1 GB, as Kafka's own scripts give it.",
    f"Failover: from SIGKILL until metadata show another leader for each partition; sessions with ZooKeeper last {SESSION_MS} ms.",
    "Controller start: from the removal of /controller until a topic made after it has its leader.",
    f"Processes: {cluster_processes.CLIENTS} clients send requests of one record, {cluster_processes.IN_FLIGHT} in flight each, "
    "acks=1, one replica.",
)


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", flush=True)


class Measuring:
    """The figures so far, and the page that shows them."""

    def __init__(self, sides: Sequence[Side], rounds: int, to: Path) -> None:
        self.sides = sides
        self.rounds = rounds
        self.results = Results([side.name for side in sides], notes=list(NOTES))
        self.processes = Results([cluster_processes.TWO, cluster_processes.ONE])
        self._to = to

    def step(self, name: str, work: Callable[[], None]) -> None:
        """Do one step; if it fails, the page says so, and the next one begins."""
        try:
            work()
        except Exception as failure:
            traceback.print_exc()
            self.results.notes.append(f"{name}: it was not measured to the end ({type(failure).__name__}: {failure}).")
        self._to.write_text(self.page(), encoding="utf-8")

    def page(self) -> str:
        """The whole of RESULTS-cluster.md."""
        notes = "\n".join(f"- {note}" for note in self.results.notes)
        return (
            f"# What `make bench-cluster` measured last\n\n{machine()}; clients and brokers share its cores. Only the ratios of "
            "one run count. Higher is better for figures\nper second, lower for all others.\n\n"
            f"{table(self.results)}\n\n{table(self.processes)}\n\n{notes}\n"
        )

    def in_turn(
        self, name: str, load: Callable[[Side], Figures], *, warm_ups: int, cold: Callable[[Side], Figures] | None = None
    ) -> None:
        """Several rounds on each side after those that do not count, which may be smaller (`cold`)."""
        for number in range(warm_ups + self.rounds):
            is_counted = number >= warm_ups
            for side in self.sides:
                say(f"{name}: {side.name}, {f'round {number - warm_ups + 1} of {self.rounds}' if is_counted else 'warming up'}")
                figures = load(side) if is_counted or cold is None else cold(side)
                if is_counted:
                    self.results.add(side.name, figures)

    def once(self, name: str, look: Callable[[Side], Figures]) -> None:
        """One look at each side."""
        for side in self.sides:
            say(f"{name}: {side.name}")
            self.results.add(side.name, look(side))


def all_steps(measuring: Measuring, sizes: ClusterSizes, requests: int) -> list[tuple[str, Callable[[], None]]]:
    """What is measured, in order."""
    in_turn, once = measuring.in_turn, measuring.once
    fewer = sizes.divided(5)

    def of_records() -> None:
        in_turn("records", lambda side: records(side, sizes), warm_ups=WARM_UPS, cold=lambda side: records(side, fewer))
        once("memory", lambda side: {"resident memory of all brokers after load, MB": resident_mb(side.cluster)})

    def of_latencies() -> None:
        in_turn("latencies", lambda side: latencies(side, sizes), warm_ups=WARM_UPS, cold=lambda side: latencies(side, fewer))

    def of_failover() -> None:
        once("partitions", lambda side: prepare_failover(side, sizes.led))
        in_turn("failover", lambda side: failed_over(side, sizes.led), warm_ups=1)

    def of_controllers() -> None:
        once("partitions", lambda side: prepare_controllers(side, sizes.controlled_topics))
        in_turn("controller", lambda side: controller_started(side, sizes.controlled_topics), warm_ups=1)

    def of_processes() -> None:
        say("processes")
        cluster_processes.measure(measuring.processes, requests, measuring.rounds)

    return [
        ("processes", of_processes),
        ("latencies", of_latencies),
        ("records", of_records),
        ("failover", of_failover),
        ("controllers", of_controllers),
    ]


def kill(side: Side) -> None:
    """Nothing is measured any more: brokers need not hand over what they lead."""
    for node_id in side.cluster.members:
        side.cluster.kill(node_id)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.cluster", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often each load runs on each cluster (default 3)")
    parser.add_argument("--divide", type=int, default=1, metavar="N", help="make every load N times smaller")
    parser.add_argument("--alone", action="store_true", help="measure Ottla without Apache Kafka")
    parser.add_argument(
        "--only", nargs="+", metavar="STEP", help="of processes, latencies, records, failover and controllers only these"
    )
    parser.add_argument("--to", type=Path, default=RESULTS, help="where the page goes (default bench/RESULTS-cluster.md)")
    wanted = parser.parse_args()
    with ExitStack() as running:
        home = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="bench-cluster-")))
        try:
            zookeeper = running.enter_context(ZooKeeper(home / "zookeeper", {"tickTime": 1000}))
            sides = [make(zookeeper.address, home) for make in ([ottla] if wanted.alone else [ottla, apache_kafka])]
        except Unavailable as missing:
            print(f"It can't be measured: {missing}.", file=sys.stderr)
            return 1
        measuring = Measuring(sides, wanted.rounds, wanted.to)
        for side in sides:
            say(f"starting {side.name}")
            running.enter_context(side.cluster)
            running.callback(kill, side)
        measuring.once("memory", lambda side: {"resident memory of all brokers at start, MB": resident_mb(side.cluster)})
        sizes = ClusterSizes().divided(wanted.divide)
        for name, work in all_steps(measuring, sizes, cluster_processes.REQUESTS // wanted.divide):
            if not wanted.only or name in wanted.only:
                measuring.step(name, work)
    print(measuring.page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
