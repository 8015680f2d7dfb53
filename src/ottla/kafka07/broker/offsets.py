"""The request Offsets of 0.7: the first positions of segments that were last written at a given time or before."""

from __future__ import annotations

from struct import Struct
from typing import Final

from ottla.broker.serving.authorization import Operation
from ottla.broker.serving.request import Close, Encoded, Ready
from ottla.cluster.names import name_error, printable
from ottla.kafka07.broker.context import Asked07, Context07
from ottla.kafka07.wire import NONE, OffsetsRequest07, decode_request
from ottla.ports import Steps

LATEST: Final = -1
EARLIEST: Final = -2
HEAD: Final = Struct(">ihi")
"""The size of a response, its error code, and the number of offsets."""
OFFSET_BYTES: Final = 8


def offsets(context: Context07, asked: Asked07) -> Steps[Ready]:
    """Answer one request. If the request is refused, close the connection, as 0.7 does: the response has no error code."""
    request = decode_request(asked.frame)
    assert isinstance(request, OffsetsRequest07), "that is its type"
    topic, index = request.topic, request.partition
    yield from context.news_come(asked.now)
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
        return _told([0] if request.time in (LATEST, EARLIEST) else [])
    view = context.view(asked, topic, index)
    if view is None:
        return Close(f"the offsets of {topic}-{index} were asked for, which is not served to clients of Kafka 0.7")
    return _told((yield from view.offsets(request.time, request.max_offsets)))


def _told(found: list[int]) -> Encoded:
    head = HEAD.pack(HEAD.size - 4 + OFFSET_BYTES * len(found), NONE, len(found))
    return Encoded([head + Struct(f">{len(found)}q").pack(*found)])
