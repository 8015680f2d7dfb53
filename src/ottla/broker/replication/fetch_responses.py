"""Fetches from a leader, the follower's side: the session, and the processing of a response, partition by partition.

Records are appended, and diverging logs are truncated. Depends on replicas that are fetched and on messages, and not on the
time of the next fetch.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from ottla.broker.releases.interbroker_versions import ProtocolVersion
from ottla.broker.replication.fetcher_context import Copier, FetchedReplica
from ottla.cluster.replicas.follower import EpochEnd, cut
from ottla.ports import Steps, StorageFailed, SyncFailed
from ottla.records.batches.header import BadBatch
from ottla.wire.api.fetch import FetchRequest, FetchResponse
from ottla.wire.api.list_offsets import ListOffsetsRequest
from ottla.wire.errors import (
    ERRORS,
    FENCED_LEADER_EPOCH,
    INCONSISTENT_TOPIC_ID,
    NOT_LEADER_OR_FOLLOWER,
    OFFSET_OUT_OF_RANGE,
    REPLICA_NOT_AVAILABLE,
    UNKNOWN_LEADER_EPOCH,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)

log = logging.getLogger("ottla.broker")

LATEST, EARLIEST = -1, -2
PASSING = (
    NOT_LEADER_OR_FOLLOWER,
    REPLICA_NOT_AVAILABLE,
    UNKNOWN_LEADER_EPOCH,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNKNOWN_TOPIC_ID,
    INCONSISTENT_TOPIC_ID,
)
"""Errors that end by themselves, because brokers receive a change of leadership one after another."""
PartitionData = FetchResponse.PartitionData

NO_SESSION = 0
FIRST_EPOCH, NO_EPOCH = 0, -1
LAST_EPOCH = (1 << 31) - 1
TOPIC_IDS_FROM = 13
Identity = tuple[str | bytes, int]


class FollowerSession:
    """The fetch session between a follower and a leader, as the follower records it.

    `held` are its partitions by (topic, index). Topics are ids if `uses_ids`, else names.
    """

    def __init__(self) -> None:
        self.id = NO_SESSION
        self.epoch = FIRST_EPOCH
        self.uses_ids = False
        self.held: dict[Identity, FetchedReplica] = {}
        self._forgotten: dict[Identity, tuple[str, bytes]] = {}

    @property
    def is_full(self) -> bool:
        """Return whether the next request must name all partitions."""
        return self.epoch in (FIRST_EPOCH, NO_EPOCH)

    def begin(self, *, uses_ids: bool) -> None:
        """Begin a new session. The next request names all partitions, and ends the former session if the leader still has it."""
        self.epoch = FIRST_EPOCH
        self.uses_ids = uses_ids
        self.held.clear()
        self._forgotten.clear()

    def set_id(self, session_id: int) -> None:
        """Record that the leader accepted the last request in the session `session_id`; 0 means that it gave no session."""
        if self.is_full:
            self.id = session_id
        if self.id == NO_SESSION:
            self.epoch = NO_EPOCH
        else:
            self.epoch = 1 if self.epoch in (NO_EPOCH, LAST_EPOCH) else self.epoch + 1

    def remove(self, followed: FetchedReplica) -> None:
        """Remove a partition from the leader's session."""
        identity = self.identity(followed)
        if self.held.get(identity) is followed:
            del self.held[identity]
            self._forgotten[identity] = followed.replica.topic, followed.topic_id

    def identity(self, followed: FetchedReplica) -> Identity:
        return (followed.topic_id if self.uses_ids else followed.replica.topic), followed.replica.index

    def fill_request(self, named: Iterable[FetchedReplica], request: FetchRequest, max_bytes: int, *, by_epoch: bool) -> None:
        """Set the session in a request, its partitions `named` to add or update, and the partitions to remove."""
        request.session_id, request.session_epoch = self.id, self.epoch
        if self.is_full:
            self.held.clear()
        topics: dict[str, FetchRequest.FetchTopic] = {}
        for followed in named:
            replica, identity = followed.replica, self.identity(followed)
            self.held[identity] = followed
            self._forgotten.pop(identity, None)
            topic = topics.get(replica.topic)
            if topic is None:
                topic = topics[replica.topic] = FetchRequest.FetchTopic(topic=replica.topic, topic_id=followed.topic_id)
                request.topics.append(topic)
            topic.partitions.append(followed.fetch_request(max_bytes, by_epoch=by_epoch))
        forgotten: dict[str, FetchRequest.ForgottenTopic] = {}
        for (_, index), (name, topic_id) in () if self.is_full else self._forgotten.items():
            gone = forgotten.get(name)
            if gone is None:
                gone = forgotten[name] = FetchRequest.ForgottenTopic(topic=name, topic_id=topic_id)
                request.forgotten_topics_data.append(gone)
            gone.partitions.append(index)
        self._forgotten.clear()


