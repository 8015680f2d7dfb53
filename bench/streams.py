"""A word count of Kafka Streams in a streams group, on Ottla and on Apache Kafka by turns: `python -m bench.streams`.

One instance with two threads repartitions the words of lines and counts them in stores with changelogs. The speed is that of the
middle of the run, between a tenth and all of the words, so that no Java machine's start is in it. The broker's CPU is that of the
whole run after the lines were written. A rebalance is measured as the time from a second instance's start until both have tasks.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import ottla
from bench.loads import Figures
from bench.report import Results, table
from bench.servers import Kafka, Ottla, Server, cpu_s
from ottla.client.types import LATEST_TIMESTAMP
from tests.support.streams_programs import StreamsApplication, StreamsInstance

PARTITIONS = 4
WORDS_PER_LINE = 10
VOCABULARY = 1_000
LIMIT_S = 120.0
JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
SETTINGS: dict[str, object] = {
    "group.streams.initial.rebalance.delay.ms": 0,
    "group.streams.min.heartbeat.interval.ms": 100,
    "group.streams.heartbeat.interval.ms": 500,
}
CACHED = "exactly once from the page cache"
"""With acknowledgements that promise what Apache Kafka's do: the records are in the page cache, and not on the disk."""
GUARANTEES: Mapping[str, str] = {"at least once": "at_least_once", "exactly once": "exactly_once_v2", CACHED: "exactly_once_v2"}


def write_lines(address: str, topic: str, words: int) -> None:
    """Write lines of words, by turns to all partitions, before the application starts."""
    with ottla.Producer(address, linger_ms=20) as producer:
        for number in range(words // WORDS_PER_LINE):
            first = number * WORDS_PER_LINE
            line = " ".join(f"word{(first + place) * 7919 % VOCABULARY}" for place in range(WORDS_PER_LINE))
            producer.send(topic, value=line.encode(), partition=number % PARTITIONS)
        producer.flush()


class FastApplication(StreamsApplication):
    """An application with a Java machine for work, not for a quick start."""

    options = JVM


class Progress:
    """The records that the application has written, by the end offsets of its topic."""

    def __init__(self, admin: ottla.Admin, topic: str) -> None:
        self._admin, self._topic = admin, topic

    def count(self) -> int:
        wanted = {(self._topic, index): LATEST_TIMESTAMP for index in range(PARTITIONS)}
        return sum(found.offset for found in self._admin.list_offsets(wanted).values())

    def wait_for(self, count: int, check: Callable[[], None]) -> float:
        """Return when there are so many. `check` fails if there can be no more."""
        deadline = time.monotonic() + LIMIT_S
        while self.count() < count:
            check()
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.count()} of {count} records after {LIMIT_S} s")
            time.sleep(0.05)
        return time.monotonic()


def word_count(server: Server, words: int, name: str, home: Path, *, with_second: bool) -> Figures:
    """Count words with one processing guarantee, in topics of their own."""
    guarantee = GUARANTEES[name]
    source, target = f"{home.name}-lines", f"{home.name}-counts"
    with ottla.Admin(server.address) as admin:
        for topic in (source, target):
            admin.create_topic(topic, PARTITIONS)
        write_lines(server.address, source, words)
        app = FastApplication(server.address, home, source, target, processing_guarantee=guarantee, num_stream_threads=2)
        cpu = cpu_s(server)
        instance = app.start("one")
        try:
            progress = Progress(admin, target)
            began = progress.wait_for(words // 10, lambda: _check(instance))
            counted = progress.count()
            ended = progress.wait_for(words, lambda: _check(instance))
            used = cpu_s(server) - cpu
            settled = {"second instance, s until both have tasks": second_instance(app, instance)} if with_second else {}
        finally:
            app.kill()
    return {
        f"word count {name}, words/s": (words - counted) / (ended - began),
        f"word count {name}, broker CPU, s per million words": used / words * 1e6,
        **settled,
    }


def _check(instance: StreamsInstance) -> None:
    if instance.process.poll() is not None:
        raise RuntimeError(f"the application ended: {instance.tail()}")


def second_instance(app: StreamsApplication, first: StreamsInstance) -> float:
    """Return how long it takes until a second instance has half of the tasks and both are running."""
    began = time.monotonic()
    second = app.start("two")
    while not (len(second.tasks.active) == len(first.tasks.active) > 0 and second.is_running() and first.is_running()):
        if time.monotonic() - began > LIMIT_S:
            raise RuntimeError(f"no rebalance in {LIMIT_S} s")
        time.sleep(0.02)
    return time.monotonic() - began


def measure(
    results: Results,
    words: int,
    rounds: int,
    names: Sequence[str],
    home: Path,
    *,
    alone: bool = False,
    with_second: bool = True,
) -> None:
    """Both brokers in turns, each turn in another order."""
    with ExitStack() as running:
        synced = running.enter_context(Ottla(SETTINGS))
        cached = running.enter_context(Ottla({**SETTINGS, "ottla.acks.all.sync": "false"})) if CACHED in names else synced
        peers: list[Server] = [] if alone else [running.enter_context(Kafka(settings=SETTINGS))]
        for turn in range(rounds):
            for name in names:
                servers = (cached if name == CACHED else synced, *peers)
                for server in servers if turn % 2 == 0 else reversed(servers):
                    place = home / f"{server.name}-{name}-{turn}".replace(" ", "-")
                    place.mkdir()
                    results.add(server.name, word_count(server, words, name, place, with_second=with_second))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.streams", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--words", type=int, default=1_000_000)
    parser.add_argument("--only", action="append", choices=GUARANTEES, help="measure with one processing guarantee")
    parser.add_argument("--count-only", action="store_true", help="start no second instance")
    parser.add_argument("--alone", action="store_true", help="measure Ottla without Apache Kafka")
    wanted = parser.parse_args()
    results = Results([Ottla.name] if wanted.alone else [Ottla.name, Kafka.name])
    with tempfile.TemporaryDirectory(prefix="streams-bench-") as home:
        names, with_second = wanted.only or [*GUARANTEES], not wanted.count_only
        measure(results, wanted.words, wanted.rounds, names, Path(home), alone=wanted.alone, with_second=with_second)
    print(table(results))


if __name__ == "__main__":
    main()
