"""Queues: share groups with the records that are left in their topics, and their members (KIP-932).

Brokers count the records of each partition that are not acknowledged. Which of them members hold is known to a console in the
process of the broker that leads the partition (`in_flight`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.client.admin.groups import SHARE, GroupDescription, ShareOffset
from ottla.client.types import LATEST_TIMESTAMP, TopicPartition
from ottla.console.cluster_session import ClusterSession
from ottla.console.rows import Pages, cut, filter_rows, sorted_by
from ottla.console.views.in_flight import count_held
from ottla.errors import KafkaError


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A share group. `left` are the records that are not acknowledged, `done` those that are acknowledged after a start offset.

    `in_flight` are the records that members hold now. All three are None where they are unknown.
    """

    group: str
    state: str
    members: int | None
    topics: list[str]
    partitions: int
    left: int | None
    in_flight: int | None
    done: int | None


@dataclass(frozen=True, slots=True)
class QueueList:
    """A page of queues. `troubles` are sentences about brokers that have not answered, `notes` about unknown records in flight."""

    queues: list[QueueRow]
    place: Pages
    q: str
    sort: str
    troubles: list[str]
    notes: list[str]


SORTS = {"group": lambda row: row.group, "state": lambda row: row.state}


def records_done(start: int, end: int | None, left: int) -> int | None:
    """Return the number of acknowledged records from a start offset to the end of a partition; None if they are not counted."""
    return None if end is None or start < 0 or left < 0 else max(0, end - start - left)


async def queues(cluster: ClusterSession, q: str = "", sort: str = "group", page: int = 1) -> QueueList:
    """Return a page of share groups, filtered by a part of their ids, and sorted by a column."""
    listed = await cluster.part("queues", lambda admin: admin.list_groups(types=[SHARE], check=False))
    rows = [QueueRow(each.group_id, each.state, None, [], 0, None, None, None) for each in listed.value or ()]
    matching = filter_rows(rows, q, lambda row: row.group)
    on_page, place = cut(sorted_by(matching, sort, SORTS), page, len(rows))
    ids = [row.group for row in on_page]
    troubles = [listed.trouble]
    described: Mapping[str, GroupDescription] = {}
    positions: Mapping[str, Mapping[TopicPartition, ShareOffset]] = {}
    held: Mapping[str, int] = {}
    notes: list[str] = []
    if ids:
        members = await cluster.part(f"members {ids}", lambda admin: admin.describe_groups(*ids, check=False))
        offsets = await cluster.part(f"starts {ids}", lambda admin: admin.list_share_group_offsets(*ids, check=False))
        described, positions = members.value or {}, offsets.value or {}
        troubles += [members.trouble, offsets.trouble]
        visible = {} if members.trouble else {group: positions.get(group, {}) for group in described}
        held, notes = await count_held(cluster, visible)
    ends = await _ends(cluster, {where for found in positions.values() for where in found}, troubles)
    counted = [
        _count_records(row, described.get(row.group), positions.get(row.group, {}), ends, held.get(row.group)) for row in on_page
    ]
    return QueueList(counted, place, q, sort, list(dict.fromkeys(filter(None, troubles))), notes)


async def _ends(cluster: ClusterSession, wanted: set[TopicPartition], troubles: list[str]) -> Mapping[TopicPartition, int]:
    """Return the end offsets of partitions that exist, and add a sentence to `troubles` after a failure."""
    if not wanted:
        return {}
    try:
        topics = await cluster.topics()
    except KafkaError as error:
        troubles.append(str(error))
        return {}
    led = sorted(where for where in wanted if where.topic in topics and where.partition in topics[where.topic].partitions)
    part = await cluster.part(
        f"ends {hash(tuple(led))}", lambda admin: admin.list_offsets(dict.fromkeys(led, LATEST_TIMESTAMP), check=False)
    )
    troubles.append(part.trouble)
    return {where: each.offset for where, each in (part.value or {}).items()}


def _count_records(
    row: QueueRow,
    found: GroupDescription | None,
    positions: Mapping[TopicPartition, ShareOffset],
    ends: Mapping[TopicPartition, int],
    in_flight: int | None,
) -> QueueRow:
    left = [each.lag for each in positions.values() if each.lag >= 0]
    done = [
        count
        for where, each in positions.items()
        if (count := records_done(each.start_offset, ends.get(where), each.lag)) is not None
    ]
    return QueueRow(
        row.group,
        row.state if found is None else found.state,
        None if found is None else len(found.members),
        sorted({where.topic for where in positions}),
        len(positions),
        sum(left) if left else None,
        in_flight,
        sum(done) if done else None,
    )
