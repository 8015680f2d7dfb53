"""The descriptions of groups: `ottla group list`, `describe` and `lag`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from ottla.cli.command.output import BOLD, Cell, as_lines, lines_of, print_lines, show, styled
from ottla.cli.group.lag import GroupLag, check_existing, measure
from ottla.cli.group.watch import repeat

if TYPE_CHECKING:
    from ottla.client.admin.groups import GroupListing, GroupMember
    from ottla.client.types import TopicPartition
    from ottla.net.client.admin.admin import Admin

TYPES = ("classic", "consumer", "share", "streams")
STATES = (
    "PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty", "Assigning", "Reconciling", "NotReady", "Unknown",
)  # fmt: skip
"""Kafka's names of the states of groups of all types."""


def list_groups(admin: Admin, options: argparse.Namespace) -> int:
    found = admin.list_groups(states=options.state, types=options.type)
    groups = _with_states(admin, [each for each in found if options.pattern is None or options.pattern.fullmatch(each.group_id)])
    if not groups and not options.json:
        is_filtered = options.pattern or options.state or options.type
        print("No group matches." if is_filtered else "There are no groups: a consumer with a group id creates one.")
        return 0
    rows = [(each.group_id, each.group_type or None, each.protocol_type or None, each.state or None) for each in groups]
    show(("group", "type", "protocol", "state"), rows, as_json=options.json)
    return 0


def _with_states(admin: Admin, groups: list[GroupListing]) -> list[GroupListing]:
    """Return the groups with states, which brokers before Kafka 2.6 do not list."""
    found = admin.describe_groups(*(each.group_id for each in groups if not each.state))
    return [each._replace(state=found[each.group_id].state) if each.group_id in found else each for each in groups]


def describe(admin: Admin, options: argparse.Namespace) -> int:
    return _print(options, partial(_lines_of_groups, admin, options))


def _lines_of_groups(admin: Admin, options: argparse.Namespace) -> list[str]:
    groups = measure(admin, dict.fromkeys(options.groups))
    _check(groups, options)
    lines: list[str] = []
    for found in groups:
        lines += [""] if lines and not options.json else []
        lines += _json_lines(found, options) if options.json else _text_lines(found, options)
    return lines


def lag(admin: Admin, options: argparse.Namespace) -> int:
    return _print(options, partial(_lag_lines, admin, options))


def _lag_lines(admin: Admin, options: argparse.Namespace) -> list[str]:
    if not options.groups:
        return _total_lines(measure(admin, [each.group_id for each in admin.list_groups()]), options)
    groups = measure(admin, dict.fromkeys(options.groups))
    _check(groups, options)
    rows = [row for found in groups for row in _partition_rows(found)]
    lines = lines_of(PARTITION_COLUMNS, rows, as_json=options.json)
    return lines if options.json else [*lines, "", *_total_lines(groups, options)]


def _total_lines(groups: Iterable[GroupLag], options: argparse.Namespace) -> list[str]:
    columns = ("group", "state", "members", "partitions", "lag", "largest lag")
    rows = [
        (each.group.group_id, each.group.state, len(each.group.members), len(each.partitions), each.total, each.largest)
        for each in groups
    ]
    if not rows and not options.json:
        return ["There are no groups: a consumer with a group id creates one."]
    return lines_of(columns, rows, as_json=options.json)


def _check(groups: Iterable[GroupLag], options: argparse.Namespace) -> None:
    """Raise `KafkaError` if a group does not exist. With --watch, it may be created later."""
    if options.watch is None:
        check_existing(each.group for each in groups)


def _print(options: argparse.Namespace, lines: Callable[[], list[str]]) -> int:
    if options.watch is not None:
        return repeat(lines, options.watch, as_json=options.json)
    print_lines(lines())
    return 0


PARTITION_COLUMNS = ("group", "topic", "partition", "committed", "end", "lag", "member", "host")
TASK_COLUMNS = ("member", "tasks", "subtopology", "partitions")
TOPOLOGY_COLUMNS = ("subtopology", "sources", "repartition sources", "repartition sinks", "changelogs")
MEMBER_COLUMNS = ("group", "member", "instance", "client", "host", "epoch", "protocol", "partitions")


def _partition_rows(found: GroupLag) -> list[tuple[Cell, ...]]:
    return [
        (
            found.group.group_id,
            *each.where,
            each.committed,
            each.end,
            each.lag,
            each.member.member_id if each.member else None,
            each.member.client_host if each.member else None,
        )
        for each in found.partitions
    ]


