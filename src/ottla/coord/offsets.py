"""Committed offsets of groups. Topics are only names and ids in this module, and groups only names.

Offsets committed in open transactions are pending: when the transaction ends, they become valid or are dropped (KIP-98).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Final, NamedTuple

from ottla.coord.consumer.topics import KnownTopics
from ottla.coord.records import NO_TIMESTAMP, NO_TOPIC_ID, OffsetCommitted, OffsetForgotten, OffsetPending, TransactionEnded
from ottla.coord.runtime.machine import drain
from ottla.ports import Pauses
from ottla.wire.api.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ottla.wire.api.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ottla.wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from ottla.wire.api.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from ottla.wire.errors import GROUP_SUBSCRIBED_TO_TOPIC, NONE, OFFSET_METADATA_TOO_LARGE, UNSTABLE_OFFSET_COMMIT

NO_OFFSET = -1
NO_TOPICS: Final = KnownTopics()
NO_RETENTION_OF_ITS_OWN = -1
LATEST_MS = (1 << 63) - 1
"""The largest timestamp in ms, which limits a retention. In Apache Kafka a later one overflows, and the offset expires at once."""

FetchGroup = OffsetFetchRequest.OffsetFetchRequestGroup
TxnOffset = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition
FetchedGroup = OffsetFetchResponse.OffsetFetchResponseGroup
FetchedTopic = OffsetFetchResponse.OffsetFetchResponseTopics
FetchedPartition = OffsetFetchResponse.OffsetFetchResponsePartitions


class OffsetKey(NamedTuple):
    """The key of an offset."""

    group_id: str
    topic: str
    partition: int


class PendingOffsets:
    """The offsets of all open transactions. Of several offsets of one partition, only the newest can become valid."""

    __slots__ = ("_by_group", "_by_producer", "by_place")

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[OffsetKey, OffsetCommitted | None]] = {}
        self.by_place: dict[OffsetKey, dict[int, None]] = {}
        self._by_group: dict[str, dict[OffsetKey, None]] = {}
        """The keys by group, so that the expiry of one group's offsets need not search all keys."""

    def __len__(self) -> int:
        return len(self.by_place)

    def __contains__(self, place: tuple[str, str, int]) -> bool:
        return place in self.by_place

    def places(self, group_id: str) -> Iterable[OffsetKey]:
        return tuple(self._by_group.get(group_id, ()))

    def add(self, record: OffsetPending) -> None:
        offset = record.offset
        place = OffsetKey(offset.group_id, offset.topic, offset.partition)
        self._by_producer.setdefault(record.producer_id, {})[place] = offset
        holders = self.by_place.setdefault(place, {})
        self._by_group.setdefault(place.group_id, {})[place] = None
        holders.pop(record.producer_id, None)
        holders[record.producer_id] = None

    def end(self, ended: TransactionEnded) -> list[OffsetCommitted]:
        """Remove a producer's pending offsets. If its transaction was committed, return the offsets that become valid."""
        counting = []
        for place, offset in self._by_producer.pop(ended.producer_id, {}).items():
            if ended.committed:
                self.supersede(place, ended.producer_id)
            self._release(place, ended.producer_id)
            if ended.committed and offset is not None:
                counting.append(offset)
        return counting

    def supersede(self, place: tuple[str, str, int], producer_id: int | None = None) -> None:
        """Invalidate the pending offsets of the partition `place`, because a newer offset is committed.

        The new offset is committed outside transactions, or is the pending offset of `producer_id`, which stays.
        """
        for holder in self.by_place.get(OffsetKey(*place), ()):
            if holder == producer_id:
                return
            self._by_producer[holder][OffsetKey(*place)] = None

    def forget(self, place: tuple[str, str, int]) -> None:
        """Remove all pending offsets of `place`, because a tombstone deletes the offset."""
        key = OffsetKey(*place)
        for holder in self.by_place.get(key, ()):
            del self._by_producer[holder][key]
        self._leave(key)

    def _release(self, place: OffsetKey, producer_id: int) -> None:
        holders = self.by_place[place]
        del holders[producer_id]
        if not holders:
            self._leave(place)

    def _leave(self, place: OffsetKey) -> None:
        """Remove an offset's key from the indexes, because no transaction has a pending offset for it."""
        if self.by_place.pop(place, None) is None:
            return
        of_group = self._by_group[place.group_id]
        del of_group[place]
        if not of_group:
            del self._by_group[place.group_id]


