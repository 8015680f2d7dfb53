"""What goes wrong behind a client's back: its user hears of it, and nobody waits for ever or is left behind."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.client.connection.metadata import metadata_request
from ottla.client.keywords import ConsumerKeywords
from ottla.log.checkpoints import CLEAN_SHUTDOWN
from ottla.net.client.link import Link
from ottla.records.batches.builder import build
from ottla.records.batches.header import HEADER_BYTES, read_header, write_crc
from ottla.records.compression.codecs import ZSTD
from tests.client.test_producer_consumer import drain, fill, reader
from tests.support.peers import Peer, start_peer
from tests.support.waiting import eventually


class MineError(Exception):
    """A user's own."""


@pytest.fixture
def strict_broker(peer_name: str, tmp_path: Path) -> Iterator[Peer]:
    """A broker that makes no topic by itself."""
    with start_peer(peer_name, tmp_path, {"auto.create.topics.enable": "false"}) as peer:
        yield peer


@contextmanager
def silent(broker: Peer) -> Iterator[None]:
    """A broker that takes requests and answers none."""
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)


# --- topics that go


@pytest.mark.rows(1, seconds=3)
@pytest.mark.parametrize("record", [{"key": b"k"}, {}, {"partition": 0}], ids=["key", "no-key", "partition"])
def test_a_producer_says_that_its_topic_is_gone_and_goes_on_when_it_is_made_anew(
    strict_broker: Peer, record: dict[str, Any]
) -> None:
    with (
        ottla.Admin(strict_broker.address) as admin,
        ottla.Producer(strict_broker.address, max_block_ms=500, delivery_timeout_ms=1_000) as producer,
    ):
        admin.create_topic("t", 1, 1)
        fill(strict_broker, "t", 1)  # by then the broker has begun to give out producer ids
        assert producer.send("t", b"1", **record).result(20).offset == 1
        admin.delete_topics("t")
        with pytest.raises(ottla.TimedOut, match="UNKNOWN_TOPIC_OR_PARTITION"):
            producer.send("t", b"2", **record).result(20)
        with pytest.raises(ottla.UnknownTopic, match="Topic t"):
            producer.send("t", b"3", **record)
        admin.create_topic("t", 1, 1)
        assert producer.send("t", b"4", **record).result(20).offset == 0


def test_a_consumer_says_that_its_topic_is_gone_and_goes_on_when_it_is_made_anew(strict_broker: Peer) -> None:
    with ottla.Admin(strict_broker.address) as admin:
        admin.create_topic("t", 1, 1)
        with reader(strict_broker, default_api_timeout_ms=300) as consumer:
            consumer.assign([("t", 0)])
            fill(strict_broker, "t", 3)
            assert len(drain(consumer, 3)) == 3
            admin.delete_topics("t")
            with pytest.raises(ottla.UnknownTopic, match="t-0"):
                eventually(lambda: consumer.poll(100))
            with pytest.raises(ottla.UnknownTopic, match="t-0"):
                consumer.poll(0)
            admin.create_topic("t", 1, 1)
            fill(strict_broker, "t", 2)
            assert len(eventually(lambda: polled(consumer), what="records of the new topic")) == 2


def polled(consumer: ottla.Consumer) -> list[ottla.ConsumerRecord]:
    try:
        return consumer.poll(100)
    except ottla.UnknownTopic:
        return []


# --- what breaks in the background


def test_an_exception_of_on_assigned_reaches_poll_and_the_member_leaves(
    broker: Peer, topic: str, unique: Callable[[str], str], admin: ottla.Admin
) -> None:
    group = unique("group")

    def broken(partitions: list[ottla.TopicPartition]) -> None:
        raise MineError

    consumer = reader(broker, topic, group_id=group, on_assigned=broken)
    with pytest.raises(MineError):
        eventually(lambda: consumer.poll(100))
    with pytest.raises(ottla.Closed, match="MineError"):
        consumer.poll(0)
    eventually(lambda: not admin.describe_group(group).members, what="the group to be without members")
    consumer.close()


