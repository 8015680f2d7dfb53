"""The driver's blocking view of the cluster: partitions, their first and last offsets, and a group's committed offsets."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self, TypeVar

from ottla.client.consumer.committed_offsets import NOTHING_COMMITTED, fetch_offsets_request, read_fetch_offsets
from ottla.client.consumer.list_offsets import list_offsets_request, read_list_offsets
from ottla.client.errors import SettingError, UnknownTopic, raise_for
from ottla.client.settings.clients import ConsumerSettings
from ottla.client.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition
from ottla.net.client.cluster import ClusterLinks
from ottla.net.client.coordinator import GROUP, Coordinator
from ottla.net.client.leaders import request_leaders
from ottla.spark.errors import OptionError
from ottla.spark.kafka_options import name_options
from ottla.spark.options import TopicSelection, named_topics
from ottla.spark.read_plan import PartitionOffsets, names
from ottla.wire.api.list_offsets import ListOffsetsRequest
from ottla.wire.api.offset_fetch import OffsetFetchResponse

Result = TypeVar("Result")


class Brokers:
    """An implementation of `read_plan.Lookup` by connections to brokers; a context manager.

    Raises `OptionError` for unusable certificate files. It opens connections when they are first used. The event loop runs on the
    caller's thread, only while a call waits.
    """

    def __init__(self, settings: ConsumerSettings) -> None:
        self._settings = settings
        try:
            self._cluster = ClusterLinks(settings, whole_tries=True)
        except SettingError as error:
            raise OptionError(name_options(str(error))) from None
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._runner.run(self._cluster.close())
        self._runner.close()

    def _retry(self, call: Callable[[], Awaitable[Result]]) -> Result:
        return self._runner.run(self._cluster.retry(call))

    def partitions(self, selection: TopicSelection) -> list[TopicPartition]:
        """Return the existing partitions of a selection. Raises `OptionError` if it names a missing topic or partition."""
        found = self._retry(lambda: self._list_partitions(selection))
        existing = {where.topic for where in found}
        for topic in named_topics(selection):
            if topic not in existing:
                raise _no_topic(topic)
        missing = sorted(set(selection.partitions) - set(found))
        if missing:
            raise OptionError(f"Option assign names {names(missing)}, and there is no such partition: name others or add it first.")
        return sorted(set(selection.partitions)) or found

    async def _list_partitions(self, selection: TopicSelection) -> list[TopicPartition]:
        """Return all partitions that metadata has of a selection's topics, sorted."""
        if selection.pattern is not None:
            topics = await self._matching_topics(re.compile(selection.pattern))
        else:
            topics = await self._found(named_topics(selection))
        return sorted(where for topic in topics for where in self._cluster.metadata.partitions(topic))

    async def _matching_topics(self, pattern: re.Pattern[str]) -> list[str]:
        await self._cluster.refresh(None)
        known = self._cluster.metadata.topics.values()
        found = [topic.name for topic in known if not topic.is_internal and pattern.fullmatch(topic.name)]
        # If a topic was left out because its partitions are not known yet, it would count as deleted.
        self._cluster.metadata.check(found)
        return found

    async def _found(self, topics: Sequence[str]) -> list[str]:
        await self._cluster.refresh(topics)
        found = []
        for topic in topics:
            with suppress(UnknownTopic):
                self._cluster.metadata.check([topic])
                found.append(topic)
        return found

    def owner(self, where: TopicPartition) -> tuple[str, int, bytes]:
        """Return the cluster id, a partition's leader, and the topic id (16 zero bytes if brokers have no topic ids)."""
        if not self._retry(lambda: self._found([where.topic])):
            raise _no_topic(where.topic)
        leader = self._retry(lambda: self._cluster.leader(where))
        metadata = self._cluster.metadata
        return metadata.cluster_id or "", leader, metadata.topics[where.topic].topic_id

    def earliest(self, partitions: Iterable[TopicPartition]) -> PartitionOffsets:
        return self._offsets(dict.fromkeys(partitions, EARLIEST_TIMESTAMP))

    def latest(self, partitions: Iterable[TopicPartition]) -> PartitionOffsets:
        return self._offsets(dict.fromkeys(partitions, LATEST_TIMESTAMP))

    def at_times(self, timestamps_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return {where: None if offset < 0 else offset for where, offset in self._offsets(timestamps_ms).items()}

    def committed(self, partitions: Iterable[TopicPartition]) -> PartitionOffsets:
        """Return the offsets that the settings' group has committed, without partitions that have none."""
        wanted = list(partitions)
        return self._retry(lambda: self._fetch_committed(wanted))

    async def _fetch_committed(self, partitions: list[TopicPartition]) -> PartitionOffsets:
        group_id = self._settings.group_id or ""
        coordinator = Coordinator(self._cluster, group_id, GROUP)
        answer: OffsetFetchResponse = await coordinator.request(fetch_offsets_request(group_id, partitions))
        raise_for(answer.error_code, f"Group {group_id}")
        found: PartitionOffsets = {}
        for where, error_code, committed in read_fetch_offsets(answer):
            raise_for(error_code, f"Group {group_id}, {where.topic}-{where.partition}")
            if committed.offset != NOTHING_COMMITTED:
                found[where] = committed.offset
        return found

    def _offsets(self, wanted: Mapping[TopicPartition, int]) -> PartitionOffsets:
        return self._runner.run(self._list_offsets(wanted))

    async def _list_offsets(self, wanted: Mapping[TopicPartition, int], *, timeout_ms: int | None = None) -> PartitionOffsets:
        settings = self._settings

        def request(part: Mapping[TopicPartition, int]) -> ListOffsetsRequest:
            return list_offsets_request(part, read_committed=settings.read_committed, timeout_ms=settings.request_timeout_ms)

        found = await request_leaders(self._cluster, wanted, request, read_list_offsets, "Offsets of", timeout_ms=timeout_ms)
        return {where: offset.offset for where, offset in found.items()}


def _no_topic(topic: str) -> OptionError:
    return OptionError(f"There is no topic {topic}: create it first, or name another in option subscribe.")
