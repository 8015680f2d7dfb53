"""The check of journals: what the next start of a broker appends to partitions' logs, and what is lost. The repair accepts losses.

A partition with more in the journal than in its own log is normal after a kill or a power cut. Damage of the journal is a loss only
if the partition's own files lack the records.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ottla.log.check.extents import log_end
from ottla.log.check.findings import ANY_GAPS, DAMAGED, NOTE, NOTHING_KNOWN, Finding, Known
from ottla.log.check.foreign_files import metadata_topic_id
from ottla.log.check.repairs import keep_copy
from ottla.log.journal.contents import NONE_LOST, Contents, Damage, begin_anew, drop_mark, has_mark, read_journal
from ottla.log.journal.format import JOURNAL, PLACES, Key
from ottla.log.journal.kept_file import drop_kept, keep_unapplied
from ottla.log.journal.replay import replay
from ottla.log.journal.saved_entries import SavedEntry
from ottla.log.log import Log
from ottla.log.name_places import joined
from ottla.log.names import COMPACTED_SEGMENTS
from ottla.log.recovery.gaps import note_gaps
from ottla.ports import Disk, Now


@dataclass(slots=True)
class PartitionRest:
    """The journals' content for a partition: entries beyond the `end_offset` of its own files, and damage.

    `path` is the partition's directory, or "" if no directory has the topic's id. `loss` says which acknowledged records are lost.
    """

    key: Key
    path: str = ""
    end_offset: int = 0
    entries: list[SavedEntry] = field(default_factory=list)
    damage: Damage | None = None
    loss: str = ""


@dataclass(slots=True)
class JournalReport:
    """The journals of a data directory and its other log directories, compared with the partitions' own files."""

    contents: Mapping[str, Contents]
    rests: Sequence[PartitionRest]


def read_journals(
    disk: Disk, log_dirs: Sequence[str], paths: Mapping[str, str], known: Mapping[str, Known], topic_ids: Mapping[str, bytes]
) -> JournalReport:
    """Read all journals. Raises `StorageFailed`.

    `paths` are the partitions' directories, and `topic_ids` the topic ids in the registry, both by the partition's name.
    """
    directories = [joined(path, JOURNAL) for path in ("", *log_dirs)]
    found = {
        directory: read_journal(disk, directory) for directory in directories if disk.list(directory) or has_mark(disk, directory)
    }
    keys = {key for contents in found.values() for key in (*contents.entries, *contents.damaged)}
    rests = {key: PartitionRest(key) for key in sorted(keys)}
    for name, path in paths.items() if rests else ():
        topic_id = topic_ids.get(name) or metadata_topic_id(disk, path)
        rest = rests.get(Key(topic_id, int(name.rpartition("-")[2]))) if topic_id is not None else None
        if rest is not None:
            rest.path, rest.end_offset = path, log_end(disk, path, known.get(name, NOTHING_KNOWN))
    for rest in rests.values():
        _compare(rest, list(found.values()))
    return JournalReport(found, [rest for rest in rests.values() if rest.entries or rest.loss])


def _compare(rest: PartitionRest, found: Sequence[Contents]) -> None:
    """Set the entries beyond the end of the partition's own files, and what is lost."""
    key, end = rest.key, rest.end_offset
    saved = [entry for contents in found if key in contents.entries for entry in contents.entries[key].beyond(end)]
    saved.sort(key=lambda entry: entry.base_offset)
    damages = [contents.damaged[key] for contents in found if key in contents.damaged]
    rest.entries, rest.damage = saved, max(damages, default=None)
    if not rest.path:
        return
    for entry in saved:
        if entry.base_offset > end and not rest.loss:
            missing = f"the journal continues at offset {entry.base_offset}, and the records from offset {end} on are missing."
            rest.loss = rest.damage.sentence if rest.damage else missing
        end = max(end, entry.next_offset)
    if rest.damage is not None and end < rest.damage.next_offset:
        rest.loss = rest.loss or rest.damage.sentence


