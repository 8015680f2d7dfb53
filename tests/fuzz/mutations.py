"""Inputs near valid ones."""

from __future__ import annotations

import random
from collections.abc import Iterator

USUAL = 150
_LENGTHS = (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\xff\x0f", b"\0\0\1\0")
"""Lengths and counts that hurt."""


def mutations(seeds: list[bytes], rng: random.Random, count: int = USUAL) -> Iterator[bytes]:
    """`count` inputs: bytes changed, cut, doubled and replaced by lengths that hurt."""
    for _ in range(count):
        data = bytearray(rng.choice(seeds))
        for _ in range(rng.randint(1, 4)):
            mutate(data, rng)
        yield bytes(data)


def mutate(data: bytearray, rng: random.Random) -> None:
    """One change, in place."""
    at = rng.randint(0, len(data))
    kind = rng.randrange(5)
    if kind == 0 and at < len(data):
        data[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    elif kind == 1:
        del data[at:]
    elif kind == 2:
        data[at : at + 4] = rng.choice(_LENGTHS)
    elif kind == 3:
        data[at:at] = rng.randbytes(rng.randint(1, 5))
    else:
        del data[at : at + rng.randint(1, 3)]