def test_an_exception_of_on_revoked_reaches_poll(broker: Peer, topic: str, unique: Callable[[str], str]) -> None:
    settings: ConsumerKeywords = {"group_id": unique("group"), "heartbeat_interval_ms": 50}

    def broken(partitions: list[ottla.TopicPartition]) -> None:
        raise MineError

    one = reader(broker, topic, on_revoked=broken, **settings)
    eventually(lambda: one.poll(50) or one.assignment(), what="the first member to be assigned")
    with reader(broker, topic, **settings) as two:
        with pytest.raises(MineError):
            eventually(lambda: one.poll(50) or two.poll(50))
        eventually(lambda: two.poll(50) or len(two.assignment()) == 3, what="the second member to take over")
    one.close()


@pytest.mark.parametrize("error", [MineError(), ottla.KafkaError("mine"), SystemExit(3), asyncio.CancelledError()])
def test_an_exception_of_a_delivery_callback_reaches_the_next_flush_and_concerns_no_record(
    broker: Peer, topic: str, error: BaseException
) -> None:
    def broken(delivery: ottla.Delivery) -> None:
        raise error

    with ottla.Producer(broker.address, linger_ms=200) as producer:
        sent = [producer.send(topic, b"1", partition=partition) for partition in range(3)]
        for each in (*sent, *sent):
            each.add_done_callback(broken)
        for delivery in sent:
            assert delivery.result(20).offset == 0
        with pytest.raises(type(error)):
            producer.flush()
        assert producer.send(topic, b"2", partition=0).result(20).offset == 1
        producer.flush()
        sent[0].add_done_callback(broken)  # at once
        with pytest.raises(type(error)):
            producer.poll()
        with pytest.raises(TypeError, match="takes a function of the record's Delivery, not 5"):
            sent[0].add_done_callback(5)  # type: ignore[arg-type]  # the mistake


def test_the_error_of_an_asynchronous_callback_keeps_no_other_from_being_called(broker: Peer, topic: str) -> None:
    def broken(delivery: ottla.Delivery) -> None:
        raise asyncio.CancelledError

    async def main() -> None:
        called = asyncio.Event()
        async with ottla.AsyncProducer(broker.address, linger_ms=100) as producer:
            for on_delivery in (broken, lambda delivery: called.set()):
                await producer.send(topic, b"1", partition=0, on_delivery=on_delivery)
            await asyncio.wait_for(called.wait(), 20)
            with pytest.raises(asyncio.CancelledError):
                await producer.flush()

    asyncio.run(main())


def test_a_topic_can_be_a_string_of_a_subclass(broker: Peer, topic: str) -> None:
    [name] = StrEnum("Name", {"TOPIC": topic})
    with ottla.Producer(broker.address) as producer:
        assert producer.send(name, b"1", partition=0).result(20).offset == 0
        assert producer.send_values(name, [b"2"], partition=0)[0][0].result(20).offset == 1
        assert type(producer.send(name, b"3", partition=0).topic) is str
    with ottla.Consumer(name, bootstrap_servers=broker.address, auto_offset_reset="earliest") as consumer:
        assert [record.value for record in consumer.records(until={(topic, 0): 3})] == [b"1", b"2", b"3"]


def test_time_limits_of_any_size_are_accepted(broker: Peer, topic: str) -> None:
    with ottla.Producer(broker.address, linger_ms=50) as producer:
        assert producer.send(topic, b"1").result(float("inf")).offset == 0
        producer.send(topic, b"1", on_delivery=lambda delivery: None)
        assert producer.poll(1 << 60) == 1
        producer.flush(1 << 60)


def test_a_failure_that_nobody_has_heard_of_is_raised_by_close(broker: Peer, topic: str) -> None:
    def broken(delivery: ottla.Delivery) -> None:
        raise MineError

    with pytest.raises(MineError), ottla.Producer(broker.address, linger_ms=200) as producer:
        producer.send(topic, b"1").add_done_callback(broken)


