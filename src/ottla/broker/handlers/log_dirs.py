"""DescribeLogDirs: the sizes of partitions in the data directory, and the free space (KIP-113, KIP-827).

There is one directory. Missing partitions are left out; `offset_lag` is 0, and there are no future replicas. Version 4 added the
total and usable bytes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ottla.broker.partitions.partition import Partition
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.parts import Parts, ResponseWriter
from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.broker.settings import SettingsInForce
from ottla.ports import Disk, Steps, StorageFailed
from ottla.wire.api.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from ottla.wire.errors import KAFKA_STORAGE_ERROR

Result = DescribeLogDirsResponse.DescribeLogDirsResult
TopicResult = DescribeLogDirsResponse.DescribeLogDirsTopic
PartitionResult = DescribeLogDirsResponse.DescribeLogDirsPartition
Sized = tuple[str, PartitionResult]
Asked = list[DescribeLogDirsRequest.DescribableLogDirTopic]

AT_ONCE: Final = 200
"""Partitions described between two pauses."""


@serves(
    DescribeLogDirsRequest,
    Need(Operation.DESCRIBE, Resource.CLUSTER),
    parts=Parts(((("topics", "partitions"), ("results", "topics", "partitions")),)),
)
def describe_log_dirs(
    request: Request[DescribeLogDirsRequest], partitions: Partitions, settings: SettingsInForce, disk: Disk
) -> Steps[Reply]:
    """Describe the directory with the requested partitions. Partitions that this broker does not have are skipped."""
    if request.body.topics is None and request.release.is_today:
        return (yield from _all_described(request, partitions, settings, disk))
    return (yield from _described(request.body.topics, partitions, settings, disk))


def _all_described(
    request: Request[DescribeLogDirsRequest], partitions: Partitions, settings: SettingsInForce, disk: Disk
) -> Steps[Reply]:
    """Describe all partitions, encoded in blocks."""
    directory = _directory(settings, disk)
    found = [] if directory.error_code else list(partitions)
    writer = ResponseWriter(request, ("results", "topics", "partitions"))
    for first in range(0, max(1, len(found)), AT_ONCE):
        sizes = _sizes(found[first : first + AT_ONCE])
        writer.add(DescribeLogDirsResponse(results=[replace(directory, topics=_by_topic(sizes))]))
        yield None
    return writer.reply()


def _described(topics_asked: Asked | None, partitions: Partitions, settings: SettingsInForce, disk: Disk) -> Steps[Reply]:
    directory = _directory(settings, disk)
    found = [] if directory.error_code else _asked(partitions, topics_asked)
    sizes: list[Sized] = []
    for first in range(0, len(found), AT_ONCE):
        sizes += _sizes(found[first : first + AT_ONCE])
        yield None
    directory.topics = _by_topic(sizes)
    return DescribeLogDirsResponse(results=[directory])


def _directory(settings: SettingsInForce, disk: Disk) -> Result:
    """Return the directory as a result without partitions."""
    name = (settings.value.log_dirs or settings.value.log_dir)[0]
    try:
        total_bytes, usable_bytes = disk.room()
    except StorageFailed:
        return Result(log_dir=name, error_code=KAFKA_STORAGE_ERROR)
    return Result(log_dir=name, total_bytes=total_bytes, usable_bytes=usable_bytes)


def _sizes(found: list[Partition]) -> list[Sized]:
    return [
        (one.topic, PartitionResult(partition_index=one.index, partition_size=one.log.size_bytes))
        for one in found
        if one.offline is None
    ]


def _by_topic(sizes: list[Sized]) -> list[TopicResult]:
    topics: dict[str, list[PartitionResult]] = {}
    for topic, size in sizes:
        topics.setdefault(topic, []).append(size)
    return [TopicResult(name=name, partitions=parts) for name, parts in topics.items()]


def _asked(partitions: Partitions, topics: Asked | None) -> list[Partition]:
    if topics is None:
        return list(partitions)
    asked = ((topic.topic, index) for topic in topics for index in topic.partitions)
    found = {key: partitions.get(*key) for key in asked}
    return [partition for partition in found.values() if partition is not None]
