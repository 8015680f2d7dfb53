"""Share consumers: a queue whose members accept, release, reject and renew records (KIP-932), on Ottla and on Apache Kafka."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla import AcknowledgeType, ConfigResource, ShareConsumer, TopicPartition
from ottla.net.client.share import share_fetch_driver
from tests.support.peers import Peer, start_peer
from tests.support.waiting import eventually

pytestmark = pytest.mark.since("4.2", "share groups with renewals")
WAIT_MS = 40_000
IDLE_MS = 1_500
LOCK_MS = 2_000


@pytest.fixture(scope="module")
def impatient(peer_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """A broker whose acquisition locks last two seconds."""
    settings: dict[str, object] = {
        "group.share.min.record.lock.duration.ms": 1_000,
        "group.share.record.lock.duration.ms": LOCK_MS,
    }
    with start_peer(peer_name, tmp_path_factory.mktemp("impatient"), settings) as peer:
        yield peer


def prepare(peer: Peer, group: str, topic: str, values: list[bytes], partitions: int = 1, **producer: Any) -> None:
    """Create a topic with records, and a group that reads it from its beginning."""
    with ottla.Admin(peer.address) as admin:
        if topic not in admin.list_topics():
            admin.create_topic(topic, partitions, 1)
        admin.alter_configs(ConfigResource.group(group), set={"share.auto.offset.reset": "earliest"})
    produce(peer, topic, values, partitions, **producer)


def produce(peer: Peer, topic: str, values: list[bytes], partitions: int = 1, **settings: Any) -> None:
    with ottla.Producer(peer.address, **settings) as producer:
        for number, value in enumerate(values):
            producer.send(topic, value, partition=number % partitions)


def member(peer: Peer, group: str, *topics: str, **settings: Any) -> ShareConsumer[Any, Any]:
    return ShareConsumer(*topics, bootstrap_servers=peer.address, group_id=group, **settings)


def explicit(peer: Peer, group: str, *topics: str, **settings: Any) -> ShareConsumer[Any, Any]:
    return member(peer, group, *topics, share_acknowledgement_mode="explicit", **settings)


def poll_all(consumer: ShareConsumer[Any, Any], count: int) -> list[Any]:
    """Poll `count` records, which can need several calls."""
    found: list[Any] = []
    while len(found) < count:
        polled = consumer.poll(WAIT_MS)
        assert polled, f"only {len(found)} of {count} records arrived"
        found += polled
    return found


def values_of(peer: Peer, group: str, topic: str) -> list[bytes | None]:
    """Return the values that the group still delivers."""
    with member(peer, group, topic) as consumer:
        wait_for_partitions(consumer)
        return [record.value for record in consumer.records(IDLE_MS)]


def wait_for_partitions(consumer: ShareConsumer[Any, Any]) -> None:
    """Wait until the group has assigned partitions, which takes a second."""
    eventually(lambda: bool(consumer.assignment()))


@pytest.fixture
def group(unique: Callable[[str], str]) -> str:
    return unique("queue")


@pytest.fixture
def jobs(unique: Callable[[str], str]) -> str:
    return unique("jobs")


NUMBERS = [b"%d" % number for number in range(10)]


def test_an_iteration_accepts_each_record_once(broker: Peer, group: str, jobs: str) -> None:
    values = [b"%d" % number for number in range(300)]
    prepare(broker, group, jobs, values, partitions=3)
    with member(broker, group, jobs) as consumer:
        found = [record for _, record in zip(values, consumer, strict=False)]
        assert consumer.assignment() == {TopicPartition(jobs, index) for index in range(3)}
        assert consumer.subscription() == {jobs}
        assert consumer.acquisition_lock_timeout_ms() == 30_000
    assert Counter(record.value for record in found) == Counter(values)
    assert {record.delivery_count for record in found} == {1}
    assert values_of(broker, group, jobs) == []


def test_a_record_that_was_not_processed_is_delivered_again(broker: Peer, group: str, jobs: str) -> None:
    prepare(broker, group, jobs, NUMBERS)

    def fail() -> None:
        with member(broker, group, jobs) as consumer:
            for record in consumer:
                if record.value == b"4":
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with member(broker, group, jobs) as consumer:
        again = poll_all(consumer, 6)
        assert [(record.value, record.delivery_count) for record in again] == [(b"%d" % number, 2) for number in range(4, 10)]


def test_each_type_of_acknowledgement_has_its_effect(broker: Peer, group: str, jobs: str) -> None:
    prepare(broker, group, jobs, NUMBERS)
    kinds = [AcknowledgeType.ACCEPT, "release", "reject"]
    with explicit(broker, group, jobs) as consumer:
        for number, record in enumerate(poll_all(consumer, 10)):
            consumer.acknowledge(record, kinds[number % 3])  # type: ignore[arg-type]  # strings in a list are not literals
        consumer.commit()
        again = poll_all(consumer, 3)
        assert [(record.value, record.delivery_count) for record in again] == [(b"1", 2), (b"4", 2), (b"7", 2)]
        consumer.acknowledge(again)
        assert consumer.poll(IDLE_MS) == []
    assert values_of(broker, group, jobs) == []


def test_a_poll_before_all_are_acknowledged_names_the_first(broker: Peer, group: str, jobs: str) -> None:
    prepare(broker, group, jobs, NUMBERS)
    with explicit(broker, group, jobs) as consumer:
        records = poll_all(consumer, 10)
        consumer.acknowledge(records[0])
        with pytest.raises(ottla.KafkaError, match=f"9 records are not acknowledged, such as offset 1 of {jobs}-0: acknowledge"):
            consumer.poll()
        consumer.acknowledge(records[1:])
        assert consumer.poll(IDLE_MS) == []


def test_wrong_acknowledgements_change_nothing(broker: Peer, group: str, jobs: str) -> None:
    prepare(broker, group, jobs, NUMBERS)
    with explicit(broker, group, jobs) as consumer:
        records = poll_all(consumer, 10)
        foreign = records[0]._replace(offset=77)
        with pytest.raises(ottla.KafkaError, match=f"Offset 77 of {jobs}-0 is not in this consumer's hands"):
            consumer.acknowledge([records[1], foreign])
        with pytest.raises(ottla.SettingError, match="one of accept, release, reject, renew"):
            consumer.acknowledge(records[0], "drop")  # type: ignore[arg-type]  # the mistake
        with pytest.raises(TypeError, match=r"acknowledge\(\) accepts a record"):
            consumer.acknowledge(7)  # type: ignore[arg-type]  # the mistake
        consumer.acknowledge(records, "release")
        consumer.acknowledge(records)  # replaces what was not sent yet
        consumer.commit()
        with pytest.raises(ottla.KafkaError, match="or it has its final acknowledgement already"):
            consumer.acknowledge(records[0], "release")
    assert values_of(broker, group, jobs) == []
    with member(broker, group, jobs) as implicit, pytest.raises(ottla.SettingError, match="share_acknowledgement_mode='explicit'"):
        implicit.acknowledge(records[0])


def test_a_callback_gets_the_offsets_of_each_commit(broker: Peer, group: str, jobs: str) -> None:
    prepare(broker, group, jobs, NUMBERS)
    calls: list[tuple[TopicPartition, list[int], object]] = []
    threads = set()

    def on_acknowledged(where: TopicPartition, offsets: list[int], error: ottla.KafkaError | None) -> None:
        threads.add(threading.get_ident())
        calls.append((where, offsets, error))

    with member(broker, group, jobs, on_acknowledged=on_acknowledged) as consumer:
        poll_all(consumer, 10)
        consumer.commit_soon()
    where = TopicPartition(jobs, 0)
    assert calls == [(where, [*range(10)], None)]
    assert threading.get_ident() not in threads


def test_a_commit_and_a_close_at_once_lose_no_acknowledgement(broker: Peer, group: str, jobs: str) -> None:
    prepare(broker, group, jobs, NUMBERS)
    consumer = member(broker, group, jobs)
    poll_all(consumer, 10)
    consumer.commit()
    consumer.commit()  # nothing is left
    consumer.close()
    consumer.close()
    with pytest.raises(ottla.KafkaError, match="closed"):
        consumer.poll()
    assert values_of(broker, group, jobs) == []


def test_two_consumers_of_one_process_share_one_partition(broker: Peer, group: str, jobs: str) -> None:
    values = [b"%d" % number for number in range(400)]
    prepare(broker, group, jobs, [], partitions=1)
    found: list[bytes | None] = []
    with member(broker, group, jobs, max_poll_records=10) as one, member(broker, group, jobs, max_poll_records=10) as other:
        wait_for_partitions(one)
        wait_for_partitions(other)
        counts = []
        for start in range(0, 400, 20):
            produce(broker, jobs, values[start : start + 20])
        while len(found) < 400:
            for consumer in (one, other):
                polled = consumer.poll(500)
                counts.append((consumer is one, len(polled)))
                found += [record.value for record in polled]
    assert Counter(found) == Counter(values)
    assert {is_one for is_one, count in counts if count} == {True, False}


def test_closing_ends_a_call_that_waits_on_another_thread(
    broker: Peer, group: str, jobs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next fetch for that call would keep its session busy until closing gives it up."""
    monkeypatch.setattr(share_fetch_driver, "CLOSE_TIMEOUT_S", 600.0)
    prepare(broker, group, jobs, NUMBERS)
    consumer = member(broker, group, jobs)
    poll_all(consumer, 10)

    def wait() -> None:
        with pytest.raises(ottla.Closed):
            consumer.poll(600_000)

    waiting, closing = threading.Thread(target=wait, daemon=True), threading.Thread(target=consumer.close, daemon=True)
    waiting.start()
    eventually(lambda: consumer._async._reader.machine.wants_records)
    closing.start()
    for thread in (closing, waiting):
        thread.join(60)
        assert not thread.is_alive()
    assert values_of(broker, group, jobs) == []


