"""A little that would open to very much: refused at the limit by everything that opens records, in no more memory than that."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import pytest

from ottla.records.batches.builder import build
from ottla.records.batches.columns import open_batches
from ottla.records.batches.header import BadBatch
from ottla.records.compression import codecs
from ottla.records.compression.codecs import GZIP, LZ4, NAMES, SNAPPY, ZSTD, CodecFailed
from ottla.records.message_sets.conversion import down_convert
from ottla.records.message_sets.legacy import open_message_set, wrapper
from ottla.records.message_sets.up_conversion import Terms
from ottla.wire.errors import INVALID_RECORD, MESSAGE_TOO_LARGE
from tests.support.arrivals import accept

pytestmark = pytest.mark.usefixtures("kernels")

LIMIT_BYTES = 1 << 20
BOMB_BYTES = 64 << 20
TERMS = Terms(limit_bytes=LIMIT_BYTES)


@cache
def in_a_batch(codec: int) -> bytes:
    return bytes(build(None, [bytes(BOMB_BYTES)], 5, codec=codec))


@cache
def in_a_wrapper(magic: int, codec: int, depth: int) -> bytes:
    """A message whose value opens to the bomb, `depth` times within another that opens to little."""
    content = bytes(BOMB_BYTES) if depth == 0 else in_a_wrapper(magic, codec, depth - 1)
    return wrapper(0, magic, codec, 0, codecs.compress(codec, content, magic=magic))


def refusals() -> Iterator[Any]:
    """Bombs, and what has to refuse them."""
    for codec in (GZIP, SNAPPY, LZ4, ZSTD):
        bomb = partial(in_a_batch, codec)
        yield pytest.param(bomb, lambda data: open_batches(data, limit_bytes=LIMIT_BYTES), id=f"{NAMES[codec]} batch opened")
        yield pytest.param(bomb, lambda data: list(down_convert(data, 1, limit_bytes=LIMIT_BYTES)), id=f"{NAMES[codec]} batch down")
    for codec in (GZIP, SNAPPY, LZ4):
        for magic in (0, 1):
            for depth in (0, 1, 2):
                bomb = partial(in_a_wrapper, magic, codec, depth)
                name = f"{NAMES[codec]} message of magic {magic} within {depth}"
                yield pytest.param(bomb, lambda data: open_message_set(data, limit_bytes=LIMIT_BYTES), id=f"{name} opened")
                yield pytest.param(bomb, lambda data: accept(data, TERMS), id=f"{name} taken")


@pytest.mark.slow
@pytest.mark.parametrize(("bomb", "refuse"), list(refusals()))
def test_it_is_refused_in_little_memory(bomb: Callable[[], bytes], refuse: Callable[[bytes], Any]) -> None:
    data = bomb()
    assert len(data) < BOMB_BYTES // 15
    tracemalloc.start()
    try:
        answer = refuse(data)
    except (CodecFailed, BadBatch):
        answer = None
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert answer is None or answer.error_code in (MESSAGE_TOO_LARGE, INVALID_RECORD)
    assert peak < len(data) + 3 * LIMIT_BYTES
