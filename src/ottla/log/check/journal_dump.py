"""The content of a journal's files as plain values, for people and programs."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterator
from typing import Any, Final

from ottla.log.journal.block_walk import FileWindow, heads
from ottla.log.journal.format import DAMAGE, DATA, INCARNATION, PLACES, SECTOR_BYTES, VOID, BlockHead, NewerJournal
from ottla.log.journal.incarnations import DAMAGED_INCARNATION, unpack_incarnation
from ottla.ports import Disk, File
from ottla.records.checksum import crc32c

KINDS: Final = {DATA: "batches", VOID: "void", DAMAGE: "damage"}


def dump_journal(disk: Disk, path: str) -> Iterator[dict[str, Any]]:
    """Yield a row for each block with a whole header, of any incarnation, with its entries. Damage has the key `error`.

    A block whose header is damaged has a row with its position only.
    """
    name = path.rpartition("/")[2].partition(".")[0]  # a copy of a damaged file has a longer name
    if name == INCARNATION:
        incarnation = unpack_incarnation(disk.read_file(path))
        damaged = {"error": "both copies of the number are damaged"}
        yield damaged if incarnation == DAMAGED_INCARNATION else {"incarnation": incarnation}
        return
    file, end = disk.open(path), 0
    try:
        for position, head in heads(file, PLACES.index(name)):
            yield from _damaged_heads(file, end, position)
            yield _block(file, position, head)
            end = position + head.block_bytes
        yield from _damaged_heads(file, end, file.size)
    except NewerJournal as newer:
        yield {"error": f"a block has version {newer}, newer than this program"}


def _damaged_heads(file: File, start: int, end: int) -> Iterator[dict[str, Any]]:
    """Yield a row for each sector from `start` to `end` that begins like a block."""
    window = FileWindow(file)
    while (position := window.find(start)) < end:
        yield {"position": position, "error": "the header of this block is damaged, or its write did not end"}
        start = position + SECTOR_BYTES


def _block(file: File, position: int, head: BlockHead) -> dict[str, Any]:
    row: dict[str, Any] = {
        "position": position,
        "size": head.block_bytes,
        "incarnation": head.incarnation,
        "sequence": head.sequence,
        "oldest": head.oldest,
        "data_bytes": head.data_bytes,
        "entries": [],
    }
    start, damaged = head.data_from, 0
    for entry in head.entries():
        data = file.read(start, entry.size)
        is_whole = len(data) == entry.size and crc32c(data) == entry.crc
        damaged += not is_whole
        fields = {
            "kind": KINDS.get(entry.kind, str(entry.kind)),
            "topic_id": urlsafe_b64encode(entry.topic_id).decode().rstrip("="),
            "partition": entry.partition,
        }
        if entry.kind != VOID:
            fields |= {"base_offset": entry.base_offset, "next_offset": entry.next_offset, "leader_epoch": entry.leader_epoch}
            fields |= {"position": start, "size": entry.size, "is_whole": is_whole}
        if entry.kind == DAMAGE:
            fields["sentence"] = data.decode(errors="replace")
        row["entries"].append(fields)
        start += entry.size
    return row | ({"error": f"{damaged} of its entries do not have the right CRC-32C"} if damaged else {})