def test_other_threads_acknowledge_and_wake_up(broker: Peer, group: str, jobs: str) -> None:
    prepare(broker, group, jobs, NUMBERS)
    with explicit(broker, group, jobs) as consumer:
        records = poll_all(consumer, 10)
        workers = [threading.Thread(target=consumer.acknowledge, args=(record,)) for record in records]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        waker = threading.Timer(0.5, consumer.wakeup)
        waker.start()
        with pytest.raises(ottla.WokenUp):
            consumer.poll(WAIT_MS)
        produce(broker, jobs, [b"next"])
        (record,) = poll_all(consumer, 1)
        assert record.value == b"next"
        consumer.acknowledge(record)
    assert values_of(broker, group, jobs) == []


def test_a_record_whose_lock_ends_is_delivered_to_another(impatient: Peer, group: str, jobs: str) -> None:
    prepare(impatient, group, jobs, NUMBERS)
    errors: list[ottla.KafkaError | None] = []

    def on_acknowledged(where: TopicPartition, offsets: list[int], error: ottla.KafkaError | None) -> None:
        errors.append(error)

    with (
        explicit(impatient, group, jobs, on_acknowledged=on_acknowledged) as slow,
        explicit(impatient, group, jobs) as other,
    ):
        late = poll_all(slow, 10)
        assert slow.acquisition_lock_timeout_ms() == LOCK_MS
        again = poll_all(other, 10)
        assert {record.delivery_count for record in again} == {2}
        slow.acknowledge(late)
        with pytest.raises(ottla.AcknowledgeFailed, match="INVALID_RECORD_STATE") as refused:
            slow.commit()
        assert [*refused.value.errors] == [(jobs, 0)]
        other.acknowledge(again)
        other.commit()
    assert [getattr(error, "name", None) for error in errors] == ["INVALID_RECORD_STATE"]
    assert values_of(impatient, group, jobs) == []


