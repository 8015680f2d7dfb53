"""The kept file of a journal: entries of partitions that are not open yet, or offline, when the journal begins anew.

It has blocks of the journal's format, without an incarnation. The next start reads it before the journal's files. Damage that was
found is kept, too, so that a partition with lost records does not come back without them at the next start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ottla.log.journal.block_walk import heads
from ottla.log.journal.contents import Damage
from ottla.log.journal.format import (
    DAMAGE,
    DATA,
    HEADER,
    KEPT,
    PLACES,
    SECTOR_BYTES,
    BlockPlace,
    Key,
    pack_entry,
    pack_head,
    pack_void,
    pad_size,
)
from ottla.log.journal.saved_entries import SavedEntry
from ottla.ports import Disk, FileSlice

Kept = dict[Key, list[SavedEntry]]


def keep_unapplied(disk: Disk, directory: str, entries: Mapping[Key, Sequence[SavedEntry]], damaged: Mapping[Key, Damage]) -> Kept:
    """Write the kept file anew with these entries and damages; durable on return. Raises `StorageFailed` with nothing changed.

    Return the same entries as slices of the new file: a new incarnation of the journal overwrites the others.
    """
    rows, parts = [], []
    for key, saved in entries.items():
        for one in saved:
            parts.append(one.read())
            rows.append(pack_entry(DATA, key, one.base_offset, one.next_offset, one.leader_epoch, parts[-1]))
    for key, (next_offset, sentence) in damaged.items():
        parts.append(sentence.encode())
        rows.append(pack_entry(DAMAGE, key, next_offset, next_offset, -1, parts[-1]))
    if not rows:
        drop_kept(disk, directory)
        return {}
    table, data_bytes = b"".join(rows), sum(map(len, parts))
    block_bytes = pad_size(HEADER.size + len(table) + data_bytes, SECTOR_BYTES)
    head = pack_head(BlockPlace(PLACES.index(KEPT), 0, 0, 1, 1), block_bytes, data_bytes, table, b"")
    path = f"{directory}/{KEPT}"
    disk.make_dir(directory)
    disk.write_file(path, b"".join((head, *parts)).ljust(block_bytes, b"\0"))
    file, position, kept = disk.open(path), len(head), Kept()
    for key, saved in entries.items():
        for one in saved:
            kept.setdefault(key, []).append(one._replace(data=FileSlice(file, position, one.data.size)))
            position += one.data.size
    return kept


def void_kept(disk: Disk, directory: str, keys: Iterable[Key]) -> None:
    """Make the kept entries of partitions void, once their own files have them; durable on return. Raises `StorageFailed`.

    It must precede every truncation of such a log. It appends a short block, and does not write the other entries again.
    """
    file, number = disk.open(f"{directory}/{KEPT}"), PLACES.index(KEPT)
    last = max(((head.sequence, head.table) for _, head in heads(file, number)), default=(0, b""))
    table, position = b"".join(map(pack_void, keys)), pad_size(file.size, SECTOR_BYTES)
    block_bytes = pad_size(HEADER.size + len(table) + len(last[1]), SECTOR_BYTES)
    head = pack_head(BlockPlace(number, position, 0, last[0] + 1, 1), block_bytes, 0, table, last[1])
    file.append([bytes(position - file.size) + head.ljust(block_bytes, b"\0")])
    file.sync()


def drop_kept(disk: Disk, directory: str) -> None:
    """Remove the kept file, once all its partitions have their entries in their own files; durable on return."""
    if disk.exists(f"{directory}/{KEPT}"):
        disk.remove(f"{directory}/{KEPT}")
        disk.sync_dir(directory)