# --- groups that refuse a member


def test_every_poll_says_that_the_group_refuses_the_member_until_it_subscribes_anew(
    broker: Peer, topic: str, unique: Callable[[str], str]
) -> None:
    group = unique("group")
    other = reader(broker, topic, group_id=group, partition_assignment_strategy="roundrobin")
    eventually(lambda: other.poll(50) or other.assignment(), what="the other member to be assigned")
    with reader(broker, topic, group_id=group, partition_assignment_strategy="range") as consumer:
        with pytest.raises(ottla.BrokerError, match="INCONSISTENT_GROUP_PROTOCOL"):
            eventually(lambda: consumer.poll(100))
        for _ in range(3):
            with pytest.raises(ottla.BrokerError, match="INCONSISTENT_GROUP_PROTOCOL"):
                consumer.poll(0)
        other.close()
        consumer.subscribe(topic)
        fill(broker, topic, 1)
        assert drain(consumer, 1)


def test_every_poll_says_that_nothing_is_committed_until_it_is_known_where_to_begin(broker: Peer, topic: str) -> None:
    fill(broker, topic, 20)
    with reader(broker, auto_offset_reset="none") as consumer:
        consumer.assign([(topic, 0)])
        for _ in range(3):
            with pytest.raises(ottla.KafkaError, match="auto_offset_reset is none"):
                consumer.poll(0)
        with pytest.raises(ottla.KafkaError, match="auto_offset_reset is none"):
            consumer.position((topic, 0))
        consumer.seek((topic, 0), 0)
        assert drain(consumer, 1)


def test_polls_that_raise_for_one_partition_lose_no_record_of_another(broker: Peer, topic: str) -> None:
    with ottla.Producer(broker.address) as producer:
        for number in range(1_200):
            producer.send(topic, b"%d" % number, partition=1)
    found: list[int] = []
    with reader(broker, auto_offset_reset="none") as consumer:
        consumer.assign([(topic, 0), (topic, 1)])
        consumer.seek((topic, 1), 0)

        def is_all_there() -> bool:
            with suppress(ottla.KafkaError):
                found.extend(record.offset for record in consumer.poll(100))
            return len(found) == 1_200

        eventually(is_all_there, what="the records of the other partition")
        with pytest.raises(ottla.KafkaError, match="auto_offset_reset is none"):
            consumer.poll(0)
    assert found == list(range(1_200))


def two_partitions(path: Path) -> Path:
    """A data directory with a record in each partition of topic t."""
    with ottla.Broker(str(path)) as broker, ottla.Admin(broker.address) as admin, ottla.Producer(broker.address) as producer:
        admin.create_topic("t", 2, 1)
        for partition in (0, 1):
            producer.send("t", b"v", partition=partition).result(20)
    return path


@pytest.mark.expects_errors("t-0 is offline")
def test_a_partition_that_is_offline_keeps_nobody_from_the_others(tmp_path: Path) -> None:
    path = two_partitions(tmp_path / "data")
    shutil.rmtree(path / "t-0")
    with (
        ottla.Broker(str(path)) as broker,
        ottla.Consumer("t", bootstrap_servers=broker.address, auto_offset_reset="earliest") as consumer,
    ):
        assert [record.partition for record in drain(consumer, 1)] == [1]
        consumer.seek_to_beginning(("t", 1))
        assert [record.partition for record in drain(consumer, 1)] == [1], "though the other one is still being looked for"


