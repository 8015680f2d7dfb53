"""The recovery of positions of Kafka 0.7 after a crash, and their invalidation. It uses sidecars and the end of the log."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress

from ottla.kafka07.log.sidecar import END, Begin07, Damaged07, Sidecar07, encode_header
from ottla.kafka07.records.renderer import Kind07
from ottla.ports import Disk

log = logging.getLogger("ottla.log")


def recover(disk: Disk, path: str, bases: Iterable[int], log_end_offset: int) -> list[int]:
    """Cut off, durably, torn entries and entries of batches that the log has lost; return the bases of the remaining sidecars.

    Clients have seen no positions of these entries. Synced records are not changed, even if they are damaged: reads report the
    damage. If the log has lost synced batches, all positions become invalid. Raises `StorageFailed`.
    """
    sidecars = [Sidecar07(disk, path, base) for base in sorted(bases)]
    lost: list[Sidecar07] = []
    newest, highest = sidecars[-1], -1
    for sidecar in list(sidecars):
        begin = _begin(sidecar)
        is_torn = begin is None and sidecar is newest and not last_sound(sidecar)[1]
        if is_torn or sidecar.base_offset > log_end_offset or (begin is not None and begin.position < highest):
            sidecar.remove()  # the sidecar is torn, its batches are lost, or it was invalidated
            sidecars.remove(sidecar)
            lost.append(sidecar)
        elif begin is not None:
            highest = begin.position
    if sidecars and _begin(sidecars[-1]) is not None:
        with suppress(Damaged07):  # reads report the damage
            sidecars = _cut(disk, path, sidecars, log_end_offset)
    disk.sync_dir(path)
    for sidecar in lost:
        sidecar.remove_kept()
    for sidecar in sidecars:
        sidecar.close()
    return [sidecar.base_offset for sidecar in sidecars]


def invalidate(disk: Disk, path: str, sidecars: Sequence[Sidecar07], offset: int) -> Sidecar07:
    """Replace all sidecars by one that begins with `offset`. Its first position is higher than all positions that clients have.

    Raises `StorageFailed`, or its subclass `Damaged07`.
    """
    newest = sidecars[-1]
    last = newest.last()
    end = newest.begin.position if last is None else last.position
    for sidecar in sidecars:
        sidecar.close()  # one of them can have the name of the new sidecar
    fresh = Sidecar07(disk, path, offset)
    disk.write_file(fresh.path, encode_header(offset, Begin07(end + 1, end)))
    given_up = [sidecar for sidecar in sidecars if sidecar.base_offset != offset]
    for sidecar in given_up:
        sidecar.remove()
    disk.sync_dir(path)  # otherwise a power cut could bring an old sidecar back: one that looks newer, or lacks its kept messages
    for sidecar in given_up:
        sidecar.remove_kept()
    fresh.synced = 1
    log.warning("%s: positions for clients of 0.7 restart at %d: earlier ones are invalid", path, end + 1)
    return fresh


def _begin(sidecar: Sidecar07) -> Begin07 | None:
    try:
        return sidecar.begin
    except Damaged07:
        return None


def _cut(disk: Disk, path: str, sidecars: list[Sidecar07], log_end_offset: int) -> list[Sidecar07]:
    newest = sidecars[-1]
    found, (count, synced) = newest.count, _sound(newest)
    newest.cut(count)
    kept = count
    while kept and not _is_within(newest, kept - 1, log_end_offset):
        kept -= 1
    if kept + 1 < synced:
        return [invalidate(disk, path, sidecars, log_end_offset)]
    if kept < found:
        log.info("%s: %d entries that were never synced are cut off", newest.path, found - kept)
        newest.cut(kept)
    return sidecars


def _is_within(sidecar: Sidecar07, index: int, log_end_offset: int) -> bool:
    """Return whether the log still has the batch of an entry. Return True for a damaged entry, so that reads report it."""
    try:
        entry = sidecar.entry(index)
    except Damaged07:
        return True
    return entry.offset + (entry.kind != END) <= log_end_offset


def _sound(sidecar: Sidecar07) -> tuple[int, int]:
    """Return (number of entries before the first invalid one, number of records that were certainly synced)."""
    last, synced = last_sound(sidecar)
    before = -1
    for index in range(max(synced - 1, 0), last):
        try:
            entry = sidecar.entry(index)
            if entry.kind == Kind07.KEPT:
                sidecar.kept_message(entry)
        except Damaged07:
            return index, synced
        if entry.offset < before:
            return index, synced
        before = entry.offset
    return last, synced


def last_sound(sidecar: Sidecar07) -> tuple[int, int]:
    """Return (number of entries up to the last valid one, the number of synced records that the last valid entry states)."""
    for index in range(sidecar.count - 1, -1, -1):
        try:
            return index + 1, sidecar.entry(index).synced
        except Damaged07:
            continue
    return 0, 0
