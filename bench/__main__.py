"""`make bench`: the same loads on Ottla and on Apache Kafka, in turn, several times; the table goes to bench/RESULTS.md."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bench import clients, group_starts, groups, security, spark, spark_formats, transaction_starts, transactions
from bench.apache_kafka import Unavailable, class_path, java
from bench.loads import Sizes, everything
from bench.report import Results, machine, page
from bench.servers import QUICK_GROUPS, Kafka, Ottla, Server, resident_mb

RESULTS = Path(__file__).with_name("RESULTS.md")
STARTS = 3
NOTES = (
    "acks=all means synced to disk on Ottla, as its default; Apache Kafka answers from the page cache.",
    "100 B and 1 KB: confluent-kafka, 4 partitions, acks=1, no compression. On few cores the client sets their pace.",
    "Ready-made batches: a raw socket sends the same batch of 1000 records again and again, so that the broker sets the pace.",
    "Groups: raw sockets, all members played by one process. An offset commit is acks=all: Ottla syncs each of the partitions of "
    "__consumer_offsets that groups commit to, Apache Kafka none. From the page cache: with ottla.acks.all.sync=false there.",
    "Transactions: raw sockets, all producers played by one process; as those of Kafka 4, on 4 partitions. A producer that is "
    "told to come back later does so after 20 ms, as Kafka's own. From the page cache: with ottla.acks.all.sync=false there.",
    "TLS: version 1.3, a certificate of an elliptic curve. SCRAM logins: raw sockets without TLS, eight at a time, with 4096 "
    "iterations that the client has computed before.",
    "CPU is that of the broker's process. Requests and produce latencies: raw socket, ready-made frames, one record of 100 bytes.",
)


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", flush=True)


def kafka() -> Kafka:
    return Kafka(settings=QUICK_GROUPS)


def makers(results: Results, wanted: argparse.Namespace) -> list[Callable[[], Server]]:
    """How to make each server that can run here, Ottla first."""
    if wanted.alone:
        results.notes.append("Measured alone, as asked.")
        return [Ottla]
    if wanted.beside is not None:
        results.notes.append("Measured beside another checkout of Ottla, as asked.")
        return [Ottla, partial(Ottla, checkout=wanted.beside)]
    try:
        java()
        class_path()
    except Unavailable as missing:
        results.notes.append(f"Measured without Apache Kafka: {missing}.")
        return [Ottla]
    return [Ottla, kafka]


def start_up(make: Callable[[], Server], results: Results) -> None:
    """Start it several times from nothing, look, and stop it."""
    for _ in range(STARTS):
        with make() as server:
            time.sleep(1)
            memory = resident_mb(server)
            results.add(server.name, {"start to first answer, s": server.started_in_s, "resident memory at start, MB": memory})


def load(servers: list[Server], results: Results, sizes: Sizes, rounds: int) -> None:
    for server in servers:
        say(f"{server.name}: warming up")
        everything(server, sizes.divided(10))
    for number in range(rounds):
        for server in servers:
            say(f"{server.name}: round {number + 1} of {rounds}")
            results.add(server.name, everything(server, sizes))
    for server in servers:
        results.add(server.name, {"resident memory after load, MB": resident_mb(server)})


def with_groups(results: Results, divide: int, rounds: int) -> None:
    say("groups")
    groups.measure(results, groups.Sizes().divided(divide), rounds, alone=not results.has_peer)
    say("starts with many groups")
    for figures in group_starts.measure(group_starts.GROUPS // divide, rounds):
        results.add(results.servers[0], figures)


def with_transactions(results: Results, divide: int, rounds: int) -> None:
    say("transactions")
    transactions.measure(results, transactions.Sizes().divided(divide), rounds, alone=not results.has_peer)
    say("starts with many transactional ids")
    for figures in transaction_starts.measure(transaction_starts.IDS // divide, rounds):
        results.add(results.servers[0], figures)


def with_security(results: Results, divide: int, rounds: int) -> None:
    say("security")
    security.measure(results, security.Sizes().divided(divide), rounds, alone=not results.has_peer)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often each load runs on each broker (default 3)")
    parser.add_argument("--divide", type=int, default=1, metavar="N", help="make every load N times smaller")
    parser.add_argument("--no-spark", action="store_true", help="leave Spark out")
    parser.add_argument("--no-groups", action="store_true", help="leave groups out")
    parser.add_argument("--no-transactions", action="store_true", help="leave transactions out")
    parser.add_argument("--no-security", action="store_true", help="leave TLS and logins out")
    parser.add_argument("--no-clients", action="store_true", help="leave Ottla's clients beside those of others out")
    parser.add_argument("--alone", action="store_true", help="measure Ottla without Apache Kafka")
    parser.add_argument("--beside", type=Path, metavar="DIR", help="measure another checkout of Ottla in Apache Kafka's place")
    parser.add_argument("--to", type=Path, default=RESULTS, help="where the table goes (default bench/RESULTS.md)")
    return parser.parse_args()


def main() -> int:
    wanted, results = options(), Results([], notes=list(NOTES))
    made = makers(results, wanted)
    for make in made:
        say(f"starting {STARTS} times")
        start_up(make, results)
    with ExitStack() as running:
        servers = [running.enter_context(make()) for make in made]
        results.servers = [server.name for server in servers]
        load(servers, results, Sizes().divided(wanted.divide), wanted.rounds)
        if not wanted.no_spark:
            say("Spark")
            spark.measure(results, servers, wanted.rounds, wanted.divide)
            spark_formats.measure(results, servers, wanted.rounds, wanted.divide)
    if not wanted.no_groups:
        with_groups(results, wanted.divide, wanted.rounds)
    if not wanted.no_transactions:
        with_transactions(results, wanted.divide, wanted.rounds)
    if not wanted.no_security:
        with_security(results, wanted.divide, wanted.rounds)
    wanted.to.write_text(page(results, machine()), encoding="utf-8")
    print(wanted.to.read_text(encoding="utf-8"))
    if not wanted.no_clients:
        say("clients")
        return clients.main([f"--divide={wanted.divide}", *(() if results.has_peer else ("--no-kafka",))])
    return 0


if __name__ == "__main__":
    sys.exit(main())
