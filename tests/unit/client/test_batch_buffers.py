"""Buffers are used again once nothing refers to them."""

from __future__ import annotations

from ottla.client.producer.batch_buffers import MOST_BUFFERS, SMALLEST_BYTES, BatchBuffers


def test_a_buffer_is_handed_out_once_and_only_when_nothing_refers_to_it() -> None:
    spare = BatchBuffers()
    assert spare.pop() is None
    made = bytearray(SMALLEST_BYTES)
    spare.add(made)
    assert spare.pop() is None
    part = memoryview(made)[10:20]
    address = id(made)
    del made
    assert spare.pop() is None
    del part
    again = spare.pop()
    assert id(again) == address
    assert spare.pop() is None


def test_small_buffers_and_more_than_some_are_not_kept() -> None:
    spare = BatchBuffers()
    spare.add(bytearray(SMALLEST_BYTES - 1))
    assert spare.pop() is None
    for number in range(MOST_BUFFERS + 3):
        spare.add(bytearray([number]) * SMALLEST_BYTES)
    first = spare.pop()
    assert first is not None
    assert first[0] == 3
