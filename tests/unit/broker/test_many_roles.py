"""What the controller says of thousands of partitions is taken a piece at a time: how many they are does not show in any piece."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.serving.purgatory import DelayedReply
from ottla.wire.api.leader_and_isr import LeaderAndIsrRequest
from ottla.wire.api.stop_replica import StopReplicaRequest
from ottla.wire.api.update_metadata import UpdateMetadataRequest
from ottla.wire.errors import NONE, STALE_BROKER_EPOCH, STALE_CONTROLLER_EPOCH
from ottla.wire.framing import decode_response
from tests.support.cluster_machine import TOPIC_ID, ClusterMachine, role, told
from tests.support.work import Work, measured

LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA = 4, 5, 6
MOST_CALLS, MOST_OBJECTS = 8_000, 4_000


def asked(machine: ClusterMachine, key: int, version: int, body: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Work]:
    frame = machine.frame_of(key, version, body)
    with measured(monkeypatch) as work:
        with work.piece("a request"):
            answer = machine.broker.receive(frame, machine.peer, machine.clock.now())
        while isinstance(answer, DelayedReply) and not answer.done:
            machine.pass_time(2)
    parts: Any = answer.answer if isinstance(answer, DelayedReply) else answer
    return decode_response(key, version, memoryview(b"".join(parts))[4:])[1], work


def check(work: Work) -> None:
    assert work.most_calls.calls < MOST_CALLS, work.most_calls
    assert work.most_objects.objects < MOST_OBJECTS, work.most_objects


def given(**fields: Any) -> dict[str, Any]:
    return {"controller_id": 9, "controller_epoch": 1, "broker_epoch": 100} | fields


@pytest.fixture
def machine() -> ClusterMachine:
    machine = ClusterMachine()
    machine.tell_brokers(1, 2, 3)
    return machine


def test_roles(machine: ClusterMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    states = [role(2, index=index) for index in range(1_000)]
    topic = LeaderAndIsrRequest.LeaderAndIsrTopicState(topic_name="t", topic_id=TOPIC_ID, partition_states=states)
    response, work = asked(machine, LEADER_AND_ISR, 7, LeaderAndIsrRequest(topic_states=[topic], **given()), monkeypatch)
    (errors,) = response.topics
    assert [(one.partition_index, one.error_code) for one in errors.partition_errors] == [(index, NONE) for index in range(1_000)]
    assert machine.replica(index=999).leader_epoch == 0
    check(work)


@pytest.mark.parametrize("is_one_topic", [True, False])
def test_metadata(machine: ClusterMachine, monkeypatch: pytest.MonkeyPatch, is_one_topic: bool) -> None:
    states = [told(index if is_one_topic else 0, 2) for index in range(4_000)]
    topics = (
        [UpdateMetadataRequest.UpdateMetadataTopicState(topic_name="t", topic_id=TOPIC_ID, partition_states=states)]
        if is_one_topic
        else [
            UpdateMetadataRequest.UpdateMetadataTopicState(
                topic_name=f"t{number}", topic_id=number.to_bytes(16, "big"), partition_states=[state]
            )
            for number, state in enumerate(states, 1)
        ]
    )
    live = [UpdateMetadataRequest.UpdateMetadataBroker(id=node) for node in (1, 2, 3)]
    body = UpdateMetadataRequest(topic_states=topics, live_brokers=live, **given())
    response, work = asked(machine, UPDATE_METADATA, 8, body, monkeypatch)
    assert response.error_code == NONE
    assert sum(len(topic.partitions) for topic in machine.broker.image.topics.values()) == 4_000
    check(work)


def test_stops(machine: ClusterMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    states = [
        StopReplicaRequest.StopReplicaPartitionState(partition_index=index, leader_epoch=0, delete_partition=False)
        for index in range(4_000)
    ]
    topic = StopReplicaRequest.StopReplicaTopicState(topic_name="t", partition_states=states)
    response, work = asked(machine, STOP_REPLICA, 4, StopReplicaRequest(topic_states=[topic], **given()), monkeypatch)
    assert [one.partition_index for one in response.partition_errors] == list(range(4_000))
    check(work)


def test_addresses_of_a_request_that_is_out_of_date_are_not_used() -> None:
    machine = ClusterMachine()
    leaders = LeaderAndIsrRequest.LeaderAndIsrLiveLeader
    told = [leaders(broker_id=2, host_name="now", port=9092)]
    assert machine.tell_roles(role(2, 5), controller_epoch=2, live_leaders=told) == [NONE]
    stale = [leaders(broker_id=2, host_name="before", port=9092)]
    assert machine.tell_roles(role(2, 6), controller_epoch=1, live_leaders=stale) == STALE_CONTROLLER_EPOCH
    assert machine.tell_roles(role(2, 6), controller_epoch=2, broker_epoch=99, live_leaders=stale) == STALE_BROKER_EPOCH
    assert machine.manager.leader_addresses == {2: ("now", 9092)}


def test_the_log_says_which_epoch_of_a_request_is_out_of_date(caplog: pytest.LogCaptureFixture) -> None:
    machine = ClusterMachine()
    machine.tell_roles(role(2, 5), controller_epoch=7)
    caplog.clear()
    machine.tell_roles(role(2, 6), controller_epoch=6)
    machine.tell_roles(role(2, 6), controller_epoch=7, broker_epoch=99)
    assert [record.getMessage() for record in caplog.records] == [
        "ignored a request of the controller of epoch 6; the current epoch is 7",
        "ignored a request of the controller for an earlier registration, of broker epoch 99",
    ]