class ResponseProcessor:
    """The processor of one leader's fetch responses: it appends records, truncates logs, and corrects fetch offsets."""

    def __init__(self, fetcher: Copier) -> None:
        self._fetcher = fetcher

    def steps(self, answer: FetchResponse, held: Mapping[Identity, FetchedReplica], *, uses_ids: bool) -> Steps[None]:
        """Process a response. `held` are the partitions that it may contain."""
        astray: list[FetchedReplica] = []
        for topic in answer.responses:
            name = bytes(topic.topic_id) if uses_ids else topic.topic
            for data in topic.partitions:
                followed = held.get((name, data.partition_index))
                if followed is None or not self._is_expected(followed):
                    continue
                if data.error_code == OFFSET_OUT_OF_RANGE:
                    astray.append(followed)
                elif data.error_code:
                    self._on_error(followed, data.error_code)
                else:
                    yield from self._process(followed, data)
                yield None
        if astray:
            yield from self._find(astray)

    def _is_expected(self, followed: FetchedReplica) -> bool:
        """Return whether a partition's response may be used: the log still ends where the fetch began."""
        if not followed.is_current:
            self._fetcher.abandon(followed)
            return False
        return (
            self._fetcher.is_followed(followed)
            and not followed.rests_until_ms
            and followed.asked_offset == followed.replica.log.log_end_offset
        )

    def _on_error(self, followed: FetchedReplica, error_code: int) -> None:
        if error_code == FENCED_LEADER_EPOCH:
            log.info(
                "%s: its leader has a newer epoch than %d; waiting for the controller's update", followed, followed.leader_epoch
            )
            self._fetcher.abandon(followed)
            return
        level = logging.DEBUG if error_code in PASSING else logging.WARNING
        log.log(level, "%s is not fetched from broker %d: %s", followed, self._fetcher.leader, ERRORS[error_code].sentence)
        self._fetcher.pause(followed)

    def _process(self, followed: FetchedReplica, data: PartitionData) -> Steps[None]:
        try:
            if data.diverging_epoch is None:
                before = followed.replica.log.log_end_offset
                yield from followed.replica.reach_back(memoryview(data.records or b""))
                if followed.is_current and self._fetcher.is_followed(followed):
                    yield from followed.replica.note_gaps(memoryview(data.records or b""))
                if followed.is_current and self._fetcher.is_followed(followed):
                    self._append(followed, data, before)
            else:
                told = EpochEnd(data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
                yield from self.cut_back(followed, told)
        except SyncFailed as failure:
            followed.replica.fail(failure)
        except BadBatch as bad:
            log.warning("%s: broker %d sent an invalid batch: %s It is fetched again", followed, self._fetcher.leader, bad)
            self._fetcher.pause(followed)
        except StorageFailed as failure:
            log.error("%s: the disk refused what its leader has: %s; it is tried again", followed, failure)
            self._fetcher.pause(followed)

    def _append(self, followed: FetchedReplica, data: PartitionData, before: int) -> None:
        """Append the records of a response to a fetch that began at the log end `before`. Raises `BadBatch` and `StorageFailed`."""
        replica, context, now = followed.replica, self._fetcher.context, self._fetcher.context.scheduler.now()
        records = data.records or b""
        size = len(records)
        if size:
            replica.append_as_follower(memoryview(records), now)
            if context.quota.covers(replica.config.follower_replication_throttled_replicas, replica.index):
                context.quota.use(size, now.mono_ms)
        replica.set_high_watermark(data.high_watermark)
        end_offset = replica.log.log_end_offset
        followed.lag = max(0, data.high_watermark - end_offset)
        if replica.log.log_start_offset < data.log_start_offset <= replica.high_watermark:
            context.begin_at(followed, data.log_start_offset)
        if end_offset != before:
            self._fetcher.name_again(followed)
        elif size:
            self._fetcher.pause(followed)  # otherwise a partition without progress would be fetched endlessly

    def cut_back(self, followed: FetchedReplica, told: EpochEnd) -> Steps[bool]:
        """Truncate records that the leader does not have, and return whether both logs agree afterwards. Raises `StorageFailed`."""
        replica = followed.replica
        before = replica.log.log_end_offset, replica.log.leader_epoch
        own = EpochEnd(*replica.log.end_offset_for_epoch(told.epoch))
        kept = cut(told, own, replica.log.log_end_offset, replica.high_watermark)
        yield from replica.truncate_to(kept.offset)
        if followed.is_truncating:
            return kept.is_final
        if (replica.log.log_end_offset, replica.log.leader_epoch) == before:
            log.warning("%s: the log of broker %d differs, and this log cannot be truncated", followed, self._fetcher.leader)
            self._fetcher.pause(followed)
        else:
            self._fetcher.name_again(followed)
        return kept.is_final

    # Out of range

    def _find(self, astray: Sequence[FetchedReplica]) -> Steps[None]:
        """Move the partitions `astray`, whose fetch offset is out of range, to the leader's first or last offset.

        This follows an unclean election, or the leader's deletion of records that are not copied yet.
        """
        latest = yield from self._offsets(astray, LATEST)
        ahead = [one for one in astray if one in latest and latest[one] < one.replica.log.log_end_offset]
        behind = [one for one in astray if one in latest and one not in ahead]
        earliest: dict[FetchedReplica, int] = {}
        if behind:
            earliest = yield from self._offsets(behind, EARLIEST)
        for followed in astray:
            if not self._fetcher.is_followed(followed):
                continue
            if followed in ahead:
                yield from self._move(followed, latest[followed], starts=False)
            elif followed in earliest:
                yield from self._move(followed, earliest[followed], starts=True)
            else:
                self._fetcher.pause(followed)
            yield None

    def _move(self, followed: FetchedReplica, offset: int, *, starts: bool) -> Steps[None]:
        replica, end_offset = followed.replica, followed.replica.log.log_end_offset
        try:
            if not starts:
                log.warning("%s: its leader ends at offset %d: what is beyond is dropped", followed, offset)
                yield from replica.truncate_to(offset)
            elif offset > end_offset:
                log.warning("%s: its leader begins at offset %d, beyond its end: it restarts there", followed, offset)
                yield from replica.restart_at(offset)
        except SyncFailed as failure:
            replica.fail(failure)
        except StorageFailed as failure:
            log.error("%s could not be brought to offset %d: %s; it is tried again", followed, offset, failure)
            self._fetcher.pause(followed)
            return
        self._fetcher.name_again(followed)

    def _offsets(self, partitions: Sequence[FetchedReplica], mark: int) -> Steps[dict[FetchedReplica, int]]:
        """Return the leader's first or last offset of each partition, by ListOffsets with the timestamp `mark`.

        Partitions for which the leader returns an error are left out.
        """
        context = self._fetcher.context
        protocol: ProtocolVersion = context.settings.value.inter_broker_protocol_version
        request = ListOffsetsRequest(replica_id=context.node_id)
        asked: dict[tuple[str, int], FetchedReplica] = {}
        topics: dict[str, ListOffsetsRequest.ListOffsetsTopic] = {}
        for one in partitions:
            replica = one.replica
            if replica.topic not in topics:
                topics[replica.topic] = ListOffsetsRequest.ListOffsetsTopic(name=replica.topic)
            part = ListOffsetsRequest.ListOffsetsPartition(
                partition_index=replica.index, current_leader_epoch=one.leader_epoch, timestamp=mark
            )
            topics[replica.topic].partitions.append(part)
            asked[replica.topic, replica.index] = one
        request.topics = list(topics.values())
        answer = yield from self._fetcher.request(request, protocol.version(ListOffsetsRequest))
        found: dict[FetchedReplica, int] = {}
        for topic in () if answer is None else answer.topics:
            for told in topic.partitions:
                offset = told.old_style_offsets[0] if told.old_style_offsets else told.offset
                if not told.error_code and offset >= 0 and (topic.name, told.partition_index) in asked:
                    found[asked[topic.name, told.partition_index]] = offset
        return found
