"""The partition of a coordinator's topic for a key, by the rule of every Kafka broker and tool."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

UNITS_AT_ONCE: Final = 2_048
"""The number of UTF-16 units that are hashed together, in lanes of one long integer."""

_BITS: Final = 32
_LANE: Final = 1 << _BITS


def _every(lane_bits: int, bits: int) -> int:
    """Return an integer of `bits` bits, divided into lanes of `lane_bits`, with ones in the low half of each lane."""
    return int.from_bytes((((1 << lane_bits // 2) - 1).to_bytes(lane_bits // 8, "big")) * (bits // lane_bits), "big")


def _halvings() -> list[tuple[int, int, int]]:
    """Return the steps that reduce all lanes to one: (bits of the lower half, mask of its lanes, weight of the upper half)."""
    halves = [UNITS_AT_ONCE // 2 >> level for level in range((UNITS_AT_ONCE // 4).bit_length() - 1)]
    return [(units * 16, _every(64, units * 16), pow(31, units, _LANE)) for units in halves]


_UNITS_OF_TWO: Final = _every(32, UNITS_AT_ONCE * 16)
_PAIRS_OF_TWO: Final = _every(64, UNITS_AT_ONCE * 16)
_HALVINGS: Final = _halvings()
_WEIGHT: Final = pow(31, UNITS_AT_ONCE, _LANE)


def _hash_together(raw: bytes) -> int:
    """Return the 32-bit hash of at most `UNITS_AT_ONCE` UTF-16 units. Missing units at the front count as zeros."""
    units = int.from_bytes(raw, "big")
    pairs = 31 * (units >> 16 & _UNITS_OF_TWO) + (units & _UNITS_OF_TWO)
    hashed = 31 * 31 * (pairs >> 32 & _PAIRS_OF_TWO) + (pairs & _PAIRS_OF_TWO)  # at most 31 bits in each lane of 64
    for bits, lanes, weight in _HALVINGS:
        hashed = weight * (hashed >> bits) + (hashed & lanes)
        hashed &= lanes
    return hashed


def java_hash(text: str) -> int:
    """Return Java's String.hashCode: over UTF-16 units, in 32 bits, signed."""
    raw = text.encode("utf-16-be", "surrogatepass")
    first = len(raw) % (2 * UNITS_AT_ONCE)
    value = _hash_together(raw[:first])
    for at in range(first, len(raw), 2 * UNITS_AT_ONCE):
        value = (_WEIGHT * value + _hash_together(raw[at : at + 2 * UNITS_AT_ONCE])) % _LANE
    return value - _LANE if value >> _BITS - 1 else value


MOST_KEPT: Final = 1_000
"""The most keys whose partition is cached. Any client can send a key, of up to 32 KB."""


@lru_cache(MOST_KEPT)
def partition_of(group_id: str, partitions: int) -> int:
    """Return the partition of a key: the absolute value of Java's hash modulo `partitions`. A hash of -2^31 counts as 0."""
    hashed = java_hash(group_id)
    return (0 if hashed == -(1 << 31) else abs(hashed)) % partitions
