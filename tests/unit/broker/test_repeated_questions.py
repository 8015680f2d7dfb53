"""What a leader asks the controller again and again: ever later, and each reason is logged once."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from ottla.broker.retries import MOST_REASONS, Repeats
from ottla.wire.api.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from ottla.wire.errors import (
    FENCED_LEADER_EPOCH,
    INVALID_UPDATE_VERSION,
    NONE,
    NOT_CONTROLLER,
    STALE_BROKER_EPOCH,
    UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from tests.support.cluster_machine import ClusterMachine, role

ALTER_PARTITION = 56


def test_pauses_double_up_to_the_most_and_begin_anew(caplog: pytest.LogCaptureFixture) -> None:
    log, repeats = logging.getLogger("ottla.broker"), Repeats(50, 300)
    assert [repeats.pause_ms() for _ in range(5)] == [50, 100, 200, 300, 300]
    for why in ("away", "away", "full", "away"):
        repeats.log_once(log, logging.WARNING, "the question failed: %s", why)
    assert caplog.messages == [f"the question failed: {why}" for why in ("away", "full")]
    repeats.over()
    assert repeats.pause_ms() == 50
    repeats.log_once(log, logging.WARNING, "the question failed: %s", "away")
    assert len(caplog.messages) == 3


def test_reasons_beyond_many_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    log, repeats = logging.getLogger("ottla.test"), Repeats(50, 300)
    for number in range(2 * MOST_REASONS):
        repeats.log_once(log, logging.WARNING, "the question failed: reason %d", number)
    assert len(caplog.messages) == MOST_REASONS


@pytest.fixture
def machine() -> ClusterMachine:
    """A leader that wants broker 3 in sync."""
    machine = ClusterMachine()
    machine.tell_brokers(1, 2, 3, 9)
    assert machine.tell_roles(role(1, 5, isr=(1, 2))) == [NONE]
    machine.replica().follower_fetched(3, 0, 0, machine.clock.now())
    machine.settle()
    return machine


def answer(machine: ClusterMachine, error_code: int, *, top: int = NONE) -> None:
    """Answer what the leader asks, if it does."""
    if not machine.links.sent:
        return
    header, body, _ = machine.links.sent[0]
    assert header.api_key == ALTER_PARTITION
    assert isinstance(body, AlterPartitionRequest)
    ((part,),) = (topic.partitions for topic in body.topics)
    told = AlterPartitionResponse.PartitionData(
        partition_index=0,
        error_code=error_code,
        leader_id=1,
        leader_epoch=5,
        isr=[1, 2, 3],
        partition_epoch=part.partition_epoch + 1,
    )
    topics = [AlterPartitionResponse.TopicData(topic_id=body.topics[0].topic_id, partitions=[told])]
    machine.links.answer(AlterPartitionResponse(error_code=top, topics=topics))
    machine.settle()


def asked_in(machine: ClusterMachine, ms: int, error_code: int, *, top: int = NONE) -> int:
    """How often the leader asks in this time, always to be answered so."""
    times = 0
    for _ in range(ms // 50):
        times += bool(machine.links.sent)
        answer(machine, error_code, top=top)
        machine.pass_time(50)
    return times


@pytest.mark.parametrize(("error_code", "top"), [(NONE, STALE_BROKER_EPOCH), (NONE, NOT_CONTROLLER), (UNKNOWN_SERVER_ERROR, NONE)])
def test_a_refused_change_is_asked_for_ever_later_and_told_once(
    machine: ClusterMachine, error_code: int, top: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ottla.broker")
    assert 50 < asked_in(machine, 60_000, error_code, top=top) < 130
    assert len([message for message in caplog.messages if "it is retried" in message]) == 1
    asked_in(machine, 1_000, NONE)
    leader: Any = machine.replica().replicas
    assert (leader.isr, leader.pending) == ((1, 2, 3), None)


@pytest.mark.parametrize("error_code", [UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION])
def test_a_change_is_asked_for_again_where_nothing_newer_is_told(
    machine: ClusterMachine, error_code: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ottla.broker")
    assert 5 < asked_in(machine, 60_000, error_code) < 12
    assert len([message for message in caplog.messages if "it is retried" in message]) == 1
    asked_in(machine, 11_000, NONE)
    leader: Any = machine.replica().replicas
    assert (leader.isr, leader.pending) == ((1, 2, 3), None)


def test_a_change_of_a_leader_epoch_that_is_over_is_not_asked_for_again(machine: ClusterMachine) -> None:
    answer(machine, UNKNOWN_TOPIC_ID)
    assert machine.tell_roles(role(1, 6, isr=(1, 2, 3))) == [NONE]
    machine.pass_time(20_000)
    assert not machine.links.sent
