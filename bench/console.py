"""How quick the console's pages of a large cluster are, and what a crowd of live pages costs a producer of the same broker.

    python -m bench.console [--topics 1000] [--streams 2000] [--seconds 10]

The console runs in the broker's process (`ottla serve --console`), on its own thread. A stream beyond the console's limit is
refused, and a connection beyond the server's is closed, so that most of a crowd is turned away; this should cost little.
"""

from __future__ import annotations

import argparse
import http.client
import socket
import threading
import time
from contextlib import suppress

import ottla
from bench.paced import for_s, latency, paced
from bench.servers import Ottla
from ottla.web.address import WebAddress

PAGES = (
    "/",
    "/topics",
    "/topics?sort=-bytes",
    "/topics?page=5",
    "/topics/t0500",
    "/brokers",
    "/groups",
    "/configs",
    "/transactions",
)
ROUNDS = 10
PARTITIONS = 10
PRODUCED_PER_S = 100


def get(where: WebAddress, path: str) -> tuple[float, int]:
    """Return the time of a page in ms, and its size in bytes."""
    began = time.perf_counter()
    connection = http.client.HTTPConnection(where.host, where.port, timeout=60)
    connection.request("GET", path)
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    assert answer.status == 200, data
    return (time.perf_counter() - began) * 1000, len(data)


def time_pages(where: WebAddress) -> None:
    get(where, "/topics")
    time.sleep(3)  # the first samples
    print("| page | median ms | worst ms | KiB |\n|---|---|---|---|")
    for path in PAGES:
        took = []
        for _ in range(ROUNDS):
            took.append(get(where, path))
            time.sleep(0.2)
        times = sorted(each for each, _ in took)
        print(f"| {path} | {times[ROUNDS // 2]:.0f} | {times[-1]:.0f} | {took[-1][1] / 1024:.0f} |", flush=True)


class Crowd:
    """Connections that each ask for a live page, and read what comes."""

    def __init__(self, where: WebAddress, count: int) -> None:
        self._where = where
        self.sockets: list[socket.socket] = []
        self.live = 0
        for _ in range(count):
            self._join()

    def _join(self) -> None:
        with suppress(OSError):
            joined = socket.create_connection((self._where.host, self._where.port), timeout=10)
            self.sockets.append(joined)
            joined.sendall(f"GET /live?path=/topics HTTP/1.1\r\nHost: {self._where}\r\n\r\n".encode())
            self.live += b" 200 " in joined.recv(4096)
            joined.setblocking(False)

    def read(self, goes_on: threading.Event) -> None:
        """Read what comes until `goes_on` is cleared."""
        while goes_on.is_set():
            for each in self.sockets:
                with suppress(OSError):
                    each.recv(1 << 16)
            time.sleep(0.1)

    def leave(self) -> None:
        for each in self.sockets:
            each.close()


def measure_crowd(address: str, where: WebAddress, count: int, seconds: float) -> None:
    """Print a producer's latencies without and with a crowd of live pages."""
    print("\n| live pages | open | producer, median / p99 / worst ms |\n|---|---|---|")
    print(f"| none | 0 | {latency(paced(address, 'beside', PRODUCED_PER_S, for_s(seconds)))} |", flush=True)
    crowd, goes_on = Crowd(where, count), threading.Event()
    goes_on.set()
    reading = threading.Thread(target=crowd.read, args=(goes_on,))
    reading.start()
    took = latency(paced(address, "beside", PRODUCED_PER_S, for_s(seconds)))
    print(f"| {count} | {crowd.live} | {took} |", flush=True)
    goes_on.clear()
    reading.join()
    crowd.leave()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=int, default=1000, help=f"topics of {PARTITIONS} partitions each")
    parser.add_argument("--streams", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        where = WebAddress("127.0.0.1", free.getsockname()[1])
    with Ottla(arguments=["--console", str(where)]) as broker:
        patient = {"request_timeout_ms": 300_000, "default_api_timeout_ms": 300_000}
        with ottla.Admin(broker.address, **patient) as admin:  # type: ignore[arg-type]  # keyword arguments by name
            admin.create_topic("beside", 1, 1)
            for first in range(0, options.topics, 100):
                some = range(first, min(first + 100, options.topics))
                admin.create_topics([ottla.NewTopic(f"t{number:04}", PARTITIONS, 1) for number in some])
        if options.topics > 500:
            time_pages(where)
        measure_crowd(broker.address, where, options.streams, options.seconds)


if __name__ == "__main__":
    main()
