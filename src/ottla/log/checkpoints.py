"""Small text files of a data directory with an offset of each partition, in Kafka's formats. Logs are unknown here.

Kafka's text format has no checksum, so a flipped digit is another number. Ottla's files have a seal: the CRC-32C of the rest, as
32 spaces and tabs at the end of the last line. Kafka splits lines at white space and ignores it. A file without a seal is
accepted: Kafka or an older version wrote it. The seal is in the file itself, so that both are replaced together.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from ottla.ports import Disk, Pauses
from ottla.records.checksum import crc32c

log = logging.getLogger("ottla.log")

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANED_OFFSETS = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"

CLEAN_SHUTDOWN_CONTENT = b'{"version":0,"brokerEpoch":-1}'
VERSION = 0
FEW_ENTRIES = 1000
"""The entries formatted between two pauses, in a fraction of a millisecond."""

Offsets = dict[tuple[str, int], int]
"""Offsets by topic and partition."""


def format_checkpoint(lines: Sequence[str]) -> bytes:
    """Return the content of a checkpoint with these lines: version, number of lines, the lines, and the seal."""
    return _add_seal("".join(f"{line}\n" for line in (VERSION, len(lines), *lines)).encode(), len(lines))


def formatted_slowly(offsets: Mapping[tuple[str, int], int]) -> Pauses[bytes]:
    """Return what `format_offsets` returns, with a pause after every `FEW_ENTRIES` entries."""
    entries = list(offsets.items())
    data = bytearray(f"{VERSION}\n{len(entries)}\n".encode())
    for start in range(0, len(entries), FEW_ENTRIES):
        part = entries[start : start + FEW_ENTRIES]
        data += "".join([f"{topic} {partition} {offset}\n" for (topic, partition), offset in part]).encode()
        yield None
    return _add_seal(bytes(data), len(entries))


def _add_seal(data: bytes, entries: int) -> bytes:
    """Add the seal to the last line. A file without entries gets none: its last line is the number of lines."""
    return data[:-1] + _seal(data) + b"\n" if entries else data


def _seal(data: bytes) -> bytes:
    return f"{crc32c(data):032b}".replace("0", " ").replace("1", "\t").encode()


def is_as_sealed(data: bytes) -> bool:
    """Return whether the seal of a file that ends with a line break is right or missing."""
    text = data[:-1].rstrip(b" \t")
    found = data[len(text) : -1]
    return not found or found == _seal(text + b"\n")


def is_sealed(data: bytes) -> bool:
    """Return whether a file has the right seal, so that its content is what Ottla wrote."""
    return data[-2:-1] in (b" ", b"\t") and is_as_sealed(data)


def parse_checkpoint(data: bytes) -> list[list[str]] | None:
    """Split each line into words, and check that the last two are numbers. Return None for damage or an unknown version.

    A last line without a line break counts as damage, because its number may be cut short. So does a wrong seal.
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
    """Read offsets by (topic, partition) from a checkpoint. Return no offsets if it is missing or unreadable; log the latter."""
    return known_offsets(disk, name) or {}


def known_offsets(disk: Disk, name: str) -> Offsets | None:
    """Read offsets by (topic, partition) from a checkpoint; None if the file is missing, empty or unreadable."""
    if not disk.exists(name) or not disk.size(name):  # Apache Kafka first creates empty checkpoints
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
    return format_checkpoint([f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()])


def write_offsets(disk: Disk, name: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Replace the checkpoint `name` by one with these offsets; durable on return. Raises `StorageFailed`."""
    disk.write_file(name, format_offsets(offsets))
