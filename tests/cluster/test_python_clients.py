"""confluent-kafka, kafka-python, aiokafka and Ottla's client on a cluster of three, one of which is killed and comes back."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple, overload

import pytest

import ottla
from ottla.testing import Cluster
from tests.support.clients import CLIENTS, Client, Member, Message
from tests.support.clients.face import Row
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow
PATIENCE_S = 100
PARTITIONS = 3
SETTINGS = {
    "min.insync.replicas": 2,
    "offsets.topic.num.partitions": 3,
    "group.initial.rebalance.delay.ms": 200,
    "controlled.shutdown.retry.backoff.ms": 100,
}


class Paced(Sequence[Row]):
    """Rows for all partitions in turn, one after another until `ended`: a client that is given them sends all the time."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self._rows: list[Row] = []

    def __iter__(self) -> Iterator[Row]:
        while not self.ended.is_set():
            number = len(self._rows)
            self._rows.append(Row(b"%d" % number, b"value %d" % number, partition=number % PARTITIONS))
            yield self._rows[-1]
            time.sleep(0.02)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        return self._rows[index]


class Work(NamedTuple):
    """What one client does all the time: it writes to a topic, and reads it as the only member of a group."""

    client: Client
    rows: Paced
    member: Member
    offsets: Future[list[int]]

    def has_read_on(self, topic_end: int) -> bool:
        """Whether rows have come that were sent after so many. Raises what the writing ended with, if it did."""
        if self.offsets.done():
            self.offsets.result()
        read = {message.key for message in self.member.messages}
        return all(b"%d" % number in read for number in range(topic_end, topic_end + 2 * PARTITIONS))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    for name in ("Producer", "Consumer"):  # imported before there are threads: CPython 3.11 may fail to compile in two at once
        getattr(ottla, name)
    home: Path = tmp_path_factory.mktemp("clients")
    with Cluster(brokers=3, settings=SETTINGS, home=home) as cluster:
        yield cluster


def test_clients_write_and_read_on_when_a_leader_is_killed_and_when_it_is_back(cluster: Cluster) -> None:
    topics = [f"of-{kind.name}" for kind in CLIENTS]
    with cluster.admin() as admin:
        for topic in topics:
            admin.create_topic(topic, PARTITIONS, 3)
    cluster.wait_in_sync(*topics, timeout_s=PATIENCE_S)
    with ThreadPoolExecutor(len(CLIENTS)) as pool:
        works = [begun(pool, kind(cluster.address), topic) for kind, topic in zip(CLIENTS, topics, strict=True)]
        try:
            all_read_on(works)
            dead = cluster.leader(topics[0], 0)
            cluster.kill(dead)
            cluster.wait_until(lambda: all(cluster.leader(topic, 0) not in (-1, dead) for topic in topics), timeout_s=PATIENCE_S)
            all_read_on(works)
            cluster.start(dead)
            cluster.wait_in_sync(*topics, timeout_s=PATIENCE_S)
            all_read_on(works)
        finally:
            for work in works:
                work.rows.ended.set()
    for work in works:
        check_that_each_row_was_written_once_and_read(work)


def begun(pool: ThreadPoolExecutor, client: Client, topic: str) -> Work:
    rows = Paced()
    member = client.join(topic, f"readers-{topic}")
    return Work(client, rows, member, pool.submit(client.produce, topic, rows, idempotent=True))


def all_read_on(works: Sequence[Work]) -> None:
    """Wait until each client has written and read what was sent from now on."""
    for work, now in [(work, len(work.rows)) for work in works]:
        eventually(partial(work.has_read_on, now), timeout_s=PATIENCE_S, what=work.client.name)


def check_that_each_row_was_written_once_and_read(work: Work) -> None:
    offsets = work.offsets.result(PATIENCE_S)
    written = {(row.partition, offset): row.value for row, offset in zip(work.rows[:], offsets, strict=True)}
    assert sorted(written) == [
        (index, offset) for index in range(PARTITIONS) for offset in range(len(range(index, len(offsets), PARTITIONS)))
    ]

    def read() -> dict[tuple[int, int], bytes | None]:
        return {place(message): message.value for message in work.member.messages}

    eventually(lambda: read() == written, timeout_s=PATIENCE_S, what=f"all is read by {work.client.name}")
    work.member.leave()


def place(message: Message) -> tuple[int, int]:
    return message.partition, message.offset
