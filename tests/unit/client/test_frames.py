"""Frames out of a stream of bytes that was cut anywhere."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.connection.frames import (
    KEPT_BUFFERS,
    MAX_KEPT_BYTES,
    RARE_AFTER,
    STAGING_BYTES,
    FrameBuffers,
    FrameReader,
)
from ottla.client.errors import ConnectionFailed
from ottla.ports import Buffer

OURS = 2
"""References to what has one name in a test: that, and the one of who counts."""
sizes = st.one_of(st.integers(4, 200), st.integers(STAGING_BYTES - 8, 3 * STAGING_BYTES))


def receive(reader: FrameReader, data: bytes) -> list[bytes]:
    """As a socket does: writes no more than the buffer holds."""
    frames = []
    while data:
        room = reader.buffer()
        part = data[: len(room)]
        room[: len(part)] = part
        frames += [bytes(found) for found in reader.receive(len(part))]
        data = data[len(part) :]
    return frames


@given(st.lists(sizes, max_size=6), st.lists(st.integers(50, 100_000), min_size=1, max_size=8))
def test_frames_come_out_whole_however_the_stream_was_cut(lengths: list[int], cuts: list[int]) -> None:
    frames = [bytes([number]) * length for number, length in enumerate(lengths)]
    stream = b"".join(len(one).to_bytes(4, "big") + one for one in frames)
    reader, found, turn = FrameReader(), [], 0
    while stream:
        size = cuts[turn % len(cuts)]
        found += receive(reader, stream[:size])
        stream, turn = stream[size:], turn + 1
    assert found == frames, [len(one) for one in found]


@given(st.lists(st.binary(min_size=4, max_size=30), max_size=4))
def test_a_byte_at_a_time_gives_the_same_frames(frames: list[bytes]) -> None:
    reader = FrameReader()
    stream = b"".join(len(one).to_bytes(4, "big") + one for one in frames)
    assert [found for byte in stream for found in receive(reader, bytes([byte]))] == frames


def test_a_large_frame_is_received_into_a_buffer_of_its_own() -> None:
    reader = FrameReader()
    receive(reader, (2 * STAGING_BYTES).to_bytes(4, "big") + b"begin")
    assert len(reader.buffer()) == 2 * STAGING_BYTES - len(b"begin")


@pytest.mark.parametrize("size", [-1, 0, 3, 1 << 30])
def test_a_size_that_cannot_be_ends_the_connection(size: int) -> None:
    with pytest.raises(ConnectionFailed, match="does not seem to speak Kafka's protocol"):
        receive(FrameReader(max_frame_bytes=1 << 20), size.to_bytes(4, "big", signed=True))


def test_a_large_buffer_is_used_again_only_once_no_view_of_it_is_left() -> None:
    buffers = FrameBuffers()
    first = buffers.allocate(500_000)
    before, part = id(first.obj), first[10:20]
    del first
    second = buffers.allocate(500_000)
    assert id(second.obj) != before
    del part
    third = buffers.allocate(400_000)
    assert (id(third.obj), len(third)) == (before, 400_000)


def test_a_buffer_much_larger_than_the_frame_is_not_held_up_by_it() -> None:
    buffers = FrameBuffers()
    large = id(buffers.allocate(4_000_000).obj)
    assert id(buffers.allocate(100_000).obj) != large


def test_a_frame_that_is_still_held_keeps_its_bytes_when_others_arrive() -> None:
    reader = FrameReader()
    held: list[Buffer] = []
    for number in range(5):
        data = (200_000).to_bytes(4, "big") + bytes([number]) * 200_000
        while data:
            room = reader.buffer()
            part = data[: len(room)]
            room[: len(part)] = part
            held += reader.receive(len(part))
            data = data[len(part) :]
    assert [bytes(frame) for frame in held] == [bytes([number]) * 200_000 for number in range(5)]


def received(reader: FrameReader, size: int) -> memoryview:
    """The frame of so many bytes, once it was received."""
    data, frames = bytearray(size.to_bytes(4, "big") + bytes(size)), list[Buffer]()
    while data:
        room = reader.buffer()
        count = min(len(room), len(data))
        room[:count] = data[:count]
        del data[:count]
        frames += reader.receive(count)
    assert len(frames) == 1
    return memoryview(frames[0])


def test_the_room_of_large_frames_is_given_back_when_only_small_ones_come() -> None:
    reader = FrameReader()
    buffer = received(reader, 500_000).obj
    assert sys.getrefcount(buffer) > OURS
    for _ in range(RARE_AFTER):
        received(reader, 100)
    assert sys.getrefcount(buffer) == OURS
    received(reader, 500_000)


def test_the_room_of_large_frames_is_kept_over_a_few_small_ones() -> None:
    reader = FrameReader()
    before = id(received(reader, 500_000).obj)
    for _ in range(RARE_AFTER - 1):
        received(reader, 100)
    assert id(received(reader, 500_000).obj) == before


def test_a_buffer_is_used_again_once_nobody_has_a_view_of_it() -> None:
    buffers = FrameBuffers()
    first = buffers.allocate(1 << 20)
    second = buffers.allocate(1 << 20)
    own = [view.obj for view in (first, second)]
    assert own[0] is not own[1]
    first.release()
    assert buffers.allocate((1 << 20) - 5).obj is own[0]


def test_kept_buffers_are_limited_in_number_and_size() -> None:
    for size, most in ((1 << 20, KEPT_BUFFERS), (5 << 20, 3), (MAX_KEPT_BYTES + 1, 0)):
        buffers = FrameBuffers()
        views = [buffers.allocate(size) for _ in range(KEPT_BUFFERS + 2)]
        own = [view.obj for view in views]  # kept alive: no other object gets its id
        for view in views:
            view.release()
        again = [buffers.allocate(size) for _ in range(KEPT_BUFFERS + 2)]
        assert len({id(each) for each in own} & {id(view.obj) for view in again}) == most
