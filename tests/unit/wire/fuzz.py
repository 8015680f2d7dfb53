"""Mutated messages and frames for as long as one likes: `python -m tests.unit.wire.fuzz --seconds 60 [--seed N]`.

Invariants: nothing but `Malformed` leaves `decode`; the compiled reader takes just what the walk of the grammar takes; and what it
took, it can write again. A failure prints what to put into a test.
"""

from __future__ import annotations

import argparse
import random
import time

from ottla.wire import Malformed, decode, encode
from ottla.wire.framing import decode_request
from ottla.wire.schema import Message
from ottla.wire.walk import leaves
from tests.unit.wire.test_malformed import mutations
from tests.unit.wire.values import EVERY, sample


def check(cls: type[Message], version: int, data: bytes) -> None:
    """All invariants for one input."""
    try:
        msg = decode(cls, version, data)
    except Malformed as e:
        if "cannot be read" in e.reason:
            raise AssertionError("the walk took what the reader refused") from e
        return
    leaves(cls, version, data)
    again = encode(msg, version)
    assert encode(decode(cls, version, again), version) == again


def check_frame(data: bytes) -> None:
    try:
        decode_request(data)
    except Malformed:
        return


def run(seconds: float, seed: int) -> int:
    """How many inputs were tried."""
    rng = random.Random(seed)
    tried, until = 0, time.monotonic() + seconds
    while time.monotonic() < until:
        cls = rng.choice(EVERY)
        version = rng.choice(list(cls.WIRE.valid))
        for data in mutations([encode(sample(cls, version, rng), version) for _ in range(3)], rng):
            tried += 2
            try:
                check(cls, version, data)
                check_frame(cls.WIRE.key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big") + data)
            except BaseException:
                print(f"seed {seed}: {cls.__name__} version {version}: {data!r}")
                raise
    return tried


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    chosen = parser.parse_args()
    print(f"seed {chosen.seed}: {run(chosen.seconds, chosen.seed)} inputs raised nothing but Malformed")
