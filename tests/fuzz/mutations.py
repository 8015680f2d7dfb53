"""Inputs near valid ones, made by the million: an edit is looked up, not computed, and chance comes in bulk."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice
from struct import Struct
from typing import Final

USUAL: Final = 150
_LENGTHS: Final = (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\xff\x0f", b"\0\0\1\0")
"""Lengths and counts that hurt."""
_TURNING: Final = (0, 1, 0x7F, 0x80, 0xFF)
"""Bytes at which something changes."""
_TO_THE_END: Final = 1 << 30
_EDIT_BITS: Final = 14
_PLAN: Final = Struct("<5I")
"""What chance decides of four inputs: a seed, and for each a place and an edit."""


def _edit(chance: random.Random) -> tuple[bytes, int]:
    """(bytes to put in, how many to take out)."""
    kind = chance.randrange(5)
    if kind == 0:
        return bytes((chance.choice(_TURNING) if chance.random() < 0.8 else chance.randrange(256),)), 1
    if kind == 1:
        return b"", _TO_THE_END
    if kind == 2:
        return chance.choice(_LENGTHS), 4
    if kind == 3:
        return chance.randbytes(chance.randint(1, 5)), 0
    return b"", chance.randint(1, 3)


_CHANCE: Final = random.Random(20_240_607)
_EDITS: Final = [_edit(_CHANCE) for _ in range(1 << _EDIT_BITS)]


def mutations(seeds: list[bytes], rng: random.Random, count: int = USUAL) -> Iterator[bytes]:
    """`count` inputs: bytes changed, put in, taken out, cut off or replaced by lengths that hurt.

    Each is the one before with one edit more, so that it costs one; after four a seed comes again.
    """
    return islice(_edited(seeds, rng, -(-count // 4)), count)


def _edited(seeds: list[bytes], rng: random.Random, rows: int) -> Iterator[bytes]:
    many, mask = len(seeds), (1 << _EDIT_BITS) - 1
    for first, *draws in _PLAN.iter_unpack(rng.randbytes(_PLAN.size * rows)):
        data = seeds[first % many]
        for draw in draws:
            at = (draw >> _EDIT_BITS) % (len(data) + 1)
            piece, gone = _EDITS[draw & mask]
            data = data[:at] + piece + data[at + gone :]
            yield data