def test_a_batch_that_cannot_be_opened_takes_no_records_of_another_partition_with_it(tmp_path: Path) -> None:
    """All that is checked of it without opening it is right, as whoever wrote it did it badly."""
    path = two_partitions(tmp_path / "data")
    segment = path / "t-1" / "00000000000000000000.log"
    batch = build(None, [b"v"], 5, codec=ZSTD, leader_epoch=read_header(segment.read_bytes()).leader_epoch)
    batch[HEADER_BYTES:] = bytes(len(batch) - HEADER_BYTES)
    write_crc(batch, 0, len(batch))
    segment.write_bytes(batch)
    (path / CLEAN_SHUTDOWN).unlink()  # its size is not what was noted
    with (
        ottla.Broker(str(path)) as broker,
        ottla.Consumer("t", bootstrap_servers=broker.address, auto_offset_reset="earliest") as consumer,
    ):
        assert [record.partition for record in consumer.poll(10_000)] == [0]
        for _ in range(2):
            with pytest.raises(ottla.BrokerError, match="Opening t-1: CORRUPT_MESSAGE"):
                consumer.poll(10_000)


# --- what is left behind


def ours() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("ottla-")}


@pytest.mark.parametrize(
    "make",
    [
        lambda: ottla.Producer("bad:x"),
        lambda: ottla.Admin("bad:x"),
        lambda: ottla.Consumer(bootstrap_servers="bad:x"),
        lambda: ottla.Consumer("t", bootstrap_servers=["bad:x"], group_id="g"),
    ],
    ids=["producer", "admin", "consumer", "member"],
)
def test_a_client_that_cannot_be_made_leaves_no_thread(make: Callable[[], object]) -> None:
    before = ours()
    with pytest.raises(ottla.SettingError, match="'bad:x' is not a host and port"):
        make()
    assert ours() <= before


def test_a_consumer_that_cannot_begin_leaves_nothing_behind(broker: Peer, unique: Callable[[str], str]) -> None:
    before = ours()
    settings: ConsumerKeywords = {
        "bootstrap_servers": broker.address,
        "allow_auto_create_topics": False,
        "default_api_timeout_ms": 500,
    }

    async def go() -> int:
        with pytest.raises(ottla.UnknownTopic):
            await ottla.AsyncConsumer(unique("missing"), **settings).start()
        return len(asyncio.all_tasks())

    assert asyncio.run(go()) == 1
    with pytest.raises(ottla.UnknownTopic):
        ottla.Consumer(unique("missing"), **settings)
    assert ours() <= before


def test_closing_in_time_ends_every_record_that_was_not_acknowledged(own_broker: Peer) -> None:
    before = ours()
    with ottla.Admin(own_broker.address) as admin:
        admin.create_topic("t", 1, 1)
    producer = ottla.Producer(own_broker.address, linger_ms=0)
    producer.send("t", b"0").result(20)
    with silent(own_broker):
        delivery = producer.send("t", b"1")
        with pytest.raises(ottla.TimedOut):
            producer.close(timeout_ms=300)
    with pytest.raises(ottla.Closed):
        delivery.result(5)
    assert ours() <= before


def test_closing_ends_a_call_that_waits_on_another_thread(own_broker: Peer) -> None:
    with ottla.Admin(own_broker.address) as admin:
        admin.create_topic("t", 1, 1)
    producer = ottla.Producer(own_broker.address)
    producer.partitions_for("t")
    said: list[BaseException] = []

    def send() -> None:
        try:
            producer.send("unknown", b"1")
        except ottla.KafkaError as error:
            said.append(error)

    with silent(own_broker):
        waiting = threading.Thread(target=send)
        waiting.start()
        time.sleep(0.3)  # until it waits; before that, closing ends it just as well
        producer.close()
        waiting.join(10)
    assert isinstance(said[0], ottla.Closed)


def test_a_closed_client_opens_no_connection_again(broker: Peer, topic: str, unique: Callable[[str], str]) -> None:
    async def go() -> None:
        admin = await ottla.AsyncAdmin(broker.address).start()
        await admin.list_topics()
        await admin.close()
        with pytest.raises(ottla.Closed):
            await admin.list_topics()
        consumer = await ottla.AsyncConsumer(topic, bootstrap_servers=broker.address, group_id=unique("group")).start()
        await consumer.close()
        for call in (consumer.commit({(topic, 0): 1}), consumer.committed((topic, 0)), consumer.poll()):
            with pytest.raises(ottla.Closed):
                await call

    asyncio.run(go())


