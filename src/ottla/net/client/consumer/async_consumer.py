"""The consumer on asyncio: subscription, positions and commits over a fetch driver and, in a group, a membership driver."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Self, Unpack, overload

from ottla.client import arguments
from ottla.client.arguments import places
from ottla.client.connection.older_brokers import ISOLATION_FROM_FETCH
from ottla.client.connection.versions import FETCH
from ottla.client.consumer.cursor import Cursor, Progress
from ottla.client.consumer.cursor_opener import cursor_opener
from ottla.client.consumer.fetched_columns import FetchedColumns, fetched_columns
from ottla.client.consumer.iteration_ends import IterationEnds
from ottla.client.consumer.rebalance_listeners import Listener
from ottla.client.consumer.uncommitted_partitions import UncommittedPartitions
from ottla.client.errors import KafkaError, NotSupported, SettingError, raise_for
from ottla.client.interceptors import ConsumerInterceptors
from ottla.client.keywords import ConsumerKeywords
from ottla.client.metrics.consumer import PollMetrics
from ottla.client.metrics.registry import Metric
from ottla.client.settings.clients import ConsumerSettings, parse, refuse_dict
from ottla.client.types import (
    ConsumerRecord,
    Place,
    SubscriptionPattern,
    TopicPartition,
)
from ottla.net.client.cluster import now_ms
from ottla.net.client.consumer.assignment import AssignmentDriver, Listeners
from ottla.net.client.consumer.bad_records import BadRecords
from ottla.net.client.consumer.column_keywords import ColumnKeywords
from ottla.net.client.consumer.commits import CommitDriver
from ottla.net.client.consumer.fetch_driver import FetchDriver
from ottla.net.client.consumer.listeners import refuse_in_listener
from ottla.net.client.consumer.offset_calls import OffsetCalls, Partition
from ottla.net.client.consumer.polling_consumer import PollingConsumer
from ottla.net.client.consumer.subscription import SubscriptionDriver
from ottla.net.client.lifetime import made_by_start
from ottla.net.client.of_release import links_to
from ottla.net.client.tasks import Tasks
from ottla.net.client.telemetry_driver import TelemetryDriver
from ottla.records.batches.record import Key_co, Value_co
from ottla.wire.errors import UNKNOWN_TOPIC_OR_PARTITION

if TYPE_CHECKING:
    import pyarrow

    from ottla.client import typed_keywords as typed
    from ottla.client.typed_keywords import Key, Value
    from ottla.net.client.consumer.typed_batches import TypedBatches

TOGETHER_BYTES = 4 * 1024 * 1024
"""The fetched bytes of several partitions that an iteration gets in one call, except that the last of them may be larger."""
ENDS_PAUSE_MS = 200
"""The interval, in ms, at which an iteration with ends looks at positions, which can change without records."""

log = logging.getLogger("ottla.client")


class AsyncConsumer(OffsetCalls, PollingConsumer, Generic[Key_co, Value_co]):
    """A consumer that reads records; a context manager. Keyword arguments are Kafka's consumer settings with underscores.

        async with AsyncConsumer("flights", bootstrap_servers="localhost:9092", group_id="g") as consumer:
            async for record in consumer: ...

    With `group_id`, the members of the group share the topics' partitions. Without `group_id`, the consumer reads all partitions,
    or the ones given to `assign`. With `api_version="0.7"`, offsets are positions in bytes, group state is in ZooKeeper, and
    partition numbers of broker 1 start at 65536.

    `on_assigned` and `on_revoked`, functions or coroutine functions, are called with the partitions that are added or removed.
    `on_lost` is called instead of `on_revoked` with partitions that other members may already read.
    Raises `SettingError` for a setting that is unknown or has a wrong value.
    """

    _bad_records: BadRecords

    @overload
    def __init__(self: AsyncConsumer[bytes, bytes], *topics: str, **given: Unpack[typed.ConsumerBytesBytes]) -> None: ...
    @overload
    def __init__(self: AsyncConsumer[bytes, Value], *topics: str, **given: Unpack[typed.ConsumerBytesOwn[Value]]) -> None: ...
    @overload
    def __init__(self: AsyncConsumer[bytes, str], *topics: str, **given: Unpack[typed.ConsumerBytesStr]) -> None: ...
    @overload
    def __init__(self: AsyncConsumer[bytes, int], *topics: str, **given: Unpack[typed.ConsumerBytesInt]) -> None: ...
    @overload
    def __init__(self: AsyncConsumer[bytes, Any], *topics: str, **given: Unpack[typed.ConsumerBytesAny]) -> None: ...
    @overload
    def __init__(self: AsyncConsumer[Key, bytes], *topics: str, **given: Unpack[typed.ConsumerOwnBytes[Key]]) -> None: ...
    @overload
    def __init__(self: AsyncConsumer[Key, Value], *topics: str, **given: Unpack[typed.ConsumerOwnOwn[Key, Value]]) -> None: ...
    @overload
    def __init__(self: AsyncConsumer[Key, str], *topics: str, **given: Unpack[typed.ConsumerOwnStr[Key]]) -> None: ...
    @overload
    def __init__(self: AsyncConsumer[Key, int], *topics: str, **given: Unpack[typed.ConsumerOwnInt[Key]]) -> None: ...
    @overload
    def __init__(self: AsyncConsumer[Key, Any], *topics: str, **given: Unpack[typed.ConsumerOwnAny[Key]]) -> None: ...
    @overload
    def __init__(self: AsyncConsumer[str, bytes], *topics: str, **given: Unpack[typed.ConsumerStrBytes]) -> None: ...
    @overload
    def __init__(self: AsyncConsumer[str, Value], *topics: str, **given: Unpack[typed.ConsumerStrOwn[Value]]) -> None: ...
    @overload
    def __init__(self: AsyncConsumer[str, str], *topics: str, **given: Unpack[typed.ConsumerStrStr]) -> None: ...
    @overload
    def __init__(self: AsyncConsumer[str, int], *topics: str, **given: Unpack[typed.ConsumerStrInt]) -> None: ...
    @overload
    def __init__(self: AsyncConsumer[str, Any], *topics: str, **given: Unpack[typed.ConsumerStrAny]) -> None: ...
    @overload
    def __init__(self: AsyncConsumer[int, bytes], *topics: str, **given: Unpack[typed.ConsumerIntBytes]) -> None: ...
    @overload
    def __init__(self: AsyncConsumer[int, Value], *topics: str, **given: Unpack[typed.ConsumerIntOwn[Value]]) -> None: ...
    @overload
    def __init__(self: AsyncConsumer[int, str], *topics: str, **given: Unpack[typed.ConsumerIntStr]) -> None: ...
    @overload
    def __init__(self: AsyncConsumer[int, int], *topics: str, **given: Unpack[typed.ConsumerIntInt]) -> None: ...
    @overload
    def __init__(self: AsyncConsumer[int, Any], *topics: str, **given: Unpack[typed.ConsumerIntAny]) -> None: ...
    @overload
    def __init__(self: AsyncConsumer[Any, bytes], *topics: str, **given: Unpack[typed.ConsumerAnyBytes]) -> None: ...
    @overload
    def __init__(self: AsyncConsumer[Any, Value], *topics: str, **given: Unpack[typed.ConsumerAnyOwn[Value]]) -> None: ...
    @overload
    def __init__(self: AsyncConsumer[Any, str], *topics: str, **given: Unpack[typed.ConsumerAnyStr]) -> None: ...
    @overload
    def __init__(self: AsyncConsumer[Any, Any], *topics: str, **given: Unpack[typed.AnyConsumer]) -> None: ...
    def __init__(
        self,
        *topics: str,
        on_assigned: Listener | None = None,
        on_revoked: Listener | None = None,
        on_lost: Listener | None = None,
        **settings: Unpack[ConsumerKeywords],
    ) -> None:
        if topics:
            refuse_dict(ConsumerSettings, topics[0])
            arguments.check_subscription(topics, None)
        self._settings = parse(ConsumerSettings, settings)
        super().__init__(self._settings, topics)
        self._listeners = Listeners(
            arguments.callback("on_assigned", on_assigned),
            arguments.callback("on_revoked", on_revoked),
            arguments.callback("on_lost", on_lost),
        )
        self._leave_group: bool | None = None
        self._until: Mapping[Any, int] | None = None
        self._iteration: IterationEnds | None = None

    async def start(self) -> Self:
        """Start the consumer without a `with` statement, and subscribe to the given topics. If that fails, close everything."""
        if self._started:
            self._check()
            return self
        self._tasks = Tasks(self._broke)
        self._cluster = links_to(self._settings, self._tasks)
        self._reader = FetchDriver(self._cluster, self._settings, self._tasks)
        self._telemetry = TelemetryDriver(self._cluster, self._settings)
        self._polls = PollMetrics(self._cluster.metrics)
        self._cluster.metrics.source(self._partition_metrics)
        self._interceptors = ConsumerInterceptors(self._settings.interceptors)
        opener = cursor_opener(self._settings, self._interceptors)
        self._uncommitted = UncommittedPartitions()
        self._progress = Progress(
            self._reader.fetcher,
            opener,
            only_stored=not self._settings.enable_auto_offset_store,
            uncommitted=None if self._settings.enable_auto_commit else self._uncommitted,
        )
        self._bad_records = BadRecords(self._settings, self._progress)
        self._assignment = AssignmentDriver(
            self, self._settings, self._tasks, self._cluster, self._reader, self._progress, self._listeners, self._interceptors
        )
        self._subscription = SubscriptionDriver(self._settings, self._cluster, self._assignment)
        self._commits = CommitDriver(self, self._settings, self._tasks)
        chores = [self._subscription.keep_metadata_fresh()]
        if self._member is not None and self._settings.enable_auto_commit:
            chores.append(self._commits.commit_at_intervals(self._assignment, self._progress))
        await self._begin(*chores)
        return self

    @property
    def _refusal(self) -> KafkaError | None:
        return self._assignment.refused

    def _partition_metrics(self, now: float) -> Iterator[Metric]:
        for where in sorted(self.assignment()):
            state = self._reader.state_of(where, self._progress.position(where))
            yield from self._reader.metrics.of_partition(where, state, now)

    # --- what to read

    async def subscribe(self, *topics: str | SubscriptionPattern, pattern: str | None = None) -> None:
        """Read these topics from now on.

        With `pattern`, a regular expression, read all topics whose whole name matches, new ones too. A `SubscriptionPattern` in
        place of topics has RE2's syntax, and is resolved by the coordinator of a group with `group_protocol="consumer"`.

        If the group has refused this consumer, this call makes it join again. If brokers do not answer, the subscription stays
        unchanged. Raises `KafkaError`.
        """
        compiled = arguments.check_subscription(topics, pattern)
        refuse_in_listener(self, "subscribe")
        self._check()
        if self.assignment() and self._subscription.is_empty:
            raise SettingError("This consumer reads partitions of assign(): unsubscribe() first, then subscribe().")
        if self._member is not None and self._settings.read_committed:
            await self._check_isolation()
        if isinstance(compiled, SubscriptionPattern):
            self._subscription.subscribe_by_coordinator(compiled)
        else:
            await self._subscription.subscribe(tuple(map(str, topics)), compiled)

    async def _check_isolation(self) -> None:
        """Raise `NotSupported` if brokers have no transactions, before the group waits for a member that cannot fetch."""
        link = await self._cluster.retry(self._cluster.any_link)
        if link.version(FETCH) < ISOLATION_FROM_FETCH:
            raise NotSupported("isolation_level=read_committed needs Kafka 0.11 or newer: use read_uncommitted.")

    async def unsubscribe(self) -> None:
        """Stop reading, and leave the group."""
        refuse_in_listener(self, "unsubscribe")
        await self._assignment.leave_group()
        self._subscription.clear()
        self._assignment.refused = None
        await self._assignment.replace([])

    async def assign(self, partitions: Iterable[Partition]) -> None:
        """Read exactly these partitions, without the group's assignment. Offsets can still be committed for the group.

        Processed records of partitions that are no longer read are committed before (with auto-commit).
        Raises `UnknownTopic` for a partition that does not exist.
        """
        await self._assignment.replace(await self._assignable(partitions, "assign"))

    async def incremental_assign(self, partitions: Iterable[Partition]) -> None:
        """Read these partitions too, and the others on without a pause. Raises the exceptions of `assign`."""
        wanted = await self._assignable(partitions, "incremental_assign")
        await self._assignment.replace([*self.assignment(), *wanted])

    async def incremental_unassign(self, partitions: Iterable[Partition]) -> None:
        """Stop reading these partitions of `assign`, after a commit of their processed records (with auto-commit).

        Raises `KafkaError` if one is not assigned.
        """
        unwanted = self._check_assigning(partitions, "incremental_unassign")
        for where in unwanted:
            self._reader.fetcher.state_of(where)  # raises unless it is assigned
        await self._assignment.revoke(sorted(set(unwanted)))

    def _check_assigning(self, partitions: Iterable[Partition], name: str) -> list[TopicPartition]:
        """Return the argument of method `name`, which a consumer that has subscribed to topics may not call."""
        wanted = places(partitions)
        refuse_in_listener(self, name)
        self._check()
        if not self._subscription.is_empty:
            raise SettingError(f"This consumer has subscribed to topics: unsubscribe() first, then {name}().")
        return wanted

    async def _assignable(self, partitions: Iterable[Partition], name: str) -> list[TopicPartition]:
        wanted = self._check_assigning(partitions, name)
        topics = sorted({where.topic for where in wanted})
        await self._cluster.ensure(topics)
        if self._not_there(wanted):
            await self._cluster.retry(lambda: self._cluster.refresh(topics))
        for where in self._not_there(wanted):
            raise_for(UNKNOWN_TOPIC_OR_PARTITION, f"Partition {where.topic}-{where.partition}")
        return wanted

    def _not_there(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        known = self._cluster.metadata
        return [where for where in partitions if known.partition_error(*where) == UNKNOWN_TOPIC_OR_PARTITION]

    def subscription(self) -> set[str]:
        """Return the subscribed topics."""
        return self._subscription.all_topics()

    # --- records

    async def _next_cursor(self, timeout_ms: int | None, until: Mapping[Any, int] | None = None) -> Cursor | None:
        """Return the cursor of the next records, or None after `timeout_ms` or at the ends `until`.

        All records of earlier cursors count as processed.
        """
        return next(iter(await self._next_cursors(timeout_ms, until, 0)), None)

    async def _next_cursors(
        self, timeout_ms: int | None, until: Mapping[Any, int] | None = None, together_bytes: int = TOGETHER_BYTES
    ) -> list[Cursor]:
        """Return cursors of different partitions, to be read `_in_turn`; none after `timeout_ms` or at the ends `until`.

        All records of earlier cursors count as processed. One call, on the loop, serves several chunks, and one request then
        fetches all their partitions again.
        """
        timeout_ms = arguments.timeout("timeout_ms", timeout_ms)
        refuse_in_listener(self, "poll")
        self._polls.begin(now_ms())
        try:
            return await self._next_or_wait(timeout_ms, until, together_bytes)
        finally:
            self._polls.end(now_ms())

    def _in_turn(self, cursors: Sequence[Cursor]) -> Iterator[Cursor]:
        """Yield cursors of `_next_cursors`, on any thread, until its next call has something to do or to raise first.

        A request for the next cursor marks the columns of the one before as processed. That call returns those left over again.
        """
        for cursor in cursors:
            if cursor is cursors[0] or self._may_begin(cursor):
                yield cursor
                cursor.finish()

    def _may_begin(self, cursor: Cursor) -> bool:
        if self._woken or self._closed or self._assignment.waits_for_user or self._assignment.refused is not None:
            return False
        return not self._reader.fetcher.is_paused(cursor.where)

    async def _next_or_wait(self, timeout_ms: int | None, until: Mapping[Any, int] | None, together_bytes: int) -> list[Cursor]:
        self._progress.mark_processed()
        self._assignment.settle()
        if self._member is not None:
            await self._member.drop_if_expired()
        if until is not self._until:
            self._set_ends(until)
        if self._iteration is not None and await self._has_ended(self._iteration):
            return []
        self._raise_error_or_wakeup()
        if left := self._progress.left_over():
            return left
        if self._member is not None:
            self._member.user_is_busy(False)
        try:
            return await self._wait_for_cursors(timeout_ms, together_bytes)
        finally:
            if self._member is not None:
                self._member.user_is_busy(True)

    async def _wait_for_cursors(self, timeout_ms: int | None, together_bytes: int) -> list[Cursor]:
        ends, loop = self._iteration, asyncio.get_running_loop()
        deadline = None if timeout_ms is None else loop.time() + timeout_ms / 1000
        while True:
            self._raise_error_or_wakeup()
            left_ms = None if deadline is None else max(0, round((deadline - loop.time()) * 1000))
            wait_ms = left_ms if ends is None else ENDS_PAUSE_MS if left_ms is None else min(left_ms, ENDS_PAUSE_MS)
            chunks = await self._reader.next_chunks(wait_ms, together_bytes if ends is None else 0)
            if chunks:
                return [self._progress.begin(chunk if ends is None else ends.cut(chunk)) for chunk in chunks]
            if ends is not None and await self._has_ended(ends):
                return []
            if left_ms == 0:
                self._raise_error()
                return []

    def _set_ends(self, until: Mapping[Any, int] | None) -> None:
        """Begin an iteration that ends at `until`, or read without ends."""
        offsets = None if until is None else arguments.by_place("until", until, lambda end: arguments.whole("An end", end))
        if self._iteration is not None:
            self._iteration.finish()
        self._until, self._iteration = until, None
        if offsets is not None:
            self._iteration = IterationEnds(self._reader.fetcher, self._progress, offsets)
        self._reader.pump()

    async def _has_ended(self, ends: IterationEnds) -> bool:
        """Return whether all partitions are at their ends, after which the consumer reads without ends again."""
        for where in ends.unknown():
            await self.position(where)
        if has_ended := ends.reached():
            self._set_ends(None)
        self._reader.pump()
        return has_ended

    async def records(
        self, timeout_ms: int | None = None, *, until: Mapping[Place, int] | None = None
    ) -> AsyncIterator[ConsumerRecord[Key_co, Value_co]]:
        """Yield records one by one, without end, or until none arrives for `timeout_ms`. Raises `KafkaError`.

        With `until`, such as the result of `end_offsets`, yield the records of these partitions before these offsets, and end. The
        consumer then is at these offsets. Other partitions are not read meanwhile, and a revoked partition counts as read.
        """
        while cursors := await self._next_cursors(timeout_ms, until):
            for cursor in self._in_turn(cursors):
                try:
                    for record in cursor.each():
                        yield record
                except KafkaError as error:
                    await self._pass_over(error)
                    break

    def __aiter__(self) -> AsyncIterator[ConsumerRecord[Key_co, Value_co]]:
        return self.records()

    async def batches(
        self, timeout_ms: int | None = None, *, until: Mapping[Place, int] | None = None, **columns: Unpack[ColumnKeywords]
    ) -> AsyncIterator[pyarrow.RecordBatch]:
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
            while (found := await self._next_batches(timeout_ms, until, typed)) is not None:
                for batch in found:
                    yield batch
        else:
            while cursors := await self._next_cursors(timeout_ms, until):
                for cursor in self._in_turn(cursors):
                    for batch in typed.plain(cursor):
                        yield batch

    async def _next_batches(
        self, timeout_ms: int | None, until: Mapping[Place, int] | None, typed: TypedBatches
    ) -> list[pyarrow.RecordBatch] | None:
        cursor = await self._next_cursor(timeout_ms, until)
        return None if cursor is None else await typed.read(cursor, self._bad_records)

    async def columns(
        self, timeout_ms: int | None = None, *, until: Mapping[Place, int] | None = None
    ) -> AsyncIterator[FetchedColumns]:
        """Yield fetched records as columns, each time of one partition, without end, or until none arrives for `timeout_ms`.

        `until` is that of `records`. No Python object is created per record, and no deserializer is used. An item without records
        means that the position has moved, for example past a marker. The records of an item are processed once the next one is
        requested.
        """
        while (found := await self._next_columns(timeout_ms, until)) is not None:
            yield found

    async def _next_columns(self, timeout_ms: int | None, until: Mapping[Place, int] | None) -> FetchedColumns | None:
        cursor = await self._next_cursor(timeout_ms, until)
        return None if cursor is None else fetched_columns(cursor, self._reader.fetcher)

    async def poll(self, timeout_ms: int = 0, max_records: int | None = None) -> list[ConsumerRecord[Key_co, Value_co]]:
        """Return up to `max_records` records (None: `max_poll_records`). Wait up to `timeout_ms` for the first.

        Raises `KafkaError` if there is an error and no record. If there are records, they are returned, and the next call raises
        the error.
        """
        return await self._poll(timeout_ms, max_records, self._cursors_to_poll)

    async def _cursors_to_poll(self, timeout_ms: int) -> Iterator[Cursor] | None:
        cursor = await self._next_cursor(timeout_ms)
        return None if cursor is None else self._all_fetched(cursor)

    def _all_fetched(self, first: Cursor) -> Iterator[Cursor]:
        """Yield a cursor, and then those of other fetched chunks while all records of the ones before were handed out."""
        cursor: Cursor | None = first
        while cursor is not None:
            yield cursor
            chunk = self._reader.more() if cursor.exhausted else None
            cursor = None if chunk is None else self._progress.begin(chunk)

    def _put_back(self) -> None:
        """Return records to the buffer if their caller was interrupted before it got them."""
        self._progress.put_back()

    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic. Raises `UnknownTopic`."""
        await self._cluster.ensure([arguments.topic_name(topic)])
        return self._cluster.metadata.partitions(topic)

    async def close(self, *, finished: bool = True, leave_group: bool | None = None) -> None:
        """Commit the offsets of processed records (with auto-commit), leave the group, and close all connections.

        With `finished=False`, the records handed out last do not count as processed. Leaving a `with` statement by an exception
        passes False. A member that stays keeps its partitions for `session_timeout_ms`, if it starts again: by default a member
        with a `group_instance_id` stays and any other leaves; `leave_group` decides otherwise (KIP-1092).
        """
        refuse_in_listener(self, "close")
        if not self._started:
            return
        if self._shutting is None:
            self._leave_group = leave_group
            await self._commits.finish()
        if finished and self._shutting is None and not self._is_gathering:
            self._progress.mark_processed()
        await asyncio.shield(self._begin_shutting())  # a caller that gives up waiting does not stop it
        self._tasks.check_unraised()

    async def _shut(self) -> None:
        try:
            await self._tasks.cancel()
            if self._member is not None:
                if self._subscription.is_empty:  # the partitions of assign()
                    await self._assignment.commit_processed(sorted(self.assignment()))
                await self._member.leave(self._leave_group)
        finally:
            self._reader.close()
            self._interceptors.close()
            await self._telemetry.close()
            await self._bad_records.close()
            await self._cluster.close()


made_by_start(
    AsyncConsumer,
    "_tasks",
    "_cluster",
    "_reader",
    "_telemetry",
    "_polls",
    "_interceptors",
    "_progress",
    "_bad_records",
    "_assignment",
    "_subscription",
    "_commits",
)
