"""DescribeLogDirs: how much each partition takes in the data directory, and how much room is left (KIP-113, KIP-827)."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.broker import Broker
from ottla.broker.partitions.partitions import Partition
from ottla.broker.serving.request import Handlers, Reply, Request
from ottla.ports import StorageFailed
from ottla.wire.api.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from ottla.wire.errors import KAFKA_STORAGE_ERROR

Result = DescribeLogDirsResponse.DescribeLogDirsResult
TopicResult = DescribeLogDirsResponse.DescribeLogDirsTopic
PartitionResult = DescribeLogDirsResponse.DescribeLogDirsPartition


def handle_describe_log_dirs(broker: Broker, request: Request) -> Reply:
    """One directory, with the partitions asked for that are in it; what is not there is left out."""
    body: DescribeLogDirsRequest = request.body
    directory = (broker.settings.log_dirs or broker.settings.log_dir)[0]
    try:
        total_bytes, usable_bytes = broker.disk.room()
    except StorageFailed:
        return DescribeLogDirsResponse(results=[Result(log_dir=directory, error_code=KAFKA_STORAGE_ERROR)])
    topics: dict[str, list[PartitionResult]] = {}
    for partition in _asked(broker, body.topics):
        if partition.offline is None:
            size = PartitionResult(partition_index=partition.index, partition_size=partition.log.size_bytes)
            topics.setdefault(partition.topic, []).append(size)
    results = [TopicResult(name=name, partitions=parts) for name, parts in topics.items()]
    return DescribeLogDirsResponse(
        results=[Result(log_dir=directory, topics=results, total_bytes=total_bytes, usable_bytes=usable_bytes)]
    )


def _asked(broker: Broker, topics: list[DescribeLogDirsRequest.DescribableLogDirTopic] | None) -> Iterable[Partition]:
    if topics is None:
        return broker.partitions
    asked = ((topic.topic, index) for topic in topics for index in topic.partitions)
    found = {key: broker.partitions.get(*key) for key in asked}
    return [partition for partition in found.values() if partition is not None]


HANDLERS: Handlers = {35: (range(6), handle_describe_log_dirs)}
