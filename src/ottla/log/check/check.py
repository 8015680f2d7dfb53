"""The check of partitions' directories, which changes nothing, and their repair. It uses Kafka's files only.

Derived files (indexes, snapshots, epochs) are rebuilt. Unreadable bytes are moved out of the log into `*.damaged` files, and never
deleted. Valid batches behind them stay. A batch with a wrong leader epoch gets the right one. The caller holds the lock of the data
directory, so that no broker writes to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from ottla.log import checkpoints
from ottla.log.check.changed_epochs import ChangedEpoch, find_changed_epochs, write_noted_epochs
from ottla.log.check.foreign_files import Snapshot, foreign_metadata, foreign_snapshots
from ottla.log.config import LogConfig
from ottla.log.epochs import LeaderEpochs
from ottla.log.log import Log
from ottla.log.names import (
    ABORTED_TRANSACTIONS,
    COMPACTED_SEGMENTS,
    DELETED,
    DELETING,
    FUTURE,
    HOLED_SEGMENTS,
    INDEX,
    JOINED_SEGMENTS,
    KNOWN_GAPS,
    LEADER_EPOCHS,
    LOG,
    MOVES,
    PARTITION_METADATA,
    SNAPSHOT,
    STRAY,
    TIME_INDEX,
    TRANSACTION_INDEX,
    file_name,
    parse_file_name,
)
from ottla.log.producer_state.producers import Producers
from ottla.log.recovery.gaps import note_gaps, read_gaps
from ottla.log.recovery.recovery import NO_TOPIC_ID, changed_epoch, good_batches
from ottla.log.recovery.segment_bounds import gaps_within
from ottla.log.segments import scan
from ottla.log.segments.compacted_note import note_sizes, read_compacted
from ottla.log.segments.index import OFFSET_ENTRY, TIME_ENTRY
from ottla.log.segments.scan import headers
from ottla.log.segments.soundness import ANY_EPOCH, ENDLESS, SEARCHED_BYTES, Bounds, DamagedRange, Place, Walked, find_sound, walk
from ottla.log.sidecars import SidecarFormat
from ottla.ports import Disk, File, Now
from ottla.records.batches.header import HEADER_BYTES

DAMAGED, TORN, DERIVED, LEFTOVER, NOTE, REFUSED = "damaged", "torn", "derived", "leftover", "note", "refused"
"""Kinds of findings, in this order.

