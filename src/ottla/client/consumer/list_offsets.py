"""Offsets by timestamp: ListOffsets requests and answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from ottla.client.arguments import whole
from ottla.client.errors import NotSupported
from ottla.client.types import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    MAX_TIMESTAMP,
    OffsetAndTimestamp,
    TopicPartition,
)
from ottla.wire.api.list_offsets import ListOffsetsRequest, ListOffsetsResponse

_SINCE = {
    MAX_TIMESTAMP: ("MAX_TIMESTAMP", 7, "3.0"),
    EARLIEST_LOCAL_TIMESTAMP: ("EARLIEST_LOCAL_TIMESTAMP", 8, "3.5"),
    LATEST_TIERED_TIMESTAMP: ("LATEST_TIERED_TIMESTAMP", 9, "3.9"),
    EARLIEST_PENDING_UPLOAD_TIMESTAMP: ("EARLIEST_PENDING_UPLOAD_TIMESTAMP", 11, "4.2"),
}
"""Value in place of a timestamp -> (its name, the first version of ListOffsets, the first release of Kafka)."""

NO_REPLICA = -1
"""The replica id of consumers. Any other id is the id of a follower, to which brokers also return records above the high watermark.
"""


def checked_timestamp(given: object) -> int:
    """Return `given` if it is a timestamp in ms, or one of the values in place of one. Raises `TypeError`, `SettingError`."""
    return whole("A timestamp", given, EARLIEST_PENDING_UPLOAD_TIMESTAMP)


def check_served(timestamp: int, version: int) -> NotSupported | None:
    """Return the exception for a value in place of a timestamp that `version` of ListOffsets does not have."""
    name, since, release = _SINCE.get(timestamp, ("", 0, ""))
    return NotSupported(f"Offsets of {name} need Kafka {release} or newer: use a newer broker.") if version < since else None


def by_topic(partitions: Iterable[TopicPartition]) -> Iterator[tuple[str, list[TopicPartition]]]:
    """Yield (topic, its partitions), the structure of most requests."""
    for topic, group in groupby(sorted(partitions), key=lambda where: where.topic):
        yield topic, list(group)


def indexes(partitions: Iterable[TopicPartition]) -> Iterator[tuple[str, list[int]]]:
    """Yield (topic, the numbers of its partitions)."""
    for topic, group in by_topic(partitions):
        yield topic, [where.partition for where in group]


def list_offsets_request(wanted: Mapping[TopicPartition, int], *, read_committed: bool, timeout_ms: int) -> ListOffsetsRequest:
    """Build the request. `wanted` maps each partition to a timestamp in ms, or to EARLIEST_, LATEST_ or MAX_TIMESTAMP."""
    partition = ListOffsetsRequest.ListOffsetsPartition
    topics = [
        ListOffsetsRequest.ListOffsetsTopic(
            name=topic, partitions=[partition(partition_index=where.partition, timestamp=wanted[where]) for where in group]
        )
        for topic, group in by_topic(wanted)
    ]
    return ListOffsetsRequest(replica_id=NO_REPLICA, isolation_level=int(read_committed), topics=topics, timeout_ms=timeout_ms)


def read_list_offsets(answer: ListOffsetsResponse) -> Iterator[tuple[TopicPartition, int, OffsetAndTimestamp]]:
    """Yield (partition, error code, offset) for each partition in the answer."""
    for topic in answer.topics:
        for found in topic.partitions:
            # Version 0 returns a list of offsets. Its only element is used, because one offset was requested.
            offset = OffsetAndTimestamp(next(iter(found.old_style_offsets), found.offset), found.timestamp, found.leader_epoch)
            yield TopicPartition(topic.name, found.partition_index), found.error_code, offset
