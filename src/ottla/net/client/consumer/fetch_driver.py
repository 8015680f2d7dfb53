"""The driver of a consumer's fetcher over a cluster: background fetches, offset lookups by timestamp, and chunks for the user."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from ottla.client.connection.versions import FETCH
from ottla.client.consumer.fetch_requests import FetchLimits
from ottla.client.consumer.fetcher import UNKNOWN_OFFSET, UNREADABLE, UNREADABLE_07, Chunk, Fetcher, PlannedFetch
from ottla.client.consumer.list_offsets import list_offsets_request, read_list_offsets
from ottla.client.errors import KafkaError
from ottla.client.metrics.consumer import FetchMetrics, PartitionState
from ottla.client.settings.clients import ConsumerSettings
from ottla.client.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, OffsetAndTimestamp, TopicPartition
from ottla.net.client.cluster import FETCH_LANE, ClusterLinks, now_ms
from ottla.net.client.leaders import request_leaders
from ottla.net.client.tasks import Tasks
from ottla.wire.api.fetch import FetchResponse
from ottla.wire.api.list_offsets import ListOffsetsRequest

RESETS = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP, "none": None}


class FetchDriver:
    """The fetches of an assigned consumer: sends the requests that `fetcher` plans. Use it only on the event loop that created
    it.
    """

    def __init__(self, cluster: ClusterLinks, settings: ConsumerSettings, tasks: Tasks) -> None:
        self.fetcher = Fetcher(
            cluster.metadata,
            FetchLimits(
                fetch_max_bytes=settings.fetch_max_bytes,
                max_partition_fetch_bytes=settings.max_partition_fetch_bytes,
                fetch_min_bytes=settings.fetch_min_bytes,
                fetch_max_wait_ms=settings.fetch_max_wait_ms,
                read_committed=settings.read_committed,
                client_rack=settings.client_rack or "",
            ),
            reset_timestamp=RESETS[settings.auto_offset_reset],
            check_crcs=settings.check_crcs,
            control=settings.include_control_records,
            retry_backoff_ms=settings.retry_backoff_ms,
            preference_ms=settings.metadata_max_age_ms,
            missing_patience_ms=settings.default_api_timeout_ms,
            longest_pause_ms=settings.fetch_max_wait_ms if settings.is_of_0_7 else 0,
            unreadable=UNREADABLE_07 if settings.is_of_0_7 else UNREADABLE,
        )
        self.metrics = FetchMetrics(cluster.metrics)
        self._cluster = cluster
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._tasks = tasks
        self._closed = False
        self._resetting: dict[TopicPartition, int] = {}
        """The partitions whose offset is being looked up, with the timestamp of the lookup."""
        self._pump_is_due = False
        self._timer: asyncio.TimerHandle | None = None
        self._waiter: asyncio.Future[None] | None = None

    async def next_chunks(self, timeout_ms: int | None, together_bytes: int = 0) -> list[Chunk]:
        """Return the next chunk, and those of other partitions that are buffered, until they have `together_bytes`.

        Return none after `timeout_ms`, or if `wake` is called while there is no chunk. Raises the `KafkaError` of a partition that
        cannot be fetched.
        """
        if chunks := self._next(together_bytes):
            return chunks
        if timeout_ms == 0:
            await asyncio.sleep(0)  # a loop of such calls lets the fetches make progress
            return self._next(together_bytes)
        self._waiter = self._loop.create_future()
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                await self._waiter
        except TimeoutError:
            return []
        finally:
            self._waiter = None
        return self._next(together_bytes)

    def more(self) -> Chunk | None:
        """Return the next chunk if it is buffered, to add it to records that the caller has. Errors are left to `next_chunks`."""
        try:
            return self._count_chunk(self.fetcher.additional_chunk())
        finally:
            self.pump()

    def _next(self, together_bytes: int) -> list[Chunk]:
        chunks: list[Chunk] = []
        try:
            chunk = self._count_chunk(self.fetcher.next_chunk())
            while chunk is not None:
                chunks.append(chunk)
                together_bytes -= sum(map(len, chunk.pieces))
                chunk = self._count_chunk(self.fetcher.additional_chunk()) if together_bytes > 0 else None
            return chunks
        finally:
            # Only now, so that the next fetch includes the partitions just emptied, or whose error was just raised.
            self.pump()

    def _count_chunk(self, chunk: Chunk | None) -> Chunk | None:
        """Return a chunk that the user gets, after it was counted."""
        if chunk is not None and chunk.pieces:
            before = max(0, chunk.from_offset - int.from_bytes(chunk.pieces[0][:8], "big"))  # of a batch that begins earlier
            size = sum(map(len, chunk.pieces))
            state = self.state_of(chunk.where, chunk.next_offset)
            self.metrics.on_chunk(chunk.where, max(0, chunk.record_count - before), size, state, now_ms())
        return chunk

    def state_of(self, where: TopicPartition, position: int) -> PartitionState:
        """Return the distance of a position of an assigned partition to both ends of its log, as far as fetches have shown it."""
        reading = self.fetcher.state_of(where)
        stable = self._settings.read_committed and reading.last_stable_offset != UNKNOWN_OFFSET  # brokers before 0.11 have none
        end = reading.last_stable_offset if stable else reading.high_watermark
        lag = None if UNKNOWN_OFFSET in (end, position) else max(0, end - position)
        start = reading.log_start_offset
        lead = None if UNKNOWN_OFFSET in (start, position) else max(0, position - start)
        return PartitionState(lag, lead, reading.preferred_replica)

    def wake(self) -> None:
        """Wake waiting `next_chunks`, which then returns chunks or none."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def pump(self) -> None:
        """Send the fetches that are ready, and start the metadata refreshes and offset lookups that they need."""
        self._pump_is_due = False
        if self._closed:
            return
        now = now_ms()
        for fetch in self.fetcher.fetches(now):
            self._tasks.spawn(self._run(fetch))
        if self.fetcher.wants_metadata:
            self._cluster.refresh_soon(self.fetcher.wants_metadata, self.pump, self._fail)
            self.fetcher.wants_metadata.clear()
        unasked = {where: time for where, time in self.fetcher.to_reset().items() if self._resetting.get(where) != time}
        if unasked:
            self._resetting.update(unasked)
            self._tasks.spawn(self._reset(unasked))
        wake_ms = self.fetcher.next_wake_ms(now)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if wake_ms is None else self._tasks.later(max(1, wake_ms - now) / 1000, self.pump)
        if not self.fetcher.idle:
            self.wake()

    def _fail(self, error: KafkaError) -> None:
        self.fetcher.failure = error
        self.wake()

    async def _run(self, fetch: PlannedFetch) -> None:
        timeout_ms = self._settings.request_timeout_ms + self._settings.fetch_max_wait_ms
        try:
            link = await self._cluster.link(fetch.node_id, FETCH_LANE)
            version = fetch.version(link.version(FETCH))
            sent_ms = self._loop.time() * 1000
            answer = await link.request(fetch.request, timeout_ms, version)
            self._count(fetch, answer, self._loop.time() * 1000 - sent_ms)
            self.fetcher.on_answer(fetch, answer, now_ms(), version)
        except KafkaError as error:
            self.fetcher.broken(fetch, now_ms())
            if not error.retriable:
                self.fetcher.failure = error
        if self._waiter is None or self.fetcher.idle:
            self.pump()
        if not self.fetcher.idle:
            self.wake()

    def _count(self, fetch: PlannedFetch, answer: FetchResponse, latency_ms: float) -> None:
        names = {topic_id: name for name, topic_id in fetch.ids.items()}
        sizes: dict[str, int] = {}
        for topic in answer.responses:
            if size := sum(len(part.records or b"") for part in topic.partitions):
                name = topic.topic or names.get(topic.topic_id, "")
                sizes[name] = sizes.get(name, 0) + size
        self.metrics.on_fetch(latency_ms, answer.throttle_time_ms, sizes, now_ms())

    async def _reset(self, wanted: Mapping[TopicPartition, int]) -> None:
        """Find the positions of partitions that have none, and set each as soon as it is found.

        The next poll raises the error of a failed lookup.
        """

        def set_position(where: TopicPartition, offset: OffsetAndTimestamp) -> None:
            over(where)
            # Ignore the result if a seek or a rebalance changed the partition during the lookup.
            if where in self.fetcher.partitions and self.fetcher.state_of(where).reset_to == wanted[where]:
                self.fetcher.seek(where, offset.offset)
                self._pump_soon()

        def over(where: TopicPartition) -> None:
            if self._resetting.get(where) == wanted[where]:
                del self._resetting[where]

        try:
            await self.offsets(wanted, set_position)
        except KafkaError as error:
            self._fail(error)
        finally:
            for where in wanted:
                over(where)

    def _pump_soon(self) -> None:
        """Schedule one `pump` for all positions that are found in this iteration of the loop."""
        if not self._pump_is_due:
            self._pump_is_due = True
            self._tasks.soon(self.pump)

    async def offsets(
        self, wanted: Mapping[TopicPartition, int], found: Callable[[TopicPartition, OffsetAndTimestamp], None] = lambda *_: None
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return offsets by timestamp; retry while leaders move. `found` is called with each offset as soon as it is found.

        Raises `KafkaError`.
        """
        settings = self._settings

        def request(part: Mapping[TopicPartition, int]) -> ListOffsetsRequest:
            return list_offsets_request(part, read_committed=settings.read_committed, timeout_ms=settings.request_timeout_ms)

        return await request_leaders(self._cluster, wanted, request, read_list_offsets, "Offsets of", received=found)

    def close(self) -> None:
        """Stop fetching, and wake waiting `next_chunks`."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self.wake()
