"""Share coordinators on other brokers than the leaders that ask them: found, asked together, and waited for while they move."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ottla.cluster.names import SHARE_STATE_TOPIC
from ottla.coord.coordinator_partitions import partition_of
from ottla.coord.share_state.inputs import (
    InitializeState,
    ReadState,
    SharePartitionKey,
    SharePlace,
    StateOperation,
    StateResult,
    WriteState,
)
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.errors import COORDINATOR_NOT_AVAILABLE, FENCED_LEADER_EPOCH, NONE
from tests.support.neighbours import Street

TOPIC_ID = b"t".ljust(16)
PARTITIONS = 6
WRITE = 85


class ShareStreet:
    """Three brokers: the first leads a topic, the second and the third are share coordinators."""

    def __init__(self) -> None:
        self.street = Street(3, inter_broker_protocol_version="3.9")
        self.street.topic(SHARE_STATE_TOPIC, [2, 3, 2])
        self.street.topic("t", [1] * PARTITIONS)

    def index(self, partition: int, group: str = "g") -> int:
        return partition_of(SharePartitionKey(group, TOPIC_ID, partition).coordinator_key(), 3)

    def coordinated_by(self, node_id: int) -> list[int]:
        """The share partitions of a coordinator."""
        return [each for each in range(PARTITIONS) if (self.index(each) == 1) == (node_id == 3)]

    def begin(self, operation: StateOperation, *places: SharePlace, node_id: int = 1) -> list[Sequence[StateResult]]:
        found: list[Sequence[StateResult]] = []
        persister = self.street.machines[node_id].broker.share_states.persister
        getattr(persister, operation.name.lower())("g", places, found.append)
        return found

    def persist(self, operation: StateOperation, *places: SharePlace, node_id: int = 1) -> list[StateResult]:
        found = self.begin(operation, *places, node_id=node_id)
        assert self.street.run(20_000, lambda: bool(found))
        return list(found[0])

    def initialize(self) -> None:
        places = [InitializeState(TOPIC_ID, index, 0, 0) for index in range(PARTITIONS)]
        assert self.persist(StateOperation.INITIALIZE, *places) == [StateResult()] * PARTITIONS

    def write(self, partition: int, offset: int, leader_epoch: int = 0) -> WriteState:
        return WriteState(TOPIC_ID, partition, 0, leader_epoch, 0, 0, ((offset, offset, 2, 1),))

    def read(self, partition: int, leader_epoch: int = 0, node_id: int = 1) -> StateResult:
        return self.persist(StateOperation.READ, ReadState(TOPIC_ID, partition, leader_epoch), node_id=node_id)[0]


@pytest.fixture
def street() -> ShareStreet:
    street = ShareStreet()
    street.initialize()
    return street


def test_places_of_several_coordinators_are_asked_of_each_at_once(street: ShareStreet) -> None:
    assert street.coordinated_by(2)
    assert street.coordinated_by(3)
    street.street.requests.clear()
    results = street.persist(StateOperation.WRITE, *[street.write(index, index) for index in range(PARTITIONS)])
    assert results == [StateResult()] * PARTITIONS
    assert sorted(street.street.requests) == [(2, WRITE), (3, WRITE)]
    assert [street.read(index).batches for index in range(PARTITIONS)] == [((index, index, 2, 1),) for index in range(PARTITIONS)]


def test_a_coordinator_on_the_same_broker_is_asked_without_a_request(street: ShareStreet) -> None:
    (partition, *_) = street.coordinated_by(3)
    street.street.requests.clear()
    assert street.persist(StateOperation.WRITE, street.write(partition, 1), node_id=3) == [StateResult()]
    assert not [request for request in street.street.requests if request[1] == WRITE]
    assert street.read(partition).batches == ((1, 1, 2, 1),)


def test_a_newer_leader_elsewhere_fences_an_earlier_one(street: ShareStreet) -> None:
    assert street.read(0, leader_epoch=4, node_id=2).error_code == NONE
    assert street.persist(StateOperation.WRITE, street.write(0, 0, leader_epoch=3))[0].error_code == FENCED_LEADER_EPOCH


def test_writes_wait_for_a_coordinator_that_moves_and_keep_their_order(street: ShareStreet) -> None:
    (partition, *_) = street.coordinated_by(3)
    street.street.unlead(SHARE_STATE_TOPIC, 1)
    found = [street.begin(StateOperation.WRITE, street.write(partition, offset)) for offset in range(3)]
    assert not street.street.run(3_000, lambda: any(found))
    street.street.lead(SHARE_STATE_TOPIC, 1)
    assert street.street.run(3_000, lambda: all(found))
    assert found == [[[StateResult()]]] * 3
    assert street.read(partition).batches == ((0, 2, 2, 1),)


def test_a_coordinator_that_stays_away_is_given_up_in_time(street: ShareStreet) -> None:
    (partition, *_) = street.coordinated_by(3)
    street.street.unlead(SHARE_STATE_TOPIC, 1)
    found = street.begin(StateOperation.WRITE, street.write(partition, 0))
    assert street.street.run(16_000, lambda: bool(found))
    assert found[0][0].error_code == COORDINATOR_NOT_AVAILABLE


def test_a_broker_that_is_cut_off_is_asked_again(street: ShareStreet) -> None:
    (partition, *_) = street.coordinated_by(3)
    street.street.cut.add(3)
    found = street.begin(StateOperation.WRITE, street.write(partition, 0))
    assert not street.street.run(500, lambda: bool(found))
    street.street.cut.clear()
    assert street.street.run(40_000, lambda: bool(found))
    assert found[0] == [StateResult()]
    assert street.read(partition).batches == ((0, 0, 2, 1),)


def test_a_reply_waits_for_replicas_in_sync(street: ShareStreet) -> None:
    (partition, *_) = street.coordinated_by(3)
    street.street.lead(SHARE_STATE_TOPIC, 1, followers=(2,), in_sync=(2,))
    street.street.run(100)
    found = street.begin(StateOperation.WRITE, street.write(partition, 0))
    assert not street.street.run(2_000, lambda: bool(found)), "no follower has fetched"
    street.street.lead(SHARE_STATE_TOPIC, 1)
    assert street.street.run(10_000, lambda: bool(found))
    assert found[0] == [StateResult()]


def test_the_coordinator_is_found_where_it_is(street: ShareStreet) -> None:
    keys = [SharePartitionKey("g", TOPIC_ID, index).coordinator_key() for index in range(PARTITIONS)]
    body = FindCoordinatorRequest(key_type=2, coordinator_keys=keys)
    found = street.street.machines[1].ask(10, 6, body).coordinators
    assert [one.error_code for one in found] == [NONE] * PARTITIONS
    assert [one.node_id for one in found] == [3 if street.index(index) == 1 else 2 for index in range(PARTITIONS)]
