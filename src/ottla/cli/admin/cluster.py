"""`ottla cluster`: brokers, partitions and their replicas, for any Kafka cluster.

`cluster_reassign` has the commands that move replicas and leaders between brokers, `cluster_log_dirs` the one that moves replicas
between log directories, and `cluster_quorum` those of KRaft's controllers.

`ottla.net.client.admin` sends the requests.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from ottla.cli.admin import cluster_log_dirs, cluster_quorum, cluster_reassign
from ottla.cli.command.connection import add_options, on_cluster
from ottla.cli.command.output import Cell, as_lines, show, size
from ottla.cli.command.parser import Example, completes

if TYPE_CHECKING:
    from ottla.cli.command.parser import Parser
    from ottla.client.admin.replicas import LogDir
    from ottla.client.connection.metadata import PartitionInfo, TopicInfo
    from ottla.net.client.admin.admin import Admin

STATUS = "Show the cluster in a few lines. Exit code 1: partitions have no leader, or are under-replicated."
BROKERS = "List the live brokers, with their addresses, replicas and free space."
PARTITIONS = "List partitions with their leaders, replicas and in-sync replicas; the filters select those with a problem."
BROKER_COLUMNS = ("broker", "host", "port", "rack", "is controller", "leads", "replicas", "out of sync", "bytes", "free bytes")
PARTITION_COLUMNS = ("topic", "partition", "leader", "leader epoch", "replicas", "isr")
STATUS_EXAMPLES = (
    Example("cluster status", "The cluster in a few lines."),
    Example("cluster status -b kafka1:9092,kafka2:9092", "Ask the first of two brokers that answers."),
    Example("cluster status --json", "One object, for monitoring."),
)
BROKERS_EXAMPLES = (
    Example("cluster brokers", "All live brokers."),
    Example("cluster brokers --profile dev", "Those of the cluster of a profile."),
    Example("cluster brokers --json", "An object for each broker, with sizes in bytes."),
)
PARTITIONS_EXAMPLES = (
    Example("cluster partitions", "All partitions."),
    Example("cluster partitions --topic flights --json", "Those of a topic, for programs."),
    Example("cluster partitions --under-replicated --offline", "Those with a problem."),
)


class PartitionSeen(NamedTuple):
    """A partition of a topic in the state that the cluster's metadata shows."""

    topic: str
    info: PartitionInfo

    @property
    def is_offline(self) -> bool:
        return self.info.leader < 0

    @property
    def is_under_replicated(self) -> bool:
        return len(self.info.isr) < len(self.info.replicas)

    @property
    def is_led_by_another(self) -> bool:
        """Return whether the leader is not the preferred leader."""
        return self.info.leader not in self.info.replicas[:1]

    @property
    def cells(self) -> tuple[Cell, ...]:
        info = self.info
        nodes = (",".join(map(str, some)) for some in (info.replicas, info.isr))
        return (self.topic, info.partition, None if self.is_offline else info.leader, info.leader_epoch, *nodes)


def build(parser: Parser) -> None:
    own = parser.group()
    status = own.add("status", "show the cluster in a few lines", description=STATUS, examples=STATUS_EXAMPLES)
    status.set_defaults(run=on_cluster(_status))
    brokers = own.add("brokers", "list the live brokers", description=BROKERS, examples=BROKERS_EXAMPLES)
    brokers.set_defaults(run=on_cluster(_brokers))
    partitions = own.add(
        "partitions", "list partitions with leaders and replicas", description=PARTITIONS, examples=PARTITIONS_EXAMPLES
    )
    topic = partitions.add_argument(
        "--topic", action="append", metavar="NAME", help="only this topic; can be repeated (default: all)"
    )
    completes(topic, "topics")
    partitions.add_argument("--under-replicated", action="store_true", help="only partitions with a replica that is not in sync")
    partitions.add_argument("--offline", action="store_true", help="only partitions without a leader")
    partitions.add_argument(
        "--not-preferred", action="store_true", help="only partitions that are not led by the preferred replica"
    )
    partitions.set_defaults(run=on_cluster(_partitions))
    for each in (status, brokers, partitions):
        add_options(each)
    cluster_reassign.add_to(own)
    cluster_log_dirs.add_to(own)
    cluster_quorum.add_to(own)