def test_a_renewed_record_stays_with_its_consumer(impatient: Peer, group: str, jobs: str) -> None:
    prepare(impatient, group, jobs, [b"long"])
    with explicit(impatient, group, jobs) as busy, explicit(impatient, group, jobs) as other:
        (record,) = poll_all(busy, 1)
        for _ in range(4):
            busy.acknowledge(record, "renew")
            assert other.poll(LOCK_MS // 2) == []
        assert busy.poll() == [], "a renewed record does not hold up others"
        busy.acknowledge(record)
        busy.commit()
        assert other.poll(2 * LOCK_MS) == []


def test_an_iteration_hands_out_no_record_after_its_lock(impatient: Peer, group: str, jobs: str) -> None:
    prepare(impatient, group, jobs, NUMBERS)
    with member(impatient, group, jobs) as slow:
        (first,) = slow.poll(WAIT_MS, max_records=1)
        with member(impatient, group, jobs) as other:
            assert len(poll_all(other, 10)) == 10
        rest = [record.value for record in slow.records(IDLE_MS)]
    assert first.value == b"0"
    assert rest == [], "others have accepted these records"


def test_a_slow_iteration_acknowledges_in_time(impatient: Peer, group: str, jobs: str) -> None:
    prepare(impatient, group, jobs, NUMBERS)
    done = threading.Event()
    with member(impatient, group, jobs) as slow:
        for record in slow:
            if record.value == b"5":
                done.wait(1.5 * LOCK_MS / 1000)
                break
        with member(impatient, group, jobs) as other:
            again = poll_all(other, 5)
    assert [record.value for record in again] == [b"5", b"6", b"7", b"8", b"9"], "the first five were accepted meanwhile"


def test_a_killed_broker_delivers_what_was_not_accepted(own_broker: Peer, group: str, jobs: str) -> None:
    prepare(own_broker, group, jobs, NUMBERS)
    with explicit(own_broker, group, jobs) as consumer:
        records = poll_all(consumer, 10)
        consumer.acknowledge(records[:4])
        consumer.commit()
        own_broker.restart(kill=True)
        consumer.acknowledge(records[4:])
        with pytest.raises(ottla.KafkaError):
            consumer.commit(WAIT_MS)
        again = poll_all(consumer, 6)
        assert sorted(record.value for record in again) == NUMBERS[4:]
        consumer.acknowledge(again)
        consumer.commit()
    assert values_of(own_broker, group, jobs) == []


def test_batches_of_arrow_have_delivery_counts(broker: Peer, group: str, jobs: str) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is absent: pip install pyarrow")
    prepare(broker, group, jobs, NUMBERS)
    with explicit(broker, group, jobs) as consumer:
        found = 0
        for batch in consumer.batches(WAIT_MS):
            assert set(batch.column("delivery_count").to_pylist()) == {1}
            consumer.acknowledge(batch, "release")
            found += batch.num_rows
            if found == 10:
                break
    with member(broker, group, jobs) as consumer:
        rows = 0
        for batch in consumer.batches(WAIT_MS, columns=["value", "delivery_count"]):
            assert batch.column("delivery_count").to_pylist() == [2] * batch.num_rows
            rows += batch.num_rows
            if rows == 10:
                break
    assert values_of(broker, group, jobs) == []


def test_a_record_that_cannot_be_read_is_released_or_rejected(broker: Peer, group: str, jobs: str) -> None:
    prepare(broker, group, jobs, [b"1", b"bad", b"3"])
    with member(broker, group, jobs, value_deserializer="json") as consumer:
        records = consumer.records(WAIT_MS)
        assert next(records).value == 1
        with pytest.raises(ottla.DeserializationFailed, match="the record was released, so that the group delivers it again"):
            next(records)
        (record,) = poll_all(consumer, 1)
        assert record.value == 3
        with pytest.raises(ottla.DeserializationFailed):
            consumer.poll(WAIT_MS)
    with member(broker, group, jobs, value_deserializer="json", on_bad_record="skip") as consumer:
        wait_for_partitions(consumer)
        assert consumer.poll(IDLE_MS) == []
    assert values_of(broker, group, jobs) == []


def test_record_limit_leaves_the_rest_of_a_batch_to_others(broker: Peer, group: str, jobs: str) -> None:
    prepare(broker, group, jobs, NUMBERS)
    limits: dict[str, Any] = {"share_acquire_mode": "record_limit", "max_poll_records": 3}
    with member(broker, group, jobs, **limits) as one, member(broker, group, jobs, **limits) as other:
        first, second = one.poll(WAIT_MS), other.poll(WAIT_MS)
        assert [record.value for record in first] == [b"0", b"1", b"2"]
        assert [record.value for record in second] == [b"3", b"4", b"5"]


def test_markers_and_compressed_batches_are_no_records(broker: Peer, group: str, jobs: str) -> None:
    prepare(broker, group, jobs, [])
    with ottla.Producer(broker.address, transactional_id=f"t-{jobs}", compression_type="lz4") as producer:
        for number in range(3):
            with producer.transaction():
                producer.send(jobs, b"%d" % number)
    with member(broker, group, jobs) as consumer:
        assert [record.value for record in poll_all(consumer, 3)] == [b"0", b"1", b"2"]
        assert consumer.poll(IDLE_MS) == []
    assert values_of(broker, group, jobs) == []


def test_longest_names_and_changed_subscriptions(broker: Peer, unique: Callable[[str], str]) -> None:
    topic, second = unique("t").ljust(249, "x"), unique("second")
    group = unique("g").ljust(200, "g")
    prepare(broker, group, topic, [b"long"])
    prepare(broker, group, second, [b"other"])
    with member(broker, group, topic, client_id="c" * 200) as consumer:
        (record,) = poll_all(consumer, 1)
        assert record.topic == topic
        consumer.subscribe(topic, second)
        (record,) = poll_all(consumer, 1)
        assert record.value == b"other"
        consumer.unsubscribe()
        with pytest.raises(ottla.KafkaError, match=r"subscribe\(\) first"):
            consumer.poll()
        consumer.subscribe(topic)
        produce(broker, topic, [b"again"])
        (record,) = poll_all(consumer, 1)
        assert record.value == b"again"


def test_an_asynchronous_consumer_offers_the_same(broker: Peer, group: str, jobs: str) -> None:
    prepare(broker, group, jobs, NUMBERS)

    async def run() -> list[bytes | None]:
        found: list[bytes | None] = []
        given: dict[str, Any] = {"bootstrap_servers": broker.address, "group_id": group, "share_acknowledgement_mode": "explicit"}
        async with ottla.AsyncShareConsumer(jobs, **given) as consumer:
            while len(found) < 10:
                for record in await consumer.poll(WAIT_MS):
                    found.append(record.value)
                    consumer.acknowledge(record)
            await consumer.commit()
            waiting = asyncio.ensure_future(consumer.poll(WAIT_MS))
            await asyncio.sleep(0.1)
            consumer.wakeup()
            with pytest.raises(ottla.WokenUp):
                await waiting
        return found

    assert asyncio.run(run()) == NUMBERS
    assert values_of(broker, group, jobs) == []


def test_metrics_have_the_names_of_javas_share_consumer(broker: Peer, group: str, jobs: str) -> None:
    prepare(broker, group, jobs, NUMBERS)
    with member(broker, group, jobs) as consumer:
        poll_all(consumer, 10)
        consumer.commit()
        metrics = consumer.metrics()
        for name in ("fetch-total", "records-consumed-total", "acknowledgements-send-total", "heartbeat-total"):
            assert metrics.value(name) > 0, name
        assert metrics.value("acknowledgements-error-total") == 0


def test_a_callback_must_not_wait_for_its_consumer(broker: Peer, group: str, jobs: str) -> None:
    prepare(broker, group, jobs, NUMBERS)
    refused: list[str] = []
    called = threading.Event()
    made: list[ShareConsumer[Any, Any]] = []

    def on_acknowledged(where: TopicPartition, offsets: list[int], error: ottla.KafkaError | None) -> None:
        for call in (made[0].poll, made[0].commit, made[0].close, lambda: made[0].subscribe(jobs)):
            with pytest.raises(ottla.KafkaError) as found:
                call()
            refused.append(str(found.value))
        called.set()

    with member(broker, group, jobs, on_acknowledged=on_acknowledged) as consumer:
        made.append(consumer)
        poll_all(consumer, 10)
        consumer.commit()
        assert called.wait(WAIT_MS / 1000)
    assert len(refused) == 4


def test_a_group_of_another_kind_is_refused(broker: Peer, group: str, jobs: str) -> None:
    prepare(broker, group, jobs, NUMBERS)
    with ottla.Consumer(jobs, bootstrap_servers=broker.address, group_id=group, auto_offset_reset="earliest") as consumer:
        assert consumer.poll(WAIT_MS)
        with (
            member(broker, group, jobs) as shared,
            pytest.raises(ottla.KafkaError, match=r"INCONSISTENT_GROUP_PROTOCOL|GROUP_ID_NOT_FOUND"),
        ):
            shared.poll(WAIT_MS)


def test_an_interceptor_sees_records(broker: Peer, group: str, jobs: str, tmp_path: Path) -> None:
    class Even:
        def on_consume(self, records: list[Any]) -> list[Any]:
            return [record for record in records if int(record.value) % 2 == 0]

    prepare(broker, group, jobs, NUMBERS)
    with member(broker, group, jobs, interceptors=[Even()]) as consumer:
        assert [record.value for record in poll_all(consumer, 5)] == NUMBERS[::2]
    assert values_of(broker, group, jobs) == []
