"""The offsets of a topic by partition and time: `ottla topic offsets` and `trim`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, NamedTuple

from ottla.cli.command import confirm
from ottla.cli.command.exits import MISUSED, fail
from ottla.cli.command.output import Cell, show
from ottla.cli.command.positions import SeekTarget, parse_target
from ottla.client.admin.offset_targets import END, OFFSET, SHIFT, START, TIME
from ottla.inspection.times import FORMS, format_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ottla.client.types import OffsetAndTimestamp, TopicPartition
    from ottla.net.client.admin.admin import Admin


class PartitionOffsets(NamedTuple):
    """The first offset of a partition, and the offset that the next record will have."""

    start: int
    end: int


def position_argument(text: str) -> SeekTarget:
    """Return the position before which records are deleted: an offset, a time or the end. Raises argparse's error."""
    found = parse_target(text)
    if found is None or found.kind in (START, SHIFT):
        raise argparse.ArgumentTypeError(f"{text!r} is not end, an offset or {FORMS}")
    return found


def ranges(admin: Admin, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionOffsets]:
    """Return the offsets of partitions, with two requests to each leader."""
    from ottla.client.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

    wanted = list(partitions)
    first = admin.list_offsets(dict.fromkeys(wanted, EARLIEST_TIMESTAMP))
    last = admin.list_offsets(dict.fromkeys(wanted, LATEST_TIMESTAMP))
    return {where: PartitionOffsets(first[where].offset, last[where].offset) for where in wanted}


def offsets(admin: Admin, options: argparse.Namespace) -> int:
    partitions = _partitions(admin, options.name)
    found = ranges(admin, partitions)
    names = ["partition", "start", "end", "records"]
    rows: list[tuple[Cell, ...]] = [(where.partition, *found[where], _records(found[where])) for where in partitions]
    if options.at is not None:
        at = admin.list_offsets(dict.fromkeys(partitions, options.at))
        names += ["at", "time", "records from there"]
        rows = [(*row, *_from(at[where], found[where], options)) for row, where in zip(rows, partitions, strict=True)]
    show(names, rows, as_json=options.json)
    return 0


def _partitions(admin: Admin, topic: str) -> list[TopicPartition]:
    from ottla.client.types import TopicPartition

    return [TopicPartition(topic, index) for index in sorted(admin.describe_topics(topic)[topic].partitions)]


def _records(found: PartitionOffsets) -> int:
    """Return the number of offsets. There can be fewer records, because of compaction and transaction markers."""
    return found.end - found.start


def _from(at: OffsetAndTimestamp, found: PartitionOffsets, options: argparse.Namespace) -> tuple[Cell, Cell, Cell]:
    """Return (offset of a record, its time, number of offsets from it on); (None, None, 0) if no record is that recent."""
    if at.offset < 0:
        return None, None, 0
    return at.offset, at.timestamp if options.json else format_time(at.timestamp, utc=options.utc), found.end - at.offset


def trim(admin: Admin, options: argparse.Namespace) -> int:
    """Delete the records before a position, after a confirmation."""
    partitions = [where for where in _partitions(admin, options.name) if options.partition in (None, where.partition)]
    if not partitions:
        return fail(f"Topic {options.name} has no partition {options.partition}: `ottla topic describe` lists them.", MISUSED)
    found = ranges(admin, partitions)
    last = max(each.end for each in found.values())
    if options.before.kind == OFFSET and options.before.value > last:
        whole = options.name if options.partition is None else f"{options.name}-{options.partition}"
        return fail(
            f"Offset {options.before.value} is behind the end of {whole}, {last}: name a lower one, or end for all records."
        )
    before = _targets(admin, options.before, found)
    rows = [(where.partition, found[where].start, before[where], before[where] - found[where].start) for where in partitions]
    count = sum(row[-1] for row in rows)
    if not options.dry_run and count:
        effect = f"This deletes {count} records of topic {options.name}."
        unconfirmed = confirm.refused(options, effect, options.name)
        if unconfirmed is not None:
            return unconfirmed
        admin.delete_records({where: offset for where, offset in before.items() if offset > found[where].start})
    show(("partition", "start before", "start", "would delete" if options.dry_run else "deleted"), rows, as_json=options.json)
    return 0


def _targets(admin: Admin, wanted: SeekTarget, found: Mapping[TopicPartition, PartitionOffsets]) -> dict[TopicPartition, int]:
    """Return the new start offset of each partition, limited to the partition's present offsets."""
    if wanted.kind == TIME:
        at = admin.list_offsets(dict.fromkeys(found, wanted.value))
        return {where: each.end if at[where].offset < 0 else at[where].offset for where, each in found.items()}
    if wanted.kind == END:
        return {where: each.end for where, each in found.items()}
    return {where: min(max(wanted.value, each.start), each.end) for where, each in found.items()}
