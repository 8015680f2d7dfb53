"""The synchronous path of Spark: offsets, ranges of records as the broker stored them, and ready batches written.

Blocking sockets, one thread, no loop. Settings are plain values that pickle; sockets are opened where they are used. Records
stay closed: what comes in and goes out are whole batches, for `ottla.records.columns` to open or build.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from ottla.client.errors import TimedOut, broker_error, raise_for
from ottla.client.fetching import FetchedPartition, FetchLimits, FetchPosition, cut_short, fetch_request, read_fetch
from ottla.client.list_offsets import list_offsets_request, read_list_offsets
from ottla.client.metadata import TopicInfo
from ottla.client.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, OffsetAndTimestamp, TopicPartition
from ottla.client.versions import FETCH, LIST_OFFSETS
from ottla.client.visible import visible
from ottla.net.client.blocking_cluster import Addressed, BlockingCluster
from ottla.net.client.blocking_link import BlockingLink
from ottla.net.client.range_producer import RangeProducer, WriteSettings
from ottla.wire.errors import OFFSET_OUT_OF_RANGE

__all__ = [
    "EARLIEST_TIMESTAMP",
    "LATEST_TIMESTAMP",
    "FetchedRange",
    "RangeProducer",
    "RangeSettings",
    "fetch_range",
    "list_offsets",
    "list_topics",
    "partitions",
    "produce",
]


class ReadSettings(Addressed, Protocol):
    """The settings of a reader."""

    @property
    def read_committed(self) -> bool: ...
    @property
    def fetch_max_bytes(self) -> int: ...
    @property
    def max_partition_fetch_bytes(self) -> int: ...
    @property
    def fetch_max_wait_ms(self) -> int: ...


@dataclass(frozen=True, slots=True)
class RangeSettings:
    """Everything the functions here take from their settings; any object with these attributes will do.

    Sizes in bytes, times in ms.
    """

    bootstrap_servers: str
    client_id: str = "ottla"
    request_timeout_ms: int = 30_000
    read_committed: bool = False
    fetch_max_bytes: int = 52_428_800
    max_partition_fetch_bytes: int = 4_194_304
    fetch_max_wait_ms: int = 500
    acks: int = -1
    enable_idempotence: bool = True
    max_request_size: int = 1_048_576
    delivery_timeout_ms: int = 120_000


class FetchedRange(NamedTuple):
    """Whole batches of one partition.

    Records below `from_offset` or from `until_offset` on may be in them and are not of the range.
    """

    records: memoryview
    from_offset: int
    until_offset: int


def list_topics(settings: Addressed, *, internal: bool = False) -> list[str]:
    """The names of all topics, sorted; those of Kafka's own only with `internal`."""
    with BlockingCluster(settings) as cluster:
        cluster.retried(lambda: cluster.refresh(None))
        return sorted(topic.name for topic in cluster.metadata.topics.values() if internal or not topic.is_internal)


def partitions(settings: Addressed, topics: Collection[str]) -> dict[str, list[int]]:
    """The partitions of each topic. Raises `UnknownTopic` for one that does not exist."""
    with BlockingCluster(settings) as cluster:
        known = cluster.retried(lambda: _known(cluster, topics), must_exist=True)
        return {name: sorted(info.partitions) for name, info in known.items()}


def _known(cluster: BlockingCluster, topics: Collection[str]) -> dict[str, TopicInfo]:
    cluster.refresh(topics)
    cluster.metadata.check(topics)
    return {topic: cluster.metadata.topics[topic] for topic in topics}


def list_offsets(settings: ReadSettings, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp]:
    """The first offset at or after a time (ms), by partition; EARLIEST_TIMESTAMP and LATEST_TIMESTAMP ask for the two ends.

    The offset is -1 where no record is that young. With `read_committed`, the latest is the last stable offset. Raises
    `KafkaError`; retriable ones only after `request_timeout_ms`.
    """
    topics = {where.topic for where in wanted}
    found: dict[TopicPartition, OffsetAndTimestamp] = {}
    with BlockingCluster(settings) as cluster:
        if wanted:
            cluster.retried(lambda: _known(cluster, topics), must_exist=True)
            cluster.retried(lambda: _list_offsets(cluster, settings, wanted, found), topics)
    return found