# --- records and partitions that cannot be


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"value": "text"}, "value is bytes or None, not str"),
        ({"value": 7}, "value is bytes or None, not int"),
        ({"value": b"v", "key": "text"}, "key is bytes or None, not str"),
        ({"value": b"v", "headers": [("name", "text")]}, "headers are pairs of a string and bytes or None"),
        ({"value": b"v", "headers": [(b"name", b"v")]}, "headers are pairs of a string and bytes or None"),
        ({"value": b"v", "headers": ["name"]}, "headers are pairs of a string and bytes or None"),
        ({"value": b"v", "timestamp_ms": 1.5}, "timestamp_ms is a whole number"),
    ],
)
def test_a_record_of_the_wrong_kind_is_refused_by_send_and_the_producer_goes_on(
    broker: Peer, topic: str, record: dict[str, Any], said: str
) -> None:
    with ottla.Producer(broker.address) as producer:
        with pytest.raises(TypeError, match=said):
            producer.send(topic, partition=0, **record)
        assert producer.send(topic, b"v", key=b"k", partition=0).result(20).offset == 0


@pytest.mark.parametrize("timestamp_ms", [-1, 1 << 63])
def test_a_time_that_no_record_can_have_is_refused_by_send(broker: Peer, topic: str, timestamp_ms: int) -> None:
    with ottla.Producer(broker.address) as producer:
        with pytest.raises(ottla.SettingError, match="timestamp_ms is a whole number"):
            producer.send(topic, b"v", partition=0, timestamp_ms=timestamp_ms)
        assert producer.send(topic, b"v", partition=0).result(20).offset == 0


def test_a_partition_that_does_not_exist_cannot_be_assigned(broker: Peer, topic: str) -> None:
    with reader(broker) as consumer, pytest.raises(ottla.UnknownTopic, match=f"{topic}-3"):
        consumer.assign([(topic, 0), (topic, 3)])


def test_a_group_reads_a_topic_that_is_made_after_its_members_subscribed(
    strict_broker: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    with ottla.Admin(strict_broker.address) as admin, reader(strict_broker, "later", group_id="g") as consumer:
        eventually(lambda: consumer.poll(100) or admin.describe_group("g").state == "Stable", what="a group with nothing to read")
        admin.create_topic("later", 2, 1)
        fill(strict_broker, "later", 3)
        assert len(drain(consumer, 3)) == 3
    assert "later does not exist" in caplog.text


def test_a_delivery_of_the_blocking_producer_can_be_awaited(broker: Peer, topic: str) -> None:
    with ottla.Producer(broker.address, linger_ms=300) as producer:

        async def go() -> int:
            async with asyncio.timeout(15):
                return (await producer.send(topic, b"v", partition=0)).offset

        assert asyncio.run(go()) == 0


def test_what_breaks_in_a_connection_reaches_whoever_waits_for_an_answer(broker: Peer) -> None:
    async def go() -> None:
        host, _, port = broker.address.rpartition(":")
        link = await Link.open(host, int(port), "test", 10_000)
        answer = link.send(metadata_request([], allow_auto_topic_creation=False))
        link.connection_lost(MineError())
        with pytest.raises(MineError):
            await answer
        assert link.closed

    asyncio.run(go())


def test_a_bug_in_the_sending_ends_the_producer_and_its_next_calls_name_it(broker: ottla.Broker) -> None:
    def close(*_: object) -> object:
        raise ZeroDivisionError

    producer = ottla.Producer(broker.address)
    producer.partitions_for("t")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(producer._driver.accumulator, "close", close)
        delivery = producer.send("t", b"v")
        with pytest.raises(ottla.Closed, match="unexpected error"):
            delivery.result(10)
    with pytest.raises(ZeroDivisionError):
        producer.flush()
    with pytest.raises(ottla.Closed, match="ZeroDivisionError"):
        producer.send("t", b"v")
    with suppress(ottla.KafkaError):
        producer.close()
