"""Commits in the background, partitions that are added and taken away, and members that stay in their group."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.testing.process import BrokerProcess
from tests.support.peers import Peer
from tests.support.waiting import eventually

Told = list[tuple[dict[ottla.TopicPartition, ottla.OffsetAndMetadata], ottla.KafkaError | None]]


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data") as process:
        yield process


@pytest.fixture
def filled(broker: Peer, topic: str) -> str:
    with ottla.Producer(broker.address) as producer:
        for number in range(60):
            producer.send(topic, b"%d" % number, partition=number % 3)
    return topic


def in_group(broker: Peer | BrokerProcess, group: str, **settings: object) -> ottla.Consumer:
    chosen: dict[str, Any] = {"auto_offset_reset": "earliest", "enable_auto_commit": False, **settings}
    return ottla.Consumer(bootstrap_servers=broker.address, group_id=group, **chosen)


def test_commits_in_the_background_keep_their_order_and_close_waits_for_them(
    broker: Peer, filled: str, unique: Callable[[str], str]
) -> None:
    group, told, threads = unique("group"), [], set()

    def on_commit(offsets: dict[ottla.TopicPartition, ottla.OffsetAndMetadata], error: ottla.KafkaError | None) -> None:
        threads.add(threading.get_ident())
        told.append((offsets[ottla.TopicPartition(filled, 0)].offset, error))

    with in_group(broker, group) as consumer:
        consumer.assign([(filled, 0)])
        for offset in range(1, 11):
            consumer.commit_soon({(filled, 0): offset}, on_commit=on_commit)
        consumer.commit({(filled, 0): 15})
        found = consumer.committed((filled, 0))
        assert found is not None
        assert found.offset == 15
        assert len(consumer.poll(10_000, max_records=7)) == 7
        consumer.commit_soon(on_commit=on_commit)
    assert sorted(told) == [(offset, None) for offset in (*range(1, 8), 7, 8, 9, 10)]
    assert threading.get_ident() not in threads
    with in_group(broker, group) as again:
        found = again.committed((filled, 0))
        assert found is not None
        assert found.offset == 7


def repeat_until_in_time(call: Callable[[], None]) -> None:
    """Repeat a call whose short time limit a busy machine can exceed."""
    while True:
        with suppress(ottla.TimedOut):
            return call()


def test_a_commit_that_fails_is_told_or_logged(mortal: BrokerProcess, caplog: pytest.LogCaptureFixture) -> None:
    told: Told = []
    arrived = threading.Event()

    def on_commit(offsets: dict[ottla.TopicPartition, ottla.OffsetAndMetadata], error: ottla.KafkaError | None) -> None:
        told.append((offsets, error))
        arrived.set()

    with ottla.Producer(mortal.address) as producer:
        producer.send("t", b"v").result(20)
    with in_group(mortal, "g", default_api_timeout_ms=300) as consumer:
        repeat_until_in_time(lambda: consumer.assign([("t", 0)]))
        repeat_until_in_time(lambda: consumer.commit({("t", 0): 1}))
        mortal.kill()
        consumer.commit_soon({("t", 0): 1}, on_commit=on_commit)
        assert arrived.wait(20)
        assert told[0][0] == {("t", 0): ottla.OffsetAndMetadata(1)}
        assert isinstance(told[0][1], ottla.KafkaError)
        with caplog.at_level(logging.WARNING, "ottla.client"):
            consumer.commit_soon({("t", 0): 1})
            consumer.close()
        assert [line for line in caplog.messages if line.startswith("group g: offsets were not committed")]


def test_mistakes_with_commit_soon(broker: Peer, filled: str, unique: Callable[[str], str]) -> None:
    with ottla.Consumer(filled, bootstrap_servers=broker.address) as alone, pytest.raises(ottla.SettingError, match="group_id"):
        alone.commit_soon()
    consumer = in_group(broker, unique("group"))
    with pytest.raises(TypeError, match="on_commit is a function"):
        consumer.commit_soon({(filled, 0): 1}, on_commit=7)  # type: ignore[arg-type]  # the mistake
    with pytest.raises(ottla.SettingError):
        consumer.commit_soon({(filled, 0): -5})
    consumer.close()
    with pytest.raises(ottla.Closed):
        consumer.commit_soon({(filled, 0): 1})


def test_an_exception_of_on_commit_ends_the_consumer_as_that_of_a_listener(
    broker: Peer, filled: str, unique: Callable[[str], str]
) -> None:
    async def fail(offsets: object, error: ottla.KafkaError | None) -> None:
        raise LookupError("mine")

    async def use() -> None:
        consumer = await ottla.AsyncConsumer(filled, bootstrap_servers=broker.address, group_id=unique("group")).start()
        consumer.commit_soon({(filled, 0): 1}, on_commit=fail)
        with pytest.raises(LookupError, match="mine"):
            [record async for record in consumer]
        await consumer.close()

    asyncio.run(use())


def test_partitions_are_added_and_taken_away(broker: Peer, filled: str, unique: Callable[[str], str]) -> None:
    with in_group(broker, unique("group")) as consumer:
        consumer.incremental_assign([(filled, 0)])
        assert len(consumer.poll(10_000, max_records=5)) == 5
        consumer.incremental_assign([(filled, 0), (filled, 1)])
        assert consumer.assignment() == {(filled, 0), (filled, 1)}
        assert consumer.position((filled, 0)) == 5
        consumer.incremental_unassign([(filled, 1)])
        assert sorted(record.offset for record in consumer.records(timeout_ms=500)) == list(range(5, 20))
        with pytest.raises(ottla.KafkaError):
            consumer.incremental_unassign([(filled, 2)])
        with pytest.raises(ottla.UnknownTopic):
            consumer.incremental_assign([(filled, 9)])
        assert consumer.assignment() == {(filled, 0)}
    with (
        ottla.Consumer(filled, bootstrap_servers=broker.address) as subscribed,
        pytest.raises(ottla.SettingError, match=r"unsubscribe\(\) first, then incremental_assign"),
    ):
        subscribed.incremental_assign([(filled, 0)])


@pytest.mark.parametrize("protocol", ["classic", pytest.param("consumer", marks=pytest.mark.since("4.0", "the consumer protocol"))])
@pytest.mark.parametrize(
    ("instance_id", "leave_group", "stays"),
    [(None, None, False), (None, False, True), ("i", None, True), ("i", True, False)],
)
def test_a_member_leaves_or_stays_at_close(
    broker: Peer,
    admin: ottla.Admin,
    filled: str,
    unique: Callable[[str], str],
    protocol: str,
    instance_id: str | None,
    leave_group: bool | None,
    stays: bool,
) -> None:
    group = unique("group")
    consumer = in_group(broker, group, group_protocol=protocol, group_instance_id=instance_id)
    consumer.subscribe(filled)
    assert consumer.poll(20_000)
    consumer.close(leave_group=leave_group)
    assert len(admin.describe_group(group).members) == stays


@pytest.mark.parametrize("leaving", ["assign", "unsubscribe", "close"])
def test_partitions_of_assign_are_committed_when_they_are_given_up(
    broker: Peer, filled: str, unique: Callable[[str], str], leaving: str
) -> None:
    group, where = unique("group"), ottla.TopicPartition(filled, 0)
    with in_group(broker, group, enable_auto_commit=True, auto_commit_interval_ms=3_600_000) as consumer:
        consumer.assign([where])
        assert len(consumer.poll(10_000, max_records=7)) == 7
        consumer.poll(0, max_records=1)  # the seven are processed, the eighth is not
        if leaving == "assign":
            consumer.assign([(filled, 1)])
        elif leaving == "unsubscribe":
            consumer.unsubscribe()
        consumer.close(finished=False)
    with in_group(broker, group) as again:
        assert again.committed(where) == ottla.OffsetAndMetadata(7)


def test_a_member_that_is_late_gets_its_partitions_as_lost(broker: Peer, filled: str, unique: Callable[[str], str]) -> None:
    calls: list[tuple[str, list[ottla.TopicPartition]]] = []
    lost = threading.Event()

    def on_lost(partitions: list[ottla.TopicPartition]) -> None:
        calls.append(("lost", partitions))
        lost.set()

    listeners = {"on_revoked": lambda partitions: calls.append(("revoked", partitions)), "on_lost": on_lost}
    timing = {"max_poll_interval_ms": 1_500, "session_timeout_ms": 6_000, "heartbeat_interval_ms": 100}
    with in_group(broker, unique("group"), **listeners, **timing) as consumer:
        consumer.subscribe(filled)
        assert consumer.poll(10_000)
        assert lost.wait(20)
    assert calls == [("lost", [ottla.TopicPartition(filled, number) for number in range(3)])]


def test_stored_offsets_alone_are_committed_by_intervals_by_commit_and_at_close(
    broker: Peer, filled: str, unique: Callable[[str], str]
) -> None:
    first, second = (ottla.TopicPartition(filled, number) for number in (0, 1))
    group = unique("group")

    def committed(consumer: ottla.Consumer) -> tuple[int | None, ...]:
        found = [consumer.committed(where) for where in (first, second)]
        return tuple(None if offset is None else offset.offset for offset in found)

    settings = {"enable_auto_commit": True, "enable_auto_offset_store": False}
    with in_group(broker, group, auto_commit_interval_ms=20, **settings) as consumer:
        consumer.assign([first, second])
        assert consumer.poll(10_000)
        consumer.poll(0)
        consumer.store_offsets({first: 3})
        eventually(lambda: committed(consumer) == (3, None))
        with pytest.raises(ottla.KafkaError, match="not assigned"):
            consumer.store_offsets({(filled, 2): 1})
    with in_group(broker, group, auto_commit_interval_ms=3_600_000, **settings) as consumer:
        consumer.assign([first, second])
        consumer.store_offsets({first: 5, second: 7})
        consumer.commit()
        assert committed(consumer) == (5, 7)
        consumer.store_offsets({first: 6})
        consumer.assign([second])  # the stored offset goes with the partition
        assert committed(consumer) == (6, 7)
        consumer.store_offsets({second: 9})
        consumer.seek(second, 2)  # what is read next says nothing about what was processed
    with in_group(broker, group) as consumer:
        assert committed(consumer) == (6, 9)
        consumer.assign([first])
        with pytest.raises(ottla.SettingError, match="enable_auto_offset_store=False"):
            consumer.store_offsets({first: 1})