Lost records; a tail that was never synced; a file that can be rebuilt; a file that the next start removes; information only; a
format of a newer version.
"""

UNSERVED = "unserved"
"""The kind of a finding about sidecars: the records are complete, but some clients cannot read them."""

NEVER_SYNCED = "It was probably never synced: after a crash, the next start of a broker cuts it off."
FAULTS = (DAMAGED, TORN, DERIVED, REFUSED, UNSERVED)
KEPT = ".damaged"
COPY_BYTES = 1 << 20
ANY_GAPS = LogConfig(cleanup_policy="compact,delete")
"""Settings that allow gaps between offsets, which compaction and former repairs leave."""

OF_A_LOG = (
    ABORTED_TRANSACTIONS,
    COMPACTED_SEGMENTS,
    HOLED_SEGMENTS,
    JOINED_SEGMENTS,
    KNOWN_GAPS,
    LEADER_EPOCHS,
    MOVES,
    PARTITION_METADATA,
)
"""The names of the files that belong to the whole log, not to one segment."""

ABORTED_BYTES = 34
_PARTITION = re.compile(r"(.+)-(\d+)")


class Finding(NamedTuple):
    """A fault found by a check.

    `kind` is a constant such as `DAMAGED`, `path` a file or directory, `position` a byte in it or -1.
    """

    kind: str
    path: str
    position: int
    sentence: str


class Known(NamedTuple):
    """The values about one partition in the broker's checkpoints and registry. `topic_id` is the topic's id, or zeros.

    `was_killed`: the broker's process ended, but the operating system did not crash, so that no written data is lost.
    """

    recovery_point: int = 0
    log_start_offset: int = 0
    was_killed: bool = False
    topic_id: bytes = NO_TOPIC_ID


NOTHING_KNOWN = Known()


class Scanned(NamedTuple):
    """The extent of a partition's valid batches; if `bad`, the first bad byte is at `position` of the segment `base_offset`.

    `resume` is the position of the next valid batch in that segment, or -1.
    """

    end_offset: int
    base_offset: int
    position: int
    bad: bool
    resume: int = -1


class MisplacedBatch(NamedTuple):
    """A batch with a wrong base offset: the log expects `next_offset` there, but the header has `base_offset`."""

    segment_offset: int
    position: int
    size: int
    next_offset: int
    base_offset: int
    last_offset_delta: int


def partitions(disk: Disk, log_dirs: Sequence[str] = ()) -> list[str]:
    """Return the paths of all partition directories in the data directory and in `log_dirs`."""
    return [path for path in _entries(disk, log_dirs) if _PARTITION.fullmatch(_name(path)) and parse_file_name(path) is None]


def _entries(disk: Disk, log_dirs: Sequence[str]) -> Iterator[str]:
    yield from disk.list("")
    for path in log_dirs:
        yield from (f"{path}/{name}" for name in disk.list(path))


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def all_known(disk: Disk) -> dict[str, Known]:
    """Return the checkpointed offsets and epochs of all partitions, by partition directory."""
    recovery_points = checkpoints.read_offsets(disk, checkpoints.RECOVERY_POINTS)
    starts = checkpoints.read_offsets(disk, checkpoints.LOG_START_OFFSETS)
    return {
        f"{topic}-{index}": Known(recovery_points.get((topic, index), 0), starts.get((topic, index), 0))
        for topic, index in recovery_points.keys() | starts.keys()
    }


def load_known(disk: Disk, path: str) -> Known:
    """Return the checkpointed offsets and epochs of the partition in `path`."""
    return all_known(disk).get(_name(path), NOTHING_KNOWN)


def check_directory(disk: Disk, log_dirs: Sequence[str] = ()) -> Iterator[Finding]:
    """Check the data directory itself: its checkpoints, and directories that belong to no partition, there and in `log_dirs`."""
    for name in (checkpoints.RECOVERY_POINTS, checkpoints.LOG_START_OFFSETS, checkpoints.HIGH_WATERMARKS):
        if disk.exists(name) and disk.size(name) and checkpoints.parse_checkpoint(disk.read_file(name)) is None:
            yield Finding(DERIVED, name, -1, "the checkpoint cannot be parsed; a broker rewrites it.")
    for name in _entries(disk, log_dirs):
        if name.endswith(FUTURE):
            yield Finding(LEFTOVER, name, -1, "an unfinished copy in another log directory; the next start of a broker removes it.")
        elif name.endswith(DELETING):
            yield Finding(LEFTOVER, name, -1, "a partition whose topic was deleted; the next start of a broker removes it.")
        elif name.endswith(STRAY):
            yield Finding(NOTE, name, -1, "it belongs to no topic and was set aside; remove it by hand if it is not needed.")


def check_partition(disk: Disk, path: str, known: Known = NOTHING_KNOWN, sidecars: SidecarFormat | None = None) -> list[Finding]:
    """Check one partition's directory, including its sidecars if a format is given. Read every batch and check its CRC-32C."""
    names = disk.list(path)
    newer = _newer_format(disk, path, names)
    if newer is not None:
        return [newer]
    if known.topic_id != NO_TOPIC_ID and PARTITION_METADATA in names:
        sentence = foreign_metadata(disk, path, known.topic_id)
        if sentence:
            return [Finding(REFUSED, f"{path}/{PARTITION_METADATA}", -1, sentence)]
    findings = list(_odd_names(path, names))
    changed = _changed_epochs(disk, path, known)
    findings += [
        Finding(DAMAGED, _log_name(path, each), each.position, changed_epoch(each.leader_epoch, each.noted_epoch))
        for each in changed
    ]
    scanned = _check_segments(disk, path, names, findings)
    is_told = scanned.bad and any((scanned.base_offset, scanned.position) == each[:2] for each in changed)
    if not is_told and (scanned.bad or scanned.end_offset < known.recovery_point):
        findings.append(_damage(path, scanned, known))
    findings += _find_missing(disk, path, names, known)
    moved = None if scanned.bad else _find_misplaced(disk, path, _bases(names), known)
    if moved is not None:
        said = (
            f"this batch says that it begins with offset {moved.base_offset}, though the log goes on from {moved.next_offset} here"
        )
        sentence = f"{said}, and everything below {known.recovery_point} had been synced."
        findings.append(Finding(DAMAGED, f"{path}/{file_name(moved.segment_offset, LOG)}", moved.position, sentence))
    findings += _check_derived(disk, path, names, scanned)
    if not scanned.bad:
        findings += _foreign_snapshots(disk, path, names, scanned.end_offset)
        findings += _sidecar_faults(disk, path, names, sidecars)
    return findings


