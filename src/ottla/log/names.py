"""The names of a partition's files."""

from __future__ import annotations

LOG = ".log"
INDEX = ".index"
TIME_INDEX = ".timeindex"
TRANSACTION_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"
DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"
LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
KNOWN_GAPS = "known-gaps-checkpoint"
ABORTED_TRANSACTIONS = "aborted-transactions-checkpoint"
COMPACTED_SEGMENTS = "compacted-segments-checkpoint"
HOLED_SEGMENTS = "holed-segments-checkpoint"
JOINED_SEGMENTS = "joined-segments-checkpoint"
MOVES = "moves-checkpoint"

OF_A_SEGMENT = (INDEX, TIME_INDEX, TRANSACTION_INDEX)
"""The suffixes of the files beside a segment's `.log`."""

DIGITS = 20
LONGEST_NAME = 255
"""The most bytes of a file's name on any file system."""

DELETING, STRAY, FUTURE = "-delete", "-stray", "-future"
"""Kafka's suffixes of directories that are being deleted, of those that belong to no topic, and of unfinished copies (KIP-113)."""


def file_name(offset: int, suffix: str) -> str:
    """Return a name such as `00000000000000000042.log`: a file begins at this offset, a snapshot ends before it."""
    return f"{offset:0{DIGITS}d}{suffix}"


def parse_file_name(name: str) -> tuple[int, str] | None:
    """Return (offset, suffix) of a file named by an offset, or None for any other name."""
    digits, suffix = name[:DIGITS], name[DIGITS:]
    if len(digits) == DIGITS and digits.isascii() and digits.isdigit() and suffix.startswith("."):
        return int(digits), suffix
    return None


def set_aside_name(directory: str, unique: str, end: str) -> str:
    """Return the new path of a former partition's directory: its path, `unique` and `end`. A long topic name is cut to fit."""
    above, slash, name = directory.rpartition("/")
    topic, _, index = name.rpartition("-")
    suffix = f"-{index}.{unique}{end}"
    return above + slash + topic[: LONGEST_NAME - len(suffix)] + suffix
