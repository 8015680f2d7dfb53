"""The blocking consumer: calls the asynchronous one, which runs on a thread of its own.

Only the opening of chunks into records or Arrow happens on the caller's thread, so that fetching goes on meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

from ottla.client.keywords import ConsumerKeywords
from ottla.client.types import ConsumerGroupMetadata, ConsumerRecord, OffsetAndMetadata, OffsetAndTimestamp, Place, TopicPartition
from ottla.net.client.async_consumer import AsyncConsumer, Listener, Partition
from ottla.net.client.background import BackgroundLoop

if TYPE_CHECKING:
    import pyarrow


class _BackgroundConsumer(AsyncConsumer):
    """The asynchronous consumer with its cursors, which the blocking one opens on another thread."""

    next_cursor = AsyncConsumer._next_cursor


class Consumer:
    """Reads records. A context manager; keyword arguments are Kafka's consumer settings with underscores.

        with Consumer("flights", bootstrap_servers="localhost:9092", group_id="g") as consumer:
            for record in consumer: ...

    With `group_id`, the members of the group share the topics' partitions; without, all are read, or those of `assign`. With
    `api_version="0.7"`, offsets are bytes, groups live in ZooKeeper, and broker 1's first partition has the number 65536.
    `on_assigned` and `on_revoked` are called with the partitions that come and go, on the client's own thread. To be used by one
    thread at a time. Raises `SettingError` for a setting that is unknown or has a wrong value.
    """

    def __init__(
        self,
        *topics: str,
        on_assigned: Listener | None = None,
        on_revoked: Listener | None = None,
        **settings: Unpack[ConsumerKeywords],
    ) -> None:
        self._async = _BackgroundConsumer(*topics, on_assigned=on_assigned, on_revoked=on_revoked, **settings)
        self._background = BackgroundLoop.begin("ottla-consumer", self._async.start)
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close(finished=kind is None)

    def close(self, *, finished: bool = True) -> None:
        """Commit what is processed (with auto-commit), leave the group, close all connections.

        Records in hand count as processed only if `finished`; leaving a `with` statement by an exception passes False.
        """
        if not self._closed:
            self._background.check_thread()
            self._closed = True
            try:
                if not self._background.is_forked:
                    self._background.run(self._async.close(finished=finished))
            finally:
                self._background.stop()

    def records(self, timeout_ms: int | None = None) -> Iterator[ConsumerRecord]:
        """Records one by one: without end, or until none has come for `timeout_ms`. Raises `KafkaError`."""
        while (cursor := self._background.run(self._async.next_cursor(timeout_ms))) is not None:
            yield from cursor.each()

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return self.records()

    def batches(self, timeout_ms: int | None = None) -> Iterator[pyarrow.RecordBatch]:
        """Arrow record batches, each of one partition: without end, or until none has come for `timeout_ms`. No object per record.

        Columns: topic, partition, offset, timestamp (ms, UTC), key, value, headers. Needs pyarrow (`pip install ottla[arrow]`).
        """
        from ottla.net.client.arrow import record_batches

        while (cursor := self._background.run(self._async.next_cursor(timeout_ms))) is not None:
            yield from record_batches(cursor)

    def poll(self, timeout_ms: int = 0, max_records: int | None = None) -> list[ConsumerRecord]:
        """Up to `max_records` records (default `max_poll_records`); waits up to `timeout_ms` for the first.

        Raises `KafkaError` if there are none to hand out; of an error met behind some, the next call tells.
        """
        return self._background.run(self._async.poll(timeout_ms, max_records))

    def subscribe(self, *topics: str, pattern: str | None = None) -> None:
        """Read these topics from now on, or all whose whole name matches the regular expression `pattern`, future ones included."""
        self._background.run(self._async.subscribe(*topics, pattern=pattern))

    def unsubscribe(self) -> None:
        """Stop reading, and leave the group."""
        self._background.run(self._async.unsubscribe())

    def assign(self, partitions: Iterable[Partition]) -> None:
        """Read exactly these partitions. The group's other members are not considered, but offsets can be committed for it."""
        self._background.run(self._async.assign(partitions))

    def assignment(self) -> set[TopicPartition]:
        """The partitions being read."""
        return self._background.do(self._async.assignment)

    def subscription(self) -> set[str]:
        """The subscribed topics."""
        return self._async.subscription()

    def commit(self, offsets: Mapping[Place, OffsetAndMetadata | int] | None = None) -> None:
        """Commit offsets for the group: those given, or the positions behind everything handed out so far.

        Raises `CommitFailed` if the group has moved on, `SettingError` without a group, or another `KafkaError`.
        """
        self._background.run(self._async.commit(offsets))

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What `commit()` would commit: the positions behind everything handed out so far."""
        return self._background.do(self._async.positions)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """This member of its group, for `Producer.send_offsets` (KIP-447). Raises `SettingError` without a group.

        Also with `enable_auto_commit`: what is committed apart from a transaction stays committed when that is aborted.
        """
        return self._background.do(self._async.group_metadata)

    def committed(self, partition: Partition) -> OffsetAndMetadata | None:
        """The offset that the group has committed for a partition, or None. Raises `KafkaError`."""
        return self._background.run(self._async.committed(partition))

    def position(self, partition: Partition) -> int:
        """The offset of the next record that an assigned partition will hand out. Raises `KafkaError`."""
        return self._background.run(self._async.position(partition))

    def current_lag(self, partition: Partition) -> int | None:
        """How many offsets lie between the position and the end that the last fetch told, or None before one did (KIP-695).

        With `read_committed`, the end is that of the last transaction before the first open one. Raises `KafkaError` if the
        partition is not assigned.
        """
        return self._background.do(lambda: self._async.current_lag(partition))

    def seek(self, partition: Partition, offset: int) -> None:
        """Continue from `offset`. Raises `KafkaError` if the partition is not assigned."""
        self._background.do(lambda: self._async.seek(partition, offset))

    def seek_to_beginning(self, *partitions: Partition) -> None:
        """Continue from the first record of these partitions; without arguments, of all assigned ones."""
        self._background.do(lambda: self._async.seek_to_beginning(*partitions))

    def seek_to_end(self, *partitions: Partition) -> None:
        """Continue with records written from now on, in these partitions or (without arguments) in all assigned ones."""
        self._background.do(lambda: self._async.seek_to_end(*partitions))

    def seek_to_committed(self, *partitions: Partition) -> None:
        """Continue from what the group has committed, as is needed after an aborted transaction.

        Without arguments, in all assigned partitions. Raises `SettingError` without a group, or another `KafkaError`.
        """
        self._background.run(self._async.seek_to_committed(*partitions))

    def pause(self, *partitions: Partition) -> None:
        """Hand out no records of these partitions until `resume`."""
        self._background.do(lambda: self._async.pause(*partitions))

    def resume(self, *partitions: Partition) -> None:
        """Hand out records of these partitions again."""
        self._background.do(lambda: self._async.resume(*partitions))

    def paused(self) -> set[TopicPartition]:
        """The paused partitions."""
        return self._background.do(self._async.paused)

    def beginning_offsets(self, partitions: Iterable[Partition]) -> dict[TopicPartition, int]:
        """The first offset of each partition. Raises `KafkaError`."""
        return self._background.run(self._async.beginning_offsets(partitions))

    def end_offsets(self, partitions: Iterable[Partition]) -> dict[TopicPartition, int]:
        """The offset of the next record to be written to each partition. Raises `KafkaError`."""
        return self._background.run(self._async.end_offsets(partitions))

    def offsets_for_times(self, timestamps: Mapping[Partition, int]) -> dict[TopicPartition, OffsetAndTimestamp]:
        """The first offset at or after a time (ms since 1970) in each partition; -1 where no record is that recent."""
        return self._background.run(self._async.offsets_for_times(timestamps))

    def partitions_for(self, topic: str) -> list[TopicPartition]:
        """The partitions of a topic. Raises `UnknownTopic`."""
        return self._background.run(self._async.partitions_for(topic))
