"""Consumer groups of KIP-848 while one member has yet to give a partition up to another, and what may be asked of them there.

Each case has a group of its own. Epochs are told relative to what the member heard last, so that brokers can be compared.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from ottla.wire.errors import CONCURRENT_TRANSACTIONS, NONE
from tests.support.bad_groups import (
    COMMIT,
    CONSUMER_DESCRIBE,
    CONSUMER_HEARTBEAT,
    DELETE,
    FETCH,
    JOIN,
    LOADING,
    OFFSET_DELETE,
    SUBSCRIPTION,
    Questioner,
    codes,
)
from tests.support.messages import request

METADATA, FIND, INIT_PRODUCER_ID, TXN_COMMIT = 3, 10, 22, 28
HALVES = "halves"
"""The topic with two partitions."""
PASSING = (CONCURRENT_TRANSACTIONS, *LOADING)
RECONCILING = ("alone", "to be revoked", "told to revoke", "revoked", "settled")
MEMBERS = ("first", "second", "nobody")
EPOCHS = {"now": 0, "before": -1, "ahead": 1, "joining": None}
OWNED: dict[str, list[int] | None] = {"all": [0, 1], "half": [0], "unsaid": None}
IN_TRANSACTION = ("TxnOffsetCommit 0", "TxnOffsetCommit 1")
"""A commit for each partition: the first member may keep the one, and must give up the other."""
BEATS = tuple(f"Heartbeat, owns {owned}" for owned in OWNED)
WITH_EPOCH = (*BEATS, "OffsetCommit", "OffsetFetch", *IN_TRANSACTION)
ONCE = ("leaves", "DeleteGroups", "OffsetDelete", "JoinGroup")


class ReconcilingCase(NamedTuple):
    """How far the group is, what is asked, as whom, and with which epoch."""

    state: str
    asked: str
    who: str
    epoch: str

    def __str__(self) -> str:
        return f"{self.state}: {self.asked} as {self.who}, epoch {self.epoch}"


def reconciling_cases() -> Iterator[ReconcilingCase]:
    for state in RECONCILING:
        for who in MEMBERS:
            if who == "second" and state == "alone":
                continue
            for asked in WITH_EPOCH:
                yield from (ReconcilingCase(state, asked, who, epoch) for epoch in EPOCHS)
        for who in ("first", "second"):
            yield ReconcilingCase(state, "leaves", who, "now")
        yield from (ReconcilingCase(state, asked, "nobody", "now") for asked in ONCE[1:])


class Reconciling:
    """Brings consumer groups between two assignments, and asks one thing of each."""

    def __init__(self, questioner: Questioner) -> None:
        self._questioner = questioner
        wanted = request(METADATA, 12, topics=[{"name": HALVES}], allow_auto_topic_creation=True)
        while (topic := questioner.ask(METADATA, 12, wanted).topics[0]).error_code:
            pass
        self._topic_id = bytes(topic.topic_id)

    def answer(self, case: ReconcilingCase, group: str) -> list[Any]:
        """Return what comes of a case: error codes, the member's epoch and partitions, and how the group stands then."""
        epochs = self._brought_to(case.state, group)
        known = epochs.get(case.who, 1)
        shift = EPOCHS[case.epoch]
        epoch = 0 if shift is None else known + shift
        asked = case.asked
        if asked in BEATS or asked == "leaves":
            owned = OWNED.get(asked.rpartition(" ")[2])
            answered = self._beat(group, case.who, -1 if asked == "leaves" else epoch, owned)
            told = [answered.error_code, *self._told(answered, known)]
        else:
            told = codes(self._asked(asked, group, case.who, epoch))
        return [told, self._stands(group, epochs)]

    def _told(self, beaten: Any, known: int) -> list[Any]:
        if beaten.error_code:
            return []
        given = beaten.assignment
        partitions = None if given is None else sorted(index for each in given.topic_partitions for index in each.partitions)
        return [beaten.member_epoch - known if beaten.member_epoch > 0 else beaten.member_epoch, partitions]

    def _stands(self, group: str, epochs: dict[str, int]) -> list[Any]:
        [described] = self._questioner.ask(CONSUMER_DESCRIBE, 1, request(CONSUMER_DESCRIBE, 1, group_ids=[group])).groups
        if described.error_code:
            return [described.error_code]
        members = sorted(
            [
                member.member_id if member.member_id in MEMBERS else "somebody",
                member.member_epoch - epochs.get(member.member_id, 0),
                sorted(index for each in member.assignment.topic_partitions for index in each.partitions),
            ]
            for member in described.members
        )
        return [described.group_state, members]

    def _beat(self, group: str, member: str, epoch: int, owned: list[int] | None) -> Any:
        held = None if owned is None else [{"topic_id": self._topic_id, "partitions": owned}]
        values: dict[str, Any] = {"group_id": group, "member_id": member, "member_epoch": epoch, "topic_partitions": held}
        if epoch == 0:
            values |= {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": [HALVES], "topic_partitions": []}
        while (
            answer := self._questioner.ask(CONSUMER_HEARTBEAT, 1, request(CONSUMER_HEARTBEAT, 1, **values))
        ).error_code in LOADING:
            time.sleep(0.1)
        return answer

    def _asked(self, asked: str, group: str, member: str, epoch: int) -> Any:
        if asked == "OffsetCommit":
            part = {"partition_index": 0, "committed_offset": 5, "committed_metadata": "m"}
            topics = [{"name": HALVES, "partitions": [part]}]
            values = {"group_id": group, "member_id": member, "generation_id_or_member_epoch": epoch, "topics": topics}
            return self._questioner.ask(COMMIT, 9, request(COMMIT, 9, **values))
        if asked in IN_TRANSACTION:
            return self._committed_in_transaction(group, member, epoch, int(asked.rpartition(" ")[2]))
        if asked == "OffsetFetch":
            wanted = {"group_id": group, "member_id": member, "member_epoch": epoch}
            wanted["topics"] = [{"name": HALVES, "partition_indexes": [0]}]
            return self._questioner.ask(FETCH, 9, request(FETCH, 9, groups=[wanted]))
        if asked == "DeleteGroups":
            return self._questioner.ask(DELETE, 2, request(DELETE, 2, groups_names=[group]))
        if asked == "OffsetDelete":
            topics = [{"name": HALVES, "partitions": [{"partition_index": 0}]}]
            return self._questioner.ask(OFFSET_DELETE, 0, request(OFFSET_DELETE, 0, group_id=group, topics=topics))
        protocols = [{"name": "range", "metadata": SUBSCRIPTION}]
        body = request(
            JOIN,
            3,
            group_id=group,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=protocols,
        )
        return self._questioner.ask(JOIN, 3, body)

    def _committed_in_transaction(self, group: str, member: str, epoch: int, partition: int) -> Any:
        self._questioner.ask(FIND, 3, request(FIND, 3, key=group, key_type=1))  # Apache Kafka creates __transaction_state then
        init = request(INIT_PRODUCER_ID, 4, transactional_id=group, transaction_timeout_ms=10_000)
        while (producer := self._questioner.ask(INIT_PRODUCER_ID, 4, init)).error_code in LOADING:
            time.sleep(0.1)
        assert producer.error_code == NONE, producer
        part = {"partition_index": partition, "committed_offset": 5, "committed_metadata": "m"}
        values = {"group_id": group, "member_id": member, "generation_id_or_member_epoch": epoch}
        values |= {"transactional_id": group, "producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
        body = request(TXN_COMMIT, 5, topics=[{"name": HALVES, "partitions": [part]}], **values)
        while (answer := self._questioner.ask(TXN_COMMIT, 5, body)).topics[0].partitions[0].error_code in PASSING:
            time.sleep(0.1)
        return answer

    def _brought_to(self, state: str, group: str) -> dict[str, int]:
        """Return the epoch that each member was told last."""
        first = self._beat(group, "first", 0, [])
        assert first.error_code == NONE, first
        epochs = {"first": first.member_epoch}
        if state == "alone":
            return epochs
        second = self._beat(group, "second", 0, [])
        assert second.error_code == NONE, second
        epochs["second"] = second.member_epoch
        if state == "to be revoked":
            return epochs
        told = self._beat(group, "first", epochs["first"], [0, 1])
        assert [sorted(each.partitions) for each in told.assignment.topic_partitions] == [[0]], told
        if state == "told to revoke":
            return epochs
        epochs["first"] = self._beat(group, "first", epochs["first"], [0]).member_epoch
        if state == "revoked":
            return epochs
        epochs["second"] = self._beat(group, "second", epochs["second"], []).member_epoch
        return epochs
