"""Calls of an admin client about topics and their records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Unpack

from ottla.client import arguments
from ottla.client.admin import topic_descriptions
from ottla.client.admin import topics as admin
from ottla.client.admin.results import CallOptions, Results
from ottla.client.admin.topic_descriptions import TopicPages
from ottla.client.admin.topics import ConfigValue, CreatedTopic, NewPartitions, NewTopic
from ottla.client.arguments import topic_name
from ottla.client.connection.metadata import TopicInfo
from ottla.client.connection.versions import DESCRIBE_TOPIC_PARTITIONS, LIST_OFFSETS
from ottla.client.consumer.list_offsets import check_served, checked_timestamp, list_offsets_request, read_list_offsets
from ottla.client.types import OffsetAndTimestamp, TopicPartition
from ottla.net.client.admin.bulk import Outcomes, on_any
from ottla.net.client.admin.calls import AdminCalls
from ottla.wire.schema import Message


class TopicCalls(AdminCalls):
    """The methods of `AsyncAdmin` about topics and their records."""

    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False, **options: Unpack[CallOptions]
    ) -> Results[str, CreatedTopic]:
        """Create topics; with `validate_only`, only check whether the broker would create them (KIP-4). Return them by name."""
        wanted = admin.topics_by_name(topics)

        def build(some: list[str]) -> Message:
            limit_ms = self._settings.request_timeout_ms
            return admin.create_topics_request([wanted[name] for name in some], limit_ms, validate_only=validate_only)

        return await self._change_items(wanted, build, admin.read_created, options)

    async def create_topic(
        self,
        name: str,
        num_partitions: int = admin.BROKER_DEFAULT,
        replication_factor: int = admin.BROKER_DEFAULT,
        configs: Mapping[str, ConfigValue] | None = None,
    ) -> CreatedTopic:
        """Create a topic. If a count is left out, the broker uses its default."""
        topic = NewTopic(topic_name(name), num_partitions, replication_factor, configs or {})
        return (await self.create_topics([topic]))[name]

    async def create_partitions(
        self, counts: Mapping[str, int | NewPartitions], *, validate_only: bool = False, **options: Unpack[CallOptions]
    ) -> Results[str, None]:
        """Add partitions to topics. `counts` maps each topic to its new total number of partitions (KIP-195)."""
        wanted = arguments.check_mapping("counts", counts)

        def build(some: list[str]) -> Message:
            part = {name: wanted[name] for name in some}
            return admin.create_partitions_request(part, self._settings.request_timeout_ms, validate_only=validate_only)

        return await self._change_items(wanted, build, admin.read_grown, options)

    async def delete_topics(self, *names: str, **options: Unpack[CallOptions]) -> Results[str, None]:
        """Delete topics with all their records. Raises `UnknownTopic` if one does not exist."""
        arguments.names("A topic's name", names)
        build = partial(admin.delete_topics_request, timeout_ms=self._settings.request_timeout_ms)
        return await self._change_items(names, build, admin.read_deleted, options)

    async def delete_topics_by_id(self, *topic_ids: bytes | str, **options: Unpack[CallOptions]) -> Results[bytes, None]:
        """Delete topics by their ids, bytes or as Kafka prints them (KIP-516, Kafka 2.8). A recreated topic has a new id."""
        build = partial(admin.delete_ids_request, timeout_ms=self._settings.request_timeout_ms)
        return await self._change_items(admin.checked_ids(topic_ids), build, admin.read_deleted_ids, options)

    async def list_topics(self, *, internal: bool = False) -> list[str]:
        """Return the names of all topics, sorted; internal topics (`__consumer_offsets`) only with `internal`."""
        return list(await self.list_topic_ids(internal=internal))

    async def list_topic_ids(self, *, internal: bool = False) -> dict[str, bytes]:
        """Return the ids of all topics, sorted by name; internal topics only with `internal`. Ids are zero before Kafka 2.8."""
        return {name: topic.topic_id for name, topic in (await self.describe_all_topics(internal=internal)).items()}

    async def describe_all_topics(self, *, internal: bool = False) -> dict[str, TopicInfo]:
        """Return the partitions, leaders and replicas of all topics, sorted by name, by one request.

        Internal topics only with `internal`. A topic that is just being created can have an `error_code` and no partitions.
        """
        await self._cluster.retry(lambda: self._cluster.refresh(None))
        topics = sorted(self._cluster.metadata.topics.values(), key=lambda topic: topic.name)
        return {topic.name: topic for topic in topics if internal or not topic.is_internal}

    async def describe_topics(
        self, *names: str, authorized_operations: bool = False, **options: Unpack[CallOptions]
    ) -> Results[str, TopicInfo]:
        """Return the partitions, leaders and replicas of topics, by name. Raises `UnknownTopic` if one does not exist.

        With `authorized_operations`, return what this client may do (KIP-430, Kafka 2.3).
        """
        arguments.names("A topic's name", names)
        cluster, limit_ms = self._cluster, self._settings.request_timeout_ms

        async def query(node_id: int, some: list[str]) -> Outcomes[str, TopicInfo]:
            link = await cluster.any_link()
            if link.version(DESCRIBE_TOPIC_PARTITIONS) < 0:  # before Kafka 3.8
                request = topic_descriptions.names_request(some, operations=authorized_operations)
                return topic_descriptions.read_names(await link.request(request, limit_ms))
            pages = TopicPages()
            cursor = pages.add(await link.request(topic_descriptions.page_request(some, None), limit_ms))
            while cursor is not None:
                cursor = pages.add(await link.request(topic_descriptions.page_request(some, cursor), limit_ms))
            return pages.outcomes(operations=authorized_operations)

        return await self._query_items(names, on_any(cluster), query, options)

    async def describe_topics_by_id(
        self, *topic_ids: bytes | str, authorized_operations: bool = False, **options: Unpack[CallOptions]
    ) -> Results[bytes, TopicInfo]:
        """Return topics by their ids, bytes or as Kafka prints them (KIP-516, Kafka 3.1)."""

        async def query(node_id: int, some: list[bytes]) -> Outcomes[bytes, TopicInfo]:
            request = topic_descriptions.ids_request(some, operations=authorized_operations)
            return topic_descriptions.read_ids(await self._cluster.request_any(request))

        return await self._query_items(admin.checked_ids(topic_ids), on_any(self._cluster), query, options)

    async def delete_records(
        self, before: Mapping[tuple[str, int], int], **options: Unpack[CallOptions]
    ) -> Results[TopicPartition, int]:
        """Delete records (KIP-107), and return the new first offsets.

        `before` maps each (topic, partition) to the offset before which all records are deleted; -1 deletes all. Raises
        `OffsetOutOfRange` for an offset beyond the high watermark, and `UnknownTopic`.
        """
        wanted = arguments.by_place("before", before, admin.checked_offset)
        build = partial(admin.delete_records_request, timeout_ms=self._settings.request_timeout_ms)
        return await self._query_leaders(wanted, build, admin.read_deleted_records, "Deleting records of", options)

    async def list_offsets(
        self, wanted: Mapping[tuple[str, int], int], *, read_committed: bool = False, **options: Unpack[CallOptions]
    ) -> Results[TopicPartition, OffsetAndTimestamp]:
        """Find offsets by timestamp (KIP-79).

        `wanted` maps each (topic, partition) to a timestamp in ms, or to EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP,
        EARLIEST_LOCAL_TIMESTAMP, LATEST_TIERED_TIMESTAMP or EARLIEST_PENDING_UPLOAD_TIMESTAMP of `ottla.client.types`. The result
        is the first record of that time or later, with offset -1 if there is none; for LATEST_TIMESTAMP the offset of the next
        record, with `read_committed` at most the first offset of an open transaction.

        Raises `UnknownTopic`, and `NotSupported` for values that a broker is too old for, such as MAX_TIMESTAMP before Kafka 3.0.
        """
        timestamps = arguments.by_place("wanted", wanted, checked_timestamp)
        build = partial(list_offsets_request, read_committed=read_committed, timeout_ms=self._settings.request_timeout_ms)
        return await self._query_leaders(
            timestamps, build, read_list_offsets, "Offsets of", options, api_key=LIST_OFFSETS, check=check_served
        )
