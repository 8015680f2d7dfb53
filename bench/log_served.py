"""What users of a running broker see of its log: shared syncs, and latencies while it compacts, deletes and makes topics."""

from __future__ import annotations

import os
import random
import select
import subprocess
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.figures import Figure
from bench.paced import Latency, ask, for_s, latency, paced
from bench.raw import batch as raw_batch
from bench.raw import connect, produce_request, reply
from ottla.records.batches.builder import build
from ottla.testing.process import BrokerProcess
from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.api.delete_topics import DeleteTopicsRequest
from ottla.wire.api.incremental_alter_configs import IncrementalAlterConfigsRequest

GB = 1 << 30
PRODUCERS = 100
RATE = 1000
"""Requests a second of the producer whose latencies are looked at."""

BEFORE_S = 7
"""How long it is looked at before: a file system that commits every five seconds does so in this time as well."""

RISE_MS = 3.0
PARTITIONS = 5000

Creatable = CreateTopicsRequest.CreatableTopic
Alter = IncrementalAlterConfigsRequest


def create(address: str, name: str, partitions: int = 1, **configs: object) -> None:
    texts = [
        CreateTopicsRequest.CreatableTopicConfig(name=key.replace("_", "."), value=str(value)) for key, value in configs.items()
    ]
    topic = Creatable(name=name, num_partitions=partitions, replication_factor=1, configs=texts)
    answer = ask(address, 19, 7, CreateTopicsRequest(topics=[topic], timeout_ms=60_000))
    assert [one.error_code for one in answer.topics] == [0], answer


def delete(address: str, names: list[str]) -> None:
    answer = ask(address, 20, 5, DeleteTopicsRequest(topic_names=names, timeout_ms=60_000))
    assert not any(one.error_code for one in answer.responses), answer


def set_config(address: str, topic: str, name: str, value: str) -> None:
    config = Alter.AlterableConfig(name=name, config_operation=0, value=value)
    resource = Alter.AlterConfigsResource(resource_type=2, resource_name=topic, configs=[config])
    answer = ask(address, 44, 1, Alter(resources=[resource]))
    assert [one.error_code for one in answer.responses] == [0], answer


def fill(address: str, topic: str, size_bytes: int, index: int = 0, *, acks: int = 1) -> None:
    """Produce ready-made batches of 1000 records of 100 B under two million keys, ten requests in flight."""
    choice, now_ms = random.Random(1), int(time.time() * 1000)
    frames = []
    for _ in range(50):
        keys = [b"key-%08d" % choice.randrange(2_000_000) for _ in range(1000)]
        frames.append(produce_request(topic, bytes(build(keys, [bytes(80)] * 1000, now_ms)), acks=acks, index=index))
    with connect(address) as connection:
        connection.sendall(frames[0])
        answer_bytes, sent, number = 4 + len(reply(connection)), len(frames[0]), 0
        while sent < size_bytes:
            bundle = frames[number % 5 :: 5]
            connection.sendall(b"".join(bundle))
            sent += sum(map(len, bundle))
            left = answer_bytes * len(bundle)
            while left > 0:
                left -= len(connection.recv(1 << 16))
            number += 1


def settled(directory: str | Path) -> None:
    """Have the file system write out what is there, so that it does not do so during what follows."""
    subprocess.run(["sync", "-f", str(directory)], check=False)


def syncing(directory: str) -> list[Figure]:
    """One record per request, acks=all: 100 connections with one request in flight each, beside one alone, and beside acks=1."""
    path = f"{directory}/plain"
    with BrokerProcess(f"{directory}/data") as broker:
        create(broker.address, "t")
        synced, cached = (produce_request("t", raw_batch(b"x" * 100), acks=acks) for acks in (-1, 1))
        requests(broker.address, synced, 1, 0.5)
        cases = (synced, 1), (synced, PRODUCERS), (cached, PRODUCERS)
        rounds = [
            [one_sync_each(path, 1.0), *(requests(broker.address, frame, producers, 1.5) for frame, producers in cases)]
            for _ in range(3)
        ]
    plain, alone, together, unsynced = (sorted(rates)[1] for rates in zip(*rounds, strict=True))
    share = together / alone
    limit = (
        f"one sync per request: {alone:.0f}; with acks=1, no sync at all: {unsynced:.0f}; write and fdatasync alone: {plain:.0f}"
    )
    wanted = min(20.0, 0.9 * unsynced / alone)
    note = f"≥ 20 times one sync per request: {share:.1f}" + (
        f" of the {unsynced / alone:.1f} that acks=1 is" if wanted < 20 else ""
    )
    return [Figure("acks=all, 100 producers, requests/s", f"{together:.0f}", limit, note, share >= 20)]


