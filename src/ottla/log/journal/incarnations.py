"""The file that names the incarnation of a journal in use: blocks of any other incarnation are void.

It is replaced as a whole, and contains the number twice, each with a CRC-32C, in sectors of their own. A start on a full disk
overwrites one sector after the other instead, so that one of them is always whole.
"""

from __future__ import annotations

import struct
from typing import Final

from ottla.log.journal.format import INCARNATION, SECTOR_BYTES
from ottla.ports import Disk, StorageFailed, SyncFailed
from ottla.records.checksum import crc32c

MAGIC: Final = b"OttlaInc"
_COPY: Final = struct.Struct(">8sQ")
_CRC_BYTES: Final = 4

DAMAGED_INCARNATION: Final = -1


def pack_incarnation(incarnation: int) -> bytes:
    """Return the contents of the file."""
    copy = _COPY.pack(MAGIC, incarnation)
    sector = (copy + crc32c(copy).to_bytes(_CRC_BYTES)).ljust(SECTOR_BYTES, b"\0")
    return sector + sector


def unpack_incarnation(data: bytes) -> int:
    """Return the number in the file's contents, or `DAMAGED_INCARNATION` if both copies are damaged."""
    for start in (0, SECTOR_BYTES):
        copy, crc = data[start : start + _COPY.size], data[start + _COPY.size : start + _COPY.size + _CRC_BYTES]
        if copy.startswith(MAGIC) and crc32c(copy).to_bytes(_CRC_BYTES) == crc:
            return int(_COPY.unpack(copy)[1])
    return DAMAGED_INCARNATION


def read_incarnation(disk: Disk, directory: str) -> int:
    """Return the incarnation in use; 0 if there is no such file, `DAMAGED_INCARNATION` if it is damaged."""
    path = f"{directory}/{INCARNATION}"
    return unpack_incarnation(disk.read_file(path)) if disk.exists(path) else 0


def write_incarnation(disk: Disk, directory: str, incarnation: int) -> None:
    """Put a new number in use; durable on return. On a full disk, the file is overwritten. Raises `StorageFailed`."""
    path, data = f"{directory}/{INCARNATION}", pack_incarnation(incarnation)
    try:
        disk.write_file(path, data)
    except StorageFailed as failure:
        if isinstance(failure, SyncFailed) or not disk.exists(path) or disk.size(path) != len(data):
            raise
        file = disk.open(path)
        for start in (0, SECTOR_BYTES):
            file.write(start, data[start : start + SECTOR_BYTES])
            file.sync()
        disk.sync_dir(directory)  # the name may be a new one whose sync has failed
