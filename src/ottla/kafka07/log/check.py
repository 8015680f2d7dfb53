"""The check of one partition's positions for Kafka 0.7 against its batches, and their renewal if they are unusable.

It uses sidecars and whole logs at rest, and changes them only in `renew_positions`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from ottla.kafka07.log.names import KEPT_07, bases_07
from ottla.kafka07.log.recovery import last_sound
from ottla.kafka07.log.sidecar import (
    END,
    PAGE_RECORDS,
    RECORD_BYTES,
    Begin07,
    Damaged07,
    Entry07,
    Sidecar07,
    encode_header,
)
from ottla.kafka07.records.renderer import Kind07, size_of
from ottla.log.names import LOG, file_name
from ottla.log.recovery.recovery import good_batches
from ottla.log.sidecars import SidecarFault
from ottla.ports import Disk
from ottla.records.batches.header import BadBatch, BatchHeader
from ottla.records.compression.codecs import CodecFailed
from ottla.records.pauses import finish

END_OF_LOG: Final = (1 << 63) - 1
NEVER_GIVEN: Final = 1 << 40
"""The distance in bytes from the last known position to new ones, if damage hides which positions clients have."""


def check_positions(disk: Disk, path: str, names: Sequence[str]) -> Iterator[SidecarFault]:
    """Check every entry and every kept message of a partition's sidecars, and measure the batches; yield the faults."""
    bases = bases_07(names)
    first = bases_07(names, LOG)[:1]
    gone = [base for base, following in pairwise(bases) if first and following <= first[0]]  # their segments are deleted
    sidecars = [Sidecar07(disk, path, base) for base in bases if base not in gone]
    if sidecars and sidecars[-1].is_empty:
        sidecars.pop()
    for base in bases_07(names, KEPT_07):
        if base not in bases:
            yield SidecarFault(f"{path}/{file_name(base, KEPT_07)}", -1, "messages are kept here without positions.", is_torn=True)
    faults: list[SidecarFault] = []
    for sidecar in sidecars:
        faults += _check_records(sidecar, is_newest=sidecar is sidecars[-1])
    if not faults:
        faults += _check_missing(sidecars)
    yield from faults
    if not faults:
        for number, sidecar in enumerate(sidecars):
            yield from _check_fit(disk, path, names, sidecar, sidecars[number + 1] if number + 1 < len(sidecars) else None)
    for sidecar in sidecars:
        sidecar.close()


def renew_positions(disk: Disk, path: str, names: Sequence[str]) -> str:
    """Replace all positions by new ones from the first batch on, beyond all positions that clients have. Return a message."""
    bases = bases_07(names)
    highest = 0
    for base in bases:
        sidecar = Sidecar07(disk, path, base)
        for index in range(-1, sidecar.count):
            try:
                found = sidecar.begin.position if index < 0 else sidecar.entry(index).position
            except Damaged07:
                continue
            highest = max(highest, found)
        sidecar.close()
    position, offset = highest + NEVER_GIVEN, bases_07(names, LOG)[0]
    fresh = Sidecar07(disk, path, offset)
    disk.write_file(fresh.path, encode_header(offset, Begin07(position, highest)))
    for base in bases:
        if base != offset:
            Sidecar07(disk, path, base).remove()
            Sidecar07(disk, path, base).remove_kept()
    disk.sync_dir(path)
    return f"{path}: positions for clients of Kafka 0.7 restart at {position}; their stored positions are out of range."


def _check_records(sidecar: Sidecar07, *, is_newest: bool) -> Iterator[SidecarFault]:
    found, synced = last_sound(sidecar)
    if not is_newest:
        synced = sidecar.count + 1  # the next sidecar was begun after a sync of this one
    try:
        _ = sidecar.begin
    except Damaged07:
        yield SidecarFault(sidecar.path, 0, "the header of these positions is damaged.", is_torn=is_newest and not synced)
        return
    before = -1
    for index in range(found):
        path, position, sentence = sidecar.path, (index + 1) * RECORD_BYTES, ""
        try:
            entry = sidecar.entry(index)
            if entry.kind == Kind07.KEPT:
                sidecar.kept_message(entry)
            sentence = "this entry is not behind the one before." if entry.offset < before else ""
            before = entry.offset
        except Damaged07 as damaged:
            path, sentence = damaged.path, "this entry is damaged."
            if path != sidecar.path:
                sentence, position = "a message that is kept here is damaged.", entry.kept_place
        if sentence:
            yield SidecarFault(path, position, sentence, is_torn=index + 1 >= synced)
            return
    if found < sidecar.count or sidecar.is_torn:
        is_torn = is_newest and found + 1 >= synced
        yield SidecarFault(sidecar.path, (found + 1) * RECORD_BYTES, "no whole entry begins here.", is_torn=is_torn)


