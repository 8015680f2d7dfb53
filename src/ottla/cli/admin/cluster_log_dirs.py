"""`ottla cluster move-replicas`: moves of replicas between the log directories of brokers (KIP-113), for any Kafka cluster."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from ottla.cli.admin.cluster_reassign import named_partitions
from ottla.cli.command.connection import add_options, on_cluster
from ottla.cli.command.exits import fail
from ottla.cli.command.output import Cell, show, size
from ottla.cli.command.parser import Example, completes
from ottla.errors import SettingError

if TYPE_CHECKING:
    from ottla.cli.command.parser import Commands
    from ottla.client.admin.replicas import LogDir, ReplicaOnDisk
    from ottla.client.types import TopicPartition
    from ottla.net.client.admin.admin import Admin

MOVE = """Move the replicas of a topic, or of one partition, to another log directory of each broker that has this directory.
Producers and consumers go on. Waits until the replicas are moved; `ottla logdirs --replicas` shows the progress, too. The
directory in which a replica already is ends its move. Exit code 1: a replica was not moved."""
EXAMPLES = (
    Example("cluster move-replicas flights /data2 --dry-run", "Print what would be moved, and how much that is."),
    Example("cluster move-replicas flights:0 /data2 --broker 1", "Move one replica, and wait until it is moved."),
    Example("cluster move-replicas flights /data2 --no-wait", "Begin to move the replicas of a topic."),
)
COLUMNS = ("broker", "topic", "partition", "from", "to", "size", "result")
LOOK_S = 0.2


class BrokerReplica(NamedTuple):
    """A replica of a partition on a broker."""

    node_id: int
    where: TopicPartition


class LogDirMove(NamedTuple):
    """A wanted move of a replica: its directory, and its size in bytes."""

    replica: BrokerReplica
    path: str
    size_bytes: int


def add_to(own: Commands) -> None:
    move = own.add("move-replicas", "move replicas to another log directory", description=MOVE, examples=EXAMPLES)
    completes(move.add_argument("topic", metavar="TOPIC[:PARTITION]", help="the topic, or one of its partitions"), "topics")
    move.add_argument("directory", metavar="DIRECTORY", help="the absolute path of a log directory, as `ottla logdirs` prints it")
    completes(move.add_argument("--broker", type=int, metavar="ID", help="only replicas on this broker"), "brokers")
    move.add_argument("--dry-run", action="store_true", help="only print what would be moved")
    move.add_argument("--no-wait", action="store_true", help="do not wait until the replicas are moved")
    add_options(move)
    move.set_defaults(run=on_cluster(_move))


def _move(admin: Admin, options: argparse.Namespace) -> int:
    partitions = named_partitions(admin, [options.topic])
    found = admin.describe_log_dirs(None if options.broker is None else [options.broker], partitions)
    able = {node_id: directories for node_id, directories in found.items() if _has(directories, options.directory)}
    if not able:
        known = sorted({each.path for directories in found.values() for each in directories})
        raise SettingError(f"No broker has the log directory {options.directory!r}: choose among {', '.join(known)}.")
    moves = list(_plan(able))
    if not moves:
        return fail(f"There is no replica of {options.topic} on a broker with the directory {options.directory}.")
    if not options.dry_run:
        for node_id in able:
            wanted = {one.replica.where: options.directory for one in moves if one.replica.node_id == node_id}
            if wanted:
                admin.alter_replica_log_dirs(node_id, wanted)
    pending = [one for one in moves if one.path != options.directory]
    lost = [] if options.dry_run or options.no_wait else _wait(admin, pending, options.directory)
    show(COLUMNS, list(_rows(moves, lost, options)), as_json=options.json)
    if lost:
        return fail("A replica was not moved, or its move was ended: the log file of its broker says why.")
    return 0


def _has(directories: Iterable[LogDir], path: str) -> bool:
    return any(each.path == path for each in directories)


def _plan(found: dict[int, list[LogDir]]) -> Iterator[LogDirMove]:
    for node_id, directories in sorted(found.items()):
        for path, where, replica in sorted(_replicas(directories), key=lambda one: one[1]):
            if not replica.is_future:
                yield LogDirMove(BrokerReplica(node_id, where), path, replica.size_bytes)


def _replicas(directories: Iterable[LogDir]) -> Iterator[tuple[str, TopicPartition, ReplicaOnDisk]]:
    for each in directories:
        for where, replica in each.replicas.items():
            yield each.path, where, replica


def _wait(admin: Admin, moves: list[LogDirMove], directory: str) -> list[BrokerReplica]:
    """Wait until no replica moves any more. Return those that are not in the directory."""
    while moves:
        found = admin.describe_log_dirs(
            sorted({one.replica.node_id for one in moves}), sorted({one.replica.where for one in moves})
        )
        seen = [(node_id, *one) for node_id, directories in found.items() for one in _replicas(directories)]
        moving = {BrokerReplica(node_id, where) for node_id, _, where, replica in seen if replica.is_future}
        there = {
            BrokerReplica(node_id, where) for node_id, path, where, replica in seen if path == directory and not replica.is_future
        }
        if not any(one.replica in moving for one in moves):
            return [one.replica for one in moves if one.replica not in there]
        time.sleep(LOOK_S)
    return []


def _rows(moves: Iterable[LogDirMove], lost: list[BrokerReplica], options: argparse.Namespace) -> Iterator[tuple[Cell, ...]]:
    begun = "would move" if options.dry_run else "moves" if options.no_wait else "moved"
    for one in moves:
        result = "is there" if one.path == options.directory else "not moved" if one.replica in lost else begun
        in_bytes: Cell = one.size_bytes if options.json else size(one.size_bytes)
        yield (one.replica.node_id, *one.replica.where, one.path, options.directory, in_bytes, result)