def _foreign_snapshots(disk: Disk, path: str, names: Sequence[str], end_offset: int) -> Iterator[Finding]:
    offsets = [parsed[0] for parsed in map(parse_file_name, names) if parsed and parsed[1] == SNAPSHOT and parsed[0] <= end_offset]
    decoded = ((offset, Producers.decode(disk.read_file(f"{path}/{file_name(offset, SNAPSHOT)}"))) for offset in offsets)
    whole = [Snapshot(offset, producers) for offset, producers in decoded if producers is not None]
    for offset, sentence in foreign_snapshots(disk, path, _bases(names), whole):
        said = f"{sentence} It belongs to another log, or is older; the producers' state is in the batches."
        yield Finding(DERIVED, f"{path}/{file_name(offset, SNAPSHOT)}", -1, said)


def _sidecar_faults(disk: Disk, path: str, names: Sequence[str], sidecars: SidecarFormat | None) -> Iterator[Finding]:
    if sidecars is None:
        return
    for fault in sidecars.check(disk, path, names):
        if fault.is_torn:
            yield Finding(LEFTOVER, fault.path, fault.position, f"{fault.sentence} {NEVER_SYNCED}")
        else:
            yield Finding(UNSERVED, fault.path, fault.position, f"{fault.sentence} {sidecars.unserved}")


def repair_partition(
    disk: Disk, path: str, now: Now, known: Known = NOTHING_KNOWN, sidecars: SidecarFormat | None = None
) -> list[str]:
    """Repair a partition's directory so that a broker can open it. Return a message for each step. Raises `StorageFailed`.

    At every moment the damaged records are either at their old place, or in a synced copy named `*.damaged`.
    """
    findings = check_partition(disk, path, known, sidecars)
    if any(found.kind == REFUSED for found in findings) or not any(found.kind in FAULTS for found in findings):
        return []
    bases = _bases(disk.list(path))
    done = list(_write_epochs(disk, path, known))
    scanned = _scan(disk, path, bases)
    while scanned.bad and (scanned.resume >= 0 or scanned.base_offset != bases[-1]):
        done.append(_cut_out(disk, path, scanned))
        scanned = _scan(disk, path, bases)
    done += _write_epochs(disk, path, known)  # the bad bytes may have hidden batches with wrong epochs
    if scanned.bad:
        done += _cut(disk, path, scanned, known)
    elif (moved := _find_misplaced(disk, path, bases, known)) is not None:
        done.append(_move_back(disk, path, moved, known))
        scanned = _scan(disk, path, bases)
    gaps = list(_gaps(disk, path, bases))
    note_gaps(disk, path, [(first, after) for _, first, after in gaps])
    done += [f"{path}: offsets {first} to {after - 1} are lost." for _, first, after in gaps]
    done += _accept_within(disk, path, bases, known)
    if scanned.end_offset < known.recovery_point:
        _lower(disk, path, scanned.end_offset)
        done.append(f"{path}: the log ends with offset {scanned.end_offset} now.")
    for found in findings:
        if found.kind == DERIVED:
            if disk.exists(found.path):
                disk.remove(found.path)
            done.append(f"{found.path}: rebuilt.")
    compacted = f"{path}/{COMPACTED_SEGMENTS}"
    was_there = disk.exists(compacted)
    log = Log.open(disk, path, ANY_GAPS, now, log_start_offset=known.log_start_offset, sidecars=sidecars)
    log.close()
    if not was_there and disk.exists(compacted):
        disk.remove(compacted)  # the caller did not say whether the topic is compacted
    return [*done, *_repair_sidecars(disk, path, sidecars)]


def _repair_sidecars(disk: Disk, path: str, sidecars: SidecarFormat | None) -> Iterator[str]:
    names = disk.list(path)
    if sidecars is not None and any(not fault.is_torn for fault in sidecars.check(disk, path, names)):
        yield sidecars.renew(disk, path, names)


def log_end(disk: Disk, path: str, known: Known) -> int:
    """Return the offset after the last valid batch of a partition's own files, at least the start of its log."""
    return max(_scan(disk, path, _bases(disk.list(path))[-1:]).end_offset, known.log_start_offset)


