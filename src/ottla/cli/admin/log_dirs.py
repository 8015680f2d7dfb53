"""`ottla logdirs`: the log directories of brokers, with their sizes and replicas (KIP-113, KIP-827, KIP-1066)."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ottla.cli.command.connection import add_options, on_cluster
from ottla.cli.command.exits import fail
from ottla.cli.command.output import RED, Cell, show, size, styled
from ottla.cli.command.parser import Example, completes

if TYPE_CHECKING:
    from ottla.cli.command.parser import Parser
    from ottla.client.admin.replicas import LogDir, ReplicaOnDisk
    from ottla.client.types import TopicPartition
    from ottla.net.client.admin.admin import Admin

DESCRIPTION = """Print the log directories of brokers: what their replicas take, the size of the disk and its free space, the
replicas, and future ones, which are being copied here from another directory. Exit code 1: a directory is offline."""
EXAMPLES = (
    Example("logdirs", "All directories of all live brokers."),
    Example("logdirs --broker 1 --topic flights", "What a topic takes in the directories of one broker."),
    Example("logdirs --replicas --json", "An object for each replica, with its size and its lag."),
)
DIRECTORY_COLUMNS = ("broker", "directory", "status", "error", "replicas", "future", "size", "total", "free")
REPLICA_COLUMNS = ("broker", "directory", "topic", "partition", "size", "lag", "future")


def build(parser: Parser) -> None:
    parser.description, parser.examples = DESCRIPTION, EXAMPLES
    broker = parser.add_argument("--broker", action="append", type=int, metavar="ID", help="only this broker; can be repeated")
    completes(broker, "brokers")
    topic = parser.add_argument("--topic", action="append", metavar="NAME", help="only replicas of this topic; can be repeated")
    completes(topic, "topics")
    parser.add_argument("--replicas", action="store_true", help="print each replica, with its size and its lag")
    add_options(parser)
    parser.set_defaults(run=on_cluster(_log_dirs))


def _log_dirs(admin: Admin, options: argparse.Namespace) -> int:
    from ottla.client.types import TopicPartition

    live = [node.node_id for node in admin.describe_cluster().nodes]
    missing = next((node_id for node_id in options.broker or () if node_id not in live), None)
    if missing is not None:
        return fail(f"There is no live broker {missing}: the live ones are {', '.join(map(str, live))}.")
    partitions = None
    if options.topic:
        topics = admin.describe_topics(*dict.fromkeys(options.topic))
        partitions = [TopicPartition(name, index) for name, topic in topics.items() for index in topic.partitions]
    found = admin.describe_log_dirs(sorted(set(options.broker or live)), partitions)
    if options.replicas:
        show(REPLICA_COLUMNS, list(_replicas(found, as_json=options.json)), as_json=options.json)
    else:
        show(DIRECTORY_COLUMNS, list(directory_rows(found, as_json=options.json)), as_json=options.json)
    return int(any(each.error_code for directories in found.values() for each in directories))


def directory_rows(found: Mapping[int, list[LogDir]], *, as_json: bool) -> Iterator[tuple[Cell, ...]]:
    """Yield a row of `DIRECTORY_COLUMNS` for each directory of the brokers in `found`."""
    for node_id, directories in found.items():
        for each in sorted(directories):
            counts = [sum(replica.is_future == is_future for replica in each.replicas.values()) for is_future in (False, True)]
            sizes = (sum(replica.size_bytes for replica in each.replicas.values()), each.total_bytes, each.usable_bytes)
            status = (styled(_status(each), RED) if each.error_code else _status(each), _error(each))
            yield (node_id, each.path, *status, *counts, *(_size(in_bytes, as_json=as_json) for in_bytes in sizes))


def _status(directory: LogDir) -> str:
    if directory.error_code:
        return "offline"
    return "cordoned" if directory.is_cordoned else "online"


def _error(directory: LogDir) -> str | None:
    """Return why a directory is offline, as Kafka's name of the error; None if it is online."""
    from ottla.client.errors import broker_error

    return broker_error(directory.error_code).name if directory.error_code else None


def _size(in_bytes: int, *, as_json: bool) -> Cell:
    """Return a size in bytes as a table cell, or None if the broker is too old to send the size."""
    if in_bytes < 0:
        return None
    return in_bytes if as_json else size(in_bytes)


def _replicas(found: Mapping[int, list[LogDir]], *, as_json: bool) -> Iterator[tuple[Cell, ...]]:
    for node_id, directories in found.items():
        for each in sorted(directories):
            for where, replica in sorted(each.replicas.items()):
                yield (node_id, each.path, *_replica(where, replica, as_json=as_json))


def _replica(where: TopicPartition, replica: ReplicaOnDisk, *, as_json: bool) -> tuple[Cell, ...]:
    is_future: Cell = replica.is_future if as_json else "yes" if replica.is_future else "no"
    return (*where, _size(replica.size_bytes, as_json=as_json), max(replica.offset_lag, 0), is_future)