class StableFetch(NamedTuple):
    """An input: a fetch that returns an error for a pending offset instead of its former value (KIP-447)."""

    wanted: FetchGroup


class Committed(NamedTuple):
    """One committed offset, without its key."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int
    topic_id: bytes


ByPartition = dict[int, Committed]
ByTopic = dict[str, ByPartition]


class OffsetsCommitted(OffsetCommitted):
    """Offsets of one group and topic that are loaded together. The inherited fields are the first offset; `filed` has all.

    The coordinator takes over the dictionary `filed`, so the caller must not use it afterwards.
    """

    filed: ByPartition

    def each(self) -> Iterator[OffsetCommitted]:
        for partition, committed in self.filed.items():
            yield OffsetCommitted(self.group_id, self.topic, partition, *committed)


class Offsets:
    """All committed offsets of a coordinator, by group, topic and partition. Only `apply` changes them."""

    __slots__ = ("_groups", "pending")

    def __init__(self) -> None:
        self._groups: dict[str, ByTopic] = {}
        self.pending = PendingOffsets()

    def __len__(self) -> int:
        return sum(len(partitions) for topics in self._groups.values() for partitions in topics.values())

    def apply(self, record: OffsetCommitted | OffsetForgotten | OffsetPending | TransactionEnded) -> None:
        if isinstance(record, OffsetsCommitted):
            self._file_all(record)
        elif isinstance(record, OffsetCommitted):
            self._file(record)
            if self.pending.by_place:
                self.pending.supersede(record[:3])
        elif isinstance(record, OffsetForgotten):
            self._drop(record)
        elif isinstance(record, OffsetPending):
            self.pending.add(record)
        else:
            for committed in self.pending.end(record):
                self._file(committed)

    def of(self, group_id: str) -> ByTopic:
        """Return the offsets that a group has committed; callers must not change them."""
        return self._groups.get(group_id, {})

    def dissolve(self) -> Pauses[None]:
        """Release the memory of all offsets in steps, with pauses."""
        return drain(self._groups)

    def group_ids(self) -> tuple[str, ...]:
        return tuple(self._groups)

    def forget_group(self, group_id: str, most: int) -> list[OffsetForgotten]:
        """Return tombstones of at most `most` offsets that a group has committed or has pending."""
        topics = self.of(group_id)
        committed = ((topic, index) for topic, held in topics.items() for index in held)
        places = self.pending.places(group_id)
        pending = ((topic, index) for _, topic, index in places if index not in topics.get(topic, ()))
        return [OffsetForgotten(group_id, topic, index) for topic, index in islice(chain(committed, pending), most)]

    def _file(self, record: OffsetCommitted) -> None:
        group_id, topic, partition = record[:3]
        topics = self._groups.get(group_id)
        if topics is None:
            topics = self._groups[group_id] = {}
        partitions = topics.get(topic)
        if partitions is None:
            partitions = topics[topic] = {}
        partitions[partition] = tuple.__new__(Committed, record[3:])  # the constructor of a NamedTuple takes twice as long

    def _file_all(self, record: OffsetsCommitted) -> None:
        group_id, topic = record[:2]
        topics = self._groups.get(group_id)
        if topics is None:
            topics = self._groups[group_id] = {}
        partitions = topics.setdefault(topic, record.filed)
        if partitions is not record.filed:
            partitions.update(record.filed)
        if self.pending:
            for partition in record.filed:
                self.pending.supersede((group_id, topic, partition))

    def _drop(self, record: OffsetForgotten) -> None:
        topics = self._groups.get(record.group_id, {})
        partitions = topics.get(record.topic, {})
        partitions.pop(record.partition, None)
        if not partitions:
            topics.pop(record.topic, None)
        if not topics:
            self._groups.pop(record.group_id, None)
        if self.pending:
            self.pending.forget(record)


def commit(body: OffsetCommitRequest, wall_ms: int, metadata_max_bytes: int) -> tuple[list[OffsetCommitted], OffsetCommitResponse]:
    """Return records and response of an allowed commit. Too much metadata is an error of its partition, without a record."""
    expire_ms = (
        NO_TIMESTAMP if body.retention_time_ms == NO_RETENTION_OF_ITS_OWN else min(wall_ms + body.retention_time_ms, LATEST_MS)
    )
    records: list[OffsetCommitted] = []
    response = OffsetCommitResponse()
    for topic in body.topics:
        parts = []
        for wanted in topic.partitions:
            error_code = NONE
            metadata = wanted.committed_metadata or ""
            if is_longer(metadata, metadata_max_bytes):
                error_code = OFFSET_METADATA_TOO_LARGE
            else:
                records.append(_record(body.group_id, topic, wanted, metadata, wall_ms, expire_ms))
            parts.append(_partition_response(wanted.partition_index, error_code))
        response.topics.append(_committed_topic(topic, parts))
    return records, response


def _record(
    group_id: str,
    topic: OffsetCommitRequest.OffsetCommitRequestTopic,
    wanted: OffsetCommitRequest.OffsetCommitRequestPartition,
    metadata: str,
    wall_ms: int,
    expire_ms: int,
) -> OffsetCommitted:
    return OffsetCommitted(
        group_id,
        topic.name,
        wanted.partition_index,
        wanted.committed_offset,
        wanted.committed_leader_epoch,
        metadata,
        wall_ms if wanted.commit_timestamp == NO_TIMESTAMP else wanted.commit_timestamp,  # version 1 can contain a timestamp
        expire_ms,
        topic.topic_id,
    )


def commit_refused(body: OffsetCommitRequest, error_code: int) -> OffsetCommitResponse:
    """Return a response with the error in every partition, because the response has no top-level error code."""
    return OffsetCommitResponse(
        topics=[
            _committed_topic(topic, [_partition_response(wanted.partition_index, error_code) for wanted in topic.partitions])
            for topic in body.topics
        ]
    )


def _partition_response(index: int, error_code: int) -> OffsetCommitResponse.OffsetCommitResponsePartition:
    return OffsetCommitResponse.OffsetCommitResponsePartition(partition_index=index, error_code=error_code)


def _committed_topic(
    topic: OffsetCommitRequest.OffsetCommitRequestTopic, parts: list[OffsetCommitResponse.OffsetCommitResponsePartition]
) -> OffsetCommitResponse.OffsetCommitResponseTopic:
    return OffsetCommitResponse.OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=parts)


def commit_in_transaction(
    body: TxnOffsetCommitRequest, wall_ms: int, metadata_max_bytes: int
) -> tuple[list[OffsetPending], TxnOffsetCommitResponse]:
    """Return records and response of an allowed commit, whose offsets are pending until the transaction ends (KIP-98, KIP-447)."""

    def error_of(wanted: TxnOffset) -> int:
        return OFFSET_METADATA_TOO_LARGE if is_longer(wanted.committed_metadata or "", metadata_max_bytes) else NONE

    records = [
        OffsetPending(
            body.producer_id,
            OffsetCommitted(
                body.group_id,
                topic.name,
                wanted.partition_index,
                wanted.committed_offset,
                wanted.committed_leader_epoch,
                wanted.committed_metadata or "",
                wall_ms,
                topic_id=topic.topic_id,
            ),
        )
        for topic in body.topics
        for wanted in topic.partitions
        if not error_of(wanted)
    ]
    return records, _pending_response(body, error_of)


def pending_refused(body: TxnOffsetCommitRequest, error_code: int) -> TxnOffsetCommitResponse:
    """Return a response with the error in every partition, because the response has no error field."""
    return _pending_response(body, lambda wanted: error_code)


def _pending_response(body: TxnOffsetCommitRequest, error_of: Callable[[TxnOffset], int]) -> TxnOffsetCommitResponse:
    part, result = TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition, TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
    return TxnOffsetCommitResponse(
        topics=[
            result(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[part(partition_index=one.partition_index, error_code=error_of(one)) for one in topic.partitions],
            )
            for topic in body.topics
        ]
    )


def is_longer(text: str, limit: int) -> bool:
    """Return whether a text is longer than the limit. Kafka counts UTF-16 units, although the limit's name says bytes."""
    if 2 * len(text) <= limit:
        return False
    return len(text.encode("utf-16-le", "surrogatepass")) // 2 > limit