def _check_missing(sidecars: Sequence[Sidecar07]) -> Iterator[SidecarFault]:
    for before, sidecar in pairwise(sidecars):
        if sidecar.begin.base_before != before.base_offset:
            yield SidecarFault(sidecar.path, 0, f"the file before it, that of offset {sidecar.begin.base_before}, is missing.")


def _check_fit(
    disk: Disk, path: str, names: Sequence[str], sidecar: Sidecar07, following: Sidecar07 | None
) -> Iterator[SidecarFault]:
    """Compare each entry of a sidecar, and the header of the next sidecar, with the batches of the log; yield a fault if any."""
    entries = (entry for index in range(0, sidecar.count, PAGE_RECORDS) for entry in sidecar.entries(index, PAGE_RECORDS))
    logs = bases_07(names, LOG)
    position, next_offset = sidecar.begin.position, sidecar.base_offset
    until = following.base_offset if following is not None else END_OF_LOG
    first = bisect_right(logs, next_offset) - 1
    if first < 0:
        return  # the segment is deleted: the sidecar only preserves the highest given position
    entry = next(entries, None)
    for header, batch in _batches(disk, path, logs[first:], next_offset, until):
        if following is None and entry is None:
            break  # no client has seen the following batches
        if header.base_offset != next_offset and entry is not None:
            yield _misfit(sidecar, f"the batch of offset {next_offset} is missing")
            return
        kind, size = Kind07.NOTHING if header.is_control else Kind07.PLAIN1, 0
        while entry is not None and entry.offset <= header.base_offset:
            if (entry.offset, entry.position) != (header.base_offset, position) or (
                entry.kind != END and entry.batch_crc != header.crc
            ):
                yield _misfit(sidecar, f"another batch was at offset {entry.offset}")
                return
            if entry.kind != END:
                kind, size = Kind07(entry.kind), entry.kept_size
            entry = next(entries, None)
        position += _size(batch, header, kind, size)
        next_offset = header.next_offset
    yield from _check_end(sidecar, entry, following, next_offset, position)


def _check_end(
    sidecar: Sidecar07, entry: Entry07 | None, following: Sidecar07 | None, next_offset: int, position: int
) -> Iterator[SidecarFault]:
    if entry is not None and (entry.kind != END or (entry.offset, entry.position) != (next_offset, position)):
        yield _misfit(sidecar, f"there is no batch of offset {entry.offset}")
    elif following is not None and following.begin.end_before != position:
        yield _misfit(following, f"the file before it ends at {position}, not at {following.begin.end_before}")


def _size(batch: memoryview, header: BatchHeader, kind: Kind07, kept_size: int) -> int:
    if kind not in (Kind07.PLAIN0, Kind07.PLAIN1) or not header.record_count:
        return kept_size
    try:
        return finish(size_of(batch, header, int(kind)))
    except (BadBatch, CodecFailed):
        return 0


def _batches(
    disk: Disk, path: str, logs: Sequence[int], offset: int, until_offset: int
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield (header, bytes) of the batches from `offset` on and before `until_offset`, in the segments at `logs`."""
    for base in logs:
        if base >= until_offset:
            return
        file = disk.open(f"{path}/{file_name(base, LOG)}")
        for at, header in good_batches(file, 0, file.size, base):
            if header.base_offset >= until_offset:
                break
            if header.base_offset >= offset:
                yield header, memoryview(file.read(at, header.size))
        file.close()


def _misfit(sidecar: Sidecar07, why: str) -> SidecarFault:
    return SidecarFault(sidecar.path, -1, f"these positions do not fit the log: {why}.")
