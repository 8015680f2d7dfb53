"""What a second process gives a host: `ottla serve --processes 2` beside one process, under the same load of raw sockets.

Two clients, each a process, send requests of one record with 50 in flight. A broker's process uses one core: on two cores that
clients share, what two of them can reach is less than twice as much.
"""

from __future__ import annotations

import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import psutil

from bench import raw
from bench.cluster_loads import is_created, wait_until
from bench.report import Results
from ottla import Admin
from ottla.testing import BrokerProcess
from ottla.testing.cluster import NOBODY, free_port

CLIENTS: Final = 2
IN_FLIGHT: Final = 50
REQUESTS: Final = 200_000
TOPIC: Final = "requests"
TWO, ONE = "2 processes", "one process"
RATE: Final = "one-record requests over raw sockets, requests/s"


def measure(results: Results, requests: int, rounds: int) -> None:
    """Add the figures of some rounds, after one that does not count."""
    with ExitStack() as running, ProcessPoolExecutor(CLIENTS, get_context("spawn")) as clients:
        home = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="bench-processes-")))
        brokers = {}
        for name, arguments in {TWO: ["--processes", "2"], ONE: []}.items():
            broker = BrokerProcess(home / name.partition(" ")[0], port=free_port(), arguments=arguments, start_timeout_s=60)
            brokers[name] = running.enter_context(broker)
            with Admin(broker.address) as admin:
                wait_until(partial(is_created, admin, TOPIC, CLIENTS, 1))
        for number in range(rounds + 1):
            for name, broker in brokers.items():
                figures = _loaded(broker, clients, requests if number else requests // 10)
                if number:
                    results.add(name, figures)


def _loaded(broker: BrokerProcess, clients: ProcessPoolExecutor, requests: int) -> dict[str, float]:
    leaders = _leaders(broker.address)
    used, began = _cpu_s(broker.pid), time.perf_counter()
    waiting = [
        clients.submit(raw.pipelined, address, TOPIC, requests // CLIENTS, IN_FLIGHT, index=index)
        for index, address in leaders.items()
    ]
    for one in waiting:
        one.result()
    took_s, used = time.perf_counter() - began, _cpu_s(broker.pid) - used
    return {RATE: requests / took_s, "one-record requests, broker CPU, s per million": used * 1e6 / requests}


def _leaders(address: str) -> dict[int, str]:
    """HOST:PORT of the leader of each partition."""
    with Admin(address) as admin:
        while True:
            partitions = admin.describe_topics(TOPIC)[TOPIC].partitions
            if len(partitions) == CLIENTS and all(part.leader != NOBODY for part in partitions.values()):
                break
            time.sleep(0.05)
        nodes = {node.node_id: f"{node.host}:{node.port}" for node in admin.describe_cluster().nodes}
    return {index: nodes[part.leader] for index, part in partitions.items()}


def _cpu_s(pid: int) -> float:
    process = psutil.Process(pid)
    times = [one.cpu_times() for one in (process, *process.children(recursive=True))]
    return float(sum(used.user + used.system for used in times))
