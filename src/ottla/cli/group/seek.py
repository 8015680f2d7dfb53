"""The change of committed offsets by `ottla group seek`, and the functions that `import` shares with it."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.cli.command.output import Cell, show
from ottla.cli.group.lag import SHARE, existing_topics
from ottla.cli.group.share_seek import positions_of, set_start_offsets, start_offsets
from ottla.cli.topic.offsets import PartitionOffsets, ranges
from ottla.client.admin.offset_targets import TIME, NothingCommitted, target_offsets
from ottla.errors import KafkaError

if TYPE_CHECKING:
    from ottla.cli.command.positions import SeekTarget, TopicChoice
    from ottla.client.admin.groups import GroupDescription
    from ottla.client.types import OffsetAndMetadata, TopicPartition
    from ottla.net.client.admin.admin import Admin

    Offsets = Mapping[TopicPartition, OffsetAndMetadata]

WITHOUT_MEMBERS = ("Empty", "Dead")
NAMED_MEMBERS = 5
"""The number of members that a refusal names; of more it gives the count."""
COLUMNS = ("group", "topic", "partition", "before", "after", "lag after")


def run(admin: Admin, options: argparse.Namespace) -> int:
    """Set the committed offsets of a group, or the start offsets of a share group, in one request."""
    group_id = options.group
    group = admin.describe_groups(group_id)[group_id]
    check_members(group)
    is_share = group.group_type == SHARE
    committed = start_offsets(admin, group_id) if is_share else admin.list_group_offsets(group_id)
    if options.from_group is not None:
        source = positions_of(admin, options.from_group)
        wanted = chosen(source, options.topic)
        if not wanted:
            what = "of these topics" if options.topic else "to continue from"
            raise KafkaError(f"Group {options.from_group} has no committed offsets {what}: `ottla group lag` prints those it has.")
    else:
        partitions = _partitions(admin, group_id, options.topic, committed)
        known = {where: each for where, each in committed.items() if each.offset >= 0}
        wanted = _positions(admin, options.to, partitions, known)
    if is_share:
        check_partitions(admin, wanted)
        set_start_offsets(admin, wanted, options)
    else:
        change(admin, {group_id: wanted}, options)
    return 0


def check_vacant(groups: Iterable[GroupDescription]) -> None:
    """Raise `KafkaError` if a group has members, or is a share group, which has no committed offsets."""
    for group in groups:
        if group.group_type == SHARE:
            raise KafkaError(f"Group {group.group_id} is a share group, which has no committed offsets: name another group.")
        check_members(group)


def check_members(group: GroupDescription) -> None:
    """Raise `KafkaError` if a group has members."""
    if group.members or group.state not in WITHOUT_MEMBERS:
        raise KafkaError(f"Group {group.group_id} {members_text(group)}: stop them, then try again.")


def members_text(group: GroupDescription) -> str:
    """Return text for a message: the number of a group's members, and the first ones by client id and host."""
    members = [f"{each.group_instance_id or each.client_id or each.member_id} on {each.client_host}" for each in group.members]
    named = ", ".join(members[:NAMED_MEMBERS]) + (
        f" and {len(members) - NAMED_MEMBERS} more" if len(members) > NAMED_MEMBERS else ""
    )
    noun = "active member" if len(members) == 1 else "active members"
    return f"has {len(members)} {noun} ({named})" if members else f"has active members (it is {group.state})"


