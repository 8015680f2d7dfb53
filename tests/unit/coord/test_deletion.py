"""Deleting groups with many offsets: in slices, with the group closed until nothing is left of it."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.coord import expiry, offsets
from ottla.coord.group_machine import GroupMachine
from ottla.coord.outcome import DeletionKey, GroupOutcome
from ottla.coord.records import OffsetCommitted, OffsetPending, TransactionEnded
from ottla.coord.runtime.machine import Due, Input
from ottla.coord.settings import GroupSettings
from ottla.ports import Now
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.api.delete_groups import DeleteGroupsRequest
from ottla.wire.api.heartbeat import HeartbeatRequest
from ottla.wire.api.join_group import JoinGroupRequest
from ottla.wire.api.leave_group import LeaveGroupRequest
from ottla.wire.api.offset_commit import OffsetCommitRequest
from ottla.wire.api.offset_delete import OffsetDeleteRequest
from ottla.wire.api.sync_group import SyncGroupRequest
from ottla.wire.api.txn_offset_commit import TxnOffsetCommitRequest
from ottla.wire.errors import COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND, NONE

NOW = Now(5_000, 5_000)
MANY = 3 * expiry.MOST_FORGOTTEN
FETCH = offsets.FetchGroup(group_id="g", topics=None)
TOPIC = OffsetCommitRequest.OffsetCommitRequestTopic
PART = OffsetCommitRequest.OffsetCommitRequestPartition

ABOUT_THE_GROUP: list[Any] = [
    JoinGroupRequest(group_id="g"),
    SyncGroupRequest(group_id="g"),
    HeartbeatRequest(group_id="g"),
    LeaveGroupRequest(group_id="g"),
    OffsetCommitRequest(group_id="g", topics=[TOPIC(name="t", partitions=[PART(partition_index=1)])]),
    TxnOffsetCommitRequest(
        group_id="g",
        topics=[
            TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
                name="t", partitions=[TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(partition_index=1)]
            )
        ],
    ),
    OffsetDeleteRequest(group_id="g"),
    ConsumerGroupHeartbeatRequest(group_id="g", member_epoch=0),
    FETCH,
    offsets.StableFetch(FETCH),
]


def coordinator(count: int, pending: int = 0) -> GroupMachine:
    machine = GroupMachine(GroupSettings(), lambda: "id")
    for number in range(count):
        machine.apply(OffsetCommitted("g", f"t{number % 7}", number // 7, 1, 0, "", 100))
    for number in range(pending):
        machine.apply(OffsetPending(9, OffsetCommitted("g", f"t{number % 7}", number // 5, 1, 0, "", 100)))
    return machine


def decide(machine: GroupMachine, body: object) -> GroupOutcome:
    """Decide an input and apply what comes of it."""
    outcome = machine.decide(Input(body, 9, token=7), NOW)
    for record in outcome.records:
        machine.apply(record)
    return outcome


def error_of(message: Any) -> int:
    """Return the first error code in an answer, wherever it is."""
    for part in (message, *getattr(message, "results", ()), *getattr(message, "topics", ()), *getattr(message, "members", ())):
        for each in (part, *getattr(part, "partitions", ())):
            if getattr(each, "error_code", NONE):
                return int(each.error_code)
    return NONE


def following(outcome: GroupOutcome) -> Due | None:
    return next((Due(timer.key) for timer in outcome.timers if isinstance(timer.key, DeletionKey)), None)


@pytest.mark.parametrize(("count", "pending"), [(0, 1), (MANY, 0), (expiry.MOST_FORGOTTEN, 0), (5, MANY), (MANY, MANY)])
def test_a_group_with_many_offsets_is_deleted_in_slices_and_answered_after_the_last(count: int, pending: int) -> None:
    machine = coordinator(count, pending)
    outcome = decide(machine, DeleteGroupsRequest(groups_names=["nobody", "g", "g"]))
    slices = 1
    while due := following(outcome):
        assert not outcome.replies
        assert len(outcome.records) <= expiry.MOST_FORGOTTEN + 1
        outcome = decide(machine, due)
        slices += 1
    assert slices > max(count, pending) // expiry.MOST_FORGOTTEN
    [(token, answer)] = outcome.replies
    results = [(each.group_id, each.error_code) for each in answer.results]  # type: ignore[attr-defined]  # of DeleteGroups
    assert (token, results) == (7, [("nobody", GROUP_ID_NOT_FOUND), ("g", NONE)])
    assert not machine.classic.groups
    assert not machine.offsets.of("g")
    assert not machine.offsets.pending


@pytest.mark.parametrize("body", ABOUT_THE_GROUP, ids=lambda body: type(body).__name__)
def test_a_group_that_is_being_deleted_is_closed_until_nothing_is_left_of_it(body: Any) -> None:
    machine = coordinator(MANY)
    outcome = decide(machine, DeleteGroupsRequest(groups_names=["g"]))
    left = len(machine.offsets)
    [(_, answer)] = decide(machine, body).replies
    assert error_of(answer) == COORDINATOR_LOAD_IN_PROGRESS
    assert len(machine.offsets) == left
    while due := following(outcome):
        outcome = decide(machine, due)
    for _, answer in decide(machine, body).replies:
        assert error_of(answer) != COORDINATOR_LOAD_IN_PROGRESS


def test_a_group_that_is_being_deleted_is_not_deleted_twice_and_keeps_no_other_waiting() -> None:
    machine = coordinator(MANY)
    decide(machine, DeleteGroupsRequest(groups_names=["g"]))
    [(_, answer)] = decide(machine, DeleteGroupsRequest(groups_names=["g"])).replies
    assert error_of(answer) == COORDINATOR_LOAD_IN_PROGRESS
    [(_, answer)] = decide(machine, HeartbeatRequest(group_id="other")).replies
    assert error_of(answer) != COORDINATOR_LOAD_IN_PROGRESS


def test_offsets_of_a_transaction_that_ends_while_their_group_is_deleted_go_with_it() -> None:
    machine = coordinator(MANY, pending=3)
    outcome = decide(machine, DeleteGroupsRequest(groups_names=["g"]))
    decide(machine, TransactionEnded(9, True))
    while due := following(outcome):
        outcome = decide(machine, due)
    assert not machine.offsets.of("g")
    assert not machine.classic.groups
