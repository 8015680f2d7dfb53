"""The blocking consumer: a thin face of the asynchronous one, which runs on a thread of its own.

Only the opening of buffers into records or Arrow happens on the caller's thread, so that fetching goes on meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

from ottla.client.keywords import ConsumerKeywords
from ottla.client.types import ConsumerRecord, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from ottla.net.client.async_consumer import AsyncConsumer, Listener, Partition
from ottla.net.client.background import BackgroundLoop

if TYPE_CHECKING:
    import pyarrow


class Consumer:
    """Reads records. A context manager; keyword arguments are Kafka's consumer settings with underscores.

        with Consumer("flights", bootstrap_servers="localhost:9092", group_id="g") as consumer:
            for record in consumer: ...

    Behaves as `AsyncConsumer`; `on_assigned` and `on_revoked` are called on the client's own thread. For one thread.
    """

    def __init__(
        self,
        *topics: str,
        on_assigned: Listener | None = None,
        on_revoked: Listener | None = None,
        **settings: Unpack[ConsumerKeywords],
    ) -> None:
        self._async = AsyncConsumer(*topics, on_assigned=on_assigned, on_revoked=on_revoked, **settings)
        self._background = BackgroundLoop.begin("ottla-consumer", self._async.start)
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close(finished=kind is None)

    def close(self, *, finished: bool = True) -> None:
        """Commit what is done (with auto-commit), leave the group, close all connections.

        Records in hand count as done, unless not `finished`: so it is where a with statement ends in an error.
        """
        if not self._closed:
            self._closed = True
            try:
                self._background.run(self._async.close(finished=finished))
            finally:
                self._background.stop()

    def records(self, timeout_ms: int | None = None) -> Iterator[ConsumerRecord]:
        """Records one by one, for ever, or until none came for `timeout_ms`."""
        while (cursor := self._background.run(self._async.next_cursor(timeout_ms))) is not None:
            yield from cursor.each()

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return self.records()

    def batches(self, timeout_ms: int | None = None) -> Iterator[pyarrow.RecordBatch]:
        """Arrow record batches, each of one partition, for ever, or until none came for `timeout_ms`; no object per record.

        Columns: topic, partition, offset, timestamp (ms, UTC), key, value, headers. Needs pyarrow (`pip install ottla[arrow]`).
        """
        from ottla.net.client.arrow import record_batches

        while (cursor := self._background.run(self._async.next_cursor(timeout_ms))) is not None:
            yield from record_batches(cursor)

    def poll(self, timeout_ms: int = 0, max_records: int | None = None) -> list[ConsumerRecord]:
        """Up to `max_records` (max_poll_records) records at once; waits up to `timeout_ms` for the first."""
        return self._background.run(self._async.poll(timeout_ms, max_records))

    def subscribe(self, *topics: str, pattern: str | None = None) -> None:
        """Read these topics from now on, or all whose name matches the regular expression `pattern`, also later ones."""
        self._background.run(self._async.subscribe(*topics, pattern=pattern))

    def unsubscribe(self) -> None:
        """Read nothing; a group is left."""
        self._background.run(self._async.unsubscribe())

    def assign(self, partitions: Iterable[Partition]) -> None:
        """Read just these partitions, without sharing them with a group; offsets may still be committed for it."""
        self._background.run(self._async.assign(partitions))

    def assignment(self) -> set[TopicPartition]:
        """The partitions read now."""
        return self._background.do(self._async.assignment)

    def subscription(self) -> set[str]:
        """The topics subscribed to."""
        return self._async.subscription()

    def commit(self, offsets: Mapping[Partition, OffsetAndMetadata | int] | None = None) -> None:
        """Keep offsets with the group: those given, or of everything handed out so far. Raises `CommitFailed`, `KafkaError`."""
        self._background.run(self._async.commit(offsets))

    def committed(self, partition: Partition) -> OffsetAndMetadata | None:
        """What the group has committed for a partition; None if nothing."""
        return self._background.run(self._async.committed(partition))

    def position(self, partition: Partition) -> int:
        """The offset of the next record handed out of an assigned partition."""
        return self._background.run(self._async.position(partition))

    def seek(self, partition: Partition, offset: int) -> None:
        """Go on from `offset`."""
        self._background.do(lambda: self._async.seek(partition, offset))

    def seek_to_beginning(self, *partitions: Partition) -> None:
        """Go on from the first record; without arguments in all partitions assigned."""
        self._background.do(lambda: self._async.seek_to_beginning(*partitions))

    def seek_to_end(self, *partitions: Partition) -> None:
        """Go on with records that are written from now on; without arguments in all partitions assigned."""
        self._background.do(lambda: self._async.seek_to_end(*partitions))

    def pause(self, *partitions: Partition) -> None:
        """Hand out nothing of these until `resume`."""
        self._background.do(lambda: self._async.pause(*partitions))

    def resume(self, *partitions: Partition) -> None:
        """Hand out records of these again."""
        self._background.do(lambda: self._async.resume(*partitions))

    def paused(self) -> set[TopicPartition]:
        """The partitions that `pause` stopped."""
        return self._background.do(self._async.paused)

    def beginning_offsets(self, partitions: Iterable[Partition]) -> dict[TopicPartition, int]:
        """The first offset of each partition."""
        return self._background.run(self._async.beginning_offsets(partitions))

    def end_offsets(self, partitions: Iterable[Partition]) -> dict[TopicPartition, int]:
        """The offset that the next record of each partition will have."""
        return self._background.run(self._async.end_offsets(partitions))

    def offsets_for_times(self, timestamps: Mapping[Partition, int]) -> dict[TopicPartition, OffsetAndTimestamp]:
        """The first offset at or after a time (ms) in each partition; offset -1 where no record is that young."""
        return self._background.run(self._async.offsets_for_times(timestamps))

    def partitions_for(self, topic: str) -> list[TopicPartition]:
        """The partitions of a topic. Raises `UnknownTopic`."""
        return self._background.run(self._async.partitions_for(topic))
