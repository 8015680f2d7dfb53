"""Which partition of a coordinator's topic holds a key: the rule that every Kafka broker and tool follows."""

from __future__ import annotations

from functools import lru_cache
from typing import Final


def java_hash(text: str) -> int:
    """Java's String.hashCode: over UTF-16 units, in 32 bits, signed."""
    value = 0
    if text.isascii():
        for unit in text.encode("ascii"):
            value = (31 * value + unit) & 0xFFFFFFFF
    else:
        raw = text.encode("utf-16-be", "surrogatepass")
        for position in range(0, len(raw), 2):
            value = (31 * value + (raw[position] << 8 | raw[position + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


MOST_KEPT: Final = 1_000
"""Keys whose partition is remembered. Each may have 32 KB, which anybody can send."""


@lru_cache(MOST_KEPT)
def partition_of(group_id: str, partitions: int) -> int:
    """The partition of a key among `partitions`: the absolute value of Java's hash, or 0 if that has none in 32 bits."""
    hashed = java_hash(group_id)
    return (0 if hashed == -(1 << 31) else abs(hashed)) % partitions
