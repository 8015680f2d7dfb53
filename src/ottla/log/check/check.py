"""The check of partitions' directories, which changes nothing.

The caller holds the lock of the data directory, so that no broker writes to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from ottla.log import checkpoints
from ottla.log.check.extents import (
    Scanned,
    base_offsets,
    epochs_to_restore,
    find_misplaced,
    gaps_between,
    key_of,
    missing_within,
    scan_batches,
    segment_path,
)
from ottla.log.check.findings import (
    DAMAGED,
    DAMAGED_COPY,
    DERIVED,
    LEFTOVER,
    NEVER_SYNCED,
    NOTE,
    NOTHING_KNOWN,
    REFUSED,
    TORN,
    UNSERVED,
    Finding,
    Known,
)
from ottla.log.check.foreign_files import Snapshot, foreign_metadata, foreign_snapshots
from ottla.log.epochs import LeaderEpochs
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
from ottla.log.partition_metadata import NO_TOPIC_ID, newer_version, parse_metadata
from ottla.log.producer_state.producers import Producers
from ottla.log.recovery.recovery import changed_epoch, good_batches
from ottla.log.segments.index import OFFSET_ENTRY, TIME_ENTRY
from ottla.log.segments.transaction_index import ENTRY as ABORTED_ENTRY
from ottla.log.sidecars import SidecarFormat
from ottla.ports import Disk

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


def partitions(disk: Disk, log_dirs: Sequence[str] = ()) -> list[str]:
    """Return the paths of all partition directories in the data directory and in `log_dirs`."""
    return [path for path in _entries(disk, log_dirs) if key_of(path) is not None and parse_file_name(path) is None]


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
    changed = epochs_to_restore(disk, path, known)
    findings += [
        Finding(DAMAGED, segment_path(path, each), each.position, changed_epoch(each.leader_epoch, each.noted_epoch))
        for each in changed
    ]
    scanned = _check_segments(disk, path, names, findings)
    is_reported = scanned.bad and any((scanned.base_offset, scanned.position) == each[:2] for each in changed)
    if not is_reported and (scanned.bad or scanned.end_offset < known.recovery_point):
        findings.append(_damage(path, scanned, known))
    findings += _find_missing(disk, path, names, known)
    moved = None if scanned.bad else find_misplaced(disk, path, base_offsets(names), known)
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
    for offset, sentence in foreign_snapshots(disk, path, base_offsets(names), whole):
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


def _newer_format(disk: Disk, path: str, names: Sequence[str]) -> Finding | None:
    name = f"{path}/{PARTITION_METADATA}"
    sentence = newer_version(parse_metadata(disk.read_file(name))) if PARTITION_METADATA in names else ""
    return Finding(REFUSED, name, -1, sentence) if sentence else None


def _odd_names(path: str, names: Sequence[str]) -> Iterator[Finding]:
    bases = base_offsets(names)
    for name in names:
        parsed = parse_file_name(name)
        if name.endswith(DAMAGED_COPY):
            yield Finding(NOTE, f"{path}/{name}", -1, "records that a repair cut out; remove it by hand if it is not needed.")
        elif name.endswith((DELETED, ".tmp", ".cleaned", ".swap")):
            yield Finding(
                LEFTOVER, f"{path}/{name}", -1, "an unfinished creation or deletion; the next start of a broker finishes it."
            )
        elif parsed is None and name not in OF_A_LOG:
            yield Finding(NOTE, f"{path}/{name}", -1, "not a file of a log; it is ignored.")
        elif parsed and parsed[1] in (INDEX, TIME_INDEX, TRANSACTION_INDEX) and parsed[0] not in bases:
            yield Finding(LEFTOVER, f"{path}/{name}", -1, "an index without its segment; the next start of a broker removes it.")


def _find_missing(disk: Disk, path: str, names: Sequence[str], known: Known) -> Iterator[Finding]:
    """Yield a finding for each place where offsets are missing: before the first segment, within segments and between them."""
    bases = base_offsets(names)
    epochs = LeaderEpochs.decode(disk.read_file(f"{path}/{LEADER_EPOCHS}")) if LEADER_EPOCHS in names else None
    is_known = known.recovery_point > 0 and epochs is not None and bool(epochs.entries)
    begins = max(known.log_start_offset, epochs.entries[0][1]) if epochs is not None and is_known else 0
    if is_known and bases and begins < bases[0] and not any(name.endswith(LOG + DELETED) for name in names):
        sentence = f"the log begins with offset {begins}: everything before this segment is missing."
        yield Finding(DAMAGED, f"{path}/{file_name(bases[0], LOG)}", 0, sentence)
    yield from _find_missing_within(disk, path, bases, known)
    for base_offset, first, after in gaps_between(disk, path, bases):
        name = f"{path}/{file_name(base_offset, LOG)}"
        yield Finding(
            DAMAGED, name, disk.size(name), f"offsets {first} to {after - 1} are missing between this segment and the next."
        )


def _find_missing_within(disk: Disk, path: str, bases: Sequence[int], known: Known) -> Iterator[Finding]:
    reported = -1
    for base_offset, _, found, is_compacted in missing_within(disk, path, bases, known):
        name = f"{path}/{file_name(base_offset, LOG)}"
        if not is_compacted:
            sentence = f"batches are gone: offsets {found.first_offset} to {found.end_offset - 1} are missing."
            yield Finding(DAMAGED, name, found.position, sentence)
        elif base_offset != reported:
            reported = base_offset
            yield Finding(DAMAGED, name, 0, "it is not as large as compaction wrote it: some of its records are missing.")


def _check_segments(disk: Disk, path: str, names: Sequence[str], findings: list[Finding]) -> Scanned:
    """Read every batch, compare offset indexes with them, and add `findings`. Return the extent of the valid batches."""
    bases = base_offsets(names)
    scanned = scan_batches(disk, path, bases)
    for base_offset in bases:
        if base_offset > scanned.base_offset or (scanned.bad and base_offset == scanned.base_offset):
            break
        findings += _check_indexes(disk, path, base_offset, names)
    return scanned


def _check_indexes(disk: Disk, path: str, base_offset: int, names: Sequence[str]) -> Iterator[Finding]:
    log_path = f"{path}/{file_name(base_offset, LOG)}"
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
        elif suffix == INDEX and not _points_at_batches(disk, log_path, base_offset, entries):
            yield Finding(DERIVED, f"{path}/{name}", -1, "the index does not point to batches; it can be rebuilt.")


def _points_at_batches(disk: Disk, log_path: str, base_offset: int, entries: Sequence[tuple[int, ...]]) -> bool:
    file = disk.open(log_path)
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
        elif parsed and parsed[1] == TRANSACTION_INDEX and disk.size(f"{path}/{name}") % ABORTED_ENTRY.size:
            yield Finding(DERIVED, f"{path}/{name}", -1, "the index of aborted transactions is incomplete; it can be rebuilt.")
    if LEADER_EPOCHS in names and LeaderEpochs.decode(disk.read_file(f"{path}/{LEADER_EPOCHS}")) is None:
        yield Finding(DERIVED, f"{path}/{LEADER_EPOCHS}", -1, "the leader epochs cannot be parsed; they are in the batches.")
