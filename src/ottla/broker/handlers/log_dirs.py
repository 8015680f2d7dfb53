"""DescribeLogDirs: the sizes of partitions by log directory, and the free space (KIP-113, KIP-827).

Missing partitions are left out. A replica that moves is also in its new directory, as a future replica with what is copied. Version
4 added the total and usable bytes, and version 5 whether a directory is cordoned (KIP-1066).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ottla.broker.partitions.log_directories import LogDirectories
from ottla.broker.partitions.partition import Partition
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.partitions.replica_moves import ReplicaMove, ReplicaMoves
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.parts import Parts, ResponseWriter
from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
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
PLACED_AT_ONCE: Final = 2000
"""Partitions assigned to their directories between two pauses."""


@serves(
    DescribeLogDirsRequest,
    Need(Operation.DESCRIBE, Resource.CLUSTER),
    parts=Parts(((("topics", "partitions"), ("results", "topics", "partitions")),)),
)
def describe_log_dirs(
    request: Request[DescribeLogDirsRequest],
    partitions: Partitions,
    directories: LogDirectories,
    moves: ReplicaMoves,
    disk: Disk,
) -> Steps[Reply]:
    """Describe each directory with the requested partitions. Partitions that this broker does not have are skipped."""
    asked = _select(partitions, request.body.topics)
    futures = _futures(moves, None if request.body.topics is None else set(asked), directories)
    found = yield from _by_directory(asked, directories)
    if request.body.topics is None and request.release.is_today:
        return (yield from _all_described(request, found, futures, directories, disk))
    return (yield from _describe(found, futures, directories, disk))


def _all_described(
    request: Request[DescribeLogDirsRequest],
    found: dict[str, list[Partition]],
    futures: dict[str, list[Sized]],
    directories: LogDirectories,
    disk: Disk,
) -> Steps[Reply]:
    writer = ResponseWriter(request, ("results", "topics", "partitions"))
    for path in directories.paths:
        directory = _directory(path, directories, disk)
        held = [] if directory.error_code else found[path]
        for first in range(0, max(1, len(held)), AT_ONCE):
            sizes = _sizes(held[first : first + AT_ONCE])
            if not first and not directory.error_code:
                sizes = futures[path] + sizes
            writer.add(DescribeLogDirsResponse(results=[replace(directory, topics=_by_topic(sizes))]))
            yield None
    return writer.reply()


def _describe(
    found: dict[str, list[Partition]], futures: dict[str, list[Sized]], directories: LogDirectories, disk: Disk
) -> Steps[Reply]:
    results = []
    for path in directories.paths:
        directory = _directory(path, directories, disk)
        held = [] if directory.error_code else found[path]
        sizes: list[Sized] = [] if directory.error_code else futures[path]
        for first in range(0, len(held), AT_ONCE):
            sizes += _sizes(held[first : first + AT_ONCE])
            yield None
        directory.topics = _by_topic(sizes)
        results.append(directory)
    return DescribeLogDirsResponse(results=results)


def _directory(path: str, directories: LogDirectories, disk: Disk) -> Result:
    name = directories.name_of(path)
    try:
        total_bytes, usable_bytes = disk.room(path)
    except StorageFailed:
        return Result(log_dir=name, error_code=KAFKA_STORAGE_ERROR)
    is_cordoned = directories.is_cordoned(path)
    return Result(log_dir=name, total_bytes=total_bytes, usable_bytes=usable_bytes, is_cordoned=is_cordoned)


def _sizes(found: list[Partition]) -> list[Sized]:
    return [
        (one.topic, PartitionResult(partition_index=one.index, partition_size=one.log.size_bytes))
        for one in found
        if one.offline is None
    ]


def _futures(moves: ReplicaMoves, asked: set[Partition] | None, directories: LogDirectories) -> dict[str, list[Sized]]:
    """Return path of the directory of logs -> replicas that move there; those of partitions in `asked`, unless it is None."""
    return {
        path: [
            (move.partition.topic, _future(move))
            for move in moves.of(path)
            if move.partition.offline is None and (asked is None or move.partition in asked)
        ]
        for path in directories.paths
    }


def _future(move: ReplicaMove) -> PartitionResult:
    index, size = move.partition.index, move.size_bytes
    return PartitionResult(partition_index=index, partition_size=size, offset_lag=move.offset_lag, is_future_key=True)


def _by_topic(sizes: list[Sized]) -> list[TopicResult]:
    topics: dict[str, list[PartitionResult]] = {}
    for topic, size in sizes:
        topics.setdefault(topic, []).append(size)
    return [TopicResult(name=name, partitions=parts) for name, parts in topics.items()]


def _by_directory(found: list[Partition], directories: LogDirectories) -> Steps[dict[str, list[Partition]]]:
    """Return path of the log directory -> partitions."""
    if len(directories.paths) == 1:
        return {"": found}
    held: dict[str, list[Partition]] = {path: [] for path in directories.paths}
    for number, partition in enumerate(found, 1):
        held[directories.place_of(str(partition))].append(partition)
        if number % PLACED_AT_ONCE == 0:
            yield None
    return held


def _select(partitions: Partitions, topics: Asked | None) -> list[Partition]:
    if topics is None:
        return list(partitions)
    asked = ((topic.topic, index) for topic in topics for index in topic.partitions)
    found = {key: partitions.get(*key) for key in asked}
    return [partition for partition in found.values() if partition is not None]
