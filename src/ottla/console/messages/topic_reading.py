"""Readings of topics that go on while somebody views them: a search that finds a page of messages, or a live tail.

A reading is one task. It fetches bounded parts, looks at records for `SLICE_S` and then pauses, so that neither the console's other
pages nor a broker in the same process wait for it. It ends by itself when nobody has asked for it for `IDLE_S`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from ottla.client.admin.results import Results
from ottla.client.connection.metadata import TopicInfo
from ottla.client.connection.retry_pauses import RetryPauses
from ottla.client.consumer.fetch_requests import FetchedPartition
from ottla.client.errors import KafkaError, UnknownTopic, raise_for
from ottla.client.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP, OffsetAndTimestamp, TopicPartition
from ottla.console.messages.fetcher import LOOKS, TopicFetcher
from ottla.console.messages.found_messages import (
    ALL_KEPT_BYTES,
    KEPT_BYTES,
    LEAST_KEPT_BYTES,
    FoundMessage,
    ReadBatch,
    found_message,
    read_batches,
)
from ottla.console.messages.schema_cache import SchemaCache
from ottla.console.messages.selection import Chooser, Selection
from ottla.net.client.admin.async_admin import AsyncAdmin
from ottla.wire.errors import OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION

SLICE_S: Final = 0.002
"""The time, in s, for which records are looked at between two pauses."""
PAUSE_S: Final = 0.002
IDLE_S: Final = 30.0
"""The time, in s, after which a reading that nobody views ends."""
ASK_MS: Final = 3_000
RETRY_MS, MOST_RETRY_MS = 200, 5_000
PARTITIONS_AT_ONCE: Final = 2_000
"""The partitions whose offsets are requested at once."""
MOST_RECORDS: Final = 1 << 62
Answer = TypeVar("Answer")

log = logging.getLogger("ottla.console")


class QueriedCluster(Protocol):
    """The part of a `ClusterSession` that readings use: the keyword arguments of its clients, and its admin client."""

    settings: dict[str, Any]

    async def topics(self) -> dict[str, TopicInfo]:
        """Return all topics by name, perhaps some seconds old. Raises `KafkaError`."""

    async def query(self, call: Callable[[AsyncAdmin], Awaitable[Answer]], seconds: float = ...) -> Answer:
        """Return the answer to a call of the admin client. Raises `KafkaError`."""


class TopicReading:
    """The base of searches and tails."""

    def __init__(self, selection: Selection, cluster: QueriedCluster, schemas: SchemaCache) -> None:
        """Prepare a reading. Raises `BadSelection`."""
        self.selection = selection
        self.schemas = schemas
        self.chooser = Chooser(selection, schemas.filter_decoder)
        self._cluster = cluster
        self.trouble = ""
        """The sentence about the last request that failed, or about batches that could not be opened."""
        self.trouble_of_batches = ""
        self.looked_at = self.total = self.kept_bytes = 0
        self.is_finished = False
        self.note = ""
        """A sentence about partitions that the reading leaves out."""
        self.progress = asyncio.Event()
        """Set when the reading has finished, or a tail has its first answer."""
        self._asked_s = time.monotonic()
        self._slice_end_s = 0.0
        self._task: asyncio.Task[None] | None = None

    def touch(self) -> None:
        """Go on for another `IDLE_S`: somebody views the reading."""
        self._asked_s = time.monotonic()
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    @property
    def is_idle(self) -> bool:
        return time.monotonic() - self._asked_s > IDLE_S

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        """Read until the end, again after each error that can pass."""
        fetcher = TopicFetcher(self._cluster.settings, self.selection.topic)
        pauses, tries, missed = RetryPauses(RETRY_MS, MOST_RETRY_MS), 0, 0
        try:
            while not self.is_finished and not self.is_idle:
                try:
                    await self._step(fetcher)
                    self.trouble = fetcher.trouble or self.trouble_of_batches
                    tries = missed = 0
                except KafkaError as error:
                    self.trouble = str(error)
                    missed = missed + 1 if isinstance(error, UnknownTopic) else 0
                    if not error.retriable or missed >= LOOKS:
                        break
                    tries += 1
                    await asyncio.sleep(pauses.after(tries, MOST_RETRY_MS, 0.5) / 1000)
        except Exception:
            log.exception("A reading of topic %s failed", self.selection.topic)
            self.trouble = "An unexpected error has ended this reading: the console's log has it."
        finally:
            self.is_finished = True
            self.progress.set()
            await fetcher.close()

    async def _step(self, fetcher: TopicFetcher) -> None:
        """Read one bounded part. Raises `KafkaError`."""
        raise NotImplementedError

    async def offsets(self, partitions: Iterable[int], timestamp: int, *, read_committed: bool = False) -> dict[int, int]:
        """Return the offsets of a time, or of the first or next record, by partition. Partitions without a leader are left out."""
        found: dict[int, int] = {}
        for where, each in (await self._list_offsets(partitions, timestamp, read_committed=read_committed)).items():
            found[where.partition] = each.offset
        return found

    async def _list_offsets(
        self, partitions: Iterable[int], timestamp: int, *, read_committed: bool = False
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return the answers of the leaders, with `PARTITIONS_AT_ONCE` in a request. Raises `KafkaError` if there is none."""
        every = list(partitions)
        answers: dict[TopicPartition, OffsetAndTimestamp] = {}
        for at in range(0, len(every), PARTITIONS_AT_ONCE):
            some = every[at : at + PARTITIONS_AT_ONCE]
            wanted: dict[tuple[str, int], int] = {TopicPartition(self.selection.topic, index): timestamp for index in some}
            found = await self._cluster.query(partial(_list_offsets, wanted, read_committed=read_committed))
            if found.errors and not found:
                found.raise_first()
            answers.update(found)
        return answers

    async def latest_times(self, partitions: Iterable[int]) -> dict[int, int]:
        """Return the time of the newest message of each partition that has any. Raises `NotSupported` before Kafka 3.0."""
        found = await self._list_offsets(partitions, MAX_TIMESTAMP)
        return {where.partition: each.timestamp for where, each in found.items() if each.offset >= 0}

    async def ranges(self, partitions: Iterable[int]) -> tuple[dict[int, int], dict[int, int], dict[int, int]]:
        """Return the first offset, the next offset and the last stable offset of each partition that has a leader."""
        wanted = list(partitions)
        starts, ends, stable = await asyncio.gather(
            self.offsets(wanted, EARLIEST_TIMESTAMP),
            self.offsets(wanted, LATEST_TIMESTAMP),
            self.offsets(wanted, LATEST_TIMESTAMP, read_committed=True),
        )
        ends = {index: end for index, end in ends.items() if index in starts}
        return starts, ends, {index: stable.get(index, end) for index, end in ends.items()}

    async def _known_topic(self) -> TopicInfo:
        topics = await self._cluster.topics()
        if self.selection.topic not in topics:
            raise_for(UNKNOWN_TOPIC_OR_PARTITION, f"Topic {self.selection.topic}")
        return topics[self.selection.topic]

    async def partition_numbers(self) -> list[int]:
        """Return the wanted partitions of the topic. Raises `KafkaError` for one that does not exist."""
        topic = self.selection.topic
        known = (await self._known_topic()).partitions
        wanted = self.selection.partitions or tuple(sorted(known))
        missing = [index for index in wanted if index not in known]
        if missing:
            raise KafkaError(f"Topic {topic} has no partition {missing[0]}: it has {len(known)}, from 0 to {len(known) - 1}.")
        return list(wanted)

    async def batches(
        self, found: FetchedPartition, start: int, end: int, *, read_committed: bool, most: int = MOST_RECORDS
    ) -> AsyncIterator[tuple[ReadBatch, list[FoundMessage]]]:
        """Yield the batches of a fetched part from `start` to `end` with those of their records that are wanted, in slices.

        The last batch ends with the wanted record number `most`.
        """
        for batch in read_batches(found.records, found.where, found.aborted if read_committed else None, start, end):
            if batch.trouble:
                self.trouble_of_batches = batch.trouble
            is_control = batch.header.is_control
            kept: list[FoundMessage] = []
            for record in batch.records:
                if self.schemas.is_used_by(self.selection.filter):
                    await self.schemas.load((record.key, record.value))
                if self.chooser.accepts(record, batch.transaction, is_control=is_control):
                    kept.append(self._keep(record, batch))
                    most -= 1
                await self._pause()
                if most <= 0:
                    break
            yield batch, kept
            await self._pause()
            if most <= 0:
                return

    def _keep(self, record: Any, batch: ReadBatch) -> FoundMessage:
        found = found_message(record, batch, KEPT_BYTES if self.kept_bytes < ALL_KEPT_BYTES else LEAST_KEPT_BYTES)
        self.kept_bytes += found.kept_bytes
        return found

    async def _rest(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _pause(self) -> None:
        """Let others run if the slice is over."""
        now_s = time.monotonic()
        if now_s > self._slice_end_s:
            await asyncio.sleep(PAUSE_S)
            self._slice_end_s = time.monotonic() + SLICE_S


async def _list_offsets(
    wanted: Mapping[tuple[str, int], int], admin: AsyncAdmin, *, read_committed: bool
) -> Results[TopicPartition, OffsetAndTimestamp]:
    return await admin.list_offsets(wanted, read_committed=read_committed, check=False, timeout_ms=ASK_MS)


def is_out_of_range(found: FetchedPartition) -> bool:
    return found.error_code == OFFSET_OUT_OF_RANGE
