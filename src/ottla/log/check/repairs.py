"""The repair of a partition's directory.

Derived files (indexes, snapshots, epochs) are rebuilt. Unreadable bytes are moved out of the log into `*.damaged` files, and never
deleted. Valid batches behind them stay. A batch with a wrong leader epoch gets the right one. The caller holds the lock of the data
directory, so that no broker writes to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ottla.log import checkpoints
from ottla.log.check.changed_epochs import write_noted_epochs
from ottla.log.check.check import check_partition
from ottla.log.check.extents import (
    MisplacedBatch,
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
from ottla.log.check.findings import ANY_GAPS, DAMAGED_COPY, DERIVED, FAULTS, NOTHING_KNOWN, REFUSED, Finding, Known
from ottla.log.log import Log
from ottla.log.names import COMPACTED_SEGMENTS, INDEX, LEADER_EPOCHS, LOG, TIME_INDEX, TRANSACTION_INDEX, file_name
from ottla.log.recovery.gaps import note_gaps
from ottla.log.segments import scan
from ottla.log.segments.compacted_note import note_sizes
from ottla.log.sidecars import SidecarFormat
from ottla.ports import Disk, Now

COPY_BYTES = 1 << 20


def repair_partition(
    disk: Disk, path: str, now: Now, known: Known = NOTHING_KNOWN, sidecars: SidecarFormat | None = None
) -> list[str]:
    """Repair a partition's directory so that a broker can open it. Return a message for each step. Raises `StorageFailed`.

    At every moment the damaged records are either at their old place, or in a synced copy named `*.damaged`.
    """
    findings = check_partition(disk, path, known, sidecars)
    if any(found.kind == REFUSED for found in findings) or not any(found.kind in FAULTS for found in findings):
        return []
    bases = base_offsets(disk.list(path))
    done = list(_write_epochs(disk, path, known))
    scanned = scan_batches(disk, path, bases)
    while scanned.bad and (scanned.resume >= 0 or scanned.base_offset != bases[-1]):
        done.append(_cut_out(disk, path, scanned))
        scanned = scan_batches(disk, path, bases)
    done += _write_epochs(disk, path, known)  # the bad bytes may have hidden batches with wrong epochs
    if scanned.bad:
        done += _cut(disk, path, scanned, known)
    elif (moved := find_misplaced(disk, path, bases, known)) is not None:
        done.append(_move_back(disk, path, moved, known))
        scanned = scan_batches(disk, path, bases)
    done += _accept_between(disk, path, bases)
    done += _accept_within(disk, path, bases, known)
    if scanned.end_offset < known.recovery_point:
        _lower_checkpoints(disk, path, scanned.end_offset)
        done.append(f"{path}: the log ends with offset {scanned.end_offset} now.")
    done += _rebuild_derived(disk, path, findings, now, known, sidecars)
    return [*done, *_repair_sidecars(disk, path, sidecars)]


def _accept_between(disk: Disk, path: str, bases: list[int]) -> list[str]:
    """Record that offsets between two segments are lost, so that a broker opens the log."""
    gaps = list(gaps_between(disk, path, bases))
    note_gaps(disk, path, [(first, after) for _, first, after in gaps])
    return [f"{path}: offsets {first} to {after - 1} are lost." for _, first, after in gaps]


def _rebuild_derived(
    disk: Disk, path: str, findings: Iterable[Finding], now: Now, known: Known, sidecars: SidecarFormat | None
) -> list[str]:
    """Remove derived files with faults, and open the log once, which builds them again."""
    derived = [found.path for found in findings if found.kind == DERIVED]
    for each in derived:
        if disk.exists(each):
            disk.remove(each)
    compacted = f"{path}/{COMPACTED_SEGMENTS}"
    was_there = disk.exists(compacted)
    log = Log.open(disk, path, ANY_GAPS, now, log_start_offset=known.log_start_offset, sidecars=sidecars)
    log.close()
    if not was_there and disk.exists(compacted):
        disk.remove(compacted)  # the caller did not say whether the topic is compacted
    return [f"{each}: rebuilt." for each in derived]


def _repair_sidecars(disk: Disk, path: str, sidecars: SidecarFormat | None) -> Iterator[str]:
    names = disk.list(path)
    if sidecars is not None and any(not fault.is_torn for fault in sidecars.check(disk, path, names)):
        yield sidecars.renew(disk, path, names)


def keep_copy(disk: Disk, name: str) -> str:
    """Copy a file, durably, to an unused name that ends in `.damaged`, and return this name."""
    return _copy(disk, name, 0, disk.size(name))


def _write_epochs(disk: Disk, path: str, known: Known) -> Iterator[str]:
    """Write the checkpoint's leader epochs into batches with other epochs. Yield a message for each segment."""
    while changed := epochs_to_restore(disk, path, known):
        for segment_offset in sorted({each.segment_offset for each in changed}):
            ours = [each for each in changed if each.segment_offset == segment_offset]
            name = segment_path(path, ours[0])
            kept = _unused_name(disk, name)
            _copy_parts(disk, name, kept, [(each.position, each.position + each.size) for each in ours])
            write_noted_epochs(disk, path, segment_offset, ours)
            noted = f"the leader epoch again that {LEADER_EPOCHS} says"
            yield f"{name}: {len(ours)} of its batches got {noted}; what they were is kept as {kept}."


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


def _accept_within(disk: Disk, path: str, bases: Sequence[int], known: Known) -> Iterator[str]:
    """Record the missing offset ranges within segments as accepted, so that the log opens. Yield a message for each range."""
    found = list(missing_within(disk, path, bases, known))
    note_gaps(disk, path, [(gap.first_offset, gap.end_offset) for _, _, gap, is_compacted in found if not is_compacted])
    sizes = {(base_offset, size) for base_offset, size, _, is_compacted in found if is_compacted}
    if sizes:
        note_sizes(disk, path, sizes)
    for base_offset, _ in sorted(sizes):
        yield f"{path}/{file_name(base_offset, LOG)}: its missing records are lost."
    for _, _, gap, is_compacted in found:
        if not is_compacted:
            yield f"{path}: offsets {gap.first_offset} to {gap.end_offset - 1} are lost."


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
        _lower_checkpoints(disk, path, scanned.end_offset)
    file = disk.open(name)
    file.truncate(scanned.position)
    file.sync()
    file.close()
    return [f"{name}: {size} bytes from byte {scanned.position} on were cut off and are kept as {kept}."]


def _copy(disk: Disk, name: str, position: int, end: int) -> str:
    """Copy a part of a file, durably, to a new name."""
    kept = _unused_name(disk, name)
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


def _unused_name(disk: Disk, name: str) -> str:
    """Return an unused file name for a copy of damaged bytes: `name` with a suffix that ends in `.damaged`."""
    kept, number = name + DAMAGED_COPY, 1
    while disk.exists(kept):
        number += 1
        kept = f"{name}.{number}{DAMAGED_COPY}"
    return kept


def _lower_checkpoints(disk: Disk, path: str, offset: int) -> None:
    """Lower the recovery point and the high watermark of a partition to `offset`, the new end of its log."""
    key = key_of(path)
    if key is None:
        return
    for name in (checkpoints.RECOVERY_POINTS, checkpoints.HIGH_WATERMARKS):
        offsets = checkpoints.read_offsets(disk, name)
        if offsets.get(key, 0) > offset:
            offsets[key] = offset
            checkpoints.write_offsets(disk, name, offsets)