def fetch(offsets: Offsets, wanted: FetchGroup, present: KnownTopics = NO_TOPICS, *, require_stable: bool = False) -> FetchedGroup:
    """Return a group's offsets of the topics in `wanted`, or of all topics (None). The offset is -1 if none is committed.

    Offsets of a former topic of the same name are left out: `present` has the ids of existing topics. With `require_stable`
    (KIP-447) an offset that is pending in a transaction gets UNSTABLE_OFFSET_COMMIT, so that the client retries.
    """
    held = offsets.of(wanted.group_id)
    if wanted.topics is None:
        topics = _all_topics(held, present)
    else:
        topics = [
            _fetched_topic(t.name, t.topic_id, _id_of(t.name, t.topic_id, present), t.partition_indexes, held.get(t.name, {}))
            for t in wanted.topics
        ]
    if require_stable and offsets.pending:
        _withhold(offsets.pending, wanted.group_id, topics)
    return FetchedGroup(group_id=wanted.group_id, topics=topics)


def _all_topics(held: ByTopic, present: KnownTopics) -> list[FetchedTopic]:
    topics = []
    for name, partitions in held.items():
        topic_id = _id_of(name, NO_TOPIC_ID, present)
        indexes = [index for index, committed in partitions.items() if not _is_of_another_topic(committed, topic_id)]
        if indexes:
            topics.append(_fetched_topic(name, NO_TOPIC_ID, topic_id, indexes, partitions))
    return topics


