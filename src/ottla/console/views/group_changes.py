"""Changes of groups: the reset of offsets with a preview, and the removal of groups, of their offsets and of members."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ottla.client.admin.groups import SHARE, GroupDescription
from ottla.client.admin.offset_targets import END, OFFSET, SHIFT, START, TIME, NothingCommitted, target_offsets
from ottla.client.errors import BrokerError
from ottla.client.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, OffsetAndMetadata, TopicPartition
from ottla.console.cluster_session import ClusterSession
from ottla.console.declarations import Done, PageRefused
from ottla.console.messages.selection import BadSelection, partitions_of
from ottla.console.paths import path_of
from ottla.console.views.groups import EARLIEST, GROUP, LATEST, NAMED_MEMBERS, TARGETS, WITHOUT_MEMBERS, has_leader, member_name
from ottla.console.views.topics import CHANGE_S, check_typed
from ottla.inspection.times import parse_time
from ottla.net.client.admin.async_admin import AsyncAdmin
from ottla.wire.errors import NON_EMPTY_GROUP, UNKNOWN_MEMBER_ID


@dataclass(frozen=True, slots=True)
class ResetRow:
    """A partition in the preview of a reset: its offset and lag before and after."""

    topic: str
    partition: int
    before: int | None
    after: int
    end: int
    lag: int


@dataclass(frozen=True, slots=True)
class ResetPreview:
    """What a reset would change. `sentence` says why it is refused now; it is empty if it can be done."""

    group: str
    to: str
    time: str
    offset: int | None
    topic: str
    partition: str
    rows: list[ResetRow]
    changed: int
    sentence: str
    targets: list[str]


async def reset_preview(
    cluster: ClusterSession,
    group: str,
    to: str = EARLIEST,
    time: str = "",
    offset: int | None = None,
    topic: str = "",
    partition: str = "",
) -> ResetPreview:
    """Return what a reset of a group's offsets would change, and why it is refused, if it is."""
    found = await cluster.query(lambda admin: admin.describe_group(group))
    sentence = _refusal(found)
    rows = await _reset_rows(cluster, found, to, time, offset, topic, partition)
    changed = sum(row.before != row.after for row in rows)
    return ResetPreview(group, to, time, offset, topic, partition, rows, changed, sentence, list(TARGETS))


async def reset_offsets(
    cluster: ClusterSession,
    group: str,
    to: str,
    time: str = "",
    offset: int | None = None,
    topic: str = "",
    partition: str = "",
) -> Done:
    """Set the offsets of a group without members to a place, in all its partitions or in some of a topic.

    They are the committed offsets, or the start offsets of a share group.
    """
    preview = await reset_preview(cluster, group, to, time, offset, topic, partition)
    if preview.sentence:
        raise PageRefused(409, preview.sentence)
    wanted: dict[TopicPartition, OffsetAndMetadata | int] = {
        TopicPartition(row.topic, row.partition): row.after for row in preview.rows if row.before != row.after
    }
    if not wanted:
        return Done(f"All offsets of group {group} are there already: nothing was changed.", path_of(GROUP, {"group": group}))
    try:
        await cluster.query(lambda admin: _alter_offsets(admin, group, wanted), CHANGE_S)
    except BrokerError as error:
        if error.code not in (UNKNOWN_MEMBER_ID, NON_EMPTY_GROUP):
            raise
        raise PageRefused(409, f"Group {group} got active members meanwhile: stop them, then try again.") from None
    noun = "offset" if len(wanted) == 1 else "offsets"
    return Done(f"{len(wanted)} {noun} of group {group} changed.", path_of(GROUP, {"group": group}))


async def _alter_offsets(admin: AsyncAdmin, group: str, wanted: Mapping[TopicPartition, OffsetAndMetadata | int]) -> None:
    if (await admin.describe_group(group)).group_type == SHARE:
        starts = {where: each if isinstance(each, int) else each.offset for where, each in wanted.items()}
        await admin.alter_share_group_offsets(group, starts)
    else:
        await admin.alter_group_offsets(group, wanted)


def _refusal(found: GroupDescription) -> str:
    """Return the sentence that refuses a reset; empty if it can be done."""
    group = found.group_id
    if found.members or found.state not in WITHOUT_MEMBERS:
        names = [member_name(each) for each in found.members]
        more = f" and {len(names) - NAMED_MEMBERS} more" if len(names) > NAMED_MEMBERS else ""
        noun = "active member" if len(names) == 1 else "active members"
        who = (
            f"{len(names)} {noun} ({', '.join(names[:NAMED_MEMBERS])}{more})" if names else f"active members (it is {found.state})"
        )
        return f"Group {group} has {who}: stop them, then try again."
    return ""


