"""The committed offsets of groups in files: `ottla group offsets export`, `import` and `delete`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.cli.command import confirm
from ottla.cli.command.files import MOST_BYTES, read_text
from ottla.cli.command.output import show
from ottla.cli.group import seek
from ottla.cli.group.lag import SHARE, describe_existing
from ottla.cli.group.offset_files import OffsetRow, csv_text, json_text, parse_offsets
from ottla.cli.group.share_seek import delete_start_offsets
from ottla.errors import KafkaError

if TYPE_CHECKING:
    from ottla.client.types import OffsetAndMetadata, TopicPartition
    from ottla.net.client.admin.admin import Admin

STANDARD = "-"
"""The name of a file that means standard input or output."""


def export(admin: Admin, options: argparse.Namespace) -> int:
    """Write the committed offsets of groups to a file or standard output."""
    names = list(dict.fromkeys((options.group, *options.also)))
    describe_existing(admin, names)
    found = {name: seek.chosen(offsets, options.topic) for name, offsets in admin.list_offsets_of_groups(*names).items()}
    rows = [
        OffsetRow(name, *where, offset.offset, offset.metadata, offset.leader_epoch)
        for name, offsets in found.items()
        for where, offset in sorted(offsets.items())
    ]
    if not rows:
        raise KafkaError(
            f"There are no committed offsets of {', '.join(names)} to export: `ottla group lag` prints those of groups."
        )
    text = json_text(rows) if options.json else csv_text(rows, groups=len(names) > 1)
    if options.file == STANDARD:
        print(text, end="", flush=True)
    else:
        _write(Path(options.file), text)
        print(f"ottla: wrote {len(rows)} offsets to {options.file}.", file=sys.stderr)
    return 0


def _write(path: Path, text: str) -> None:
    """Write a file; a crash leaves the old file or the new one. Raises `KafkaError`."""
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        if path.exists() and not path.is_file():  # such as /dev/stdout, or a pipe
            path.write_text(text, encoding="utf-8")
            return
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise KafkaError(f"Cannot write {path}: {error.strerror}; name another file.") from None


def import_offsets(admin: Admin, options: argparse.Namespace) -> int:
    """Commit the offsets of a file for groups without members."""
    from ottla.client.types import OffsetAndMetadata, TopicPartition

    source = "Standard input" if options.file == STANDARD else options.file
    rows = parse_offsets(_read(options.file), source)
    if rows[0].group is None and options.group is None:
        raise KafkaError(f"{source} names no groups: name one before the file.")
    wanted: dict[str, dict[TopicPartition, OffsetAndMetadata]] = {}
    for row in rows:
        group = row.group or options.group
        if options.group in (None, group):
            offset = OffsetAndMetadata(row.offset, row.metadata, row.leader_epoch)
            wanted.setdefault(group, {})[TopicPartition(row.topic, row.partition)] = offset
    if not wanted:
        raise KafkaError(
            f"{source} has no offsets of group {options.group}: it is for {', '.join(sorted({str(row.group) for row in rows}))}."
        )
    seek.check_vacant(admin.describe_groups(*wanted).values())
    seek.change(admin, wanted, options)
    return 0


def _read(name: str) -> str:
    if name != STANDARD:
        return read_text(name, "a file of offsets", KafkaError)
    try:
        text = sys.stdin.read(MOST_BYTES + 1) if sys.stdin is not None else ""
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise KafkaError(f"Cannot read standard input: {reason}; name a file of offsets.") from None
    if len(text) > MOST_BYTES:  # a last line that is cut off would be another offset
        raise KafkaError(f"Cannot read standard input: it has more than {MOST_BYTES} characters; name a file of offsets.")
    return text


def delete(admin: Admin, options: argparse.Namespace) -> int:
    """Delete committed offsets of a group, or the start offsets of a share group, after a confirmation."""
    if describe_existing(admin, [options.group])[options.group].group_type == SHARE:
        return delete_start_offsets(admin, options)
    found = seek.chosen(admin.list_group_offsets(options.group), options.topic)
    if not found:
        topics = ", ".join(each.topic for each in options.topic)
        raise KafkaError(
            f"Group {options.group} has no committed offsets of {topics}: `ottla group lag {options.group}` prints them."
        )
    if not options.dry_run:
        effect = f"This deletes {len(found)} committed offsets of group {options.group}."
        unconfirmed = confirm.refused(options, effect, options.group)
        if unconfirmed is not None:
            return unconfirmed
        admin.delete_group_offsets(options.group, found)
    rows = [(options.group, *where, offset.offset) for where, offset in sorted(found.items())]
    name = "would be deleted" if options.dry_run else "deleted"
    show(("group", "topic", "partition", name), rows, as_json=options.json)
    return 0