def keep_copy(disk: Disk, name: str) -> str:
    """Copy a file, durably, to an unused name that ends in `.damaged`, and return this name."""
    return _copy(disk, name, 0, disk.size(name))


def _newer_format(disk: Disk, path: str, names: Sequence[str]) -> Finding | None:
    if PARTITION_METADATA in names:
        text = disk.read_file(f"{path}/{PARTITION_METADATA}").decode(errors="replace")
        found = re.search(r"^version:\s*(\d+)", text, re.MULTILINE)
        if found and int(found[1]) > 0:
            sentence = f"the partition has format {found[1]}, newer than 0: use the newer version that wrote it."
            return Finding(REFUSED, f"{path}/{PARTITION_METADATA}", -1, sentence)
    return None


def _odd_names(path: str, names: Sequence[str]) -> Iterator[Finding]:
    bases = _bases(names)
    for name in names:
        parsed = parse_file_name(name)
        if name.endswith(KEPT):
            yield Finding(NOTE, f"{path}/{name}", -1, "records that a repair cut out; remove it by hand if it is not needed.")
        elif name.endswith((DELETED, ".tmp", ".cleaned", ".swap")):
            yield Finding(
                LEFTOVER, f"{path}/{name}", -1, "an unfinished creation or deletion; the next start of a broker finishes it."
            )
        elif parsed is None and name not in OF_A_LOG:
            yield Finding(NOTE, f"{path}/{name}", -1, "not a file of a log; it is ignored.")
        elif parsed and parsed[1] in (INDEX, TIME_INDEX, TRANSACTION_INDEX) and parsed[0] not in bases:
            yield Finding(LEFTOVER, f"{path}/{name}", -1, "an index without its segment; the next start of a broker removes it.")


def _bases(names: Sequence[str]) -> list[int]:
    return [parsed[0] for parsed in map(parse_file_name, names) if parsed and parsed[1] == LOG]


def _scan(disk: Disk, path: str, bases: Sequence[int]) -> Scanned:
    """Read every batch, up to the first bad one."""
    scanned = Scanned(bases[0] if bases else 0, bases[0] if bases else 0, 0, False)
    for base_offset, after in pairwise([*bases, ENDLESS]):
        scanned = _scan_segment(disk, path, base_offset, after)
        if scanned.bad:
            return scanned
    return scanned


def _scan_segment(disk: Disk, path: str, base_offset: int, until_offset: int) -> Scanned:
    file = disk.open(f"{path}/{file_name(base_offset, LOG)}")
    bounds = Bounds(until_offset, ANY_EPOCH)
    walked = Walked(0, base_offset)
    while walked.bad is None and walked.position < file.size:
        walked = walk(file, Place(walked.position, walked.next_offset), file.size, file.size, bounds)
    resume = _find_behind(file, walked, bounds) if walked.bad is not None else -1
    file.close()
    return Scanned(walked.next_offset, base_offset, walked.position, walked.bad is not None, resume)


def _find_behind(file: File, walked: Walked, bounds: Bounds) -> int:
    """Return the byte position of the next valid batch after the bad batch in `walked`, or -1 if there is none."""
    for position in range(walked.position, file.size, SEARCHED_BYTES - HEADER_BYTES):
        found = find_sound(file, position, file.size, walked.next_offset, bounds)
        if found is not None:
            return found.position
    return -1


def _changed_epochs(disk: Disk, path: str, known: Known) -> list[ChangedEpoch]:
    return find_changed_epochs(disk, path, _bases(disk.list(path)), known.recovery_point, was_killed=known.was_killed)


def _log_name(path: str, changed: ChangedEpoch) -> str:
    return f"{path}/{file_name(changed.segment_offset, LOG)}"


def _write_epochs(disk: Disk, path: str, known: Known) -> Iterator[str]:
    """Write the checkpoint's leader epochs into batches with other epochs. Yield a message for each segment."""
    while changed := _changed_epochs(disk, path, known):
        for segment_offset in sorted({each.segment_offset for each in changed}):
            ours = [each for each in changed if each.segment_offset == segment_offset]
            name = _log_name(path, ours[0])
            kept = _free(disk, name)
            _copy_parts(disk, name, kept, [(each.position, each.position + each.size) for each in ours])
            write_noted_epochs(disk, path, segment_offset, ours)
            noted = f"the leader epoch again that {LEADER_EPOCHS} says"
            yield f"{name}: {len(ours)} of its batches got {noted}; what they were is kept as {kept}."