def find_in_journals(report: JournalReport, path: str | None = None, *, was_killed: bool = False) -> Iterator[Finding]:
    """Yield findings: entries that the next start of a broker appends, and losses; of the partition in `path`, or of all.

    If the last broker `was_killed`, the partitions' own files have everything that it wrote, so that a missing file is no loss.
    """
    rests = [rest for rest in report.rests if path in (None, rest.path)]
    for directory, contents in report.contents.items() if path is None else ():
        if contents.unattributed and was_killed and not contents.is_kept_damaged:
            yield Finding(NOTE, directory, -1, f"{contents.unattributed} {NONE_LOST}")
        elif contents.unattributed:
            yield Finding(DAMAGED, directory, -1, contents.unattributed)
        if contents.torn:
            yield Finding(NOTE, directory, -1, f"{contents.torn} It was never acknowledged.")
        if rests:
            size = f"{contents.blocks} blocks with {contents.block_bytes} bytes"
            yield Finding(NOTE, directory, -1, f"the next start of a broker reads {size}, which it has to compare with the logs.")
    for rest in rests:
        if not rest.path:
            yield Finding(NOTE, JOURNAL, -1, f"it has records of {_name(rest.key)}, which has no directory.")
        elif rest.loss:
            yield Finding(DAMAGED, rest.path, -1, rest.loss)
        else:
            offsets = f"offsets {rest.end_offset} to {rest.entries[-1].next_offset - 1}"
            sentence = f"{offsets} are in the journal only; the next start of a broker appends them to this log."
            yield Finding(NOTE, rest.path, -1, sentence)


def _name(key: Key) -> str:
    return f"partition {key.partition} of the topic with id {urlsafe_b64encode(key.topic_id).decode().rstrip('=')}"


def accept_losses(
    disk: Disk, report: JournalReport, now: Now, known: Mapping[str, Known], path: str | None = None
) -> Iterator[str]:
    """Append the journals' entries to each log with a loss, and begin new journals. Yield a message for each step.

    The journals' files are kept as copies. Only the partition in `path` is repaired, if there is one. Raises `StorageFailed`.
    """
    lost = [rest for rest in report.rests if rest.loss and path in (None, rest.path)]
    if not lost and not (path is None and any(contents.unattributed for contents in report.contents.values())):
        return
    for directory in report.contents:
        for name in (f"{directory}/{each}" for each in PLACES):
            if disk.exists(name):
                yield f"{name}: it is kept as {keep_copy(disk, name)}."
    for rest in lost:
        yield from _append_rest(disk, rest, now, known)
    others = [rest for rest in report.rests if rest not in lost]
    kept = {rest.key: rest.entries for rest in others if rest.entries}
    keep_unapplied(disk, JOURNAL, kept, {rest.key: rest.damage for rest in others if rest.damage is not None and rest.loss})
    for directory, contents in report.contents.items():
        begin_anew(disk, directory, contents.incarnation + 1)
        drop_mark(disk, directory)
        if directory != JOURNAL:
            drop_kept(disk, directory)


def _append_rest(disk: Disk, rest: PartitionRest, now: Now, known: Mapping[str, Known]) -> Iterator[str]:
    """Append a partition's entries to its log, and note the offsets between them that are lost."""
    path, end, gaps = rest.path, rest.end_offset, []
    for entry in rest.entries:
        if entry.base_offset > end:
            gaps.append((end, entry.base_offset))
        end = max(end, entry.next_offset)
    compacted = f"{path}/{COMPACTED_SEGMENTS}"
    was_there = disk.exists(compacted)
    start = known.get(path.rpartition("/")[2], NOTHING_KNOWN).log_start_offset
    log = Log.open(disk, path, ANY_GAPS, now, log_start_offset=start)
    replay(log, rest.entries, now, accepts_losses=True)
    log.close()
    note_gaps(disk, path, gaps)
    if not was_there and not gaps and disk.exists(compacted):
        disk.remove(compacted)  # the caller did not say whether the topic is compacted
    for first, after in gaps:
        yield f"{path}: offsets {first} to {after - 1} are lost."
    if rest.damage is not None and end < rest.damage.next_offset:
        yield f"{path}: offsets {end} to {rest.damage.next_offset - 1} are lost."
