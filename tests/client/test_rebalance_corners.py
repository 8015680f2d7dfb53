"""Consumers whose listeners, lookups and loops take long, fail or are interrupted: groups go on, and nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal, NotRequired, TypedDict

import pytest

import ottla
from ottla.client.consumer.membership import Membership
from ottla.net.client.consumer.membership_driver import MembershipDriver
from tests.support.waiting import eventually

PARTITIONS = [ottla.TopicPartition("t", 0), ottla.TopicPartition("t", 1)]


class Quick(TypedDict):
    group_id: str
    auto_offset_reset: Literal["earliest"]
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    enable_auto_commit: NotRequired[bool]
    request_timeout_ms: NotRequired[int]


QUICK: Quick = {
    "group_id": "g",
    "auto_offset_reset": "earliest",
    "session_timeout_ms": 500,
    "heartbeat_interval_ms": 50,
    "max_poll_interval_ms": 10_000,
}


@pytest.fixture
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker(group_min_session_timeout_ms=100, group_initial_rebalance_delay_ms=0) as made:
        with ottla.Admin(made.address) as admin, ottla.Producer(made.address) as producer:
            admin.create_topic("t", 2, 1)
            for number in range(40):
                producer.send("t", b"%d" % number, partition=number % 2)
        yield made


def test_a_record_in_hand_counts_for_the_time_between_polls_and_not_its_whole_chunk(broker: ottla.Broker) -> None:
    settings: Quick = {**QUICK, "max_poll_interval_ms": 400, "enable_auto_commit": False}
    lost: list[object] = []
    with ottla.Consumer("t", bootstrap_servers=broker.address, on_revoked=lost.extend, **settings) as consumer:
        for _, _ in zip(consumer, range(12), strict=False):
            time.sleep(0.06)
        assert lost == []
        for _ in range(8):
            assert consumer.poll(1_000, max_records=1)
            time.sleep(0.09)
        assert lost == []
        generation_id = consumer.group_metadata().generation_id
        eventually(lambda: lost, what="a consumer that asks for nothing to lose its partitions")
        assert generation_id == 1


def test_a_consumer_that_is_not_polled_loses_its_partitions_although_no_heartbeat_is_due(broker: ottla.Broker) -> None:
    settings: Quick = {**QUICK, "max_poll_interval_ms": 300, "session_timeout_ms": 300_000, "heartbeat_interval_ms": 100_000}
    with ottla.Consumer("t", bootstrap_servers=broker.address, group_protocol="classic", **settings) as consumer:
        while not consumer.poll(1_000):
            pass
        eventually(lambda: not consumer.assignment(), what="the loss")
        assert consumer.assignment() == set()


def test_a_consumer_that_waits_for_records_while_it_leaves_joins_again(broker: ottla.Broker) -> None:
    settings: Quick = {**QUICK, "max_poll_interval_ms": 300, "enable_auto_commit": False}

    async def run() -> None:
        leaves, waits = asyncio.Event(), asyncio.Event()

        async def on_lost(_: object) -> None:
            leaves.set()
            await waits.wait()

        async with ottla.AsyncConsumer("t", bootstrap_servers=broker.address, on_lost=on_lost, **settings) as consumer:
            while not await consumer.poll(1_000):
                pass
            await leaves.wait()
            waiting = asyncio.ensure_future(anext(aiter(consumer)))
            await asyncio.to_thread(eventually, lambda: consumer._reader._waiter is not None)
            waits.set()
            assert (await asyncio.wait_for(waiting, 10)).offset == 0

    asyncio.run(run())


def test_a_late_consumer_whose_partitions_are_asked_back_leaves_instead_of_joining_again(broker: ottla.Broker) -> None:
    late: Quick = {**QUICK, "max_poll_interval_ms": 300, "enable_auto_commit": False}
    firsts: list[list[ottla.TopicPartition]] = []
    with ottla.Consumer("t", bootstrap_servers=broker.address, **late) as consumer:
        while not consumer.poll(1_000, max_records=1):
            pass
        with ottla.Consumer("t", bootstrap_servers=broker.address, on_assigned=firsts.append, **QUICK) as other:
            while not other.poll(1_000):
                pass
    assert firsts[0] == PARTITIONS, "the late consumer got a share again"


def test_a_loop_of_polls_that_do_not_wait_reads_everything(broker: ottla.Broker) -> None:
    async def run() -> int:
        async with ottla.AsyncConsumer(bootstrap_servers=broker.address, auto_offset_reset="earliest") as consumer:
            await consumer.assign(PARTITIONS)
            count, end = 0, time.monotonic() + 10
            while count < 40 and time.monotonic() < end:
                count += len(await consumer.poll())
            return count

    assert asyncio.run(run()) == 40


def test_partitions_without_committed_offsets_are_not_assigned_and_the_next_assign_begins_anew(tmp_path: Path) -> None:
    async def run() -> list[int]:
        with ottla.Broker(data_dir=str(tmp_path)) as broker:
            address = broker.address
            async with ottla.AsyncProducer(broker.address) as producer:
                await (await producer.send("t", b"1", partition=0))
            consumer = ottla.AsyncConsumer(
                bootstrap_servers=broker.address, group_id="g", auto_offset_reset="earliest", default_api_timeout_ms=500
            )
            await consumer.start()
            await consumer.partitions_for("t")
        with pytest.raises(ottla.KafkaError):
            await consumer.assign([("t", 0)])
        assert consumer.assignment() == set()
        with ottla.Broker(data_dir=str(tmp_path), port=int(address.rpartition(":")[2])):
            while not consumer.assignment():
                with suppress(ottla.KafkaError):  # no answer in time, while the broker starts
                    await consumer.assign([("t", 0)])
            found = [record.offset for record in await consumer.poll(10_000)]
            await consumer.close()
        return found

    assert asyncio.run(run()) == [0]


def test_a_listener_that_takes_longer_than_the_session_loses_no_membership(broker: ottla.Broker) -> None:
    generations: list[int] = []

    async def slow(_: list[ottla.TopicPartition]) -> None:
        await asyncio.sleep(1.5)

    async def run() -> None:
        settings: Quick = {**QUICK, "enable_auto_commit": False}
        async with ottla.AsyncConsumer("t", bootstrap_servers=broker.address, on_assigned=slow, **settings) as consumer:
            while not await consumer.poll(100):
                pass
            await consumer.commit()
            generations.append(consumer.group_metadata().generation_id)

    asyncio.run(run())
    assert generations == [1]


def test_closing_ends_the_waits_of_other_tasks_with_closed(broker: ottla.Broker) -> None:
    async def run() -> None:
        consumer = await ottla.AsyncConsumer(bootstrap_servers=broker.address, group_id="g").start()
        polling = asyncio.create_task(consumer.poll(60_000))
        asking = asyncio.create_task(consumer.partitions_for("t"))
        await asyncio.sleep(0)
        await consumer.close()
        for task in (polling, asking):
            with pytest.raises(ottla.Closed):
                await task

    asyncio.run(run())


def test_a_close_that_was_cancelled_is_finished_by_the_next(broker: ottla.Broker) -> None:
    async def slow(_: list[ottla.TopicPartition]) -> None:
        await asyncio.sleep(0.3)

    async def run() -> None:
        consumer = await ottla.AsyncConsumer("t", bootstrap_servers=broker.address, on_revoked=slow, **QUICK).start()
        while not await consumer.poll(100):
            pass
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(consumer.close(), 0.05)
        await consumer.close()

    asyncio.run(run())
    with ottla.Admin(broker.address) as admin:
        assert admin.describe_group("g").state == "Empty"
        assert sum(offset.offset for offset in admin.list_group_offsets("g").values()) > 0


def test_a_listener_of_a_blocking_consumer_may_commit_seek_and_ask_for_positions(broker: ottla.Broker) -> None:
    done: list[object] = []

    def assigned(partitions: list[ottla.TopicPartition]) -> None:
        for where in partitions:
            consumer.seek(where, 15)
            done.append(consumer.position(where))

    def revoked(partitions: list[ottla.TopicPartition]) -> None:
        consumer.commit(dict.fromkeys(partitions, 17))
        done.append(consumer.committed(partitions[0]))

    settings: Quick = {**QUICK, "enable_auto_commit": False}
    consumer = ottla.Consumer(bootstrap_servers=broker.address, on_assigned=assigned, on_revoked=revoked, **settings)
    with consumer:
        consumer.subscribe("t")
        found = eventually(lambda: consumer.poll(200))
        assert found[0].offset == 15
    assert done == [15, 15, ottla.OffsetAndMetadata(17)]


@pytest.mark.parametrize("call", ["poll", "subscribe", "close", "unsubscribe"])
def test_a_listener_of_a_blocking_consumer_cannot_wait_for_records_or_change_the_subscription(
    broker: ottla.Broker, call: str
) -> None:
    errors: list[BaseException] = []

    def assigned(_: list[ottla.TopicPartition]) -> None:
        try:
            getattr(consumer, call)(*(["t"] if call == "subscribe" else []))
        except ottla.KafkaError as error:
            errors.append(error)

    consumer = ottla.Consumer(bootstrap_servers=broker.address, on_assigned=assigned, **QUICK)
    with consumer:
        consumer.subscribe("t")
        assert eventually(lambda: consumer.poll(200))
    (error,) = errors
    assert str(error).startswith(f"{call}() cannot be called by a callback of the same consumer")


@pytest.mark.parametrize("raised", [StopIteration, GeneratorExit, asyncio.CancelledError], ids=lambda each: each.__name__)
def test_an_exception_of_a_listener_that_controls_generators_or_tasks_ends_the_consumer_as_any_other(
    broker: ottla.Broker, raised: type[BaseException]
) -> None:
    def assigned(_: list[ottla.TopicPartition]) -> None:
        raise raised

    async def assigned_later(_: list[ottla.TopicPartition]) -> None:
        raise raised

    consumer = ottla.Consumer("t", bootstrap_servers=broker.address, on_assigned=assigned, **QUICK)
    with pytest.raises(RuntimeError, match=f"A listener raised {raised.__name__}"):
        consumer.poll(10_000)
    consumer.close()

    async def run() -> None:
        settings: Quick = {**QUICK, "group_id": "other"}
        later = ottla.AsyncConsumer("t", bootstrap_servers=broker.address, on_assigned=assigned_later, **settings)
        async with later:
            await later.poll(10_000)

    with pytest.raises(GeneratorExit if raised is GeneratorExit else RuntimeError):
        asyncio.run(run())


def test_each_task_of_a_group_is_heard_while_a_join_is_held(broker: ottla.Broker) -> None:
    """The coordinator holds the JoinGroup of the first member until the second, which is busy, has joined too."""
    busy, free = threading.Event(), threading.Event()

    def hold(_: list[ottla.TopicPartition]) -> None:
        busy.set()
        free.wait(10)

    settings: Quick = {**QUICK, "session_timeout_ms": 10_000, "request_timeout_ms": 1_000, "enable_auto_commit": False}
    with ottla.Consumer("t", bootstrap_servers=broker.address, on_revoked=hold, **settings) as one:
        eventually(lambda: one.poll(200))
        assert one.poll() == []  # the records of the poll before are processed by now
        with ottla.Consumer("t", bootstrap_servers=broker.address, **settings) as two:
            assert busy.wait(10)
            begun = time.monotonic()
            assert two.committed(("t", 0)) is None
            assert len(two.partitions_for("t")) == 2
            assert time.monotonic() - begun < 5
            free.set()
            eventually(lambda: two.poll(200) or two.assignment())


def test_a_leader_that_has_assigned_by_outdated_metadata_assigns_again(broker: ottla.Broker) -> None:
    """The leader asks any broker for partitions, and that one can know less than the one asked at the subscription."""

    async def run() -> int:
        consumer = await ottla.AsyncConsumer(bootstrap_servers=broker.address, metadata_max_age_ms=50, **QUICK).start()
        driver = consumer._member
        assert isinstance(driver, MembershipDriver)
        share_out = driver._share_out

        async def share_out_nothing(topics: list[str]) -> None:
            driver._share_out = share_out  # type: ignore[method-assign]  # only the first answer is outdated
            driver.assigned_counts = dict.fromkeys(topics, 0)
            assert isinstance(driver.machine, Membership)
            driver.machine.share_out(driver.assigned_counts)

        driver._share_out = share_out_nothing  # type: ignore[method-assign]  # the answer of a broker that lags behind
        await consumer.subscribe("t")
        count = len(await consumer.poll(10_000))
        await consumer.close()
        return count

    assert asyncio.run(run()) > 0