def _gaps(disk: Disk, path: str, bases: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yield (base offset, first missing offset, base offset of the next segment) of each gap between segments."""
    known = read_gaps(disk, path)
    for base_offset, after in pairwise(bases):
        scanned = _scan_segment(disk, path, base_offset, after)
        if not scanned.bad and scanned.end_offset < after and (scanned.end_offset, after) not in known:
            yield base_offset, scanned.end_offset, after


def _find_missing(disk: Disk, path: str, names: Sequence[str], known: Known) -> Iterator[Finding]:
    """Yield a finding for each place where offsets are missing: before the first segment, within segments and between them."""
    bases = _bases(names)
    epochs = LeaderEpochs.decode(disk.read_file(f"{path}/{LEADER_EPOCHS}")) if LEADER_EPOCHS in names else None
    is_known = known.recovery_point > 0 and epochs is not None and bool(epochs.entries)
    begins = max(known.log_start_offset, epochs.entries[0][1]) if epochs is not None and is_known else 0
    if is_known and bases and begins < bases[0] and not any(name.endswith(LOG + DELETED) for name in names):
        sentence = f"the log begins with offset {begins}: everything before this segment is missing."
        yield Finding(DAMAGED, f"{path}/{file_name(bases[0], LOG)}", 0, sentence)
    yield from _missing_within(disk, path, bases, known)
    for base_offset, first, after in _gaps(disk, path, bases):
        name = f"{path}/{file_name(base_offset, LOG)}"
        yield Finding(
            DAMAGED, name, disk.size(name), f"offsets {first} to {after - 1} are missing between this segment and the next."
        )


def _find_misplaced(disk: Disk, path: str, bases: Sequence[int], known: Known) -> MisplacedBatch | None:
    """Find the first batch after the recovery point in the newest segment. Return it if offsets before it are missing, else None.

    No CRC covers a base offset, and compaction leaves no gaps in the newest segment. A known gap does not count as missing offsets.
    """
    if not bases:
        return None
    next_offset = bases[-1]
    file = disk.open(f"{path}/{file_name(next_offset, LOG)}")
    for position, header in headers(file, 0, file.size):
        if next_offset < known.recovery_point <= header.base_offset:
            gap = next_offset, header.base_offset
            return (
                None
                if gap in read_gaps(disk, path)
                else MisplacedBatch(bases[-1], position, header.size, *gap, header.last_offset_delta)
            )
        next_offset = header.next_offset
    return None


def _move_back(disk: Disk, path: str, moved: MisplacedBatch, known: Known) -> str:
    """Restore the base offset of a misplaced batch if the batch then ends at the recovery point.

    Otherwise cut off the log before it.
    """
    segment_offset, position, size, next_offset, _, delta = moved
    name = f"{path}/{file_name(segment_offset, LOG)}"
    if next_offset + delta + 1 != known.recovery_point:
        return " ".join(_cut(disk, path, Scanned(next_offset, segment_offset, position, True), known))
    kept = _copy(disk, name, position, position + size)
    file = disk.open(name)
    file.write(position, next_offset.to_bytes(8, "big"))
    file.sync()
    file.close()
    return f"{name}: the batch at byte {position} begins with offset {next_offset} again; what it was is kept as {kept}."


def _within(disk: Disk, path: str, bases: Sequence[int], known: Known) -> Iterator[tuple[int, int, DamagedRange, bool]]:
    """Yield (base offset, size, missing range, whether compaction wrote the segment) for each range that a segment lacks."""
    compacted, gaps = read_compacted(disk, path), read_gaps(disk, path)
    if compacted is None and not known.recovery_point:
        return  # another tool may have compacted it
    for base_offset, after in pairwise([*bases, ENDLESS]):
        file = disk.open(f"{path}/{file_name(base_offset, LOG)}")
        is_compacted = any(base == base_offset for base, _ in compacted or ())
        if (base_offset, file.size) not in (compacted or ()):
            for found in gaps_within(file, file.size, base_offset, after):
                leads_on = (
                    base_offset == bases[-1] and found.first_offset < known.recovery_point <= found.end_offset
                )  # not missing: only the next batch's base offset is wrong, and `_find_misplaced` finds it
                if not leads_on and (found.first_offset, found.end_offset) not in gaps:
                    yield base_offset, file.size, found, is_compacted
        file.close()


def _missing_within(disk: Disk, path: str, bases: Sequence[int], known: Known) -> Iterator[Finding]:
    told = -1
    for base_offset, _, found, is_compacted in _within(disk, path, bases, known):
        name = f"{path}/{file_name(base_offset, LOG)}"
        if not is_compacted:
            sentence = f"batches are gone: offsets {found.first_offset} to {found.end_offset - 1} are missing."
            yield Finding(DAMAGED, name, found.position, sentence)
        elif base_offset != told:
            told = base_offset
            yield Finding(DAMAGED, name, 0, "it is not as large as compaction wrote it: some of its records are missing.")


def _accept_within(disk: Disk, path: str, bases: Sequence[int], known: Known) -> Iterator[str]:
    """Record the missing offset ranges within segments as accepted, so that the log opens. Yield a message for each range."""
    found = list(_within(disk, path, bases, known))
    note_gaps(disk, path, [(gap.first_offset, gap.end_offset) for _, _, gap, is_compacted in found if not is_compacted])
    sizes = {(base_offset, size) for base_offset, size, _, is_compacted in found if is_compacted}
    if sizes:
        note_sizes(disk, path, sizes)
    for base_offset, _ in sorted(sizes):
        yield f"{path}/{file_name(base_offset, LOG)}: its missing records are lost."
    for _, _, gap, is_compacted in found:
        if not is_compacted:
            yield f"{path}: offsets {gap.first_offset} to {gap.end_offset - 1} are lost."


def _check_segments(disk: Disk, path: str, names: Sequence[str], findings: list[Finding]) -> Scanned:
    """Read every batch, compare offset indexes with them, and add `findings`. Return the extent of the valid batches."""
    bases = _bases(names)
    scanned = _scan(disk, path, bases)
    for base_offset in bases:
        if base_offset > scanned.base_offset or (scanned.bad and base_offset == scanned.base_offset):
            break
        findings += _check_indexes(disk, path, base_offset, names)
    return scanned


def _check_indexes(disk: Disk, path: str, base_offset: int, names: Sequence[str]) -> Iterator[Finding]:
    log_name = f"{path}/{file_name(base_offset, LOG)}"
    for suffix, entry in ((INDEX, OFFSET_ENTRY), (TIME_INDEX, TIME_ENTRY)):
        name = file_name(base_offset, suffix)
        if name not in names:
            continue  # an active segment has none until it needs one, and any other is rebuilt when it is missing
        data = disk.read_file(f"{path}/{name}")
        entries = list(entry.iter_unpack(data[: len(data) // entry.size * entry.size]))
        while entries and entries[-1] == (0, 0):
            entries.pop()  # space preallocated by Apache Kafka
        is_growing = all(before[0] < after[0] and before[1] <= after[1] for before, after in pairwise(entries))
        if len(data) % entry.size or not is_growing:
            yield Finding(DERIVED, f"{path}/{name}", -1, "the index is incomplete; it can be rebuilt.")
        elif suffix == INDEX and not _points_at_batches(disk, log_name, base_offset, entries):
            yield Finding(DERIVED, f"{path}/{name}", -1, "the index does not point to batches; it can be rebuilt.")


def _points_at_batches(disk: Disk, log_name: str, base_offset: int, entries: Sequence[tuple[int, ...]]) -> bool:
    file = disk.open(log_name)
    wanted = {position: relative for relative, position in entries}
    for position, header in good_batches(file, 0, file.size, base_offset):
        relative = wanted.pop(position, None)
        if relative is not None and header.last_offset - base_offset != relative:
            return False
    return not wanted


def _damage(path: str, scanned: Scanned, known: Known) -> Finding:
    name = f"{path}/{file_name(scanned.base_offset, LOG)}"
    if scanned.end_offset >= known.recovery_point:
        sentence = f"no whole batch begins here; what follows offset {scanned.end_offset} was probably never synced."
        return Finding(TORN, name, scanned.position, sentence)
    sentence = (
        f"no whole batch with the right CRC-32C begins here, though everything below offset {known.recovery_point} had been synced."
    )
    return Finding(DAMAGED, name, scanned.position, sentence)


def _check_derived(disk: Disk, path: str, names: Sequence[str], scanned: Scanned) -> Iterator[Finding]:
    """Yield a finding for each producer snapshot, index of aborted transactions and epoch checkpoint that is unusable."""
    for name in names:
        parsed = parse_file_name(name)
        if parsed and parsed[1] == SNAPSHOT and Producers.decode(disk.read_file(f"{path}/{name}")) is None:
            yield Finding(DERIVED, f"{path}/{name}", -1, "the producers' state is incomplete; it is replayed from the log.")
        elif parsed and parsed[1] == SNAPSHOT and parsed[0] > scanned.end_offset and not scanned.bad:
            yield Finding(DERIVED, f"{path}/{name}", -1, "it contains records beyond the end of the log.")
        elif parsed and parsed[1] == TRANSACTION_INDEX and disk.size(f"{path}/{name}") % ABORTED_BYTES:
            yield Finding(DERIVED, f"{path}/{name}", -1, "the index of aborted transactions is incomplete; it can be rebuilt.")
    if LEADER_EPOCHS in names and LeaderEpochs.decode(disk.read_file(f"{path}/{LEADER_EPOCHS}")) is None:
        yield Finding(DERIVED, f"{path}/{LEADER_EPOCHS}", -1, "the leader epochs cannot be parsed; they are in the batches.")


def _cut_out(disk: Disk, path: str, scanned: Scanned) -> str:
    """Remove the bad bytes from a segment: copy them to another file, then join the valid parts before and behind them."""
    name = f"{path}/{file_name(scanned.base_offset, LOG)}"
    size = disk.size(name)
    resume = scanned.resume if scanned.resume >= 0 else size
    if resume < size:
        note_gaps(disk, path, [(scanned.end_offset, scan.base_offset(disk.open(name), resume))])
    kept = _copy(disk, name, scanned.position, resume)
    sound = f"{name}.tmp"
    if disk.exists(sound):
        disk.remove(sound)
    _copy_parts(disk, name, sound, [(0, scanned.position), (resume, size)])
    for suffix in (INDEX, TIME_INDEX, TRANSACTION_INDEX):
        if disk.exists(f"{path}/{file_name(scanned.base_offset, suffix)}"):
            disk.remove(f"{path}/{file_name(scanned.base_offset, suffix)}")
    disk.rename(sound, name)
    return f"{name}: {resume - scanned.position} bytes from byte {scanned.position} on were cut out and are kept as {kept}."


def _cut(disk: Disk, path: str, scanned: Scanned, known: Known) -> list[str]:
    """Cut off the newest segment at the first bad byte. Before that, copy the removed bytes and lower the checkpoints."""
    name = f"{path}/{file_name(scanned.base_offset, LOG)}"
    size = disk.size(name) - scanned.position
    kept = _copy(disk, name, scanned.position, disk.size(name))
    if scanned.end_offset < known.recovery_point:
        _lower(disk, path, scanned.end_offset)
    file = disk.open(name)
    file.truncate(scanned.position)
    file.sync()
    file.close()
    return [f"{name}: {size} bytes from byte {scanned.position} on were cut off and are kept as {kept}."]


def _copy(disk: Disk, name: str, position: int, end: int) -> str:
    """Copy a part of a file, durably, to a new name."""
    kept = _free(disk, name)
    _copy_parts(disk, name, kept, [(position, end)])
    return kept


def _copy_parts(disk: Disk, name: str, to: str, parts: Sequence[tuple[int, int]]) -> None:
    """Write `parts` of a file, each (position, end), durably to the new file `to`."""
    source, target = disk.open(name), disk.open(to, create=True)
    for position, end in parts:
        for at in range(position, end, COPY_BYTES):
            target.append([source.read(at, min(COPY_BYTES, end - at))])
    target.sync()
    target.close()
    source.close()
    disk.sync_dir(to.rpartition("/")[0])


def _free(disk: Disk, name: str) -> str:
    """Return an unused file name for a copy of damaged bytes: `name` with a suffix that ends in `.damaged`."""
    kept, number = name + KEPT, 1
    while disk.exists(kept):
        number += 1
        kept = f"{name}.{number}{KEPT}"
    return kept


def _lower(disk: Disk, path: str, offset: int) -> None:
    """Lower the recovery point and the high watermark of a partition to `offset`, the new end of its log."""
    found = _PARTITION.fullmatch(_name(path))
    if found is None:
        return
    key = (found[1], int(found[2]))
    for name in (checkpoints.RECOVERY_POINTS, checkpoints.HIGH_WATERMARKS):
        offsets = checkpoints.read_offsets(disk, name)
        if offsets.get(key, 0) > offset:
            offsets[key] = offset
            checkpoints.write_offsets(disk, name, offsets)
