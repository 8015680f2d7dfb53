"""Fetch and MultiFetch of 0.7: the bytes of a partition's view from a position on, without waiting for more.

All parts of an answer are in memory together, so they share `fetch.max.bytes`. Parts beyond the limit are empty, and the client
fetches them again.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from ottla.broker.serving.authorization import Operation
from ottla.broker.serving.request import Close, Encoded, Ready
from ottla.cluster.names import name_error, printable
from ottla.kafka07.broker.context import Context07, Request07
from ottla.kafka07.broker.views import Fetched07
from ottla.kafka07.wire import (
    NONE,
    OFFSET_OUT_OF_RANGE,
    UNKNOWN,
    WRONG_PARTITION,
    FetchRequest07,
    OffsetsRequest07,
    decode_request,
    named_in,
)
from ottla.ports import Part, Steps

HEAD: Final = Struct(">ih")
"""The size of a response including the error code, and the error code."""
CODE_BYTES: Final = 2
READ_AT_ONCE: Final = 200
JOINED_BYTES: Final = 4096
"""The most bytes of a partition's messages that are copied and joined with others into one buffer: each buffer has a cost."""

EMPTY: Final = Fetched07(NONE, b"")

LATEST: Final = -1
EARLIEST: Final = -2
OFFSETS_HEAD: Final = Struct(">ihi")
"""The size of a response, its error code, and the number of offsets."""
OFFSET_BYTES: Final = 8


def offsets(context: Context07, asked: Request07) -> Steps[Ready]:
    """Answer one request. If the request is refused, close the connection, as 0.7 does: the response has no error code."""
    request = decode_request(asked.frame)
    assert isinstance(request, OffsetsRequest07), "that is its type"
    topic, index = request.topic, request.partition
    yield from context.wait_for_metadata(asked.now)
    refusal = name_error(topic)
    if refusal is not None:
        return Close(refusal)
    if not context.may(asked, Operation.DESCRIBE, topic):
        return Close(
            f"{printable(asked.peer.principal)} may not describe the topic {topic}, and the response to Offsets has no error for it"
        )
    if request.max_offsets < 0:
        return Close(f"{request.max_offsets} offsets of {topic}-{index} were asked for")
    count = context.partitions_of(topic)
    if not 0 <= index < (context.parts.settings.value.num_partitions if count is None else count):
        return Close(f"the offsets of {topic}-{index} were asked for, and there is no such partition")
    if count is None:
        return _encode([0] if request.time in (LATEST, EARLIEST) else [])
    view = context.view(asked, topic, index)
    if view is None:
        return Close(f"the offsets of {topic}-{index} were asked for, which is not served to clients of Kafka 0.7")
    return _encode((yield from view.offsets(request.time, request.max_offsets)))


def _encode(found: list[int]) -> Encoded:
    head = OFFSETS_HEAD.pack(OFFSETS_HEAD.size - 4 + OFFSET_BYTES * len(found), NONE, len(found))
    return Encoded([head + Struct(f">{len(found)}q").pack(*found)])


def fetch(context: Context07, asked: Request07) -> Steps[Ready]:
    request = decode_request(asked.frame)
    assert isinstance(request, FetchRequest07), "that is its type"
    if request.max_bytes < 0:
        return _negative(request)
    most = min(request.max_bytes, context.parts.settings.value.fetch_max_bytes)
    yield from context.wait_for_metadata(asked.now)
    found = yield from context.parts.checks.hold_during(most, _read(context, asked, request, most))
    return Encoded([HEAD.pack(CODE_BYTES + len(found.data), found.error_code), found.data])


def multi_fetch(context: Context07, asked: Request07) -> Steps[Ready]:
    requests: list[FetchRequest07] = []
    wanted = 0
    for request in named_in(asked.frame):
        assert isinstance(request, FetchRequest07), "that is what a request of its type names"
        if request.max_bytes < 0:
            return _negative(request)
        wanted += request.max_bytes
        requests.append(request)
        if not len(requests) % READ_AT_ONCE:
            yield None
    most = min(wanted, context.parts.settings.value.fetch_max_bytes)
    yield from context.wait_for_metadata(asked.now)
    first = int.from_bytes(context.parts.random_bytes(4)) % len(requests) if wanted > most else 0
    return (yield from context.parts.checks.hold_during(most, _read_all(context, asked, requests, first, most)))


def _read_all(context: Context07, asked: Request07, requests: list[FetchRequest07], first: int, left: int) -> Steps[Ready]:
    """Serve several fetches in turn, beginning with number `first`, with at most `left` bytes together.

    `first` is random if the limit is too small for all fetches, so that each is first at some time.
    """
    found = [EMPTY] * len(requests)
    for number in range(len(requests)):
        at = (first + number) % len(requests)
        if requests[at].max_bytes <= left or not number:
            found[at] = yield from _read(context, asked, requests[at], min(left, requests[at].max_bytes))
            left -= len(found[at].data)
        if not (number + 1) % READ_AT_ONCE:
            yield None
    return (yield from _answer(found))


def _answer(found: list[Fetched07]) -> Steps[Ready]:
    parts: list[Part] = []
    joined, size = bytearray(), CODE_BYTES
    for number, (error_code, data) in enumerate(found, 1):
        joined += HEAD.pack(CODE_BYTES + len(data), error_code)
        size += HEAD.size + len(data)
        if len(data) <= JOINED_BYTES:
            joined += data
        else:
            parts += (joined, data)
            joined = bytearray()
        if not number % READ_AT_ONCE:
            yield None
    return Encoded([HEAD.pack(size, NONE), *parts, joined])


def _read(context: Context07, asked: Request07, request: FetchRequest07, most: int) -> Steps[Fetched07]:
    topic = request.topic
    if name_error(topic) is not None or not context.may(asked, Operation.READ, topic):
        return Fetched07(UNKNOWN, b"")
    count = context.partitions_of(topic)
    if not 0 <= request.partition < (context.parts.settings.value.num_partitions if count is None else count):
        return Fetched07(WRONG_PARTITION, b"")
    if count is None:
        is_empty = not request.offset or asked.peer.release.unknown_is_empty
        return EMPTY if is_empty else Fetched07(OFFSET_OUT_OF_RANGE, b"")
    view = context.view(asked, topic, request.partition)
    if view is None:
        return Fetched07(UNKNOWN, b"")
    return (yield from view.fetch(request.offset, most))


def _negative(request: FetchRequest07) -> Close:
    return Close(f"a fetch asks for at most {request.max_bytes} bytes of {request.topic}-{request.partition}")
