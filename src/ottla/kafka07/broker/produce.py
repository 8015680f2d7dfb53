"""Produce and MultiProduce of 0.7: message sets are appended, without a response. A refused set closes the connection.

A message that is too large is dropped and logged, as in 0.7.2.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from ottla.broker.long_checks import LARGE_BYTES, LongChecks
from ottla.broker.partitions.partition import Partition
from ottla.broker.serving.authorization import Operation, Resource
from ottla.broker.serving.request import NO_REPLY, Close, Ready
from ottla.broker.topics.by_name import is_there
from ottla.cluster.acls import CLUSTER_NAME
from ottla.cluster.names import INTERNAL, name_error, printable
from ottla.kafka07.broker.context import Context07, Request07
from ottla.kafka07.records.produced_messages import Arrived07, Terms07, arrive
from ottla.kafka07.wire import ProduceRequest07, decode_request, named_in
from ottla.ports import Buffer, Steps
from ottla.records.compression.codecs import MOST_EXPANSION
from ottla.records.message_sets.legacy import BadMessage
from ottla.wire.errors import NONE, error_name

log = logging.getLogger("ottla.broker")

ANY_PARTITION: Final = -1
READ_AT_ONCE: Final = 200
LOOK_AGAIN_MS: Final = 10
MOST_WAIT_MS: Final = 5_000
"""The longest time in ms that messages for a new topic wait until this broker leads it."""
DROPPED: Final = (
    "%s: what it produced to %s-%d was dropped, for a message of %d bytes is too large: raise max.message.bytes of the topic, or "
    "send smaller ones"
)


def produce(context: Context07, asked: Request07) -> Steps[Ready]:
    request = decode_request(asked.frame)
    assert isinstance(request, ProduceRequest07), "that is its type"
    return (yield from _in_order(context, asked, [request]))


def multi_produce(context: Context07, asked: Request07) -> Steps[Ready]:
    """Append message sets one after the other, up to the first refused one. Sets that were already appended stay."""
    requests: list[ProduceRequest07] = []
    for request in named_in(asked.frame):
        assert isinstance(request, ProduceRequest07), "that is what a request of its type names"
        requests.append(request)
        if not len(requests) % READ_AT_ONCE:
            yield None
    return (yield from _in_order(context, asked, requests))


def _in_order(context: Context07, asked: Request07, requests: Iterable[ProduceRequest07]) -> Steps[Ready]:
    yield from context.wait_for_metadata(asked.now)
    for number, request in enumerate(requests):
        if number:
            yield None
        refused = yield from _append(context, asked, request)
        if refused is not None:
            return Close(refused)
    return NO_REPLY


def _append(context: Context07, asked: Request07, request: ProduceRequest07) -> Steps[str | None]:
    """Append one message set, after creating its topic if necessary. Return the reason of a refusal, or None.

    A refusal closes the connection.
    """
    topic = request.topic
    refused = name_error(topic)
    if refused is None and not context.may(asked, Operation.WRITE, topic):
        refused = f"{printable(asked.peer.principal)} may not write to the topic {topic}, and Produce has no response"
    if refused is None and context.partitions_of(topic) is None:
        refused = yield from _make(context, asked, request)
    if refused is not None:
        return refused
    index = _index(context, topic, request.partition)
    if index is None:
        return _no_partition(request)
    return (yield from _append_to(context, asked, request, index))


def _append_to(context: Context07, asked: Request07, request: ProduceRequest07, index: int) -> Steps[str | None]:
    topic, partition = request.topic, context.parts.partitions.get(request.topic, index)
    view = context.view(asked, topic, index)
    if view is None or partition is None:
        return f"messages came for {topic}-{index}, which is not served to clients of Kafka 0.7"
    try:
        arrived = yield from _arrive(context.parts.checks, request.messages, _terms(partition, asked))
    except BadMessage as bad:
        return f"messages for {topic}-{index} are invalid: {bad}"
    if arrived.too_large_bytes:
        log.warning(DROPPED, asked.peer, topic, index, arrived.too_large_bytes, extra={"cause": f"too large {topic}"})
        return None
    error_code = view.append(arrived.runs, asked.now) if arrived.runs else NONE
    return f"messages could not be appended to {topic}-{index}: {error_name(error_code)}" if error_code else None


def _terms(partition: Partition, asked: Request07) -> Terms07:
    """Return the rules by which the partition accepts messages from this client."""
    terms, release = partition.terms(asked.now), asked.peer.release
    most_bytes = partition.config.max_message_bytes
    return Terms07(asked.now.wall_ms, most_bytes, terms.codec, terms.level, release.newest_magic, release.newest_codec)


def _arrive(checks: LongChecks, messages: Buffer, terms: Terms07) -> Steps[Arrived07]:
    """Convert messages to batches, first with the memory limit for common sets, which many requests can share.

    If a message exceeds that limit, convert again within the highest limit, for one request at a time.
    """
    most_bytes = min(LARGE_BYTES, MOST_EXPANSION * len(messages))
    arrived = yield from checks.hold_during(most_bytes, _convert(messages, terms._replace(limit_bytes=most_bytes)))
    if arrived.too_large_bytes > most_bytes:
        arrived = yield from checks.hold_during(terms.limit_bytes, _convert(messages, terms))
    return arrived


def _convert(messages: Buffer, terms: Terms07) -> Steps[Arrived07]:
    return (yield from arrive(messages, terms))


def _make(context: Context07, asked: Request07, request: ProduceRequest07) -> Steps[str | None]:
    """Create the topic of a request (auto.create.topics.enable) on this broker, the only one that its client can reach.

    Return the reason of a refusal, or None.
    """
    topic, settings = request.topic, context.parts.settings.value
    if not ANY_PARTITION <= request.partition < settings.num_partitions:
        return _no_partition(request)
    if topic in INTERNAL:
        return f"messages were sent to {topic}, which is an internal topic"
    if not settings.auto_create_topics_enable:
        return f"messages were sent to {topic}, which does not exist: create it, or set auto.create.topics.enable"
    rights = context.parts.rights
    may_create = rights.is_open or rights.may(asked.peer, Operation.CREATE, Resource.CLUSTER, CLUSTER_NAME)
    if not may_create and not context.may(asked, Operation.CREATE, topic):
        return f"{printable(asked.peer.principal)} may not create the topic {topic}, and Produce has no response"
    decision = yield from context.parts.by_name.made_on(topic, context.parts.node_id)
    if not is_there(decision):
        return f"the topic {topic} could not be created: {error_name(decision.error_code)}"
    until_ms = context.parts.purgatory.now().mono_ms + MOST_WAIT_MS
    while _is_coming(context, topic) and context.parts.purgatory.now().mono_ms < until_ms:
        yield context.parts.purgatory.rest(LOOK_AGAIN_MS)
    return None


def _is_coming(context: Context07, topic: str) -> bool:
    """Return whether this broker leads a partition of the topic in the image, but has not opened its log yet."""
    found = context.parts.cluster.topics.get(topic)
    own = () if found is None else (one.index for one in found.partitions if one.leader == context.parts.node_id)
    return not all(_is_led(context, topic, index) for index in own)


def _index(context: Context07, topic: str, wanted: int) -> int | None:
    """Return the index of the wanted partition; for -1, of a random partition that this broker leads. None without one."""
    count = context.partitions_of(topic) or 0
    if wanted != ANY_PARTITION:
        return wanted if 0 <= wanted < count else None
    drawn = int.from_bytes(context.parts.random_bytes(4))
    if count and _is_led(context, topic, drawn % count):
        return drawn % count
    led = [index for index in range(count) if _is_led(context, topic, index)]
    return led[drawn % len(led)] if led else None


def _is_led(context: Context07, topic: str, index: int) -> bool:
    partition = context.parts.partitions.get(topic, index)
    return partition is not None and not partition.leader_error()


def _no_partition(request: ProduceRequest07) -> str:
    return f"messages were sent to {request.topic}-{request.partition}, which does not exist"
