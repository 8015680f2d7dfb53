"""DescribeLogDirs (API key 35): the replicas in a broker's log directories.

KIP-113. Version 4 adds the space left (KIP-827), 5 whether a directory is cordoned (KIP-1066).
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i16, i32, i64, since


class DescribeLogDirsRequest(Message, key=35, valid="0-5", flexible="2+"):
    """A request for the log directories of a broker, with the replicas of some partitions; null means all partitions."""

    class DescribableLogDirTopic(Struct):
        topic: str = since()
        partitions: list[i32] = since()

    topics: list[DescribeLogDirsRequest.DescribableLogDirTopic] | None = since()


class DescribeLogDirsResponse(Message, key=35, valid="0-5", flexible="2+"):
    """The log directories of a broker, with the size and lag of each requested replica."""

    class DescribeLogDirsPartition(Struct):
        partition_index: i32 = since()
        partition_size: i64 = since()
        offset_lag: i64 = since()
        is_future_key: bool = since()

    class DescribeLogDirsTopic(Struct):
        name: str = since()
        partitions: list[DescribeLogDirsResponse.DescribeLogDirsPartition] = since()

    class DescribeLogDirsResult(Struct):
        error_code: i16 = since()
        log_dir: str = since()
        topics: list[DescribeLogDirsResponse.DescribeLogDirsTopic] = since()
        total_bytes: i64 = since("4+", default=-1, ignorable=True)
        usable_bytes: i64 = since("4+", default=-1, ignorable=True)
        is_cordoned: bool = since("5+", ignorable=True)

    throttle_time_ms: i32 = since()
    error_code: i16 = since("3+", ignorable=True)
    results: list[DescribeLogDirsResponse.DescribeLogDirsResult] = since()
