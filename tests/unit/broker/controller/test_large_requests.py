"""Requests of the controller's that name many partitions are encoded in slices, and are what they would be in one go."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.controller.channels import ControllerChannel
from ottla.broker.scheduler import Scheduler
from ottla.broker.settings import BrokerSettings, SettingsInForce
from ottla.cluster.controller_rules.context import AT_ONCE
from ottla.cluster.controller_rules.requests import ControlRequest
from ottla.sim.clock import SimClock
from ottla.wire.api.leader_and_isr import LeaderAndIsrRequest
from ottla.wire.api.stop_replica import StopReplicaRequest
from ottla.wire.api.update_metadata import UpdateMetadataRequest
from ottla.wire.codec.messages import encode
from ottla.wire.schema import Message
from tests.support.work import measured
from tests.unit.broker.test_computed import Hasty

COUNT = 4_000


class Sent:
    """Ways to brokers that note what is asked."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def request(self, node_id: int, message: Message, version: int, answered: Any, *, body: Any = None, **fields: Any) -> None:
        self.bodies.append(encode(message, version) if body is None else b"".join(body))

    def is_itself(self, node_id: int) -> bool:
        return False

    def forget(self, node_id: int, lane: str) -> None: ...


def roles(version: int) -> Message:
    request, state = LeaderAndIsrRequest(controller_id=3), LeaderAndIsrRequest.LeaderAndIsrPartitionState
    states = [state(topic_name="" if version > 1 else "t", partition_index=i, isr=[1, 2], replicas=[1, 2]) for i in range(COUNT)]
    if version < 2:
        request.ungrouped_partition_states = states
    else:
        topic = LeaderAndIsrRequest.LeaderAndIsrTopicState
        request.topic_states = [topic(topic_name="t", partition_states=states), topic(topic_name="u", partition_states=states[:1])]
    return request


def metadata(version: int) -> Message:
    request, state = UpdateMetadataRequest(controller_id=3), UpdateMetadataRequest.UpdateMetadataPartitionState
    states = [state(topic_name="" if version > 4 else "t", partition_index=i, isr=[1, 2], replicas=[1, 2]) for i in range(COUNT)]
    if version < 5:
        request.ungrouped_partition_states = states
    else:
        topic = UpdateMetadataRequest.UpdateMetadataTopicState
        request.topic_states = [topic(topic_name=f"t{i}", partition_states=[one]) for i, one in enumerate(states)]
    return request


def stops(version: int) -> Message:
    request = StopReplicaRequest(controller_id=3)
    if version == 0:
        part = StopReplicaRequest.StopReplicaPartitionV0
        request.ungrouped_partitions = [part(topic_name="t", partition_index=i) for i in range(COUNT)]
    elif version < 3:
        topic = StopReplicaRequest.StopReplicaTopicV1
        request.topics = [topic(name=f"t{i}", partition_indexes=[0]) for i in range(COUNT)]
    else:
        states = [StopReplicaRequest.StopReplicaPartitionState(partition_index=i) for i in range(COUNT)]
        request.topic_states = [StopReplicaRequest.StopReplicaTopicState(topic_name="t", partition_states=states)]
    return request


@pytest.mark.parametrize(
    ("message", "version"),
    [
        *((roles(version), version) for version in (1, 2, 7)),
        *((metadata(version), version) for version in (0, 4, 5, 8)),
        *((stops(version), version) for version in (0, 1, 4)),
    ],
    ids=lambda value: value if isinstance(value, int) else type(value).__name__,
)
def test_many_partitions_are_encoded_in_slices(message: Message, version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, sent = SimClock(), Sent()
    scheduler = Scheduler(clock)
    settings = SettingsInForce(BrokerSettings())
    way = ControllerChannel(2, None, sent, scheduler, settings, lambda request, response: None)  # type: ignore[arg-type]  # it is only asked
    with measured(monkeypatch) as work:
        with work.piece("send"):
            way.send(ControlRequest(2, message, version, COUNT))
        while not sent.bodies:
            scheduler.run_due(clock.advance(2))
    assert sent.bodies == [encode(message, version)]
    assert len(work.pieces) > COUNT // AT_ONCE
    assert work.most_calls.calls < 10 * AT_ONCE


def test_nothing_is_sent_to_a_broker_that_has_gone_while_it_was_encoded() -> None:
    clock, sent = SimClock(), Sent()
    scheduler = Scheduler(clock)
    settings = SettingsInForce(BrokerSettings())
    way = ControllerChannel(2, None, sent, scheduler, settings, lambda request, response: None)  # type: ignore[arg-type]  # it is only asked
    way._scheduler._clock = Hasty(clock)
    way.send(ControlRequest(2, roles(7), 7, COUNT))
    way.close()
    for _ in range(100):
        scheduler.run_due(clock.advance(10))
    assert not sent.bodies
