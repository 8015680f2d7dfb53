"""Values at which something changes: lengths, counts and numbers at the boundaries of their encodings, texts that hurt.

A text may hold `RAW`, a character of the private use area: `spoiled` replaces it in an encoded request by bytes that are no UTF-8.
"""

from __future__ import annotations

import random
from typing import Any, Final

LENGTHS: Final = (0, 1, 2, 127, 128, 255, 256, 16_383, 16_384, 32_766, 32_767)
COUNTS: Final = (0, 1, 2, 127, 128, 255, 256, 16_383, 32_767, 32_768, 100_000)
POWERS: Final = (0, 1 << 7, 1 << 8, 16_383, 1 << 15, 1 << 16, 1 << 31, 1 << 32, 1 << 63)
NUMBERS: Final = sorted({sign * (power + step) for power in POWERS for step in (-2, -1, 0, 1) for sign in (1, -1)})
DOUBLES: Final = (
    0.0, -0.0, 0.1, 1.0, -1.0, 1e-300, 5e-324, 1e15, 1e300, 1.7976931348623157e308, float("inf"), float("-inf"), float("nan"),
    9.3e18, 2.0**31, 2.0**63,
)  # fmt: skip
RAW: Final = "\ue000"
RAW_BYTES: Final = RAW.encode()
UNITS: Final = ("x", "x", "x", "é", "\0", "%", "\n", "a.", "飛", "\U0001f6eb", RAW)
TEXTS: Final = (
    "", " ", ".", "..", "../..", "/", "a/b", "\\", '"', "'", "*", "%", "%s%n%d", "\0", "\n", "\r\n", "a\nERROR forged\n", "é",
    "\u2028", "\x85", "\x1b[31m", RAW, f"a{RAW}b", "a..b:5", "::1", "a,b", "a=b", "{}", "null", "-1", "0", "1", "true", "NaN",
    "Infinity", "1e309", "0x10", "2147483647", "2147483648", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
    "99999999999999999999", "__consumer_offsets", "__transaction_state", "__share_group_state", "<default>", "ANONYMOUS", "User:*",
    "User:", ":", "(", "[a-", "(a+)+$", ".*", "localhost", "127.0.0.1", "256.1.1.1", "a" * 249, "a" * 250,
)  # fmt: skip
RANGES: Final = {
    "b": (-128, 127),
    "h": (-(1 << 15), (1 << 15) - 1),
    "i": (-(1 << 31), (1 << 31) - 1),
    "q": (-(1 << 63), (1 << 63) - 1),
    "H": (0, (1 << 16) - 1),
    "I": (0, (1 << 32) - 1),
}
BY_KIND: Final = {kind: [each for each in NUMBERS if low <= each <= high] for kind, (low, high) in RANGES.items()}
LONGEST: Final = 32_767
"""Bytes of a string, in requests that are read at all."""


def text(rng: random.Random, room: int) -> str:
    """A text of at most `room` bytes, or nearly: of a boundary's length, or one that hurts."""
    if rng.random() < 0.5:
        return rng.choice(TEXTS)
    length = min(rng.choice(LENGTHS), max(room, 1))
    unit = rng.choice(UNITS)
    count = length // len(unit.encode())
    return (unit * count).ljust(length - count * (len(unit.encode()) - len(unit)), "x")[:LONGEST]


def number(rng: random.Random, kind: str) -> Any:
    """A number of a kind of the schema language."""
    if kind == "?":
        return rng.random() < 0.5
    return rng.choice(DOUBLES) if kind == "d" else rng.choice(BY_KIND[kind])


def some_bytes(rng: random.Random, room: int) -> bytes:
    length = min(rng.choice((*LENGTHS, 100_000)), max(room, 1))
    return rng.choice((bytes(length), rng.randbytes(length), b"\xff" * length))


def spoiled(frame: bytes) -> bytes:
    """The frame with bytes that are no UTF-8 where `RAW` was, of the same length."""
    return frame.replace(RAW_BYTES, b"\xff\xc0\x80")
