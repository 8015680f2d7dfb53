"""The base of consumers of both kinds of groups: start, errors, wakeups, shutdown, and records gathered from cursors.

It has a reader, whose waiting poll it wakes, and reads cursors. It has no subscription, no offsets and no acknowledgements.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial
from types import TracebackType
from typing import Any, Protocol, Self

from ottla.client import arguments
from ottla.client.consumer.cursor import Cursor
from ottla.client.errors import KafkaError, WokenUp
from ottla.client.metrics.registry import MetricsSnapshot
from ottla.client.other_names import ClientType
from ottla.client.settings.clients import ConsumerSettings, ShareConsumerSettings
from ottla.client.types import ConsumerRecord
from ottla.net.client.background import run_for_caller
from ottla.net.client.cluster import ClusterLinks
from ottla.net.client.lifetime import OfOneProcess
from ottla.net.client.statistics import statistics_of
from ottla.net.client.tasks import Tasks
from ottla.net.client.telemetry_driver import TelemetryDriver


class FetchedRecords(Protocol):
    """The driver of fetches, whose records a poll waits for."""

    def wake(self) -> None:
        """Wake the waiting poll, so that it checks for errors and wakeups."""


class BadRecordPolicy(Protocol):
    """The effect of `on_bad_record`."""

    async def pass_over(self, error: KafkaError) -> None:
        """Continue after the record of `error`, or raise `error`."""


class PollingConsumer(OfOneProcess, metaclass=ClientType):
    """The base of `AsyncConsumer` and `AsyncShareConsumer`, whose `start` creates the drivers and then calls `_begin`."""

    _tasks: Tasks
    _cluster: ClusterLinks
    _reader: FetchedRecords
    _telemetry: TelemetryDriver
    _bad_records: BadRecordPolicy

    def __init__(self, settings: ConsumerSettings | ShareConsumerSettings, topics: tuple[str, ...]) -> None:
        self._max_poll_records = settings.max_poll_records
        self._statistics = statistics_of(settings)
        self._first_topics = topics
        self._started = self._closed = self._woken = self._is_gathering = False
        self._shutting: asyncio.Task[None] | None = None

    @abstractmethod
    async def subscribe(self, *topics: str) -> None:
        """Read these topics from now on."""

    @abstractmethod
    async def close(self, *, finished: bool = True) -> None:
        """Leave the group, and close all connections. With `finished`, the records handed out last count as processed."""

    @property
    @abstractmethod
    def _refusal(self) -> KafkaError | None:
        """Return the error with which the group refused this consumer. Each poll raises it until the consumer subscribes again."""

    @abstractmethod
    def _put_back(self) -> None:
        """Return records to the buffer if their caller was interrupted before it got them."""

    @abstractmethod
    async def _shut(self) -> None:
        """Leave the group, and close all connections."""

    # --- start and shutdown

    async def _begin(self, *chores: Coroutine[object, None, None]) -> None:
        """Run `chores` in the background, and subscribe to the first topics. If that fails, close everything."""
        self._started = True
        if self._statistics is not None:
            self._tasks.spawn(self._statistics.run(self.metrics))
        self._telemetry.begin()
        for chore in chores:
            self._tasks.spawn(chore)
        try:
            if self._first_topics:
                await self.subscribe(*self._first_topics)
        except BaseException:
            await self.close()
            raise

    @abstractmethod
    async def start(self) -> Self:
        """Start the consumer without a `with` statement, and subscribe to the given topics. If that fails, close everything."""

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close(finished=kind is None)

    def _broke(self, error: KafkaError) -> None:
        """Leave the group at once after an unexpected error, or an exception of a callback. The next call raises the error."""
        self._begin_shutting()
        self._reader.wake()

    def _begin_shutting(self) -> asyncio.Task[None]:
        self._closed = True
        if self._shutting is None:
            self._shutting = asyncio.get_running_loop().create_task(self._shut())
        return self._shutting

    # --- errors and wakeups

    def _check(self) -> None:
        """Raise the error that ended this consumer, or `Closed`."""
        self._tasks.check()
        if self._closed:
            raise self._tasks.end_error()

    def _raise_error(self) -> None:
        self._check()
        if (refusal := self._refusal) is not None:
            raise refusal.with_traceback(None)

    def _raise_error_or_wakeup(self) -> None:
        self._raise_error()
        if self._woken:
            self._woken = False
            raise WokenUp("wakeup() was called: this consumer can go on.")

    def wakeup(self) -> None:
        """Make the call that waits for records raise `WokenUp`, or the next one if none waits. Any thread may call this.

        No record is lost: the consumer can go on, or close.
        """
        if self._started and not self._closed:
            self._woken = True
            self._reader.wake()

    # --- records

    async def _poll(
        self, timeout_ms: int, max_records: int | None, next_cursors: Callable[[int], Awaitable[Iterable[Cursor] | None]]
    ) -> list[ConsumerRecord[Any, Any]]:
        """Return up to `max_records` records of the first cursors with any. `next_cursors(ms)` waits up to this time."""
        timeout_ms = arguments.whole("timeout_ms", timeout_ms)
        wanted = self._max_poll_records if max_records is None else arguments.whole("max_records", max_records, 1)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        left_ms = timeout_ms
        while cursors := await next_cursors(left_ms):
            try:
                if records := await self._gather(cursors, wanted):
                    return records
            except KafkaError as error:
                await self._pass_over(error)
            # Transaction markers and aborted records take offsets, but are not handed out.
            left_ms = max(0, round((deadline - loop.time()) * 1000))
        return []

    async def _pass_over(self, error: KafkaError) -> None:
        """Continue after a record that a deserializer cannot read, as `on_bad_record` says, or raise `error`."""
        await self._bad_records.pass_over(error)

    async def _gather(self, cursors: Iterable[Cursor], wanted: int) -> list[ConsumerRecord[Any, Any]]:
        records: list[ConsumerRecord[Any, Any]] = []
        for cursor in cursors:
            try:
                if cursor.calls_user:
                    self._is_gathering = True
                    records += await run_for_caller(partial(cursor.next_records, wanted - len(records)))
                else:
                    records += cursor.next_records(wanted - len(records))
            except KafkaError:
                if not records:
                    raise
                break  # return these records: the next call raises the error
            except BaseException:  # an interrupt
                self._put_back()
                raise
            finally:
                self._is_gathering = False
            if len(records) >= wanted:
                break
        return records

    # --- metrics

    def metrics(self) -> MetricsSnapshot:
        """Return the consumer's metrics, with the names and groups of Kafka's Java client.

            consumer.metrics().value("fetch-latency-avg")

        Rates and averages are about the last `metrics_num_samples` windows of `metrics_sample_window_ms`.
        """
        return self._cluster.snapshot()

    async def client_instance_id(self, timeout_ms: int = 30_000) -> str:
        """Return the id by which brokers know this client's metrics, as Kafka prints it (KIP-714).

        Raises `SettingError` without `enable_metrics_push`, `NotSupported` if brokers have no subscriptions to metrics, and
        `TimedOut`.
        """
        return await self._telemetry.instance_id(arguments.whole("timeout_ms", timeout_ms))
