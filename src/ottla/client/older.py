"""Conversions for older brokers: message sets in place of batches, and requests without the fields that older versions lack.

Connections pass every request through `fitted` before encoding it; readers pass fetched records through `as_batches`. The module
contains the differences between versions; callers choose the version.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ottla.client.errors import NotSupported
from ottla.client.feature_admin import UPGRADE
from ottla.ports import Buffer
from ottla.records.batch import BadBatch
from ottla.records.codecs import CodecFailed
from ottla.records.columns import open_batches
from ottla.records.convert import down_convert, up_convert
from ottla.records.kernel import HEADERS_SIZE
from ottla.records.legacy import open_message_set
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.leave_group import LeaveGroupRequest
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.api.offset_fetch import OffsetFetchRequest
from ottla.wire.api.produce import ProduceRequest
from ottla.wire.api.update_features import UpdateFeaturesRequest
from ottla.wire.schema import Message

BATCHES_FROM_PRODUCE: Final = 3
TIMES_FROM_PRODUCE: Final = 2
CREATION_FROM_METADATA: Final = 4
STABLE_FROM_OFFSET_FETCH: Final = 7
"""The version from which offsets of open transactions can be held back (KIP-447)."""
SEVERAL_FROM_LEAVE_GROUP: Final = 3
"""The version from which several members can leave at once (KIP-345)."""
WHOLE_FROM_FETCH: Final = 3
"""The version from which the first message is returned whole, however large (KIP-74)."""
SEVERAL_FROM_FIND_COORDINATOR: Final = 4
"""The version from which one request finds the coordinators of several keys (KIP-699)."""
UPGRADE_TYPES_FROM_UPDATE_FEATURES: Final = 1
"""The version from which a downgrade is safe or unsafe, and can be validated only (KIP-778)."""
NO_HEADERS_BYTES: Final = 1
"""The size of the header count in a record without headers, in bytes."""
ENTRY_BYTES, MAGIC_AT, SIZE_AT, OLDEST_BATCH = 12, 16, 8, 2


def fitted(version: int, body: Message) -> Message:
    """Return the request as this version can express it. Raises `NotSupported` if the version cannot."""
    if isinstance(body, ProduceRequest) and version < BATCHES_FROM_PRODUCE:
        return _produce(body, magic=1 if version >= TIMES_FROM_PRODUCE else 0)
    if isinstance(body, MetadataRequest) and version < CREATION_FROM_METADATA:
        # From version 1 on, null means all topics; before, the empty list does. Every older request may create topics.
        return replace(body, topics=body.topics if version else body.topics or [], allow_auto_topic_creation=True)
    if isinstance(body, OffsetFetchRequest) and version < STABLE_FROM_OFFSET_FETCH:
        return replace(body, require_stable=False)
    if isinstance(body, LeaveGroupRequest) and version < SEVERAL_FROM_LEAVE_GROUP:
        return replace(body, member_id=body.members[0].member_id, members=[])
    if isinstance(body, FindCoordinatorRequest) and version < SEVERAL_FROM_FIND_COORDINATOR:
        return _find_coordinator(body)
    if isinstance(body, UpdateFeaturesRequest) and version < UPGRADE_TYPES_FROM_UPDATE_FEATURES:
        return _update_features(body)
    return body


def _find_coordinator(body: FindCoordinatorRequest) -> FindCoordinatorRequest:
    if len(body.coordinator_keys) > 1:
        raise NotSupported("Only brokers since Kafka 3.0 tell several coordinators at once: ask for one, or use a newer broker.")
    return replace(body, key=body.coordinator_keys[0], coordinator_keys=[])


def _update_features(body: UpdateFeaturesRequest) -> UpdateFeaturesRequest:
    updates = [replace(each, upgrade_type=UPGRADE, allow_downgrade=each.upgrade_type != UPGRADE) for each in body.feature_updates]
    return replace(body, feature_updates=updates)


def _produce(body: ProduceRequest, magic: int) -> ProduceRequest:
    topics = []
    for topic in body.topic_data:
        parts = [replace(part, records=message_set(part.records or b"", magic)) for part in topic.partition_data]
        topics.append(replace(topic, partition_data=parts))
    return replace(body, topic_data=topics)


def message_set(batch: Buffer, magic: int) -> bytes:
    """Convert batches to a message set of an older format. Raises `NotSupported` for contents that the format lacks."""
    if max(open_batches(batch).span_column(HEADERS_SIZE), default=0) > NO_HEADERS_BYTES:
        raise NotSupported("Record headers came with Kafka 0.11, and the broker is older: leave them out, or use a newer one.")
    try:
        return b"".join(down_convert(batch, magic))
    except BadBatch as error:
        raise NotSupported(f"The broker is older than these records can be written for: {error}") from error


def as_batches(records: memoryview) -> memoryview:
    """Convert fetched records to whole batches: message sets of older formats keep their offsets and timestamps.

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
    """Return the position of the first batch after messages of older formats; a torn last message counts as a message."""
    at = 0
    while at + MAGIC_AT < len(records) and records[at + MAGIC_AT] < OLDEST_BATCH:
        at += ENTRY_BYTES + int.from_bytes(records[at + SIZE_AT : at + ENTRY_BYTES], "big")
    return min(at, len(records))