def _list_offsets(
    cluster: BlockingCluster,
    settings: ReadSettings,
    wanted: Mapping[TopicPartition, int],
    found: dict[TopicPartition, OffsetAndTimestamp],
) -> None:
    todo = [TopicPartition(*where) for where in wanted if where not in found]
    by_link: dict[BlockingLink, dict[TopicPartition, int]] = {}
    for where in todo:
        by_link.setdefault(cluster.leader_link(where), {})[where] = wanted[where]
    for link, part in by_link.items():
        request = list_offsets_request(part, read_committed=settings.read_committed, timeout_ms=settings.request_timeout_ms)
        for where, error_code, offset in read_list_offsets(link.ask(LIST_OFFSETS, request)):
            raise_for(error_code, f"Offsets of {where.topic}-{where.partition}")
            found[where] = offset


def fetch_range(settings: ReadSettings, topic: str, partition: int, start: int, end: int) -> Iterator[FetchedRange]:
    """Everything from offset `start` up to, not including, `end`, in pieces as large as `max_partition_fetch_bytes` allows.

    The next piece is asked for before the last is handed out. Offsets that compaction or transactions left empty are passed
    over. Raises `OffsetOutOfRange` if `start` is gone, `TimedOut` if `end` is not reached, and other `KafkaError`s.
    """
    if end <= start:
        return
    with BlockingCluster(settings) as cluster:
        yield from _RangeReader(cluster, settings, TopicPartition(topic, partition), end).pieces(start)


class _RangeReader:
    def __init__(self, cluster: BlockingCluster, settings: ReadSettings, where: TopicPartition, end: int) -> None:
        self._cluster, self._where, self._end = cluster, where, end
        self._limits = FetchLimits(
            fetch_max_bytes=settings.fetch_max_bytes,
            max_partition_fetch_bytes=settings.max_partition_fetch_bytes,
            fetch_max_wait_ms=settings.fetch_max_wait_ms,
            read_committed=settings.read_committed,
        )
        self._patience = max(2, settings.request_timeout_ms // max(1, settings.fetch_max_wait_ms))

    def pieces(self, offset: int) -> Iterator[FetchedRange]:
        ahead = self._ask(offset)
        idle = 0
        while True:
            found = self._take(ahead, offset)
            seen = visible(found.records, found.aborted)
            last_offset, offset = offset, max(offset, seen.next_offset or 0)
            idle = idle + 1 if offset == last_offset else 0
            if idle > self._patience:
                raise self._stuck(offset, found)
            done = offset >= self._end
            if not done:
                ahead = self._ask(offset)
            for piece in seen.pieces:
                yield FetchedRange(piece, last_offset, self._end)
            if done:
                return

    def _ask(self, offset: int) -> tuple[BlockingLink, object]:
        return self._cluster.retried(lambda: self._send(offset), [self._where.topic])

    def _send(self, offset: int) -> tuple[BlockingLink, object]:
        link = self._cluster.leader_link(self._where)
        epoch = self._cluster.metadata.leader_epoch(*self._where)
        return link, link.send(FETCH, fetch_request({self._where: FetchPosition(offset, epoch)}, self._limits))

    def _take(self, ahead: tuple[BlockingLink, object], offset: int) -> FetchedPartition:
        first: list[tuple[BlockingLink, object]] = [ahead]

        def once() -> FetchedPartition:
            link, token = first.pop() if first else self._send(offset)
            return self._read(link.wait(token), link.version(FETCH), offset)

        return self._cluster.retried(once, [self._where.topic])

    def _read(self, answer: Any, version: int, offset: int) -> FetchedPartition:
        context = f"Fetching {self._where.topic}-{self._where.partition}"
        raise_for(answer.error_code, context)
        for found in read_fetch(answer, version):
            if found.where == self._where:
                if found.error_code not in (0, OFFSET_OUT_OF_RANGE):
                    self._cluster.metadata.forget_leader(*self._where)
                raise_for(found.error_code, context)
                if found.cut_short:
                    raise cut_short(self._where, offset, self._limits)
                return found
        raise broker_error(-1, context, "The broker's answer leaves the partition out.")

    def _stuck(self, offset: int, found: FetchedPartition) -> TimedOut:
        return TimedOut(
            f"{self._where.topic}-{self._where.partition} gave no record from offset {offset} on, "
            f"and the range ends at {self._end}: the high watermark is {found.high_watermark}, "
            f"the log begins at {found.log_start_offset}."
        )


def produce(settings: WriteSettings) -> RangeProducer:
    """A producer of ready batches; see `RangeProducer`. Use it in a with statement, which waits for all acknowledgements."""
    return RangeProducer(settings)
