"""Offsets of version 0: kept in the registry, where ZooKeeper's consumers of release 0.8 looked for them, not in the offsets topic.

The two stores are apart: what is committed in version 0 is fetched in version 0 only. No group is asked and no member checked.
"""

from __future__ import annotations

from ottla.broker.failures import CONFLICTS, Changes
from ottla.broker.serving.request import Request
from ottla.broker.settings import SettingsInForce
from ottla.cluster.image import ClusterImage
from ottla.cluster.layout import consumer_offset_path
from ottla.ports import Change, Registry, StorageFailed
from ottla.wire.api.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ottla.wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from ottla.wire.errors import NONE, OFFSET_METADATA_TOO_LARGE, UNKNOWN_SERVER_ERROR, UNKNOWN_TOPIC_OR_PARTITION

NOTHING = -1
CommittedTopic = OffsetCommitResponse.OffsetCommitResponseTopic
CommittedPartition = OffsetCommitResponse.OffsetCommitResponsePartition
FetchedTopic = OffsetFetchResponse.OffsetFetchResponseTopic
FetchedPartition = OffsetFetchResponse.OffsetFetchResponsePartition


class RegistryOffsets:
    """Commits and fetches of version 0."""

    def __init__(self, registry: Registry, cluster: ClusterImage, settings: SettingsInForce, changes: Changes) -> None:
        self._registry = registry
        self._cluster = cluster
        self._settings = settings
        self._changes = changes

    def commit(self, request: Request[OffsetCommitRequest]) -> OffsetCommitResponse:
        """Keep each offset as a decimal number; the text that goes with it is checked and dropped, as Kafka always did."""
        changes: list[Change] = []
        topics = [
            CommittedTopic(
                name=topic.name, partitions=[self._committed(request, topic, part, changes) for part in topic.partitions]
            )
            for topic in request.body.topics
        ]
        self._changes.made = True
        try:
            self._registry.commit(changes)
        except (StorageFailed, *CONFLICTS):
            for part in (part for topic in topics for part in topic.partitions):
                part.error_code = part.error_code or UNKNOWN_SERVER_ERROR
        return OffsetCommitResponse(topics=topics)

    def _committed(
        self,
        request: Request[OffsetCommitRequest],
        topic: OffsetCommitRequest.OffsetCommitRequestTopic,
        part: OffsetCommitRequest.OffsetCommitRequestPartition,
        changes: list[Change],
    ) -> CommittedPartition:
        error_code = NONE
        path = consumer_offset_path(request.body.group_id, topic.name, part.partition_index)
        image = self._cluster.topics.get(topic.name)
        if image is None or not 0 <= part.partition_index < request.release.committable(len(image.partitions)):
            error_code = UNKNOWN_TOPIC_OR_PARTITION
        elif len(part.committed_metadata or "") > self._settings.value.offset_metadata_max_bytes:
            error_code = OFFSET_METADATA_TOO_LARGE
        elif path is None:
            error_code = UNKNOWN_SERVER_ERROR
        else:
            changes.append(Change(path, b"%d" % part.committed_offset))
        return CommittedPartition(partition_index=part.partition_index, error_code=error_code)

    def fetch(self, request: Request[OffsetFetchRequest]) -> OffsetFetchResponse:
        """What was kept; where nothing was, or there is no such topic, -1 and UNKNOWN_TOPIC_OR_PARTITION."""
        group_id = request.body.group_id
        return OffsetFetchResponse(
            topics=[
                FetchedTopic(
                    name=topic.name, partitions=[self._fetched(group_id, topic.name, index) for index in topic.partition_indexes]
                )
                for topic in request.body.topics or ()
            ]
        )

    def _fetched(self, group_id: str, topic: str, index: int) -> FetchedPartition:
        path = consumer_offset_path(group_id, topic, index)
        error_code = UNKNOWN_TOPIC_OR_PARTITION
        is_there = topic in self._cluster.topics
        try:
            if is_there and path is None:
                error_code = UNKNOWN_SERVER_ERROR
            elif path is not None and is_there and (entry := self._registry.get(path)) is not None:
                return FetchedPartition(partition_index=index, committed_offset=int(entry.value), metadata="")
        except (StorageFailed, ValueError):
            error_code = UNKNOWN_SERVER_ERROR
        return FetchedPartition(partition_index=index, committed_offset=NOTHING, metadata="", error_code=error_code)