async def _reset_rows(
    cluster: ClusterSession, found: GroupDescription, to: str, time: str, offset: int | None, topic: str, partition: str
) -> list[ResetRow]:
    if to not in TARGETS:
        raise PageRefused(400, f"{to[:60]!r} is no place for offsets: choose one of {', '.join(TARGETS)}.")
    group = found.group_id
    if found.group_type == SHARE:
        starting = (await cluster.query(lambda admin: admin.list_share_group_offsets(group)))[group]
        before: Mapping[TopicPartition, OffsetAndMetadata] = {
            where: OffsetAndMetadata(each.start_offset) for where, each in starting.items() if each.start_offset >= 0
        }
        places = await _reset_places(cluster, group, {where: OffsetAndMetadata(0) for where in starting}, topic, partition)
    else:
        before = await cluster.query(lambda admin: admin.list_group_offsets(group, require_stable=False))
        places = await _reset_places(cluster, group, before, topic, partition)
    starts = await _offsets(cluster, places, EARLIEST_TIMESTAMP)
    ends = await _offsets(cluster, places, LATEST_TIMESTAMP)
    at_time = await _offsets(cluster, places, _time_of(time)) if to == TIME else {}
    if offset is None and to in (OFFSET, SHIFT):
        raise PageRefused(400, "The offset is missing: give a whole number.")
    target = {EARLIEST: START, LATEST: END}.get(to, to)
    try:
        after = target_offsets(target, offset or 0, places, committed=before, starts=starts, ends=ends, at_time=at_time)
    except NothingCommitted as error:
        raise PageRefused(400, f"{error}: choose a place.") from None
    rows = []
    for where, at in after.items():
        known = before.get(where)
        old = None if known is None else known.offset
        rows.append(ResetRow(where.topic, where.partition, old, at, ends[where], ends[where] - at))
    return rows


def _time_of(text: str) -> int:
    try:
        return parse_time(text)
    except ValueError as error:
        raise PageRefused(400, f"{error}.") from None


async def _reset_places(
    cluster: ClusterSession, group: str, before: Mapping[TopicPartition, OffsetAndMetadata], topic: str, partition: str
) -> list[TopicPartition]:
    """Return the partitions of a reset: those of a topic, or those with committed offsets that exist. Raises `PageRefused`."""
    topics = await cluster.topics()
    try:
        numbers = partitions_of(partition)
    except BadSelection as error:
        raise PageRefused(400, str(error)) from None
    if not topic:
        found = [where for where in before if has_leader(topics, where)]
        if not found:
            raise PageRefused(409, f"Group {group} has no committed offsets in topics that exist: name a topic.")
        return sorted(found)
    if topic not in topics:
        raise PageRefused(404, f"There is no topic {topic}: choose another one.")
    known = topics[topic].partitions
    missing = [index for index in numbers if index not in known]
    if missing:
        raise PageRefused(400, f"Topic {topic} has no partition {missing[0]}: it has {len(known)}, from 0 to {len(known) - 1}.")
    return [TopicPartition(topic, index) for index in numbers or sorted(known)]


async def _offsets(cluster: ClusterSession, places: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
    wanted: dict[tuple[str, int], int] = dict.fromkeys(places, timestamp)

    async def query(admin: AsyncAdmin) -> dict[TopicPartition, int]:
        return {where: each.offset for where, each in (await admin.list_offsets(wanted)).items()}

    return await cluster.query(query)


async def delete_group(cluster: ClusterSession, group: str, typed: str = "") -> Done:
    """Delete a group without members, with its offsets. `typed` is its id again, as a confirmation."""
    check_typed(group, typed)
    await cluster.query(lambda admin: admin.delete_groups(group), CHANGE_S)
    return Done(f"Group {group} was deleted.", "/groups")


async def delete_group_offsets(cluster: ClusterSession, group: str, topic: str) -> Done:
    """Delete a group's committed offsets in a topic that it does not read any more, or the start offsets of a share group."""
    described = await cluster.query(lambda admin: admin.describe_group(group))
    if described.group_type == SHARE:
        await cluster.query(lambda admin: admin.delete_share_group_offsets(group, topic), CHANGE_S)
        return Done(f"The start offsets of group {group} in topic {topic} were deleted.", path_of(GROUP, {"group": group}))
    found = await cluster.query(lambda admin: admin.list_group_offsets(group, require_stable=False))
    places = [where for where in found if where.topic == topic]
    if not places:
        raise PageRefused(404, f"Group {group} has no committed offsets in topic {topic}.")
    await cluster.query(lambda admin: admin.delete_group_offsets(group, places), CHANGE_S)
    return Done(f"The offsets of group {group} in topic {topic} were deleted.", path_of(GROUP, {"group": group}))


async def remove_member(cluster: ClusterSession, group: str, member: str) -> Done:
    """Remove a member from a group. A client that still runs joins again."""
    removed = await cluster.query(lambda admin: admin.remove_members(group, [member], reason="removed in the console"), CHANGE_S)
    client = removed[0].client_id if removed else member
    return Done(
        f"Member {client} was removed from group {group}; it joins again if it still runs.", path_of(GROUP, {"group": group})
    )
