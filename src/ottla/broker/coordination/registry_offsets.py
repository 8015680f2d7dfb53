"""Offsets of version 0: stored in the registry, where consumers of release 0.8 kept them in ZooKeeper.

This store is separate from groups' offsets: offsets committed in version 0 are returned in version 0 only. Neither groups nor
members are checked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from ottla.broker.failures import CONFLICTS, MOST_RACES, Changes
from ottla.broker.serving.purgatory import Purgatory, Reply
from ottla.broker.serving.request import Request
from ottla.broker.settings import SettingsInForce
from ottla.cluster.image import ClusterImage
from ottla.cluster.layout import consumer_offset_path
from ottla.ports import Change, Entry, SharedRegistry, Steps, StorageFailed
from ottla.wire.api.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ottla.wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from ottla.wire.errors import NONE, OFFSET_METADATA_TOO_LARGE, UNKNOWN_SERVER_ERROR, UNKNOWN_TOPIC_OR_PARTITION

NOTHING = -1
CommittedTopic = OffsetCommitResponse.OffsetCommitResponseTopic
CommittedPartition = OffsetCommitResponse.OffsetCommitResponsePartition
FetchedTopic = OffsetFetchResponse.OffsetFetchResponseTopic
FetchedPartition = OffsetFetchResponse.OffsetFetchResponsePartition


class RegistryOffsets:
    """Offsets that old consumers commit to the registry: OffsetCommit and OffsetFetch in version 0."""

    def __init__(
        self, entries: SharedRegistry, cluster: ClusterImage, settings: SettingsInForce, changes: Changes, purgatory: Purgatory
    ) -> None:
        self._entries = entries
        self._cluster = cluster
        self._settings = settings
        self._changes = changes
        self._purgatory = purgatory

    def commit(self, request: Request[OffsetCommitRequest]) -> Reply:
        """Store each offset as a decimal number. Its metadata is checked and dropped, as in Kafka."""
        return self._purgatory.run(self._commit(request), to_the_end=True)

    def _commit(self, request: Request[OffsetCommitRequest]) -> Steps[Reply]:
        changes: list[Change] = []
        topics = [
            CommittedTopic(name=topic.name, partitions=[self._store(request, topic, part, changes) for part in topic.partitions])
            for topic in request.body.topics
        ]
        if changes and not (yield from self._are_kept(changes)):
            for part in (part for topic in topics for part in topic.partitions):
                part.error_code = part.error_code or UNKNOWN_SERVER_ERROR
        return OffsetCommitResponse(topics=topics)

    def _are_kept(self, changes: Sequence[Change]) -> Steps[bool]:
        """Commit the changes to the registry, and return whether that succeeded.

        Retry if another broker creates the same entries.
        """
        for _ in range(MOST_RACES):
            self._changes.made = True
            try:
                yield from self._entries.commit(changes)
            except CONFLICTS:
                continue
            except StorageFailed:
                return False
            return True
        return False

    def _store(
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

    def fetch(self, request: Request[OffsetFetchRequest]) -> Reply:
        """Return the stored offsets; -1 and UNKNOWN_TOPIC_OR_PARTITION if an offset or a topic is missing."""
        return self._fetch(request.body.group_id, request.body.topics or [])

    def _fetch(self, group_id: str, topics: Sequence[OffsetFetchRequest.OffsetFetchRequestTopic]) -> Steps[Reply]:
        there = [topic for topic in topics if topic.name in self._cluster.topics]
        paths = [consumer_offset_path(group_id, topic.name, index) for topic in there for index in topic.partition_indexes]
        wanted = [path for path in paths if path is not None]
        kept: dict[str, Entry | None] | None = None
        with suppress(StorageFailed):
            kept = dict(zip(wanted, (yield from self._entries.read(wanted)), strict=True))
        return OffsetFetchResponse(
            topics=[
                FetchedTopic(
                    name=topic.name,
                    partitions=[self._partition_response(group_id, topic.name, index, kept) for index in topic.partition_indexes],
                )
                for topic in topics
            ]
        )

    def _partition_response(
        self, group_id: str, topic: str, index: int, kept: Mapping[str, Entry | None] | None
    ) -> FetchedPartition:
        """Return the response for a partition. `kept` are the registry's entries by path, or None if the registry failed."""
        path = consumer_offset_path(group_id, topic, index)
        error_code = UNKNOWN_TOPIC_OR_PARTITION
        if topic in self._cluster.topics:
            entry = kept.get(path) if path is not None and kept is not None else None
            if path is None or kept is None:
                error_code = UNKNOWN_SERVER_ERROR
            elif entry is not None:
                with suppress(ValueError):
                    return FetchedPartition(partition_index=index, committed_offset=int(entry.value), metadata="")
                error_code = UNKNOWN_SERVER_ERROR
        return FetchedPartition(partition_index=index, committed_offset=NOTHING, metadata="", error_code=error_code)
