"""The driver's view of the cluster: which partitions there are, where they begin and end, and when records come. Blocking."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import TracebackType
from typing import Self, TypeVar

from ottla.client.errors import KafkaError, UnknownTopic, raise_for
from ottla.client.fetching import FetchLimits, FetchPosition, fetch_request
from ottla.client.list_offsets import list_offsets_request, read_list_offsets
from ottla.client.metadata import TopicInfo
from ottla.client.offsets import NOTHING_COMMITTED, fetch_offsets_request, read_fetch_offsets
from ottla.client.settings import ConsumerSettings
from ottla.client.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition
from ottla.client.versions import FETCH, LIST_OFFSETS, OFFSET_FETCH
from ottla.net.client.cluster import Cluster
from ottla.net.client.coordinator import GROUP, Coordinator
from ottla.net.client.leaders import ask_leaders
from ottla.spark.errors import OptionError
from ottla.spark.options import TopicSelection
from ottla.spark.planning import PartitionOffsets, names
from ottla.wire.api.fetch import FetchResponse
from ottla.wire.api.list_offsets import ListOffsetsRequest
from ottla.wire.api.offset_fetch import OffsetFetchResponse

logger = logging.getLogger("ottla.spark")
Result = TypeVar("Result")


class Brokers:
    """A context manager and a `planning.Lookup`. The partitions found are kept for `partitions_kept_s` seconds.

    Connections are opened when first used. The event loop runs on the caller's thread, and only while something is awaited.
    """

    def __init__(self, settings: ConsumerSettings, *, partitions_kept_s: float = 0.0) -> None:
        self._settings = settings
        self._runner = asyncio.Runner()
        self._cluster = Cluster(settings, whole_tries=True)
        self._kept_s = partitions_kept_s
        self._known: tuple[float, list[TopicPartition]] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._runner.run(self._cluster.close())
        self._runner.close()

    def _retried(self, call: Callable[[], Awaitable[Result]]) -> Result:
        return self._runner.run(self._cluster.retried(call))

    def partitions(self, selection: TopicSelection, *, fresh: bool = False) -> list[TopicPartition]:
        """The partitions that exist of a selection. Raises `OptionError` where it names a topic or partition that does not."""
        now = time.monotonic()
        if fresh or self._known is None or now - self._known[0] > self._kept_s:
            self._known = now, self._look_up(selection)
        return self._known[1]

    def _look_up(self, selection: TopicSelection) -> list[TopicPartition]:
        if selection.pattern is not None:
            pattern = re.compile(selection.pattern)
            found = self._retried(lambda: self._matching(pattern))
            return sorted(TopicPartition(topic.name, index) for topic in found for index in topic.partitions)
        topics = selection.topics or {where.topic for where in selection.partitions}
        self._retried(lambda: self._find(topics))
        existing = sorted(where for topic in topics for where in self._cluster.metadata.partitions(topic))
        if not selection.partitions:
            return existing
        missing = [where for where in selection.partitions if where not in existing]
        if missing:
            raise OptionError(f"Option assign names {names(missing)}, and there is no such partition: name others or add it first.")
        return list(selection.partitions)

    async def _matching(self, pattern: re.Pattern[str]) -> list[TopicInfo]:
        await self._cluster.refresh(None)
        known = self._cluster.metadata.topics.values()
        found = [topic for topic in known if not topic.is_internal and pattern.fullmatch(topic.name)]
        # A topic left out because its partitions are unknown at the moment would count as deleted.
        self._cluster.metadata.check(topic.name for topic in found)
        return found

    async def _find(self, topics: Iterable[str]) -> None:
        topics = list(topics)
        await self._cluster.refresh(topics)
        for topic in topics:
            try:
                self._cluster.metadata.check([topic])
            except UnknownTopic as error:
                sentence = f"There is no topic {topic}: create it first, or name another in option subscribe."
                raise OptionError(sentence) from error

    def owner(self, where: TopicPartition) -> tuple[str, int, bytes]:
        """The cluster's id, the node that leads a partition, and the id of its topic (zeros where brokers know none)."""
        self._retried(lambda: self._find([where.topic]))
        leader = self._retried(lambda: self._cluster.leader(where))
        metadata = self._cluster.metadata
        return metadata.cluster_id or "", leader, metadata.topics[where.topic].topic_id

    def earliest(self, partitions: Iterable[TopicPartition]) -> PartitionOffsets:
        return self._offsets(dict.fromkeys(partitions, EARLIEST_TIMESTAMP))

    def latest(self, partitions: Iterable[TopicPartition]) -> PartitionOffsets:
        return self._offsets(dict.fromkeys(partitions, LATEST_TIMESTAMP))

    def at_times(self, timestamps_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return {where: None if offset < 0 else offset for where, offset in self._offsets(timestamps_ms).items()}

    def committed(self, partitions: Iterable[TopicPartition]) -> PartitionOffsets:
        """What the group of the settings has committed, without partitions for which it has committed nothing."""
        wanted = list(partitions)
        return self._retried(lambda: self._committed(wanted))

    async def _committed(self, partitions: list[TopicPartition]) -> PartitionOffsets:
        group_id = self._settings.group_id or ""
        coordinator = Coordinator(self._cluster, group_id, GROUP)
        answer: OffsetFetchResponse = await coordinator.ask(OFFSET_FETCH, fetch_offsets_request(group_id, partitions))
        raise_for(answer.error_code, f"Group {group_id}")
        found: PartitionOffsets = {}
        for where, error_code, committed in read_fetch_offsets(answer):
            raise_for(error_code, f"Group {group_id}, {where.topic}-{where.partition}")
            if committed.offset != NOTHING_COMMITTED:
                found[where] = committed.offset
        return found

    def _offsets(self, wanted: Mapping[TopicPartition, int]) -> PartitionOffsets:
        settings = self._settings

        def request(part: Mapping[TopicPartition, int]) -> ListOffsetsRequest:
            return list_offsets_request(part, read_committed=settings.read_committed, timeout_ms=settings.request_timeout_ms)

        asked = ask_leaders(self._cluster, wanted, LIST_OFFSETS, request, read_list_offsets, "Offsets of")
        return {where: offset.offset for where, offset in self._runner.run(asked).items()}

    def wait_for_records(self, ends: PartitionOffsets, timeout_ms: int) -> None:
        """Return once a partition may hold a record at or after its offset in `ends`, or after `timeout_ms`.

        An error does not end the wait: the next question about offsets will report it.
        """
        deadline = time.monotonic() + timeout_ms / 1000
        try:
            if self._runner.run(self._poll(ends, timeout_ms)):
                return
        except KafkaError as error:
            logger.debug("waiting for records: %s", error)
        time.sleep(max(0.0, deadline - time.monotonic()))

    async def _poll(self, ends: PartitionOffsets, max_wait_ms: int) -> bool:
        """Whether a broker has records within `max_wait_ms`; it sends one batch at most."""
        cluster = self._cluster
        limits = FetchLimits(1, 1, fetch_max_wait_ms=max_wait_ms, read_committed=self._settings.read_committed)
        by_leader: dict[int, dict[TopicPartition, FetchPosition]] = {}
        for where, offset in ends.items():
            position = FetchPosition(offset, cluster.metadata.leader_epoch(*where))
            by_leader.setdefault(await cluster.leader(where), {})[where] = position
        asked = (cluster.ask(node_id, FETCH, fetch_request(part, limits)) for node_id, part in by_leader.items())
        answers: list[FetchResponse | BaseException] = await asyncio.gather(*asked, return_exceptions=True)
        return any(_holds_records(answer) for answer in answers)


def _holds_records(answer: FetchResponse | BaseException) -> bool:
    if isinstance(answer, BaseException):
        raise answer
    return any(part.records for topic in answer.responses for part in topic.partitions)
