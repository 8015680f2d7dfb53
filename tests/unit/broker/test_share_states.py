"""Share coordinators in a broker: their APIs, the persister, restarts, and the log of `__share_group_state`."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ottla.broker.coordination.share_messages import results_of, to_request
from ottla.coord.share_state.inputs import (
    DeleteState,
    InitializeState,
    ReadState,
    SharePlace,
    StateOperation,
    StateResult,
    WriteState,
)
from ottla.wire.errors import INVALID_REQUEST, NONE
from tests.support.machine import Machine

GROUP = "g"


class Share:
    """A broker with a topic, and what leaders of its partitions ask the persister."""

    def __init__(self, **settings: object) -> None:
        self.machine = Machine(share_coordinator_state_topic_num_partitions=3, **settings)
        self.topic_id = self.create("t", 4)

    def create(self, name: str, partitions: int) -> bytes:
        from ottla.wire.api.create_topics import CreateTopicsRequest

        topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        response = self.machine.ask(19, 7, CreateTopicsRequest(topics=[topic], timeout_ms=1_000))
        assert response.topics[0].error_code == NONE
        return bytes(response.topics[0].topic_id)

    def persist(self, operation: StateOperation, *places: SharePlace) -> list[StateResult]:
        """The results of one call, after which time passes until they are known."""
        found: list[Sequence[StateResult]] = []
        getattr(self.machine.broker.share_states.persister, operation.name.lower())(GROUP, places, found.append)
        assert not found, "a result comes later"
        for _ in range(300):
            if found:
                return list(found[0])
            self.machine.pass_time(50)
        raise AssertionError("the persister did not answer")

    def initialize(self, partition: int, state_epoch: int = 0, start_offset: int = -1) -> StateResult:
        return self.persist(StateOperation.INITIALIZE, InitializeState(self.topic_id, partition, state_epoch, start_offset))[0]

    def read(self, partition: int, leader_epoch: int = 0) -> StateResult:
        return self.persist(StateOperation.READ, ReadState(self.topic_id, partition, leader_epoch))[0]

    def write(self, partition: int, *batches: tuple[int, int, int, int], start_offset: int = -1, complete: int = 0) -> StateResult:
        return self.persist(StateOperation.WRITE, WriteState(self.topic_id, partition, 0, 0, start_offset, complete, batches))[0]

    def ask(self, operation: StateOperation, *places: SharePlace, version: int = 0) -> dict[tuple[bytes, int], StateResult]:
        """The results of a request of another broker."""
        request = to_request(operation, GROUP, places)
        return results_of(operation, self.machine.ask(request.WIRE.key, version, request))


@pytest.fixture
def share() -> Share:
    return Share()


def test_the_first_call_of_the_persister_creates_the_topic_and_is_served(share: Share) -> None:
    assert share.initialize(0, state_epoch=1, start_offset=5) == StateResult()
    assert share.read(0) == StateResult(state_epoch=1, start_offset=5)
    assert share.machine.broker.image.topics["__share_group_state"].configs["cleanup.policy"] == "delete"


def test_what_was_written_is_read_back_also_after_a_restart_and_a_power_cut(share: Share) -> None:
    share.initialize(0)
    assert share.write(0, (0, 9, 2, 1), (5, 6, 0, 2), start_offset=0).error_code == NONE
    expected = StateResult(start_offset=0, batches=((0, 4, 2, 1), (5, 6, 0, 2), (7, 9, 2, 1)))
    assert share.read(0) == expected
    share.machine.restart()
    assert share.read(0) == expected
    share.machine.cut_power(seed=3)
    assert share.read(0) == expected


def test_requests_of_other_brokers_get_one_result_for_each_place(share: Share) -> None:
    share.initialize(0)
    places = [WriteState(share.topic_id, partition, 0, 0, 3, 0, ((3, 3, 2, 1),)) for partition in range(4)]
    results = share.ask(StateOperation.WRITE, *places, version=1)
    assert [result.error_code for result in results.values()] == [NONE, *[INVALID_REQUEST] * 3]
    summary = share.ask(StateOperation.READ_SUMMARY, ReadState(share.topic_id, 0, 0), version=1)
    assert summary[share.topic_id, 0] == StateResult(start_offset=3, delivery_complete_count=0)
    assert share.ask(StateOperation.DELETE, DeleteState(share.topic_id, 0))[share.topic_id, 0] == StateResult()
    assert share.read(0).error_code == INVALID_REQUEST
