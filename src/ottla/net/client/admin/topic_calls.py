"""Calls of an admin client about topics and their records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from ottla.client import arguments
from ottla.client.admin import topics as admin
from ottla.client.admin.topics import ConfigValue, NewTopic
from ottla.client.arguments import topic_name
from ottla.client.connection.metadata import TopicInfo
from ottla.client.consumer.list_offsets import checked_timestamp, list_offsets_request, read_list_offsets
from ottla.client.types import OffsetAndTimestamp, TopicPartition
from ottla.net.client.admin.calls import AdminCalls
from ottla.net.client.leaders import request_leaders


class TopicCalls(AdminCalls):
    """The methods of `AsyncAdmin` about topics and their records."""

    async def create_topics(self, topics: Iterable[NewTopic], *, validate_only: bool = False) -> None:
        """Create topics; with `validate_only`, only check whether the broker would create them (KIP-4)."""
        request = admin.create_topics_request(topics, self._settings.request_timeout_ms, validate_only=validate_only)
        await self._change(request, admin.check_topics)

    async def create_topic(
        self,
        name: str,
        num_partitions: int = admin.BROKER_DEFAULT,
        replication_factor: int = admin.BROKER_DEFAULT,
        configs: Mapping[str, ConfigValue] | None = None,
    ) -> None:
        """Create a topic. If a count is left out, the broker uses its default."""
        await self.create_topics([NewTopic(topic_name(name), num_partitions, replication_factor, configs or {})])

    async def create_partitions(self, counts: Mapping[str, int]) -> None:
        """Add partitions to topics. `counts` maps each topic to its new total number of partitions (KIP-195)."""
        request = admin.create_partitions_request(counts, self._settings.request_timeout_ms)
        await self._change(request, admin.check_partitions)

    async def delete_topics(self, *names: str) -> None:
        """Delete topics with all their records. Raises `UnknownTopic` if one does not exist."""
        await self._change(admin.delete_topics_request(names, self._settings.request_timeout_ms), admin.check_deleted)

    async def list_topics(self, *, internal: bool = False) -> list[str]:
        """Return the names of all topics, sorted; internal topics (`__consumer_offsets`) only with `internal`."""
        await self._cluster.retry(lambda: self._cluster.refresh(None))
        return sorted(topic.name for topic in self._cluster.metadata.topics.values() if internal or not topic.is_internal)

    async def describe_topics(self, *names: str) -> dict[str, TopicInfo]:
        """Return the partitions, leaders and replicas of topics, by name. Raises `UnknownTopic` if one does not exist."""
        arguments.names("A topic's name", names)
        await self._cluster.retry(lambda: self._cluster.refresh(names))
        self._cluster.metadata.check(names)
        known = self._cluster.metadata.topics
        return {name: known[name] for name in names}

    async def delete_records(self, before: Mapping[tuple[str, int], int]) -> dict[TopicPartition, int]:
        """Delete records (KIP-107), and return the new first offsets.

        `before` maps each (topic, partition) to the offset before which all records are deleted; -1 deletes all. Raises
        `OffsetOutOfRange` for an offset beyond the high watermark, and `UnknownTopic`.
        """
        wanted = arguments.by_place("before", before, admin.checked_offset)
        request = partial(admin.delete_records_request, timeout_ms=self._settings.request_timeout_ms)
        return await request_leaders(self._cluster, wanted, request, admin.read_deleted_records, "Deleting records of")

    async def list_offsets(
        self, wanted: Mapping[tuple[str, int], int], *, read_committed: bool = False
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Find offsets by timestamp (KIP-79).

        `wanted` maps each (topic, partition) to a timestamp in ms, or to EARLIEST_TIMESTAMP, LATEST_TIMESTAMP or MAX_TIMESTAMP of
        `ottla.client.types`. The result is the first record of that time or later, with offset -1 if there is none; for
        LATEST_TIMESTAMP the offset of the next record, with `read_committed` at most the first offset of an open transaction.

        Raises `UnknownTopic`, and `NotSupported` for MAX_TIMESTAMP before Kafka 3.0.
        """
        timestamps = arguments.by_place("wanted", wanted, checked_timestamp)
        request = partial(list_offsets_request, read_committed=read_committed, timeout_ms=self._settings.request_timeout_ms)
        return await request_leaders(self._cluster, timestamps, request, read_list_offsets, "Offsets of")
