"""Inputs near valid ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

USUAL = 150
_LENGTHS = (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\xff\x0f", b"\0\0\1\0")
"""Lengths and counts that hurt."""
_BYTES = bytes(range(256)) + bytes((0, 1, 0x7F, 0x80, 0xFF)) * 200
"""Any byte, and mostly those at which something changes."""


def mutations(seeds: list[bytes], rng: random.Random, count: int = USUAL) -> Iterator[bytes]:
    """`count` inputs: bytes changed, cut, doubled and replaced by lengths that hurt."""
    chance = rng.random  # randrange and choice take five times as long, which would be half of a fuzzer's time
    for _ in range(count):
        data = bytearray(seeds[int(chance() * len(seeds))])
        for _ in range(1 + int(chance() * 4)):
            _mutate(data, chance)
        yield bytes(data)


def _mutate(data: bytearray, chance: Callable[[], float]) -> None:
    """One change, in place."""
    at = int(chance() * (len(data) + 1))
    kind = int(chance() * 5)
    if kind == 0 and at < len(data):
        data[at] = _BYTES[int(chance() * len(_BYTES))]
    elif kind == 1:
        del data[at:]
    elif kind == 2:
        data[at : at + 4] = _LENGTHS[int(chance() * len(_LENGTHS))]
    elif kind == 3:
        data[at:at] = int(chance() * (1 << 40)).to_bytes(5, "big")[: 1 + int(chance() * 5)]
    else:
        del data[at : at + 1 + int(chance() * 3)]
