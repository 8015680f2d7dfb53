"""The blocking consumer. Written by `tools/blocking.py`: change `async_consumer.py`, not this file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, Unpack, overload

from ottla.client.consumer.fetched_columns import FetchedColumns
from ottla.client.consumer.rebalance_listeners import CommitCallback, Listener
from ottla.client.errors import KafkaError
from ottla.client.keywords import ConsumerKeywords
from ottla.client.metrics.registry import MetricsSnapshot
from ottla.client.types import (
    ConsumerGroupMetadata,
    ConsumerRecord,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    Place,
    SubscriptionPattern,
    TopicPartition,
)
from ottla.net.client.blocking_base import BlockingClient
from ottla.net.client.consumer.async_consumer import AsyncConsumer
from ottla.net.client.consumer.column_keywords import ColumnKeywords
from ottla.net.client.consumer.listeners import on_thread
from ottla.net.client.consumer.offset_calls import Partition
from ottla.records.batches.record import Key_co, Value_co

if TYPE_CHECKING:
    import pyarrow

    from ottla.client import typed_keywords as typed
    from ottla.client.typed_keywords import Key, Value


class Consumer(BlockingClient[AsyncConsumer[Any, Any]], Generic[Key_co, Value_co]):
    """A consumer that reads records; a context manager. Keyword arguments are Kafka's consumer settings with underscores.

        with Consumer("flights", bootstrap_servers="localhost:9092", group_id="g") as consumer:
            for record in consumer: ...

    With `group_id`, the members of the group share the topics' partitions. Without `group_id`, the consumer reads all partitions,
    or the ones given to `assign`. With `api_version="0.7"`, offsets are positions in bytes, group state is in ZooKeeper, and
    partition numbers of broker 1 start at 65536.

    `on_assigned` and `on_revoked` are called with the partitions that are added or removed.
    `on_lost` is called instead of `on_revoked` with partitions that other members may already read.
    Raises `SettingError` for a setting that is unknown or has a wrong value.

    Listeners run on a thread of their own, and may commit, seek and ask for positions.
    Apart from them, only one thread may use a consumer at a time.
    """

    @overload
    def __init__(self: Consumer[bytes, bytes], *topics: str, **given: Unpack[typed.ConsumerBytesBytes]) -> None: ...
    @overload
    def __init__(self: Consumer[bytes, Value], *topics: str, **given: Unpack[typed.ConsumerBytesOwn[Value]]) -> None: ...
    @overload
    def __init__(self: Consumer[bytes, str], *topics: str, **given: Unpack[typed.ConsumerBytesStr]) -> None: ...
    @overload
    def __init__(self: Consumer[bytes, int], *topics: str, **given: Unpack[typed.ConsumerBytesInt]) -> None: ...
    @overload
    def __init__(self: Consumer[bytes, Any], *topics: str, **given: Unpack[typed.ConsumerBytesAny]) -> None: ...
    @overload
    def __init__(self: Consumer[Key, bytes], *topics: str, **given: Unpack[typed.ConsumerOwnBytes[Key]]) -> None: ...
    @overload
    def __init__(self: Consumer[Key, Value], *topics: str, **given: Unpack[typed.ConsumerOwnOwn[Key, Value]]) -> None: ...
    @overload
    def __init__(self: Consumer[Key, str], *topics: str, **given: Unpack[typed.ConsumerOwnStr[Key]]) -> None: ...
    @overload
    def __init__(self: Consumer[Key, int], *topics: str, **given: Unpack[typed.ConsumerOwnInt[Key]]) -> None: ...
    @overload
    def __init__(self: Consumer[Key, Any], *topics: str, **given: Unpack[typed.ConsumerOwnAny[Key]]) -> None: ...
    @overload
    def __init__(self: Consumer[str, bytes], *topics: str, **given: Unpack[typed.ConsumerStrBytes]) -> None: ...
    @overload
    def __init__(self: Consumer[str, Value], *topics: str, **given: Unpack[typed.ConsumerStrOwn[Value]]) -> None: ...
    @overload
    def __init__(self: Consumer[str, str], *topics: str, **given: Unpack[typed.ConsumerStrStr]) -> None: ...
    @overload
    def __init__(self: Consumer[str, int], *topics: str, **given: Unpack[typed.ConsumerStrInt]) -> None: ...
    @overload
    def __init__(self: Consumer[str, Any], *topics: str, **given: Unpack[typed.ConsumerStrAny]) -> None: ...
    @overload
    def __init__(self: Consumer[int, bytes], *topics: str, **given: Unpack[typed.ConsumerIntBytes]) -> None: ...
    @overload
    def __init__(self: Consumer[int, Value], *topics: str, **given: Unpack[typed.ConsumerIntOwn[Value]]) -> None: ...
    @overload
    def __init__(self: Consumer[int, str], *topics: str, **given: Unpack[typed.ConsumerIntStr]) -> None: ...
    @overload
    def __init__(self: Consumer[int, int], *topics: str, **given: Unpack[typed.ConsumerIntInt]) -> None: ...
    @overload
    def __init__(self: Consumer[int, Any], *topics: str, **given: Unpack[typed.ConsumerIntAny]) -> None: ...
    @overload
    def __init__(self: Consumer[Any, bytes], *topics: str, **given: Unpack[typed.ConsumerAnyBytes]) -> None: ...
    @overload
    def __init__(self: Consumer[Any, Value], *topics: str, **given: Unpack[typed.ConsumerAnyOwn[Value]]) -> None: ...
    @overload
    def __init__(self: Consumer[Any, str], *topics: str, **given: Unpack[typed.ConsumerAnyStr]) -> None: ...
    @overload
    def __init__(self: Consumer[Any, Any], *topics: str, **given: Unpack[typed.AnyConsumer]) -> None: ...
    def __init__(
        self,
        *topics: str,
        on_assigned: Listener | None = None,
        on_revoked: Listener | None = None,
        on_lost: Listener | None = None,
        **settings: Unpack[ConsumerKeywords],
    ) -> None:
        made: AsyncConsumer[Any, Any] = AsyncConsumer(
            *topics, on_assigned=on_thread(on_assigned), on_revoked=on_thread(on_revoked), on_lost=on_thread(on_lost), **settings
        )
        super().__init__(made, "consumer")

    def subscribe(self, *topics: str | SubscriptionPattern, pattern: str | None = None) -> None:
        """Read these topics from now on.

        With `pattern`, a regular expression, read all topics whose whole name matches, new ones too. A `SubscriptionPattern` in
        place of topics has RE2's syntax, and is resolved by the coordinator of a group with `group_protocol="consumer"`.

        If the group has refused this consumer, this call makes it join again. If brokers do not answer, the subscription stays
        unchanged. Raises `KafkaError`.
        """
        self._background.run(self._async.subscribe(*topics, pattern=pattern))

    def unsubscribe(self) -> None:
        """Stop reading, and leave the group."""
        self._background.run(self._async.unsubscribe())

    def assign(self, partitions: Iterable[Partition]) -> None:
        """Read exactly these partitions, without the group's assignment. Offsets can still be committed for the group.

        Processed records of partitions that are no longer read are committed before (with auto-commit).
        Raises `UnknownTopic` for a partition that does not exist.
        """
        self._background.run(self._async.assign(partitions))

    def incremental_assign(self, partitions: Iterable[Partition]) -> None:
        """Read these partitions too, and the others on without a pause. Raises the exceptions of `assign`."""
        self._background.run(self._async.incremental_assign(partitions))

    def incremental_unassign(self, partitions: Iterable[Partition]) -> None:
        """Stop reading these partitions of `assign`, after a commit of their processed records (with auto-commit).

        Raises `KafkaError` if one is not assigned.
        """
        self._background.run(self._async.incremental_unassign(partitions))

    def subscription(self) -> set[str]:
        """Return the subscribed topics."""
        return self._async.subscription()

    def records(
        self, timeout_ms: int | None = None, *, until: Mapping[Place, int] | None = None
    ) -> Iterator[ConsumerRecord[Key_co, Value_co]]:
        """Yield records one by one, without end, or until none arrives for `timeout_ms`. Raises `KafkaError`.

        With `until`, such as the result of `end_offsets`, yield the records of these partitions before these offsets, and end. The
        consumer then is at these offsets. Other partitions are not read meanwhile, and a revoked partition counts as read.
        """
        while cursors := self._run_serving(self._async._next_cursors(timeout_ms, until)):
            for cursor in self._async._in_turn(cursors):
                try:
                    yield from cursor.each()
                except KafkaError as error:
                    self._background.run(self._async._pass_over(error))
                    break

    def __iter__(self) -> Iterator[ConsumerRecord[Key_co, Value_co]]:
        return self.records()

    def batches(
        self, timeout_ms: int | None = None, *, until: Mapping[Place, int] | None = None, **columns: Unpack[ColumnKeywords]
    ) -> Iterator[pyarrow.RecordBatch]:
        """Yield Arrow record batches, each of one partition, without end, or until none arrives for `timeout_ms`.

        `until` is that of `records`. No Python object is created per record, and no deserializer is used. `columns` names the
        columns: by default topic, partition, offset, timestamp (ms, UTC), key, value, headers. Needs pyarrow
        (`pip install ottla[arrow]`).

        Key and value are bytes, unless `key_format` and `value_format` decode them into typed columns: json, csv, avro, protobuf
        or arrow. `key_schema` and `value_schema` are the columns to read (a `pyarrow.Schema`), or a schema of the format itself, or
        its file. With `schema_registry`, a URL or a directory, values have the schema whose id they begin with. `on_bad_record` is
        about what does not fit. Raises `DeserializationFailed`, `SettingError`.
        """
        from ottla.net.client.consumer.arrow import typed_batches

        typed = typed_batches(columns)
        if typed.decodes:
            while (
                found := self._run_serving(self._async._next_batches(timeout_ms, until, typed), self._async._put_back)
            ) is not None:
                yield from found
        else:
            while cursors := self._run_serving(self._async._next_cursors(timeout_ms, until)):
                for cursor in self._async._in_turn(cursors):
                    yield from typed.plain(cursor)

    def columns(self, timeout_ms: int | None = None, *, until: Mapping[Place, int] | None = None) -> Iterator[FetchedColumns]:
        """Yield fetched records as columns, each time of one partition, without end, or until none arrives for `timeout_ms`.

        `until` is that of `records`. No Python object is created per record, and no deserializer is used. An item without records
        means that the position has moved, for example past a marker. The records of an item are processed once the next one is
        requested.
        """
        while (found := self._run_serving(self._async._next_columns(timeout_ms, until), self._async._put_back)) is not None:
            yield found

    def poll(self, timeout_ms: int = 0, max_records: int | None = None) -> list[ConsumerRecord[Key_co, Value_co]]:
        """Return up to `max_records` records (None: `max_poll_records`). Wait up to `timeout_ms` for the first.

        Raises `KafkaError` if there is an error and no record. If there are records, they are returned, and the next call raises
        the error.
        """
        return self._run_serving(self._async.poll(timeout_ms, max_records), self._async._put_back)

    def partitions_for(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic. Raises `UnknownTopic`."""
        return self._background.run(self._async.partitions_for(topic))

    def close(self, *, finished: bool = True, leave_group: bool | None = None) -> None:
        """Commit the offsets of processed records (with auto-commit), leave the group, and close all connections.

        With `finished=False`, the records handed out last do not count as processed. Leaving a `with` statement by an exception
        passes False. A member that stays keeps its partitions for `session_timeout_ms`, if it starts again: by default a member
        with a `group_instance_id` stays and any other leaves; `leave_group` decides otherwise (KIP-1092).
        """
        self._end(lambda: self._async.close(finished=finished, leave_group=leave_group))

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions being read."""
        return self._background.do(self._async.assignment)

    def commit(self, offsets: Mapping[Place, OffsetAndMetadata | int] | None = None) -> None:
        """Commit offsets for the group. `offsets` None means the positions after all records handed out, or the stored offsets.

        Raises `CommitFailed` if the group has assigned the partitions to other members, `SettingError` without a group, or another
        `KafkaError`.
        """
        self._background.run(self._async.commit(offsets))

    def commit_soon(
        self, offsets: Mapping[Place, OffsetAndMetadata | int] | None = None, *, on_commit: CommitCallback | None = None
    ) -> None:
        """Commit offsets as `commit` does, in the background and in the order of the calls. `close` waits for it.

        `on_commit(offsets, error)` is called then, as listeners are; `error` is None or the `KafkaError` that `commit` would raise.
        Without `on_commit`, the error is logged. Raises `SettingError` without a group.
        """
        self._background.do(lambda: self._async.commit_soon(offsets, on_commit=on_thread(on_commit)))

    def store_offsets(self, offsets: Mapping[Place, OffsetAndMetadata | int]) -> None:
        """Store offsets of assigned partitions for the next automatic commit, or for `commit()`.

        An offset is that of the next record to read. Needs `enable_auto_offset_store=False`: records that were handed out then are
        not committed until their offsets are stored, for example because other threads still process them. `seek` leaves stored
        offsets as they are.

        Raises `SettingError` without that setting or without a group, `KafkaError` if a partition is not assigned.
        """
        self._background.do(lambda: self._async.store_offsets(offsets))

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the positions after all records handed out so far."""
        return self._background.do(self._async.positions)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return this member's identity in its group, for `Producer.send_offsets` (KIP-447).

        Raises `SettingError` without a group. Also raises it with `enable_auto_commit`, because aborting a transaction does not
        undo offsets committed outside of it. Raises `CommitFailed`, once, if the group has taken partitions away whose records
        were handed out, but not committed: a transaction with these records would be committed without their offsets.
        """
        return self._background.do(self._async.group_metadata)

    def _confirm(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Record that offsets of this consumer are part of a transaction.

        Raises `CommitFailed` if the group took such a partition away meanwhile: the next owner, perhaps this member, may read its
        records again.
        """
        self._background.do(lambda: self._async._confirm(offsets))

    def committed(self, partition: Partition) -> OffsetAndMetadata | None:
        """Return the offset that the group has committed for a partition; None if it has committed none. Raises `KafkaError`."""
        return self._background.run(self._async.committed(partition))

    def position(self, partition: Partition) -> int:
        """Return the offset of the next record to hand out from an assigned partition. Raises `KafkaError`."""
        return self._background.run(self._async.position(partition))

    def current_lag(self, partition: Partition) -> int | None:
        """Return the number of offsets from a partition's position to its end in the last fetch response (KIP-695).

        Return None before the first response. The end is the high watermark, or with `read_committed` the last stable offset.
        Raises `KafkaError` if the partition is not assigned.
        """
        return self._background.do(lambda: self._async.current_lag(partition))

    def lag(self) -> dict[TopicPartition, int | None]:
        """Return `current_lag` of all assigned partitions."""
        return self._background.do(self._async.lag)

    def seek(self, partition: Partition, offset: int) -> None:
        """Continue reading a partition at `offset`. Raises `KafkaError` if the partition is not assigned."""
        self._background.do(lambda: self._async.seek(partition, offset))

    def seek_to_beginning(self, *partitions: Partition) -> None:
        """Continue from the first record of these partitions, or without arguments of all assigned partitions."""
        self._background.do(lambda: self._async.seek_to_beginning(*partitions))

    def seek_to_end(self, *partitions: Partition) -> None:
        """Continue with records written from now on, in these partitions, or without arguments in all assigned partitions."""
        self._background.do(lambda: self._async.seek_to_end(*partitions))

    def seek_to_time(self, timestamp_ms: int, *partitions: Partition) -> None:
        """Continue from the first record at or after a time (ms since 1970), or from the end if no record is that recent.

        Without `partitions`, seek in all assigned partitions. Raises `KafkaError`, and then all positions are unchanged.
        """
        self._background.run(self._async.seek_to_time(timestamp_ms, *partitions))

    def seek_to_committed(self, *partitions: Partition) -> None:
        """Continue from the group's committed offsets, for example after an aborted transaction.

        Without arguments, seek in all assigned partitions. Raises `SettingError` without a group, or another `KafkaError`.
        """
        self._background.run(self._async.seek_to_committed(*partitions))

    def pause(self, *partitions: Partition) -> None:
        """Hand out no records of these partitions until `resume`."""
        self._background.do(lambda: self._async.pause(*partitions))

    def resume(self, *partitions: Partition) -> None:
        """Hand out records of these partitions again."""
        self._background.do(lambda: self._async.resume(*partitions))

    def paused(self) -> set[TopicPartition]:
        """Return the paused partitions."""
        return self._background.do(self._async.paused)

    def beginning_offsets(self, partitions: Iterable[Partition]) -> dict[TopicPartition, int]:
        """Return the first offset of each partition. Raises `KafkaError`."""
        return self._background.run(self._async.beginning_offsets(partitions))

    def end_offsets(self, partitions: Iterable[Partition]) -> dict[TopicPartition, int]:
        """Return the end offset of each partition: the offset of the next record to be written. Raises `KafkaError`."""
        return self._background.run(self._async.end_offsets(partitions))

    def offsets_for_times(self, timestamps: Mapping[Partition, int]) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return the first offset at or after a timestamp (ms since 1970) for each partition; -1 if no record is that recent."""
        return self._background.run(self._async.offsets_for_times(timestamps))

    def wakeup(self) -> None:
        """Make the call that waits for records raise `WokenUp`, or the next one if none waits. Any thread may call this.

        No record is lost: the consumer can go on, or close.
        """
        self._background.do(self._async.wakeup)

    def metrics(self) -> MetricsSnapshot:
        """Return the consumer's metrics, with the names and groups of Kafka's Java client.

            consumer.metrics().value("fetch-latency-avg")

        Rates and averages are about the last `metrics_num_samples` windows of `metrics_sample_window_ms`.
        """
        return self._background.do(self._async.metrics)

    def client_instance_id(self, timeout_ms: int = 30_000) -> str:
        """Return the id by which brokers know this client's metrics, as Kafka prints it (KIP-714).

        Raises `SettingError` without `enable_metrics_push`, `NotSupported` if brokers have no subscriptions to metrics, and
        `TimedOut`.
        """
        return self._background.run(self._async.client_instance_id(timeout_ms))
