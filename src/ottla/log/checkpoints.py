"""Small text files of a data directory with an offset of each partition, in Kafka's formats. Logs are unknown here.

Kafka's text format has no checksum, so a flipped digit is another number. Ottla's files have a seal: the CRC-32C of the rest, as
32 spaces and tabs at the end of the last line. Kafka splits lines at white space and ignores it. A file without a seal is
accepted: Kafka or an older version wrote it. The seal is in the file itself, so that both are replaced together.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from crc32c import crc32c

from ottla.ports import Disk, Pauses

log = logging.getLogger("ottla.log")

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANED_OFFSETS = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"

CLEAN_SHUTDOWN_CONTENT = b'{"version":0,"brokerEpoch":-1}'
VERSION = 0
FEW_ENTRIES = 1000
"""Entries formatted at once, in a fraction of a millisecond."""

Offsets = dict[tuple[str, int], int]
"""Offsets by topic and partition."""


def format_checkpoint(lines: Sequence[str]) -> bytes:
    """Return version, number of lines, and lines; sealed."""
    return _sealed("".join(f"{line}\n" for line in (VERSION, len(lines), *lines)).encode(), len(lines))


def formatted_slowly(offsets: Mapping[tuple[str, int], int]) -> Pauses[bytes]:
    """Format one of these files as `format_offsets` does, with a pause after every few entries."""
    entries = list(offsets.items())
    data = bytearray(f"{VERSION}\n{len(entries)}\n".encode())
    for start in range(0, len(entries), FEW_ENTRIES):
        part = entries[start : start + FEW_ENTRIES]
        data += "".join([f"{topic} {partition} {offset}\n" for (topic, partition), offset in part]).encode()
        yield None
    return _sealed(bytes(data), len(entries))


def _sealed(data: bytes, entries: int) -> bytes:
    """Add the seal to the last line. A file without entries gets none: its last line is the number of lines."""
    return data[:-1] + _seal(data) + b"\n" if entries else data


def _seal(data: bytes) -> bytes:
    return f"{crc32c(data):032b}".replace("0", " ").replace("1", "\t").encode()


def is_as_sealed(data: bytes) -> bool:
    """Return whether a file that ends with a line break has the right seal, or none."""
    text = data[:-1].rstrip(b" \t")
    found = data[len(text) : -1]
    return not found or found == _seal(text + b"\n")


def is_sealed(data: bytes) -> bool:
    """Return whether a file has the right seal: it is as Ottla wrote it."""
    return data[-2:-1] in (b" ", b"\t") and is_as_sealed(data)


def parse_checkpoint(data: bytes) -> list[list[str]] | None:
    """Split each line into words, with numbers where numbers belong; None if the checkpoint is damaged, or of an unknown version.

    A last line without its end may be a number cut short; one whose seal does not fit is not what was written.
    """
    if not data.endswith(b"\n") or not is_as_sealed(data):
        return None
    try:
        lines = data.decode().splitlines()
        words = [line.split() for line in lines[2:]]
        whole = len(lines) >= 2 and int(lines[0]) == VERSION and int(lines[1]) == len(words)
        for line in words:
            int(line[-1]), int(line[-2])
    except (ValueError, IndexError):
        return None
    return words if whole else None


def read_offsets(disk: Disk, name: str) -> Offsets:
    """Read offsets by (topic, partition) from one of these files; empty if it is missing or unreadable (which is logged)."""
    return known_offsets(disk, name) or {}


def known_offsets(disk: Disk, name: str) -> Offsets | None:
    """Read offsets as `read_offsets` does; None if the file is missing, empty or unreadable."""
    if not disk.exists(name) or not disk.size(name):  # Apache Kafka begins with empty ones
        return None
    lines = parse_checkpoint(disk.read_file(name))
    if lines is None or not all(len(line) == 3 for line in lines):
        sentence = "%s cannot be parsed and is rewritten: logs are recovered without checkpoints"
        if name == LOG_START_OFFSETS:
            sentence += "; each begins where its leader epochs begin, so that recently deleted records may be readable again"
        log.warning(sentence, name)
        return None
    return {(topic, int(partition)): int(offset) for topic, partition, offset in lines}


def format_offsets(offsets: Mapping[tuple[str, int], int]) -> bytes:
    """Format the content of one of these files."""
    return format_checkpoint([f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()])


def write_offsets(disk: Disk, name: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Replace one of these files; durable on return. Raises `StorageFailed`."""
    disk.write_file(name, format_offsets(offsets))