def chosen(offsets: Offsets, topics: Sequence[TopicChoice]) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the offsets of the partitions that option --topic names; without the option, return all of them."""
    return {
        where: offset
        for where, offset in offsets.items()
        if not topics
        or any(where.topic == each.topic and (each.partitions is None or where.partition in each.partitions) for each in topics)
    }


def _partitions(admin: Admin, group_id: str, topics: Sequence[TopicChoice], committed: Offsets) -> list[TopicPartition]:
    """Return the partitions of --topic, else those that have committed offsets and still exist. Raises `KafkaError`."""
    from ottla.client.types import TopicPartition

    if not topics:
        known = existing_topics(admin, {where.topic for where in committed})
        found = [where for where in committed if where.topic in known and where.partition in known[where.topic].partitions]
        if not found:
            raise KafkaError(f"Group {group_id} has no committed offsets: name the topics with --topic.")
        return sorted(found)
    known = admin.describe_topics(*{each.topic for each in topics})
    wanted = {
        TopicPartition(each.topic, index)
        for each in topics
        for index in (known[each.topic].partitions if each.partitions is None else each.partitions)
    }
    check_partitions(admin, wanted)
    return sorted(wanted)


def check_partitions(admin: Admin, partitions: Iterable[TopicPartition]) -> None:
    """Raise `KafkaError` if a topic or a partition does not exist."""
    wanted = sorted(partitions)
    known = admin.describe_topics(*{where.topic for where in wanted})
    for where in wanted:
        if where.partition not in known[where.topic].partitions:
            count = len(known[where.topic].partitions)
            raise KafkaError(f"Topic {where.topic} has no partition {where.partition}: it has {count}, from 0 to {count - 1}.")


def _positions(
    admin: Admin, target: SeekTarget, partitions: Sequence[TopicPartition], committed: Offsets
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the offset for the position `target` in each partition. Raises `KafkaError`."""
    from ottla.client.types import OffsetAndMetadata

    found = ranges(admin, partitions)
    at_time = admin.list_offsets(dict.fromkeys(partitions, target.value)) if target.kind == TIME else {}
    try:
        offsets = target_offsets(
            target.kind,
            target.value,
            partitions,
            committed=committed,
            starts={where: each.start for where, each in found.items()},
            ends={where: each.end for where, each in found.items()},
            at_time={where: each.offset for where, each in at_time.items()},
        )
    except NothingCommitted as error:
        raise KafkaError(f"{error}: name a position.") from None
    return {where: OffsetAndMetadata(offset) for where, offset in offsets.items()}


def change(admin: Admin, wanted: Mapping[str, Offsets], options: argparse.Namespace) -> None:
    """Commit offsets for groups without members, and print them. With --dry-run, only print them. Raises `KafkaError`.

    Everything is checked before the first commit. Each group is changed by one request.
    """
    partitions = {where for offsets in wanted.values() for where in offsets}
    check_partitions(admin, partitions)
    found = ranges(admin, partitions)
    before = admin.list_offsets_of_groups(*wanted)
    after = {name: {where: _within(offset, found[where]) for where, offset in offsets.items()} for name, offsets in wanted.items()}
    done: list[str] = []
    for name, offsets in after.items():
        if not options.dry_run:
            _commit(admin, name, offsets, before[name], done)
        done.append(name)
    rows: list[tuple[Cell, ...]] = []
    for name, offsets in after.items():
        for where, offset in sorted(offsets.items()):
            old = before[name].get(where)
            rows.append((name, *where, None if old is None else old.offset, offset.offset, found[where].end - offset.offset))
    show(COLUMNS, rows, as_json=options.json)


def _within(offset: OffsetAndMetadata, found: PartitionOffsets) -> OffsetAndMetadata:
    return offset._replace(offset=min(max(offset.offset, found.start), found.end))


def _commit(admin: Admin, group_id: str, offsets: Offsets, before: Offsets, done: Sequence[str]) -> None:
    """Commit the offsets of one group. If that fails, the error message also says which groups were changed before."""
    from ottla.wire.errors import UNKNOWN_MEMBER_ID

    try:
        admin.alter_group_offsets(group_id, offsets)
    except KafkaError as error:
        if error.code == UNKNOWN_MEMBER_ID:
            reason = f"Group {group_id} got active members meanwhile: stop them, then try again."
            changed = 0
        else:
            reason = str(error)
            now = admin.list_group_offsets(group_id, require_stable=False)
            changed = sum(now.get(where) == offset != before.get(where) for where, offset in offsets.items())
        groups = f" Changed before: {', '.join(done)}." if done else ""
        extent = f" {changed} of {len(offsets)} offsets were changed." if changed else " No offset of it was changed."
        raise KafkaError(f"{reason}{extent}{groups}") from error
