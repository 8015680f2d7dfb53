"""Conversions of requests for older brokers: older versions lack some fields.

Connections pass every request through `fit` before encoding it. Callers choose the version. `older_records`, which converts
records, and `older_administration`, for requests of admin clients, are imported when needed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ottla.client.errors import NotSupported
from ottla.records.batches.header import CODEC_MASK
from ottla.records.compression.codecs import ZSTD
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.leave_group import LeaveGroupRequest
from ottla.wire.api.list_groups import ListGroupsRequest
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.api.offset_fetch import OffsetFetchRequest
from ottla.wire.api.produce import ProduceRequest
from ottla.wire.schema import Message

BATCHES_FROM_PRODUCE: Final = 3
ZSTD_FROM_PRODUCE: Final = 7
"""The version of Produce from which batches can be compressed with zstd (KIP-110)."""
CODEC_BYTE: Final = 22
"""The place of a batch's codec, in the low bits of its attributes."""
TIMES_FROM_PRODUCE: Final = 2
CREATION_FROM_METADATA: Final = 4
STABLE_FROM_OFFSET_FETCH: Final = 7
"""The version of OffsetFetch from which brokers can withhold the offsets of open transactions (KIP-447)."""
ONE_GROUP_TO_OFFSET_FETCH: Final = 7
"""The last version of OffsetFetch for one group. Later versions are for several groups (KIP-709)."""
ALL_FROM_OFFSET_FETCH: Final = 2
"""The version of OffsetFetch from which a request need not name partitions (KIP-88)."""
STATES_FROM_LIST_GROUPS, TYPES_FROM_LIST_GROUPS = 4, 5
"""The versions of ListGroups from which brokers filter by state (KIP-518) and by type (KIP-848). Callers filter themselves, too."""
SEVERAL_FROM_LEAVE_GROUP: Final = 3
"""The version of LeaveGroup from which several members can leave with one request (KIP-345)."""
WHOLE_FROM_FETCH: Final = 3
"""The version of Fetch from which brokers return the first message whole, even if it exceeds the limits (KIP-74)."""
ISOLATION_FROM_FETCH: Final = 4
"""The version of Fetch from which it can leave out records of open and aborted transactions (KIP-98)."""
SEVERAL_FROM_FIND_COORDINATOR: Final = 4
"""The version of FindCoordinator from which one request finds the coordinators of several keys (KIP-699)."""
ADMINISTRATION: Final = frozenset((19, 20, 32, 57, 74))
"""The keys of the APIs that `older_administration` converts: CreateTopics, DeleteTopics, DescribeConfigs, UpdateFeatures and
ListConfigResources.
"""


def newest(version: int, body: Message) -> int:
    """Return `version`, or an older one if `body` has the fields of the older one only."""
    if isinstance(body, OffsetFetchRequest) and not body.groups:
        return min(version, ONE_GROUP_TO_OFFSET_FETCH)
    return version


def fit(version: int, body: Message) -> Message:
    """Return the request `body` without the fields that `version` does not have.

    Raises `NotSupported` if leaving out a field would change the meaning of the request.
    """
    if isinstance(body, ProduceRequest):
        return body if version >= ZSTD_FROM_PRODUCE else _older_produce(version, body)
    if isinstance(body, MetadataRequest) and version < CREATION_FROM_METADATA:
        # From version 1 on, null means all topics; in version 0, the empty list does. Versions before 4 always create topics.
        return replace(body, topics=body.topics if version else body.topics or [], allow_auto_topic_creation=True)
    if isinstance(body, OffsetFetchRequest) and version < STABLE_FROM_OFFSET_FETCH:
        if version < ALL_FROM_OFFSET_FETCH and body.topics is None and not body.groups:
            raise NotSupported(
                "Listing all offsets of a group needs Kafka 0.10.2 or newer: name partitions, or use a newer broker."
            )
        return replace(body, require_stable=False)
    if isinstance(body, ListGroupsRequest) and version < TYPES_FROM_LIST_GROUPS:
        return replace(body, states_filter=body.states_filter if version >= STATES_FROM_LIST_GROUPS else [], types_filter=[])
    if isinstance(body, LeaveGroupRequest) and version < SEVERAL_FROM_LEAVE_GROUP:
        return replace(body, member_id=body.members[0].member_id, members=[])
    if isinstance(body, FindCoordinatorRequest) and version < SEVERAL_FROM_FIND_COORDINATOR:
        return _find_coordinator(body)
    if body.WIRE.key in ADMINISTRATION:
        from ottla.client.connection.older_administration import fit_administration

        return fit_administration(version, body)
    return body


def _find_coordinator(body: FindCoordinatorRequest) -> FindCoordinatorRequest:
    if len(body.coordinator_keys) > 1:
        raise NotSupported(
            "Finding several coordinators at once needs Kafka 3.0 or newer: find one at a time, or use a newer broker."
        )
    return replace(body, key=body.coordinator_keys[0], coordinator_keys=[])


def _older_produce(version: int, body: ProduceRequest) -> ProduceRequest:
    """Return a request in the format of records that `version` has. Raises `NotSupported` for zstd, which it has not."""
    for topic in body.topic_data:
        if any(part.records and part.records[CODEC_BYTE] & CODEC_MASK == ZSTD for part in topic.partition_data):
            raise NotSupported("compression_type=zstd needs Kafka 2.1 or newer: choose lz4, or use a newer broker.")
    return body if version >= BATCHES_FROM_PRODUCE else _produce(body, magic=1 if version >= TIMES_FROM_PRODUCE else 0)


def _produce(body: ProduceRequest, magic: int) -> ProduceRequest:
    from ottla.client.older_records import message_set

    topics = []
    for topic in body.topic_data:
        parts = [replace(part, records=message_set(part.records or b"", magic)) for part in topic.partition_data]
        topics.append(replace(topic, partition_data=parts))
    return replace(body, topic_data=topics)