def _id_of(name: str, asked: bytes, present: KnownTopics) -> bytes:
    """Return the id `asked` in the request; if it is zero, the id of the topic with this name."""
    topic = present.topic(name) if asked == NO_TOPIC_ID else None
    return asked if topic is None else topic.topic_id


def _withhold(pending: PendingOffsets, group_id: str, topics: list[FetchedTopic]) -> None:
    for topic in topics:
        topic.partitions = [
            _unstable(part.partition_index) if (group_id, topic.name, part.partition_index) in pending else part
            for part in topic.partitions
        ]


def _unstable(index: int) -> FetchedPartition:
    return FetchedPartition(partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=UNSTABLE_OFFSET_COMMIT)


def _fetched_topic(name: str, asked: bytes, topic_id: bytes, indexes: Iterable[int], held: ByPartition) -> FetchedTopic:
    partitions = [_partition_of(index, held.get(index), topic_id) for index in indexes]
    return FetchedTopic(name=name, topic_id=asked, partitions=partitions)


def _partition_of(index: int, committed: Committed | None, topic_id: bytes) -> FetchedPartition:
    if committed is None or _is_of_another_topic(committed, topic_id):
        return FetchedPartition(partition_index=index, committed_offset=NO_OFFSET, metadata="")
    return FetchedPartition(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )


def _is_of_another_topic(committed: Committed, topic_id: bytes) -> bool:
    """Return whether the offset was committed for a former topic of the same name, which had another id."""
    return NO_TOPIC_ID not in (committed.topic_id, topic_id) and committed.topic_id != topic_id


def delete(
    offsets: Offsets, body: OffsetDeleteRequest, subscribed: Iterable[str]
) -> tuple[list[OffsetForgotten], OffsetDeleteResponse]:
    """Return the tombstones and the response of an OffsetDelete. Topics in `subscribed` keep their offsets."""
    held = offsets.of(body.group_id)
    records: list[OffsetForgotten] = []
    response = OffsetDeleteResponse()
    for topic in body.topics:
        error_code = GROUP_SUBSCRIBED_TO_TOPIC if topic.name in subscribed else NONE
        indexes = [wanted.partition_index for wanted in topic.partitions]
        if not error_code:
            present = held.get(topic.name, {})
            records += [OffsetForgotten(body.group_id, topic.name, index) for index in dict.fromkeys(indexes) if index in present]
        parts = [OffsetDeleteResponse.OffsetDeleteResponsePartition(partition_index=i, error_code=error_code) for i in indexes]
        response.topics.append(OffsetDeleteResponse.OffsetDeleteResponseTopic(name=topic.name, partitions=parts))
    return records, response
