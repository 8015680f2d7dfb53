"""Ottla's producer and consumer in transactions: as on brokers of today, and as on those that must be told of each partition."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import pytest

import ottla
from ottla.client.keywords import ProducerKeywords
from tests.client.test_producer_consumer import drain, reader
from tests.support.feature_levels import TRANSACTIONS, FeatureLevels
from tests.support.peers import Peer, start_peer

Unique = Callable[[str], str]
WAIT_S = 30


Level = Literal["read_committed", "read_uncommitted"]


pytestmark = pytest.mark.since("0.11.0", "transactions")


@pytest.fixture(
    params=["implicit", pytest.param("explicit", marks=pytest.mark.since("3.9", "requests of api_version=3.9")), "oldest"]
)
def named(request: pytest.FixtureRequest, broker: Peer) -> Callable[[str], ottla.Producer]:
    """Makes a producer with a transactional id: of transaction.version 2, of 1, and of the first release with transactions."""
    release = {"implicit": None, "explicit": "3.9", "oldest": "0.11.0"}[request.param]
    return lambda name: ottla.Producer(broker.address, transactional_id=name, api_version=release)


def unique_id() -> str:
    return f"client-{uuid.uuid4().hex}"


def values(broker: Peer, topic: str, level: Level = "read_committed") -> list[bytes | None]:
    """All that a reader sees up to the end, sorted."""
    with reader(broker, isolation_level=level) as consumer:
        partitions = consumer.partitions_for(topic)
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        found: list[bytes | None] = []
        while any(consumer.position(where) < end for where, end in ends.items()):
            found += [record.value for record in consumer.poll(1_000)]
    return sorted(found, key=lambda value: value or b"")


def send_all(producer: ottla.Producer, topic: str, sent: Iterable[bytes]) -> None:
    for number, value in enumerate(sent):
        producer.send(topic, value, partition=number % 3)


def half_a_transaction(producer: ottla.Producer, topic: str) -> None:
    with producer.transaction():
        producer.send(topic, b"half", partition=0).result(WAIT_S)
        producer.send(topic, b"half more", partition=1)
        raise ZeroDivisionError


def test_readers_of_what_is_committed_see_whole_transactions(
    broker: Peer, topic: str, named: Callable[[str], ottla.Producer]
) -> None:
    names = [b"a", b"b", b"c", b"d"]
    with named(unique_id()) as producer:
        for name in names:
            producer.begin_transaction()
            send_all(producer, topic, [name + b"%d" % number for number in range(9)])
            if name in b"bd":
                producer.flush()
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    assert values(broker, topic) == sorted(b"%c%d" % (name, number) for name in b"ac" for number in range(9))
    assert len(values(broker, topic, "read_uncommitted")) == 36


def test_arrow_batches_leave_aborted_records_and_markers_out(broker: Peer, topic: str) -> None:
    with ottla.Producer(broker.address, transactional_id=unique_id()) as producer:
        for number in range(6):
            producer.begin_transaction()
            producer.send(topic, b"%d" % number, partition=0)
            producer.flush()
            producer.abort_transaction() if number % 2 else producer.commit_transaction()
    with reader(broker, isolation_level="read_committed") as consumer:
        consumer.assign([(topic, 0)])
        found = [value for batch in consumer.batches(timeout_ms=1_500) for value in batch.column("value").to_pylist()]
        assert found == [b"0", b"2", b"4"]
        assert consumer.position((topic, 0)) == consumer.end_offsets([(topic, 0)])[ottla.TopicPartition(topic, 0)] == 12


def test_what_an_exception_leaves_is_aborted_and_the_next_transaction_goes_on(
    broker: Peer, topic: str, named: Callable[[str], ottla.Producer]
) -> None:
    with named(unique_id()) as producer:
        for number in range(4):
            with pytest.raises(ZeroDivisionError):
                half_a_transaction(producer, topic)
            with producer.transaction():
                send_all(producer, topic, [b"whole %d" % number] * 3)
    assert values(broker, topic) == sorted([b"whole %d" % number for number in range(4)] * 3)


def test_records_that_an_abort_drops_say_so(broker: Peer, topic: str) -> None:
    with ottla.Producer(broker.address, transactional_id=unique_id(), linger_ms=60_000) as producer:
        producer.begin_transaction()
        dropped = producer.send(topic, b"never", partition=0)
        producer.abort_transaction()
        with pytest.raises(ottla.TransactionAbortable, match="aborted before the record was written"):
            dropped.result(WAIT_S)
        with producer.transaction():
            producer.send(topic, b"written", partition=0)
    assert values(broker, topic, "read_uncommitted") == [b"written"]


@pytest.mark.rows(1, seconds=3)
def test_a_copy_loop_that_aborts_now_and_then_copies_each_record_once(
    broker: Peer, admin: ottla.Admin, unique: Unique, named: Callable[[str], ottla.Producer]
) -> None:
    source, target, group = unique("source"), unique("target"), unique("copy")
    admin.create_topic(source, 2, 1)
    admin.create_topic(target, 3, 1)
    with ottla.Producer(broker.address) as plain:
        for number in range(60):
            plain.send(source, b"%03d" % number, partition=number % 2)
    copied = rounds = 0
    with named(unique_id()) as producer, reader(broker, source, group_id=group, enable_auto_commit=False) as consumer:
        while copied < 60:
            records = consumer.poll(10_000, max_records=7)
            assert records
            rounds += 1
            producer.begin_transaction()
            send_all(producer, target, [record.value or b"" for record in records])
            producer.send_offsets(consumer.positions(), ottla.ConsumerGroupMetadata(group) if is_oldest(producer) else consumer)
            if rounds % 3 == 0:
                producer.abort_transaction()
                consumer.seek_to_committed()
            else:
                producer.commit_transaction()
                copied += len(records)
        ends = {where: committed.offset for where in consumer.assignment() if (committed := consumer.committed(where))}
    assert sorted(ends.values()) == [30, 30]
    assert values(broker, target) == [b"%03d" % number for number in range(60)]


def test_a_newer_producer_fences_the_older_one(broker: Peer, topic: str, named: Callable[[str], ottla.Producer]) -> None:
    name = unique_id()
    with named(name) as older, named(name) as newer:
        older.begin_transaction()
        older.send(topic, b"zombie", partition=0).result(WAIT_S)
        newer.init_transactions()
        with pytest.raises(ottla.TransactionAbortable):
            older.send(topic, b"zombie", partition=0).result(WAIT_S)
        with pytest.raises(ottla.TransactionAbortable):
            older.commit_transaction()
        with pytest.raises(ottla.ProducerFenced, match="Another producer"):
            older.abort_transaction()
        with pytest.raises(ottla.ProducerFenced):
            older.send(topic, b"zombie")
        with newer.transaction():
            newer.send(topic, b"alive", partition=0)
    assert values(broker, topic) == [b"alive"]


def zombie(older: ottla.Producer, newer: ottla.Producer, topic: str) -> None:
    with older.transaction():
        older.send(topic, b"zombie", partition=0).result(WAIT_S)
        newer.init_transactions()
        older.send(topic, b"zombie", partition=0).result(WAIT_S)


def test_a_transaction_of_a_fenced_producer_raises_that_it_is_fenced(
    broker: Peer, topic: str, named: Callable[[str], ottla.Producer]
) -> None:
    name = unique_id()
    with named(name) as older, named(name) as newer:
        with pytest.raises(ottla.ProducerFenced) as fenced:
            zombie(older, newer, topic)
        assert isinstance(fenced.value, ottla.TransactionFailed)
    assert values(broker, topic) == []


@pytest.mark.since("2.5", "new epochs of producers that go on after a record failed (KIP-360)")
def test_after_a_record_that_brokers_refuse_the_producer_goes_on_with_the_next_transaction(
    broker: Peer, admin: ottla.Admin, unique: Unique, named: Callable[[str], ottla.Producer]
) -> None:
    topic = unique("small")
    admin.create_topic(topic, 3, 1, configs={"max.message.bytes": "2000"})
    with named(unique_id()) as producer:
        if is_oldest(producer):
            pytest.skip("before Kafka 2.5, nothing mends a gap in the sequences")
        for number in range(3):
            with pytest.raises(ottla.TransactionAbortable, match="MESSAGE_TOO_LARGE") as refused:
                too_large(producer, topic)
            assert refused.value.code == 10
            with producer.transaction():
                send_all(producer, topic, [b"whole %d" % number] * 3)
    assert values(broker, topic) == sorted([b"whole %d" % number for number in range(3)] * 3)


def too_large(producer: ottla.Producer, topic: str) -> None:
    with producer.transaction():
        producer.send(topic, b"half", partition=1)
        producer.send(topic, b"x" * 5_000, partition=0)


def is_oldest(producer: ottla.Producer) -> bool:
    """Whether it can neither get another epoch nor name a member of a group."""
    return producer._driver.settings.api_version == "0.11.0"


@pytest.mark.since("2.5", "offsets of a member in transactions (KIP-447)")
def test_offsets_of_a_member_that_the_group_has_left_behind_abort_the_transaction(broker: Peer, topic: str) -> None:
    group = unique_id()
    with (
        ottla.Producer(broker.address, transactional_id=unique_id()) as producer,
        reader(broker, topic, group_id=group, enable_auto_commit=False) as consumer,
    ):
        with ottla.Producer(broker.address) as plain:
            plain.send(topic, b"v").result(WAIT_S)
        drain(consumer, 1)
        left_behind = consumer.group_metadata()._replace(generation_id=99)
        producer.begin_transaction()
        producer.send(topic, b"half")
        with pytest.raises(ottla.TransactionAbortable, match="ILLEGAL_GENERATION") as refused:
            producer.send_offsets(consumer.positions(), left_behind)
        with pytest.raises(ottla.TransactionAbortable, match="ILLEGAL_GENERATION"):
            producer.commit_transaction()
        producer.abort_transaction()
        assert isinstance(refused.value.__cause__, ottla.CommitFailed)
        with producer.transaction():
            producer.send_offsets(consumer.positions(), consumer)
        assert sum(found.offset for where in consumer.assignment() if (found := consumer.committed(where))) == 1


@pytest.mark.since("2.5", "offsets of a member in transactions (KIP-447)")
def test_offsets_of_partitions_that_a_slow_consumer_lost_abort_the_transaction(broker: Peer, topic: str) -> None:
    """`positions()` has them no more: a commit would contain the copies without the offsets, and others would copy again."""
    with (
        ottla.Producer(broker.address, transactional_id=unique_id()) as producer,
        reader(
            broker,
            topic,
            group_id=unique_id(),
            enable_auto_commit=False,
            max_poll_interval_ms=300,
            heartbeat_interval_ms=100,
        ) as consumer,
    ):
        with ottla.Producer(broker.address) as plain:
            plain.send(topic, b"v").result(WAIT_S)
        while not consumer.poll(100):
            pass
        producer.begin_transaction()
        producer.send(topic, b"copy")
        while consumer.assignment():
            time.sleep(0.02)
        with pytest.raises(ottla.TransactionAbortable, match="The group took") as refused:
            producer.send_offsets(consumer.positions(), consumer)
        with pytest.raises(ottla.TransactionAbortable, match="The group took"):
            producer.commit_transaction()
        producer.abort_transaction()
        assert isinstance(refused.value.__cause__, ottla.CommitFailed)
        assert consumer.group_metadata()


def polled(consumer: ottla.Consumer) -> list[ottla.ConsumerRecord]:
    """The next records of a consumer, which they come to within some polls."""
    while not (records := consumer.poll(100)):
        pass
    return records


def wait_until_taken_away(consumer: ottla.Consumer) -> None:
    while consumer.assignment():
        time.sleep(0.02)


def slow_reader(broker: Peer, topic: str, protocol: Literal["classic", "consumer"]) -> ottla.Consumer:
    """A consumer that its group takes all partitions from 300 ms after its last poll."""
    return reader(broker, topic, group_id=unique_id(), enable_auto_commit=False, max_poll_interval_ms=300, group_protocol=protocol)


@pytest.fixture(params=["classic", pytest.param("consumer", marks=pytest.mark.since("4.0", "the consumer protocol (KIP-848)"))])
def slow(request: pytest.FixtureRequest, broker: Peer, topic: str) -> Iterator[ottla.Consumer]:
    with ottla.Producer(broker.address) as plain:
        plain.send(topic, b"v", partition=0).result(WAIT_S)
    with slow_reader(broker, topic, request.param) as consumer:
        yield consumer


@pytest.mark.since("2.5", "offsets of a member in transactions (KIP-447)")
def test_offsets_of_partitions_that_were_lost_after_a_further_poll_abort_the_transaction(
    broker: Peer, topic: str, slow: ottla.Consumer
) -> None:
    with ottla.Producer(broker.address, transactional_id=unique_id()) as producer:
        assert [record.value for record in polled(slow)] == [b"v"]
        producer.begin_transaction()
        producer.send(topic, b"copy", partition=1).result(WAIT_S)
        assert [record.value for record in polled(slow)] == [b"copy"]
        assert slow.poll() == []
        wait_until_taken_away(slow)
        with pytest.raises(ottla.TransactionAbortable, match="The group took"):
            producer.send_offsets(slow.positions(), slow)
        producer.abort_transaction()


@pytest.mark.since("2.5", "offsets of a member in transactions (KIP-447)")
def test_positions_from_before_a_member_was_late_are_refused_however_often_they_are_sent(
    broker: Peer, topic: str, slow: ottla.Consumer
) -> None:
    """A member that has left has no generation any more: without one, brokers would accept offsets that others have passed."""
    with ottla.Producer(broker.address, transactional_id=unique_id()) as producer:
        polled(slow)
        positions = slow.positions()
        assert positions[ottla.TopicPartition(topic, 0)].offset == 1
        wait_until_taken_away(slow)
        for _ in range(2):
            producer.begin_transaction()
            with pytest.raises(ottla.TransactionAbortable) as refused:
                producer.send_offsets(positions, slow)
            producer.abort_transaction()
            assert isinstance(refused.value.__cause__, ottla.CommitFailed)
        with pytest.raises(ottla.CommitFailed):
            slow.commit(positions)
        assert slow.committed((topic, 0)) is None


@pytest.mark.since("2.5", "offsets of a member in transactions (KIP-447)")
def test_partitions_that_are_lost_once_their_offsets_are_in_a_transaction_disturb_no_later_one(
    broker: Peer, topic: str, slow: ottla.Consumer
) -> None:
    with ottla.Producer(broker.address, transactional_id=unique_id()) as producer:
        for _ in range(2):
            polled(slow)
            with producer.transaction():
                producer.send(topic, b"copy", partition=1)
                producer.send_offsets(slow.positions(), slow)
            wait_until_taken_away(slow)
        polled(slow)
        slow.commit()
        wait_until_taken_away(slow)
        assert slow.group_metadata().generation_id > 0
        assert slow.committed((topic, 1)) == ottla.OffsetAndMetadata(4), "after a copy of each transaction and its marker"


def test_close_aborts_what_is_open(broker: Peer, topic: str, named: Callable[[str], ottla.Producer]) -> None:
    with named(unique_id()) as producer:
        producer.begin_transaction()
        producer.send(topic, b"open", partition=0).result(WAIT_S)
    with ottla.Producer(broker.address) as plain:
        plain.send(topic, b"plain", partition=0)
    assert values(broker, topic) == [b"plain"]


def test_calls_out_of_order_say_what_to_do(broker: Peer, topic: str) -> None:
    with ottla.Producer(broker.address, transactional_id=unique_id()) as producer:
        for call in (lambda: producer.send(topic, b"v"), producer.commit_transaction, producer.abort_transaction):
            with pytest.raises(ottla.TransactionError, match=r"init_transactions\(\) has not been called"):
                call()
        with producer.transaction(), pytest.raises(ottla.TransactionError, match="a transaction is open"):
            producer.begin_transaction()
        for call in (lambda: producer.send(topic, b"v"), producer.commit_transaction, producer.abort_transaction):
            with pytest.raises(ottla.TransactionError, match="no transaction is open"):
                call()
    with ottla.Producer(broker.address) as plain, pytest.raises(ottla.SettingError, match="transactional_id"):
        plain.begin_transaction()
    with reader(broker, topic) as consumer, pytest.raises(ottla.SettingError, match="group_id"):
        consumer.group_metadata()
    with reader(broker, topic, group_id="g") as consumer, pytest.raises(ottla.SettingError, match="enable_auto_commit=False"):
        consumer.group_metadata()


def test_a_poll_waits_for_records_and_not_for_markers(broker: Peer, topic: str) -> None:
    with reader(broker, isolation_level="read_committed") as consumer:
        consumer.assign([(topic, 0)])
        with ottla.Producer(broker.address, transactional_id=unique_id()) as producer:
            for number in range(5):
                producer.begin_transaction()
                producer.send(topic, b"%d" % number, partition=0).result(WAIT_S)
                producer.abort_transaction() if number < 4 else producer.commit_transaction()
                if number == 0:
                    assert consumer.poll(300) == []
        assert [record.value for record in consumer.poll(WAIT_S * 1000)] == [b"4"]


def test_ends_and_lag_are_those_of_what_is_committed(broker: Peer, topic: str) -> None:
    where = ottla.TopicPartition(topic, 0)
    with ottla.Producer(broker.address, transactional_id=unique_id()) as producer:
        with producer.transaction():
            producer.send(topic, b"committed", partition=0)
        producer.begin_transaction()
        producer.send(topic, b"open", partition=0).result(WAIT_S)
        levels: list[tuple[Level, int]] = [("read_committed", 2), ("read_uncommitted", 3)]
        for level, end in levels:
            with reader(broker, isolation_level=level) as consumer:
                consumer.assign([where])
                assert consumer.current_lag(where) in (None, end)  # before or after the answer to the first fetch
                drain(consumer, 1)
                assert consumer.current_lag(where) == end - consumer.position(where)
                consumer.seek_to_end()
                assert consumer.position(where) == end == consumer.end_offsets([where])[where]
        producer.abort_transaction()


@pytest.mark.since("2.5", "committed offsets that wait for the end of a transaction (KIP-447)")
def test_the_asynchronous_twin_copies_each_record_once(broker: Peer, topic: str) -> None:
    async def go() -> list[bytes | None]:
        group = unique_id()
        async with ottla.AsyncProducer(broker.address) as plain:
            for number in range(20):
                await plain.send(topic, b"%02d" % number, partition=1)
        async with (
            ottla.AsyncProducer(broker.address, transactional_id=unique_id()) as producer,
            ottla.AsyncConsumer(
                bootstrap_servers=broker.address, group_id=group, enable_auto_commit=False, auto_offset_reset="earliest"
            ) as consumer,
        ):
            await producer.init_transactions()
            await consumer.assign([(topic, 1)])
            for round_ in range(2):
                records = await consumer.poll(10_000, max_records=100)
                try:
                    async with producer.transaction():
                        for record in records:
                            await producer.send(topic, record.value, partition=0)
                        await producer.send_offsets(consumer.positions(), consumer)
                        if round_ == 0:
                            raise ZeroDivisionError
                except ZeroDivisionError:
                    await consumer.seek_to_committed()
            found = await consumer.committed((topic, 1))
            assert found == ottla.OffsetAndMetadata(20)
        async with ottla.AsyncConsumer(
            bootstrap_servers=broker.address, auto_offset_reset="earliest", isolation_level="read_committed"
        ) as copies:
            await copies.assign([(topic, 0)])
            return [record.value async for record in copies.records(timeout_ms=1_500)]

    assert asyncio.run(go()) == [b"%02d" % number for number in range(20)]


def test_a_cancelled_transaction_is_aborted(broker: Peer, topic: str) -> None:
    async def go() -> None:
        async with ottla.AsyncProducer(broker.address, transactional_id=unique_id()) as producer:
            written = asyncio.Event()

            async def half() -> None:
                async with producer.transaction():
                    await (await producer.send(topic, b"half", partition=0))
                    written.set()
                    await asyncio.sleep(WAIT_S)

            task = asyncio.create_task(half())
            await written.wait()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            async with producer.transaction():
                await producer.send(topic, b"whole", partition=0)

    asyncio.run(go())
    assert values(broker, topic) == [b"whole"]


@pytest.mark.rows(1, seconds=4)
@pytest.mark.parametrize("api_version", [None, pytest.param("3.9", marks=pytest.mark.since("3.9", "requests of api_version=3.9"))])
def test_a_transaction_outlives_the_kill_of_the_broker(own_broker: Peer, api_version: str | None) -> None:
    with ottla.Admin(own_broker.address) as admin:
        admin.create_topic("killed", 3, 1)
    settings: ProducerKeywords = {"transactional_id": "copy", "api_version": api_version}
    with ottla.Producer(own_broker.address, **settings) as producer:
        for end in (producer.abort_transaction, producer.commit_transaction):
            producer.begin_transaction()
            send_all(producer, "killed", [b"before"] * 3)
            producer.flush()
            own_broker.restart(kill=True)
            producer.send("killed", b"after")
            end()
    assert values(own_broker, "killed") == [b"after"] + [b"before"] * 3


@pytest.mark.since("4.0", "transaction.version 2")
def test_producers_go_on_while_the_level_of_transactions_changes(own_broker: Peer) -> None:
    sent: list[bytes] = []
    with ottla.Admin(own_broker.address) as admin:
        admin.create_topic("levels", 3, 1)
    with FeatureLevels(own_broker.address) as levels, ottla.Producer(own_broker.address, transactional_id="old") as old:
        for level in (1, 2):
            with old.transaction():
                send_all(old, "levels", [b"old %d" % level] * 3)
                levels.set(**{TRANSACTIONS: level})
                send_all(old, "levels", [b"old %d" % level] * 3)
            with ottla.Producer(own_broker.address, transactional_id="new") as new:
                for number in range(2):
                    with new.transaction():
                        send_all(new, "levels", [b"new %d %d" % (level, number)] * 3)
            with old.transaction():
                send_all(old, "levels", [b"old %d" % level] * 3)
            sent += [b"old %d" % level] * 9 + [b"new %d %d" % (level, number) for number in (0, 1) for _ in range(3)]
    assert values(own_broker, "levels") == sorted(sent)


@pytest.fixture(scope="module")
def impatient(peer_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """A broker that looks for transactions that are open for too long ten times a second."""
    settings: dict[str, object] = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 100}
    with start_peer(peer_name, tmp_path_factory.mktemp("impatient"), settings) as peer:
        yield peer


@pytest.mark.since("4.0", "transaction.version 2, which does not fence the producer of a transaction that took too long")
@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("api_version", [None, "3.9"])
def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_told(
    impatient: Peer, commits: bool, api_version: str | None
) -> None:
    topic = unique_id()
    settings: ProducerKeywords = {"transactional_id": topic, "transaction_timeout_ms": 300, "api_version": api_version}
    with ottla.Producer(impatient.address, **settings) as producer:
        producer.begin_transaction()
        producer.send(topic, b"open", partition=0).result(WAIT_S)
        with reader(impatient, isolation_level="read_committed") as consumer:
            consumer.assign([(topic, 0)])
            while consumer.position((topic, 0)) < 2:
                assert consumer.poll(1_000) == []
        if api_version is not None:  # a broker of transaction.version 1 cannot tell this producer from a zombie
            with pytest.raises(ottla.ProducerFenced, match="longer than transaction_timeout_ms=300"):
                producer.commit_transaction() if commits else producer.abort_transaction()
            return
        with pytest.raises(ottla.TransactionAbortable):
            producer.commit_transaction() if commits else producer.send(topic, b"late", partition=0).result(WAIT_S)
        producer.abort_transaction()
        with producer.transaction():
            producer.send(topic, b"in time", partition=0)
    assert values(impatient, topic) == [b"in time"]
