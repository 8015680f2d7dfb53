"""Truncation before the first fetch, by OffsetForLeaderEpoch: for leaders whose fetch responses have no diverging epoch (KIP-101).

Depends on followed partitions and OffsetForLeaderEpoch.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from ottla.broker.replication.fetch_responses import ResponseProcessor
from ottla.broker.replication.fetched_replica import FetchedReplica
from ottla.broker.replication.fetcher_context import Copier
from ottla.cluster.replicas.truncation import EpochEnd
from ottla.ports import Steps, StorageFailed, SyncFailed
from ottla.wire.api.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from ottla.wire.errors import FENCED_LEADER_EPOCH

log = logging.getLogger("ottla.broker")

NO_EPOCH = -1


class EpochQuestions:
    """Truncates partitions of one fetcher that can diverge from their leader, before their first fetch."""

    def __init__(self, fetcher: Copier, taking: ResponseProcessor) -> None:
        self._fetcher = fetcher
        self._taking = taking

    def steps(self, due: Collection[FetchedReplica]) -> Steps[None]:
        """Truncate the logs of these partitions to where they diverge from the leader's."""
        version = self._fetcher.context.settings.value.inter_broker_protocol_version.version(OffsetForLeaderEpochRequest)
        asked = {one.replica.key[1:]: one for one in due if version >= 0 and one.replica.log.leader_epoch != NO_EPOCH}
        for followed in due:
            if followed.replica.key[1:] not in asked:
                yield from self._cut(followed, EpochEnd(NO_EPOCH, NO_EPOCH))
        if asked:
            yield from self._ask(asked, version)

    def _ask(self, asked: dict[tuple[str, int], FetchedReplica], version: int) -> Steps[None]:
        request = OffsetForLeaderEpochRequest(replica_id=self._fetcher.context.node_id)
        topics: dict[str, OffsetForLeaderEpochRequest.OffsetForLeaderTopic] = {}
        for followed in asked.values():
            replica = followed.replica
            if replica.topic not in topics:
                topics[replica.topic] = OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic=replica.topic)
            part = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
                partition=replica.index, current_leader_epoch=followed.leader_epoch, leader_epoch=replica.log.leader_epoch
            )
            topics[replica.topic].partitions.append(part)
        request.topics = list(topics.values())
        answer = yield from self._fetcher.request(request, version)
        left = dict(asked)
        for topic in () if answer is None else answer.topics:
            for told in topic.partitions:
                found = left.pop((topic.topic, told.partition), None)
                if found is None or not self._fetcher.is_followed(found):
                    continue
                if told.error_code == FENCED_LEADER_EPOCH:
                    self._fetcher.abandon(found)
                elif told.error_code:
                    self._fetcher.pause(found)
                else:
                    yield from self._cut(found, EpochEnd(told.leader_epoch, told.end_offset))
                yield None
        for followed in left.values():
            self._fetcher.pause(followed)

    def _cut(self, followed: FetchedReplica, told: EpochEnd) -> Steps[None]:
        try:
            is_final = yield from self._taking.cut_back(followed, told)
        except SyncFailed as failure:
            followed.replica.fail(failure)
        except StorageFailed as failure:
            log.error("%s could not be cut as its leader's log is: %s; it is tried again", followed, failure)
            self._fetcher.pause(followed)
        else:
            followed.is_truncating = not is_final
            self._fetcher.name_again(followed)