def _status(admin: Admin, options: argparse.Namespace) -> int:
    cluster = admin.describe_cluster()
    topics = list(cluster_reassign.topics_of(admin, None))
    seen = list(_seen(topics))
    offline = sum(each.is_offline for each in seen)
    behind = sum(each.is_under_replicated for each in seen)
    found: dict[str, Cell] = {
        "cluster id": cluster.cluster_id,
        "controller": cluster.controller_id if cluster.controller_id >= 0 else None,
        "brokers": len(cluster.nodes),
        "topics": len(topics),
        "partitions": len(seen),
        "replicas": sum(len(each.info.replicas) for each in seen),
        "offline partitions": offline,
        "under-replicated partitions": behind,
        "not led by their preferred replica": sum(each.is_led_by_another and not each.is_offline for each in seen),
        "moving partitions": len(admin.list_partition_reassignments()),
    }
    if options.json:
        _print(as_lines([{name.replace(" ", "_").replace("-", "_"): value for name, value in found.items()}]))
    else:
        width = max(map(len, found))
        _print(f"{name:<{width}}  {'-' if value is None else value}" for name, value in found.items())
    return 1 if offline or behind else 0


def _brokers(admin: Admin, options: argparse.Namespace) -> int:
    cluster = admin.describe_cluster()
    led: Counter[int] = Counter()
    held: Counter[int] = Counter()
    behind: Counter[int] = Counter()
    for each in _seen(cluster_reassign.topics_of(admin, None)):
        led[each.info.leader] += 1
        held.update(each.info.replicas)
        behind.update(set(each.info.replicas) - set(each.info.isr))
    directories = admin.describe_log_dirs()
    rows = []
    for node in cluster.nodes:
        counts = (led[node.node_id], held[node.node_id], behind[node.node_id])
        is_controller: Cell = node.node_id == cluster.controller_id
        if not options.json:
            is_controller = "yes" if is_controller else "no"
        rows.append((*node, is_controller, *counts, *_room(directories.get(node.node_id, ()), as_json=options.json)))
    show(BROKER_COLUMNS, rows, as_json=options.json)
    return 0


def _room(directories: Iterable[LogDir], *, as_json: bool) -> tuple[Cell, Cell]:
    """Return two cells: the size of all replicas in a broker's log directories, and the free space of their file systems.

    The second cell is None if the broker is too old to send the free space.
    """
    dirs = list(directories)
    used = sum(replica.size_bytes for each in dirs for replica in each.replicas.values())
    free = [each.usable_bytes for each in dirs if each.usable_bytes >= 0]
    if as_json:
        return used, sum(free) if free else None
    return size(used), size(sum(free)) if free else None


def _partitions(admin: Admin, options: argparse.Namespace) -> int:
    filters: dict[str, tuple[Callable[[PartitionSeen], bool], bool]] = {
        "under-replicated": (lambda each: each.is_under_replicated, options.under_replicated),
        "offline": (lambda each: each.is_offline, options.offline),
        "not led by its preferred replica": (lambda each: each.is_led_by_another, options.not_preferred),
    }
    asked = {kind: is_of_kind for kind, (is_of_kind, is_asked) in filters.items() if is_asked}
    found = list(_seen(cluster_reassign.topics_of(admin, options.topic)))
    rows = [each.cells for each in found if not asked or any(is_of_kind(each) for is_of_kind in asked.values())]
    if rows or options.json:
        show(PARTITION_COLUMNS, rows, as_json=options.json)
    else:
        print(
            f"None of {len(found)} partitions is {' or '.join(asked)}."
            if found
            else "The cluster has no topics that this user may describe."
        )
    return 0


def _seen(topics: Iterable[TopicInfo]) -> Iterator[PartitionSeen]:
    for topic in topics:
        yield from (PartitionSeen(topic.name, topic.partitions[index]) for index in sorted(topic.partitions))


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        print(line)
