"""What requests and answers are in versions that say less than today's: message sets in place of batches, one field for another.

Connections put every request through `fitted` before it is encoded, and whoever reads records puts them through `as_batches`. Knows
versions and formats; which version a broker is asked in, it does not know.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple

from ottla.client.errors import NotSupported
from ottla.client.versions import LEAVE_GROUP, METADATA, OFFSET_FETCH, PRODUCE
from ottla.ports import Buffer
from ottla.records.batch import BadBatch
from ottla.records.codecs import CodecFailed
from ottla.records.columns import open_batches
from ottla.records.convert import down_convert, up_convert
from ottla.records.kernel import HEADERS_SIZE
from ottla.records.legacy import open_message_set
from ottla.wire.schema import Message

BATCHES_FROM_PRODUCE: Final = 3
TIMES_FROM_PRODUCE: Final = 2
WHOLE_FROM_FETCH: Final = 3
"""Since this version of Fetch, the first message comes whole however large it is (KIP-74)."""
NO_HEADERS_BYTES: Final = 1
"""A record without headers says that there are 0 of them."""
ENTRY_BYTES, MAGIC_AT, SIZE_AT, OLDEST_BATCH = 12, 16, 8, 2


class Fit(NamedTuple):
    """How a request is changed for versions below `below`."""

    below: int
    change: Callable[[Any, int], Message]


def fitted(api_key: int, version: int, body: Message) -> Message:
    """The request as this version can say it. Raises `NotSupported` where it cannot."""
    fit = _FITS.get(api_key)
    return body if fit is None or version >= fit.below else fit.change(body, version)


def _produce(body: Any, version: int) -> Message:
    magic = 1 if version >= TIMES_FROM_PRODUCE else 0
    topics = []
    for topic in body.topic_data:
        parts = [replace(part, records=message_set(part.records, magic)) for part in topic.partition_data]
        topics.append(replace(topic, partition_data=parts))
    changed: Message = replace(body, topic_data=topics)
    return changed


def message_set(batch: Buffer, magic: int) -> bytes:
    """Batches as a set of messages of an older format. Raises `NotSupported` for what that format does not have."""
    if max(open_batches(batch).span_column(HEADERS_SIZE), default=0) > NO_HEADERS_BYTES:
        raise NotSupported("Record headers came with Kafka 0.11, and the broker is older: leave them out, or use a newer one.")
    try:
        return b"".join(down_convert(batch, magic))
    except BadBatch as error:
        raise NotSupported(f"The broker is older than these records can be written for: {error}") from error


def _metadata(body: Any, version: int) -> Message:
    """Null for all topics came with version 1: before it, the empty list means all. Before 4, asking may always make a topic."""
    topics = body.topics if version else body.topics or []
    changed: Message = replace(body, topics=topics, allow_auto_topic_creation=True)
    return changed


def _offset_fetch(body: Any, version: int) -> Message:
    """Brokers before KIP-447 know of no offsets that are not yet stable."""
    changed: Message = replace(body, require_stable=False)
    return changed


def _leave_group(body: Any, version: int) -> Message:
    """Several members can leave at once since version 3 (KIP-345)."""
    changed: Message = replace(body, member_id=body.members[0].member_id, members=[])
    return changed


_FITS: Final = {
    PRODUCE: Fit(BATCHES_FROM_PRODUCE, _produce),
    METADATA: Fit(4, _metadata),
    OFFSET_FETCH: Fit(7, _offset_fetch),
    LEAVE_GROUP: Fit(3, _leave_group),
}


def as_batches(records: memoryview) -> memoryview:
    """Fetched records as whole batches: sets of messages of older formats are rewritten, keeping offsets and times.

    Raises `BadBatch` for messages that cannot be read.
    """
    end = _end_of_messages(records)
    if not end:
        return records
    try:
        columns = open_message_set(records[:end])
    except CodecFailed as error:
        raise BadBatch(0, f"the compressed messages cannot be opened: {error}") from error
    if not len(columns):
        return records[end:]
    return memoryview(bytes(up_convert(columns, keep_offsets=True, codec=0)) + bytes(records[end:]))


def _end_of_messages(records: memoryview) -> int:
    """Where the first batch begins behind messages of older formats; a message torn at the end counts as one."""
    at = 0
    while at + MAGIC_AT < len(records) and records[at + MAGIC_AT] < OLDEST_BATCH:
        at += ENTRY_BYTES + int.from_bytes(records[at + SIZE_AT : at + ENTRY_BYTES], "big")
    return min(at, len(records))
