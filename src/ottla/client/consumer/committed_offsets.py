"""Committed offsets: OffsetCommit, TxnOffsetCommit and OffsetFetch requests and answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from ottla.client.arguments import by_place, offset_to_commit
from ottla.client.consumer.list_offsets import by_topic, indexes
from ottla.client.types import ConsumerGroupMetadata, OffsetAndMetadata, Place, TopicPartition
from ottla.wire.api.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ottla.wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from ottla.wire.api.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from ottla.wire.errors import NONE, UNKNOWN_TOPIC_OR_PARTITION

if TYPE_CHECKING:  # imported here, because admin clients import this module too, and write no records
    from ottla.client.producer.partition_queue import Identity

NOTHING_COMMITTED = -1
Part = TypeVar("Part")


def committable(offsets: Mapping[Place, OffsetAndMetadata | int]) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return `offsets`, integers or `OffsetAndMetadata`, as offsets to commit. Raises `TypeError`, `SettingError`."""
    return by_place("offsets", offsets, offset_to_commit)


def commit_request(member: ConsumerGroupMetadata, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> OffsetCommitRequest:
    """Build the request that commits `offsets` as a member, or for a group without members."""
    topic, partition = OffsetCommitRequest.OffsetCommitRequestTopic, OffsetCommitRequest.OffsetCommitRequestPartition
    return OffsetCommitRequest(
        group_id=member.group_id,
        generation_id_or_member_epoch=member.generation_id,
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        topics=[topic(name=name, partitions=_parts(partition, group, offsets)) for name, group in by_topic(offsets)],
    )


def _parts(
    partition: Callable[..., Part], group: Iterable[TopicPartition], offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> list[Part]:
    return [
        partition(
            partition_index=where.partition,
            committed_offset=offsets[where].offset,
            committed_leader_epoch=offsets[where].leader_epoch,
            committed_metadata=offsets[where].metadata,
        )
        for where in group
    ]


def transaction_commit_request(
    transactional_id: str,
    producer: Identity,
    member: ConsumerGroupMetadata,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
) -> TxnOffsetCommitRequest:
    """Build the request that commits `offsets` of a group as part of a producer's transaction (KIP-98, 447)."""
    topic, partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic, TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition
    return TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=member.group_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        generation_id_or_member_epoch=member.generation_id,
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        topics=[topic(name=name, partitions=_parts(partition, group, offsets)) for name, group in by_topic(offsets)],
    )


def read_commit(answer: OffsetCommitResponse | TxnOffsetCommitResponse) -> Iterator[tuple[TopicPartition, int]]:
    """Yield (partition, error code) for each partition in the answer."""
    for topic in answer.topics:
        for part in topic.partitions:
            yield TopicPartition(topic.name, part.partition_index), part.error_code


def fetch_offsets_request(
    group_id: str, partitions: Iterable[TopicPartition] | None, *, require_stable: bool = True
) -> OffsetFetchRequest:
    """Build the request for the committed offsets of `partitions`; None means of all partitions."""
    topic = OffsetFetchRequest.OffsetFetchRequestTopic
    topics = None if partitions is None else [topic(name=name, partition_indexes=some) for name, some in indexes(partitions)]
    return OffsetFetchRequest(group_id=group_id, topics=topics, require_stable=require_stable)


def read_fetch_offsets(
    answer: OffsetFetchResponse | OffsetFetchResponse.OffsetFetchResponseGroup,
) -> Iterator[tuple[TopicPartition, int, OffsetAndMetadata]]:
    """Yield (partition, error code, offset) for each partition in the answer.

    `answer` is about one group, or is a part of an answer that is. It also has an `error_code`, which the caller must check first.
    """
    for topic in answer.topics:
        for part in topic.partitions:
            found = OffsetAndMetadata(part.committed_offset, part.metadata or "", part.committed_leader_epoch)
            # Version 0 answers with this error for a partition without a committed offset.
            missing = part.error_code == UNKNOWN_TOPIC_OR_PARTITION and part.committed_offset == NOTHING_COMMITTED
            yield TopicPartition(topic.name, part.partition_index), NONE if missing else part.error_code, found
