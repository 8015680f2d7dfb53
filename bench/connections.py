"""What connections cost: memory of the broker for each, and how quick a producer is beside 100 and beside 10 000 of them.

    python -m bench.connections [--connections 10000] [--seconds 10] [--kafka]

Two in three are idle after their first request; the others take turns in asking, so many requests a second in all. The memory is
what the broker's process has to itself; what the system keeps for the sockets is not in it.
"""

from __future__ import annotations

import argparse
import random
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import psutil

from bench.loads import topic_of
from bench.paced import Latency, for_s, latency, paced
from bench.raw import reply
from bench.servers import Kafka, Ottla, Server
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.framing import FrameHeader, encode_request

METADATA = 3
FEW = 100
ASKED_PER_S = 200
PRODUCED_PER_S = 100
SETTLE_S = 2
ADDRESSES = 20


class Cost(NamedTuple):
    """Of a number of connections: bytes of the broker's own memory for each beyond the few, and a producer's latencies."""

    connections: int
    bytes_each: float
    latency: Latency


def frame() -> bytes:
    body = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    return b"".join(bytes(part) for part in encode_request(FrameHeader(METADATA, 8, 1, "bench"), body))


def opened(address: str, count: int) -> list[socket.socket]:
    """So many connections from some addresses, each of which has asked once."""
    host, _, port = address.rpartition(":")
    asked, found = frame(), list[socket.socket]()
    for number in range(count):
        one = socket.socket()
        one.settimeout(60)
        one.bind((f"127.0.0.{1 + number % ADDRESSES}", 0))
        one.connect((host, int(port)))
        one.sendall(asked)
        reply(one)
        found.append(one)
    return found


@contextmanager
def asking(connections: list[socket.socket]) -> Iterator[None]:
    """Meanwhile a third of the connections take turns in asking."""
    over, asked, active = threading.Event(), frame(), connections[::3]

    def ask() -> None:
        due, rng = time.monotonic(), random.Random(1)
        while not over.is_set():
            one = rng.choice(active)
            one.sendall(asked)
            reply(one)
            due += 1 / ASKED_PER_S
            time.sleep(max(0.0, due - time.monotonic()))

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def own_bytes(server: Server) -> int:
    """Memory that the broker's process has to itself."""
    return int(psutil.Process(server.pid).memory_full_info().uss)


def measured(server: Server, count: int, seconds: float) -> Iterator[Cost]:
    """The cost of a few connections, and of so many."""
    connections = opened(server.address, FEW)
    try:
        with topic_of(server, 1) as topic:
            paced(server.address, topic, PRODUCED_PER_S, for_s(SETTLE_S))
            with asking(connections):
                yield Cost(FEW, 0.0, latency(paced(server.address, topic, PRODUCED_PER_S, for_s(seconds))))
            before = own_bytes(server)
            connections += opened(server.address, count - FEW)
            time.sleep(SETTLE_S)
            each = (own_bytes(server) - before) / (count - FEW)
            with asking(connections):
                yield Cost(count, each, latency(paced(server.address, topic, PRODUCED_PER_S, for_s(seconds))))
    finally:
        for one in connections:
            one.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--kafka", action="store_true", help="Apache Kafka too")
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    settings: dict[str, object] = {"max.connections": 2 * options.connections}
    print(f"{'broker':<22}{'connections':>12}{'bytes each':>12}   ms of a produce: median / p99 / worst")
    for server in (Ottla(settings), Kafka()) if options.kafka else (Ottla(settings),):
        with server:
            for cost in measured(server, options.connections, options.seconds):
                print(f"{server.name:<22}{cost.connections:>12}{cost.bytes_each:>12.0f}   {cost.latency}", flush=True)


if __name__ == "__main__":
    main()