def requests(address: str, frame: bytes, producers: int, duration_s: float) -> float:
    """Requests per second of so many connections with one request in flight each, all on one thread: a client that costs little."""
    connections = {one.fileno(): one for one in (connect(address) for _ in range(producers))}
    poll, count, deadline = select.epoll(), 0, time.monotonic() + duration_s
    for number, connection in connections.items():
        poll.register(number, select.EPOLLIN)
        connection.sendall(frame)
    while time.monotonic() < deadline:
        for number, _ in poll.poll(1):
            connections[number].recv(4096)
            connections[number].sendall(frame)
            count += 1
    poll.close()
    for connection in connections.values():
        connection.close()
    return count / duration_s


def one_sync_each(path: str, duration_s: float) -> float:
    fd, count, deadline = os.open(path, os.O_CREAT | os.O_WRONLY), 0, time.monotonic() + duration_s
    while time.monotonic() < deadline:
        os.write(fd, bytes(170))
        os.fdatasync(fd)
        count += 1
    os.close(fd)
    return count / duration_s


def rise(name: str, before: Latency, during: Latency, what: str) -> Figure:
    more_ms = during.p99_ms - before.p99_ms
    limit = f"p50 / p99 / worst, ms: {before}, then {during}; {what}"
    return Figure(f"p99 of a produce rises {name} by, ms", f"{more_ms:.2f}", limit, f"< {RISE_MS:.0f}", more_ms < RISE_MS)


def beside(address: str, work: Callable[[], object]) -> tuple[Latency, Latency]:
    """(before, while `work` goes on and two seconds more) of a producer at its pace."""
    before = latency(paced(address, "paced", RATE, for_s(BEFORE_S)))
    thread = threading.Thread(target=work)
    thread.start()
    end = [0.0]

    def goes_on() -> bool:
        if thread.is_alive():
            end[0] = time.monotonic() + 2
        return time.monotonic() < end[0]

    during = latency(paced(address, "paced", RATE, goes_on))
    thread.join()
    return before, during


def compacting_beside(directory: str) -> list[Figure]:
    """1 GB is compacted while a producer goes on."""
    with BrokerProcess(f"{directory}/data", {"log.cleaner.backoff.ms": 500}) as broker:
        create(broker.address, "paced")
        create(broker.address, "big", segment_bytes=256 << 20)
        fill(broker.address, "big", GB)
        settled(directory)
        took = list[float]()

        def work() -> None:
            set_config(broker.address, "big", "cleanup.policy", "compact")
            began = time.monotonic()
            while "compacted up to" not in broker.log and time.monotonic() - began < 90:
                time.sleep(0.2)
            took.append(time.monotonic() - began)

        before, during = beside(broker.address, work)
    return [rise("while 1 GB is compacted", before, during, f"{took[0]:.0f} s beside {RATE} requests/s")]


def deleting_beside(directory: str) -> list[Figure]:
    """2 GB go with DeleteTopics, 2 GB by retention, while a producer goes on."""
    settings = {"log.retention.check.interval.ms": 3000, "log.segment.delete.delay.ms": 0}
    with BrokerProcess(f"{directory}/data", settings) as broker:
        create(broker.address, "paced")
        names = ["gone-1", "gone-2", "old-1", "old-2"]
        for name in names:
            create(broker.address, name, segment_bytes=GB if name < "h" else 256 << 20)
            fill(broker.address, name, GB)
        settled(directory)
        deleted = beside(broker.address, partial(delete, broker.address, names[:2]))

        before = latency(paced(broker.address, "paced", RATE, for_s(BEFORE_S)))
        for name in names[2:]:
            set_config(broker.address, name, "retention.bytes", "1000")
        retained = before, latency(paced(broker.address, "paced", RATE, for_s(BEFORE_S)))
        left = sum(path.stat().st_size for path in Path(directory, "data").glob("old-*/*.log*"))
    assert left < GB, f"{left} bytes are left of what retention should have deleted"
    return [rise("while topics of 2 GB go", *deleted, "DeleteTopics"), rise("while segments of 2 GB go", *retained, "retention")]


def creating_beside(directory: str) -> list[Figure]:
    """One CreateTopics and one DeleteTopics of 5 000 partitions, while a producer goes on."""
    with BrokerProcess(f"{directory}/data") as broker:
        create(broker.address, "paced")
        before, made = beside(broker.address, partial(create, broker.address, "many", PARTITIONS))
        _, gone = beside(broker.address, partial(delete, broker.address, ["many"]))
    limit = f"p99 {before.p99_ms:.1f} before; worst while they are deleted: {gone.worst_ms:.0f}"
    return [Figure("worst produce while 5 000 partitions are made, ms", f"{made.worst_ms:.0f}", limit, "", None)]
