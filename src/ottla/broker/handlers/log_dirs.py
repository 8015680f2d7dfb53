"""DescribeLogDirs: how much each partition takes in the data directory, and how much room is left (KIP-113, KIP-827)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.broker.partitions.partition import Partition
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.scheduler import Steps
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.later import LaterReplies, Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.broker.serving.slices import Slices
from ottla.broker.settings import SettingsInForce
from ottla.ports import Disk, StorageFailed
from ottla.wire.api.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from ottla.wire.errors import KAFKA_STORAGE_ERROR

Result = DescribeLogDirsResponse.DescribeLogDirsResult
TopicResult = DescribeLogDirsResponse.DescribeLogDirsTopic
PartitionResult = DescribeLogDirsResponse.DescribeLogDirsPartition
Asked = list[DescribeLogDirsRequest.DescribableLogDirTopic]

AT_ONCE: Final = 200
"""Partitions looked at between two pauses."""


@serves(
    DescribeLogDirsRequest,
    Need(Operation.DESCRIBE, Resource.CLUSTER),
    slices=Slices(((("topics", "partitions"), ("results", "topics", "partitions")),)),
)
def describe_log_dirs(
    request: Request[DescribeLogDirsRequest], partitions: Partitions, settings: SettingsInForce, disk: Disk, later: LaterReplies
) -> Reply:
    """One directory, with the partitions asked for that are in it; what is not there is left out."""
    return later.computed(_described(request.body.topics, partitions, settings, disk))


def _described(topics_asked: Asked | None, partitions: Partitions, settings: SettingsInForce, disk: Disk) -> Steps[Reply]:
    directory = (settings.value.log_dirs or settings.value.log_dir)[0]
    try:
        total_bytes, usable_bytes = disk.room()
    except StorageFailed:
        return DescribeLogDirsResponse(results=[Result(log_dir=directory, error_code=KAFKA_STORAGE_ERROR)])
    topics: dict[str, list[PartitionResult]] = {}
    for number, partition in enumerate(_asked(partitions, topics_asked), 1):
        if not number % AT_ONCE:
            yield None
        if partition.offline is None:
            size = PartitionResult(partition_index=partition.index, partition_size=partition.log.size_bytes)
            topics.setdefault(partition.topic, []).append(size)
    results = [TopicResult(name=name, partitions=parts) for name, parts in topics.items()]
    return DescribeLogDirsResponse(
        results=[Result(log_dir=directory, topics=results, total_bytes=total_bytes, usable_bytes=usable_bytes)]
    )


def _asked(partitions: Partitions, topics: Asked | None) -> Iterable[Partition]:
    if topics is None:
        return list(partitions)
    asked = ((topic.topic, index) for topic in topics for index in topic.partitions)
    found = {key: partitions.get(*key) for key in asked}
    return [partition for partition in found.values() if partition is not None]