def _member_rows(found: GroupLag) -> list[tuple[Cell, ...]]:
    return [
        (found.group.group_id, *_member_cells(each, found.group.group_type), assignment_text(each.assignment))
        for each in found.group.members
    ]


def _member_cells(each: GroupMember, group_type: str) -> tuple[Cell, ...]:
    epoch = each.member_epoch if each.member_epoch >= 0 else None
    protocol = "classic" if each.is_classic else group_type
    return each.member_id, each.group_instance_id, each.client_id, each.client_host, epoch, protocol


def assignment_text(assignment: Iterable[TopicPartition]) -> str | None:
    """Return partitions as text, as --topic reads it: flights:0,3-5 planes:0. Return None without partitions."""
    return " ".join(
        f"{topic}:{_ranges([where.partition for where in some])}"
        for topic, some in groupby(sorted(assignment), key=lambda where: where.topic)
    ) or None  # fmt: skip


def _ranges(indexes: Iterable[int]) -> str:
    parts: list[list[int]] = []
    for index in indexes:
        if parts and index == parts[-1][-1] + 1:
            parts[-1][1:] = [index]
        else:
            parts.append([index])
    return ",".join("-".join(map(str, part)) for part in parts)


def _task_rows(found: GroupLag) -> list[tuple[Cell, ...]]:
    """Return the tasks of the members of a streams group, by kind and subtopology."""
    return [
        (member.member_id, kind, part, _ranges(sorted(indexes)))
        for member in found.group.members
        if member.tasks is not None
        for kind, parts in member.tasks._asdict().items()
        for part, indexes in sorted(parts.items())
    ]


def _topology_rows(found: GroupLag) -> list[tuple[Cell, ...]]:
    """Return the topics of each subtopology of a streams group."""
    return [
        (
            each.subtopology_id,
            *(
                " ".join(sorted(topics)) or None
                for topics in (
                    each.source_topics,
                    each.repartition_source_topics,
                    each.repartition_sink_topics,
                    each.changelog_topics,
                )
            ),
        )
        for each in found.group.topology
    ]


def _summary(found: GroupLag) -> dict[str, Cell]:
    group = found.group
    return {
        "group": group.group_id,
        "type": group.group_type,
        "protocol": group.protocol_type or None,
        "state": group.state,
        "assignor": group.protocol or None,
        "epoch": group.group_epoch if group.group_epoch >= 0 else None,
        "coordinator": group.coordinator_id,
        "members": len(group.members),
        "lag": found.total,
    }


def _text_lines(found: GroupLag, options: argparse.Namespace) -> list[str]:
    is_whole = not (options.members or options.partitions)
    blocks: list[list[str]] = []
    if is_whole:
        blocks.append(
            [f"{styled(f'{name:11}', BOLD)}  {'-' if value is None else value}" for name, value in _summary(found).items()]
        )
    if options.members or (is_whole and found.group.members):
        skipped = 0 if options.members else 1
        blocks.append(lines_of(MEMBER_COLUMNS[skipped:], [row[skipped:] for row in _member_rows(found)], as_json=False))
    if tasks := _task_rows(found) if options.members or is_whole else []:
        blocks.append(lines_of(TASK_COLUMNS, tasks, as_json=False))
    if topology := _topology_rows(found) if is_whole else []:
        blocks.append(lines_of(TOPOLOGY_COLUMNS, topology, as_json=False))
    if options.partitions or (is_whole and found.partitions):
        skipped = 0 if options.partitions else 1
        blocks.append(lines_of(PARTITION_COLUMNS[skipped:], [row[skipped:] for row in _partition_rows(found)], as_json=False))
    return [line for number, block in enumerate(blocks) for line in ([""] if number else []) + block]


def _json_lines(found: GroupLag, options: argparse.Namespace) -> list[str]:
    members: list[dict[str, object]] = [
        dict(zip(MEMBER_COLUMNS, (*row[:-1], [list(where) for where in each.assignment]), strict=True))
        for row, each in zip(_member_rows(found), found.group.members, strict=True)
    ]
    partitions: list[dict[str, object]] = [dict(zip(PARTITION_COLUMNS, row, strict=True)) for row in _partition_rows(found)]
    if options.members or options.partitions:
        return as_lines((members if options.members else []) + (partitions if options.partitions else []))
    more: dict[str, object] = {}
    if found.group.topology:
        more = {
            "tasks": [dict(zip(TASK_COLUMNS, row, strict=True)) for row in _task_rows(found)],
            "topology": [each._asdict() for each in found.group.topology],
        }
    return as_lines([{**_summary(found), "members": members, "partitions": partitions, **more}])
