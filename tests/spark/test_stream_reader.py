"""What Spark's driver asks of a stream's reader, asked without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition

from bench.apache_kafka import free_port
from ottla.spark.errors import DataLoss, OptionError
from ottla.spark.options import read_options
from ottla.spark.read_plan import PartitionOffsets
from ottla.spark.schema import source_schema
from ottla.spark.streams.stream_position import StoredOffsets
from tests.spark.conftest import Topics
from tests.support.peers import start_peer
from tests.support.recorder import Recorder

pytest.importorskip("pyspark", reason="PySpark is absent: pip install 'ottla[spark]'")

from pyspark.sql.streaming.datasource import ReadAllAvailable  # only where there is PySpark

from ottla.spark.streams import watch
from ottla.spark.streams.reader import StreamReader

FETCH, LIST_OFFSETS, METADATA = (key.to_bytes(2, "big") for key in (1, 2, 3))
ALL = ReadAllAvailable()


def made(address: str, topic: str, **options: str) -> StreamReader:
    given = {"kafka.bootstrap.servers": address, "subscribe": topic, "startingOffsets": "earliest", **options}
    parsed = read_options(given, streaming=True)
    return StreamReader(parsed, source_schema(parsed.columns))


@contextmanager
def stream(address: str, topic: str, **options: str) -> Iterator[StreamReader]:
    reader = made(address, topic, **options)
    try:
        yield reader
    finally:
        reader.stop()


def plain(stored: StoredOffsets) -> StoredOffsets:
    """The part of a position that the JVM connector has too."""
    return {topic: partitions for topic, partitions in stored.items() if " " not in topic}


def ranges(reader: StreamReader, start: StoredOffsets, end: StoredOffsets) -> list[tuple[Any, ...]]:
    return [tuple(piece.value) for piece in reader.partitions(start, end)]


def numbers(count: int, partition: int = 0, start: int = 0) -> list[dict[str, Any]]:
    return [{"value": str(number), "partition": partition} for number in range(start, start + count)]


@pytest.fixture
def seen_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """New partitions show in the next call."""
    monkeypatch.setattr(watch, "KEPT_S", 0.0)


def grow_and_lose(topics: Topics, topic: str) -> None:
    """A second partition with three records, of which two are deleted."""
    topics.grow(topic, 2)
    topics.produce(topic, numbers(3, partition=1))
    for deleted in topics.delete_records([TopicPartition(topic, 1, 2)]):
        assert deleted.low_watermark == 2


@pytest.mark.usefixtures("seen_at_once")
def test_a_new_partition_that_has_lost_its_first_records_is_a_loss(topics: Topics) -> None:
    topic = topics.make(1)
    with stream(topics.address, topic) as reader:
        start = reader.initialOffset()
        grow_and_lose(topics, topic)
        with pytest.raises(DataLoss, match=f"{topic}-1 was to be read from offset 0 and begins at 2 now"):
            reader.latestOffset(start, ALL)
        with pytest.raises(DataLoss, match=f"{topic}-1 was to be read from offset 0 and begins at 2 now"):
            reader.partitions(start, {topic: {"0": 0, "1": 3}})


@pytest.mark.usefixtures("seen_at_once")
def test_where_losses_are_accepted_a_new_partition_is_read_from_what_is_left(topics: Topics) -> None:
    topic = topics.make(1)
    with stream(topics.address, topic, failOnDataLoss="false") as reader:
        start = reader.initialOffset()
        grow_and_lose(topics, topic)
        end = reader.latestOffset(start, ALL)
        assert plain(end) == {topic: {"0": 0, "1": 3}}
        assert ranges(reader, start, end) == [(topic, 1, 2, 3)]


def test_the_first_micro_batch_begins_where_the_query_did_also_when_it_is_run_again(topics: Topics) -> None:
    topic = topics.make(1)
    with stream(topics.address, topic, startingOffsets="latest") as reader:
        start = reader.initialOffset()
        topics.produce(topic, numbers(5))
        assert reader.initialOffset() == start
        end = reader.latestOffset(start, ALL)
        assert ranges(reader, start, end) == [(topic, 0, 0, 5)]
    topics.produce(topic, numbers(2))
    with stream(topics.address, topic, startingOffsets="latest") as reader:  # killed before the micro-batch had ended
        anew = reader.initialOffset()
        assert plain(anew) == {topic: {"0": 7}}
        assert ranges(reader, anew, end) == [(topic, 0, 0, 5)]
        after = reader.latestOffset(end, ALL)
        assert ranges(reader, end, after) == [(topic, 0, 5, 7)]


def test_checkpoints_of_the_jvm_connector_are_read_on(topics: Topics) -> None:
    topic = topics.make(1)
    topics.produce(topic, numbers(5))
    with stream(topics.address, topic) as reader:
        end = reader.latestOffset({topic: {"0": 2}}, ALL)
        assert ranges(reader, {topic: {"0": 2}}, end) == [(topic, 0, 2, 5)]
        assert reader.partitions({topic: {"0": 2}}, {topic: {"0": 4}})[0].value.end == 4


@pytest.mark.usefixtures("seen_at_once")
def test_a_deleted_topic_is_a_loss_or_the_others_go_on_without_it(topics: Topics) -> None:
    doomed, other = topics.make(1), topics.make(1)
    topics.produce(doomed, numbers(5))
    both = f"{doomed},{other}"
    with stream(topics.address, both) as strict, stream(topics.address, both, failOnDataLoss="false") as lenient:
        start = strict.initialOffset()
        assert lenient.initialOffset() == start
        end = strict.latestOffset(start, ALL)
        topics.remove(doomed)
        topics.produce(other, numbers(3))
        with pytest.raises(DataLoss, match=rf"topic {doomed} was deleted after {doomed}-0 was read to offset 5.* failOnDataLoss"):
            strict.latestOffset(end, ALL)
        with pytest.raises(DataLoss, match=f"topic {doomed} was deleted"):
            strict.partitions(start, end)
        after = lenient.latestOffset(end, ALL)
        assert plain(after) == {other: {"0": 3}}
        assert ranges(lenient, end, after) == [(other, 0, 0, 3)]
        assert ranges(lenient, start, end) == []  # planned before the topic was deleted
        assert lenient.latestOffset(after, ALL) == after


@pytest.mark.usefixtures("seen_at_once")
def test_a_topic_made_anew_that_has_outgrown_the_old_one_is_a_loss_or_read_from_its_start(topics: Topics) -> None:
    topic = topics.make(1)
    topics.produce(topic, numbers(5))
    with stream(topics.address, topic) as strict, stream(topics.address, topic, failOnDataLoss="false") as lenient:
        start = strict.initialOffset()
        end = strict.latestOffset(start, ALL)
        topics.remove(topic)
        topics.make(1, name=topic)
        topics.produce(topic, numbers(8))
        with pytest.raises(DataLoss, match=f"topic {topic} was deleted and recreated after {topic}-0 was read to offset 5"):
            strict.latestOffset(end, ALL)
        with pytest.raises(DataLoss, match=f"topic {topic} was deleted and recreated"):
            strict.partitions(start, end)
        after = lenient.latestOffset(end, ALL)
        assert ranges(lenient, end, after) == [(topic, 0, 0, 8)]
        assert lenient.latestOffset(after, ALL) == after


def test_a_topic_that_never_was_is_told_at_the_start_of_a_query_and_when_it_is_added_later(topics: Topics) -> None:
    topic = topics.make(1)
    with stream(topics.address, f"{topic},nowhere") as reader:
        with pytest.raises(OptionError, match="There is no topic nowhere: create it first"):
            reader.initialOffset()
        with pytest.raises(DataLoss, match="topic nowhere, which option subscribe names, does not exist"):
            reader.latestOffset({topic: {"0": 0}}, ALL)


def test_a_topic_that_the_query_leaves_out_from_now_on_is_told(topics: Topics) -> None:
    kept, left_out = topics.make(1), topics.make(1)
    with (
        stream(topics.address, kept) as reader,
        pytest.raises(DataLoss, match=f"{left_out}-0 is left out of the query's options after {left_out}-0 was read to offset 7"),
    ):
        reader.latestOffset({kept: {"0": 0}, left_out: {"0": 7}}, ALL)


def test_micro_batches_keep_to_bytes_and_to_offsets_of_each_partition(topics: Topics) -> None:
    topic = topics.make(2)
    topics.produce(topic, [{"value": "x" * 10_000, "partition": number % 2} for number in range(100)])
    with stream(topics.address, topic, maxBytesPerTrigger="200k") as reader:
        start = reader.initialOffset()
        taken = plain(reader.latestOffset(start, reader.getDefaultReadLimit()))[topic]
        assert 16 <= sum(taken.values()) <= 22
        assert plain(reader.latestOffset(start, ALL))[topic] == {"0": 50, "1": 50}
    with stream(topics.address, topic, maxOffsetsPerTriggerPerPartition="7") as reader:
        assert plain(reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit()))[topic] == {"0": 7, "1": 7}


def test_the_group_stands_where_the_last_finished_micro_batch_ended_and_a_query_can_begin_there(
    topics: Topics, unique: Callable[[str], str]
) -> None:
    topic, group = topics.make(2), unique("group")
    topics.produce(topic, numbers(5))
    with stream(topics.address, topic, groupId=group) as reader:
        start = reader.initialOffset()
        reader.prepareForTriggerAvailableNow()
        end = reader.latestOffset(start, ALL)
        assert topics.committed(group, topic, 2) == [0, 0]
        assert reader.latestOffset(end, ALL) == end
        assert topics.committed(group, topic, 2) == [5, 0]
    topics.grow(topic, 3)
    with stream(topics.address, topic, groupId=group, startingOffsets="group") as reader:
        assert plain(reader.initialOffset()) == {topic: {"0": 5, "1": 0, "2": 0}}


def test_a_group_that_has_members_is_refused(topics: Topics, unique: Callable[[str], str]) -> None:
    topic, group = topics.make(1), unique("group")
    with topics.member(group, topic), stream(topics.address, topic, groupId=group) as reader:
        start = reader.initialOffset()
        with pytest.raises(OptionError, match=f"groupId must name a group of the query's own.* {group}"):
            reader.latestOffset(start, ALL)


@pytest.fixture
def recorded(peer_name: str, tmp_path: Path) -> Iterator[Recorder]:
    """A broker behind a proxy that keeps every request."""
    port = free_port()
    with start_peer(peer_name, tmp_path, {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"}) as peer:
        host, _, own_port = peer.address.rpartition(":")
        with Recorder(port, (host, int(own_port))) as recorder:
            yield recorder


def asked(recorder: Recorder, since: int, api_key: bytes) -> int:
    return sum(frame[4:6] == api_key for frame in recorder.frames[since:])


def calls_without_end(reader: StreamReader, start: StoredOffsets, calls: int) -> None:
    for _ in range(calls):
        assert reader.latestOffset(start, ReadAllAvailable()) == start


def when_it_goes_on(reader: StreamReader, start: StoredOffsets) -> StoredOffsets:
    """The end of the next micro-batch."""
    for _ in range(100):
        if (end := reader.latestOffset(start, ALL)) != start:
            return end
    raise AssertionError("no micro-batch began")


def test_an_idle_stream_waits_in_one_fetch_and_sees_what_comes(recorded: Recorder) -> None:
    topics = Topics(recorded.address, lambda stem: stem)
    topic = topics.make(1)
    with stream(recorded.address, topic) as reader:
        start = reader.initialOffset()
        calls_without_end(reader, start, 1)
        before = len(recorded.frames)
        calls_without_end(reader, start, 20)
        assert asked(recorded, before, LIST_OFFSETS) <= 5, "one for each five seconds"
        assert asked(recorded, before, FETCH) <= 5
        topics.produce(topic, numbers(1))
        assert plain(when_it_goes_on(reader, start)) == {topic: {"0": 1}}


def test_an_open_transaction_is_waited_for_in_one_fetch(recorded: Recorder) -> None:
    topics = Topics(recorded.address, lambda stem: stem)
    topic = topics.make(1)
    producer = Producer({"bootstrap.servers": recorded.address, "transactional.id": "slow"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, value="x")
    assert producer.flush(60) == 0
    with stream(recorded.address, topic, **{"kafka.isolation.level": "read_committed"}) as reader:
        start = reader.initialOffset()
        calls_without_end(reader, start, 1)
        before = len(recorded.frames)
        calls_without_end(reader, start, 20)
        assert asked(recorded, before, FETCH) + asked(recorded, before, LIST_OFFSETS) <= 10, "two for each five seconds"
        producer.commit_transaction(60)
        end = when_it_goes_on(reader, start)
        assert plain(end) == {topic: {"0": 2}}, "the record and the marker"
        assert ranges(reader, start, end) == [(topic, 0, 0, 2)]


def test_a_stream_that_waits_for_more_records_asks_for_nothing_while_none_come(recorded: Recorder) -> None:
    topics = Topics(recorded.address, lambda stem: stem)
    topic = topics.make(1)
    topics.produce(topic, numbers(3))
    with stream(recorded.address, topic, minOffsetsPerTrigger="5", maxTriggerDelay="1h") as reader:
        start = reader.initialOffset()
        calls_without_end(reader, start, 1)
        before = len(recorded.frames)
        calls_without_end(reader, start, 20)
        assert asked(recorded, before, LIST_OFFSETS) <= 5, "one for each five seconds"
        topics.produce(topic, numbers(1))
        calls_without_end(reader, start, 3)
        topics.produce(topic, numbers(1))
        assert plain(when_it_goes_on(reader, start)) == {topic: {"0": 5}}


def test_an_idle_source_does_not_hold_up_the_other_sources_of_its_query(recorded: Recorder, monkeypatch: Any) -> None:
    topics = Topics(recorded.address, lambda stem: stem)
    topic = topics.make(1)
    waits: list[float] = []
    wait_for_records = watch.Watch.wait_for_records

    def waiting(self: watch.Watch, ends: PartitionOffsets, wait_ms: float) -> bool:
        waits.append(wait_ms)
        return wait_for_records(self, ends, wait_ms)

    monkeypatch.setattr(watch.Watch, "wait_for_records", waiting)
    with stream(recorded.address, topic) as reader:
        start = reader.initialOffset()
        calls_without_end(reader, start, 2)
        reader.commit(start)  # what Spark does when it plans a micro-batch for whichever source
        calls_without_end(reader, start, 1)
        calls_without_end(reader, start, 1)
    assert waits == [100.0, 0.0, 100.0]


def test_brokers_that_vanish_end_the_query_within_the_users_timeout_with_one_sentence(peer_name: str, tmp_path: Path) -> None:
    with start_peer(peer_name, tmp_path, {}) as peer:
        topic = Topics(peer.address, lambda stem: stem).make(1)
        reader = made(peer.address, topic, **{"kafka.request.timeout.ms": "3000"})
        start = reader.initialOffset()
        calls_without_end(reader, start, 2)
    with pytest.raises(Exception, match=r"^[^\n]*127\.0\.0\.1[^\n]*$"):
        calls_without_end(reader, start, 3)  # a poll that breaks, and the question that finds out why
    reader.stop()
