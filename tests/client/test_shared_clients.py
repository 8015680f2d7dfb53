"""Clients that several threads share: whatever the order of their steps, nothing is lost, and no client dies of its own threads.

`OTTLA_RACE_SECONDS=60` makes the runs longer.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

import ottla
from ottla.client.keywords import ConsumerKeywords
from tests.support.peers import Peer

RECORDS = 20_000
RACE_SECONDS = float(os.environ.get("OTTLA_RACE_SECONDS", "0"))


@pytest.fixture(autouse=True)
def _threads_take_turns_all_the_time() -> Iterator[None]:
    """Let another thread run after nearly every step of the interpreter."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def wide(admin: ottla.Admin, unique: Callable[[str], str]) -> str:
    name = unique("wide")
    admin.create_topic(name, 24, 1)
    return name


def each_in_a_thread(count: int, work: Callable[[int], int]) -> int:
    """Run `work` in threads at once, again until the time is up; return the sum of what it returned."""
    end, total = time.monotonic() + RACE_SECONDS, 0
    with ThreadPoolExecutor(count) as pool:
        while True:
            total += sum(pool.map(work, range(count)))
            if time.monotonic() >= end:
                return total


def written(broker: Peer, topic: str) -> int:
    with ottla.Consumer(bootstrap_servers=broker.address) as consumer:
        return sum(consumer.end_offsets(consumer.partitions_for(topic)).values())


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_threads_that_share_a_producer_write_every_record(broker: Peer, wide: str, threads: int) -> None:
    with ottla.Producer(broker.address, linger_ms=1, batch_size=2_000) as producer:

        def send(number: int) -> int:
            for count in range(RECORDS // threads):
                producer.send(wide, b"%d" % count, partition=(number + count) % 24)
                if count % 1_000 == 999:
                    producer.flush()
            return RECORDS // threads

        sent = each_in_a_thread(threads, send)
    assert written(broker, wide) == sent


def test_threads_that_wait_for_room_write_every_record(broker: Peer, wide: str) -> None:
    with ottla.Producer(broker.address, linger_ms=1, batch_size=1_000, buffer_memory=20_000) as producer:

        def send(number: int) -> int:
            for count in range(1_000):
                producer.send(wide, b"x" * 100, key=b"%d" % (number + count))
            return 1_000

        sent = each_in_a_thread(4, send)
    assert written(broker, wide) == sent


def test_a_record_sent_while_another_thread_closes_is_written_or_refused(broker: Peer, wide: str) -> None:
    for _ in range(3):
        before = written(broker, wide)
        producer = ottla.Producer(broker.address, linger_ms=1, batch_size=500)
        producer.send(wide, b"0").result(20)
        taken: list[ottla.Delivery] = []

        def send(producer: ottla.Producer = producer, taken: list[ottla.Delivery] = taken) -> None:
            with suppress(ottla.Closed):
                while len(taken) < 1_000_000:
                    taken.append(producer.send(wide, b"1"))

        sender = threading.Thread(target=send)
        sender.start()
        while not taken:
            time.sleep(0)
        producer.close()
        sender.join(20)
        assert not sender.is_alive()
        assert all(delivery.done() for delivery in taken)
        assert written(broker, wide) - before == 1 + len(taken)


def test_two_producers_of_a_process_write_side_by_side(broker: Peer, wide: str) -> None:
    def send(number: int) -> int:
        with ottla.Producer(broker.address, linger_ms=number) as producer:
            for count in range(2_000):
                producer.send(wide, b"%d" % count)
        return 2_000

    assert each_in_a_thread(2, send) == written(broker, wide)


def test_threads_share_an_admin(broker: Peer, admin: ottla.Admin, unique: Callable[[str], str]) -> None:
    def create(number: int) -> int:
        name = unique("shared")
        admin.create_topic(name, 1, 1)
        return int(name in admin.list_topics())

    assert each_in_a_thread(4, create) >= 4


def test_members_that_iterate_in_threads_while_their_group_grows_read_every_record(
    broker: Peer, wide: str, unique: Callable[[str], str]
) -> None:
    """The loop of each commits and gives up partitions while the thread of its user takes records."""
    group, count = unique("race"), 3_000
    with ottla.Producer(broker.address) as producer:
        for number in range(count):
            producer.send(wide, b"%d" % number, partition=number % 24)
    seen: list[set[bytes]] = [set() for _ in range(3)]
    settings: ConsumerKeywords = {
        "bootstrap_servers": broker.address,
        "group_id": group,
        "auto_offset_reset": "earliest",
        "auto_commit_interval_ms": 1,
        "heartbeat_interval_ms": 20,
        "max_partition_fetch_bytes": 2_000,
    }

    def read(own: set[bytes]) -> None:
        with ottla.Consumer(wide, **settings) as consumer:
            while len(set().union(*seen)) < count:
                for record in consumer.records(timeout_ms=100):
                    own.add(record.value or b"")

    with ThreadPoolExecutor(3) as pool:
        for each in [pool.submit(read, own) for own in seen]:
            each.result(40)
    assert set().union(*seen) == {b"%d" % number for number in range(count)}


def test_a_call_in_flight_says_that_another_thread_has_closed_the_client(broker: Peer) -> None:
    admin = ottla.Admin(broker.address)
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        with ThreadPoolExecutor(4) as pool:
            calls = [pool.submit(admin.list_topics) for _ in range(4)]
            time.sleep(0.05)  # most calls are in flight; one that begins later raises the same exception
            admin.close()
            errors = [call.exception(20) for call in calls]
    finally:
        os.kill(broker.pid, signal.SIGCONT)
    assert [type(error) for error in errors] == [ottla.Closed] * 4
    assert len({id(error) for error in errors}) == 4, "each call has an exception of its own, with its own traceback"
