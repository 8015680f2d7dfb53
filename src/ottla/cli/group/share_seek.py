"""The change of the start offsets of a share group by `ottla group seek`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.cli.command import confirm
from ottla.cli.command.output import Cell, show
from ottla.cli.group.lag import SHARE
from ottla.cli.topic.offsets import ranges
from ottla.errors import KafkaError

if TYPE_CHECKING:
    from ottla.client.types import OffsetAndMetadata, TopicPartition
    from ottla.net.client.admin.admin import Admin

DELETED = ("group", "topic", "result")
COLUMNS = ("group", "topic", "partition", "before", "after", "records after")


def start_offsets(admin: Admin, group_id: str) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the start offsets of a share group by partition, -1 for a partition that was not fetched yet."""
    from ottla.client.types import OffsetAndMetadata

    found = admin.list_share_group_offsets(group_id)[group_id]
    return {where: OffsetAndMetadata(each.start_offset) for where, each in found.items()}


def positions_of(admin: Admin, group_id: str) -> Mapping[TopicPartition, OffsetAndMetadata]:
    """Return the committed offsets of a group, or the start offsets of a share group."""
    group = admin.describe_groups(group_id)[group_id]
    if group.group_type != SHARE:
        return admin.list_group_offsets(group_id)
    return {where: each for where, each in start_offsets(admin, group_id).items() if each.offset >= 0}


def set_start_offsets(admin: Admin, wanted: Mapping[TopicPartition, OffsetAndMetadata], options: argparse.Namespace) -> None:
    """Set the start offsets of a share group without members, and print them. With --dry-run, only print them."""
    group_id = options.group
    before, found = start_offsets(admin, group_id), ranges(admin, wanted)
    after = {where: min(max(each.offset, found[where].start), found[where].end) for where, each in wanted.items()}
    if not options.dry_run:
        try:
            admin.alter_share_group_offsets(group_id, after)
        except KafkaError as error:
            raise KafkaError(f"{str(error).rstrip('.')}: no start offset is certain to have changed; try again.") from error
    rows: list[tuple[Cell, ...]] = []
    for where, offset in sorted(after.items()):
        old = before[where].offset if where in before and before[where].offset >= 0 else None
        rows.append((group_id, *where, old, offset, found[where].end - offset))
    show(COLUMNS, rows, as_json=options.json)


def delete_start_offsets(admin: Admin, options: argparse.Namespace) -> int:
    """Delete the start offsets of a share group in whole topics, after a confirmation."""
    for each in options.topic:
        if each.partitions is not None:
            raise KafkaError(f"The start offsets of share group {options.group} are deleted by topic: name {each.topic} alone.")
    topics = sorted({each.topic for each in options.topic})
    known = {where.topic for where in start_offsets(admin, options.group)}
    if missing := [topic for topic in topics if topic not in known]:
        raise KafkaError(
            f"Share group {options.group} has no start offsets of {missing[0]}: `ottla group lag {options.group}` prints them."
        )
    if not options.dry_run:
        effect = f"This deletes the start offsets of group {options.group} in {', '.join(topics)}."
        unconfirmed = confirm.refused(options, effect, options.group)
        if unconfirmed is not None:
            return unconfirmed
        admin.delete_share_group_offsets(options.group, *topics)
    result = "would be deleted" if options.dry_run else "deleted"
    show(DELETED, [(options.group, topic, result) for topic in topics], as_json=options.json)
    return 0
