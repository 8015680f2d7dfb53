"""Share coordinators in a broker: their APIs, the persister, restarts, and the log of `__share_group_state`."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Sequence
from typing import Any

import pytest

from ottla.broker.coordination.share_messages import results_of, to_request
from ottla.cluster.names import SHARE_STATE_TOPIC
from ottla.coord.coordinator_partitions import partition_of
from ottla.coord.share_state.inputs import (
    MOST_BATCHES,
    DeleteState,
    InitializeState,
    ReadState,
    SharePartitionKey,
    SharePlace,
    StateOperation,
    StateResult,
    WriteState,
)
from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.api.delete_topics import DeleteTopicsRequest
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    COORDINATOR_NOT_AVAILABLE,
    INVALID_REQUEST,
    NONE,
    NOT_COORDINATOR,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from tests.support.acl_peers import MachineOfUsers
from tests.support.machine import Machine
from tests.support.work import measured

GROUP = "g"
MINUTE_MS = 60_000
MOST_CALLS = 10_000
"""In one step: about two milliseconds of work."""


class Share:
    """A broker with a topic, and what leaders of its partitions ask the persister."""

    def __init__(self, **settings: object) -> None:
        self.machine = Machine(share_coordinator_state_topic_num_partitions=3, **settings)
        self.topic_id = self.create("t", 4)

    def create(self, name: str, partitions: int) -> bytes:
        topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        response = self.machine.ask(19, 7, CreateTopicsRequest(topics=[topic], timeout_ms=1_000))
        assert response.topics[0].error_code == NONE
        return bytes(response.topics[0].topic_id)

    def delete(self, name: str) -> None:
        topic = DeleteTopicsRequest.DeleteTopicState(name=name)
        response = self.machine.ask(20, 6, DeleteTopicsRequest(topics=[topic], timeout_ms=1_000))
        assert response.responses[0].error_code == NONE

    def begin(self, operation: StateOperation, *places: SharePlace, group: str = GROUP) -> list[Sequence[StateResult]]:
        """The results of one call, as soon as they are known."""
        found: list[Sequence[StateResult]] = []
        getattr(self.machine.broker.share_states.persister, operation.name.lower())(group, places, found.append)
        assert not found, "a result comes later"
        return found

    def persist(self, operation: StateOperation, *places: SharePlace, group: str = GROUP) -> list[StateResult]:
        """The results of one call, after which time passes until they are known."""
        found = self.begin(operation, *places, group=group)
        for _ in range(400):
            if found:
                return list(found[0])
            self.machine.pass_time(50)
        raise AssertionError("the persister did not answer")

    def initialize(self, partition: int, state_epoch: int = 0, start_offset: int = -1) -> StateResult:
        return self.persist(StateOperation.INITIALIZE, InitializeState(self.topic_id, partition, state_epoch, start_offset))[0]

    def read(self, partition: int, leader_epoch: int = 0) -> StateResult:
        return self.persist(StateOperation.READ, ReadState(self.topic_id, partition, leader_epoch))[0]

    def written(self, partition: int, *batches: tuple[int, int, int, int], start_offset: int = -1) -> WriteState:
        return WriteState(self.topic_id, partition, 0, 0, start_offset, 0, batches)

    def write(self, partition: int, *batches: tuple[int, int, int, int], start_offset: int = -1) -> StateResult:
        return self.persist(StateOperation.WRITE, self.written(partition, *batches, start_offset=start_offset))[0]

    def ask(
        self, operation: StateOperation, *places: SharePlace, version: int = 0, group: str = GROUP
    ) -> dict[tuple[bytes, int], StateResult]:
        """The results of a request of another broker."""
        request = to_request(operation, group, places)
        return results_of(operation, self.machine.ask(request.WIRE.key, version, request))

    def find(self, *keys: str, version: int = 6) -> list[tuple[int, int]]:
        """The error and the node of each key."""
        found = self.machine.ask(10, version, FindCoordinatorRequest(key_type=2, coordinator_keys=list(keys)))
        return [(one.error_code, one.node_id) for one in found.coordinators]

    def key(self, partition: int, group: str = GROUP) -> str:
        return SharePartitionKey(group, self.topic_id, partition).coordinator_key()

    def log_of(self, partition: int) -> Any:
        """The log of the coordinator of a share partition."""
        found = self.machine.broker.partitions.get(SHARE_STATE_TOPIC, partition_of(self.key(partition), 3))
        assert found is not None
        return found.log


@pytest.fixture
def share() -> Share:
    return Share()


def test_the_first_call_of_the_persister_creates_the_topic_and_is_served(share: Share) -> None:
    assert share.initialize(0, state_epoch=1, start_offset=5) == StateResult()
    assert share.read(0) == StateResult(state_epoch=1, start_offset=5)
    assert share.machine.broker.image.topics[SHARE_STATE_TOPIC].configs["cleanup.policy"] == "delete"


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


def test_a_result_comes_once_it_is_on_stable_storage(share: Share) -> None:
    share.initialize(0)
    found = share.begin(StateOperation.WRITE, share.written(0, (0, 0, 2, 1)))
    share.machine.broker.finish_bundle(share.machine.clock.now())
    assert not found
    share.machine.settle()
    assert found == [[StateResult()]]


def test_writes_of_one_bundle_are_one_record(share: Share) -> None:
    share.initialize(0)
    end = share.log_of(0).log_end_offset
    found = [share.begin(StateOperation.WRITE, share.written(0, (offset, offset, 2, 1))) for offset in range(8)]
    share.machine.settle()
    assert found == [[[StateResult()]]] * 8
    assert share.log_of(0).log_end_offset == end + 1
    assert share.read(0).batches == ((0, 7, 2, 1),)


@pytest.mark.expects_errors("Input/output error", "a sync failed")
def test_a_write_whose_sync_failed_is_no_success(share: Share) -> None:
    share.initialize(0)
    found = share.begin(StateOperation.WRITE, share.written(0, (0, 0, 2, 1)))
    share.machine.broker.finish_bundle(share.machine.clock.now())
    share.machine.disk.fail(0, count=1_000)
    share.machine.settle()
    share.machine.disk.heal()
    for _ in range(400):
        share.machine.pass_time(50)
    assert found[0][0].error_code == COORDINATOR_NOT_AVAILABLE


@pytest.mark.expects_errors("No space left on device")
def test_a_full_disk_refuses_writes_until_it_has_room_again(share: Share) -> None:
    share.initialize(0)
    share.machine.disk.capacity_bytes = share.machine.disk.used_bytes
    found = share.begin(StateOperation.WRITE, share.written(0, *((2 * at, 2 * at, 2, 1) for at in range(500))))
    share.machine.pass_time(1_000)
    assert not found
    share.machine.disk.capacity_bytes = None
    for _ in range(40):
        share.machine.pass_time(50)
    assert found == [[StateResult()]]
    assert len(share.read(0).batches) == 500


def test_a_killed_broker_has_what_it_acknowledged(share: Share) -> None:
    share.initialize(0)
    share.write(0, (0, 9, 2, 1), start_offset=0)
    share.machine.kill()
    assert share.read(0) == StateResult(start_offset=0, batches=((0, 9, 2, 1),))


def test_states_of_a_deleted_topic_are_deleted_and_a_new_one_of_its_name_has_none(share: Share) -> None:
    other = share.create("other", 1)
    share.persist(StateOperation.INITIALIZE, InitializeState(other, 0, 0, 5))
    for partition in range(4):
        share.initialize(partition)
    share.delete("t")
    share.machine.pass_time(10)
    shards = share.machine.broker.share_states.coordinators.shards
    assert [key.topic_id for shard in shards for key in shard.machine.states] == [other]
    assert share.read(0).error_code == INVALID_REQUEST
    assert share.initialize(0).error_code == UNKNOWN_TOPIC_OR_PARTITION
    share.topic_id = share.create("t", 4)
    assert share.read(0).error_code == INVALID_REQUEST
    share.machine.restart()
    shards = share.machine.broker.share_states.coordinators.shards
    assert [key.topic_id for shard in shards for key in shard.machine.states] == [other]


def test_states_of_more_share_partitions_than_one_step_deletes_are_deleted(share: Share) -> None:
    for number in range(500):
        share.begin(StateOperation.INITIALIZE, InitializeState(share.topic_id, 0, 0, 0), group=f"group-{number}")
    for _ in range(100):
        share.machine.pass_time(10)
    shards = share.machine.broker.share_states.coordinators.shards
    assert sum(len(shard.machine.states) for shard in shards) == 500
    share.delete("t")
    for _ in range(100):
        share.machine.pass_time(10)
    assert sum(len(shard.machine.states) for shard in shards) == 0
    assert share.machine.broker.share_states._deleted == {}


def test_a_deleted_internal_topic_is_created_again(share: Share) -> None:
    share.initialize(0)
    share.delete(SHARE_STATE_TOPIC)
    share.machine.pass_time(100)
    assert share.read(0).error_code == INVALID_REQUEST
    assert share.initialize(0) == StateResult()


def test_redundant_records_are_deleted_in_time(share: Share) -> None:
    share.initialize(0)
    for offset in range(20):
        share.write(0, (offset, offset, 2, 1))
    before = share.read(0)
    log = share.log_of(0)
    assert log.log_start_offset == 0
    for _ in range(20):
        share.machine.pass_time(MINUTE_MS)
    assert log.log_start_offset >= 20
    assert share.read(0) == before
    share.machine.restart()
    assert share.read(0) == before
    share.machine.cut_power(seed=1)
    assert share.read(0) == before


def test_the_settings_of_snapshots_are_in_force() -> None:
    share = Share(share_coordinator_snapshot_update_records_per_snapshot=0)
    share.initialize(0)
    share.write(0, (0, 0, 2, 1))
    shard = next(shard for shard in share.machine.broker.share_states.coordinators.shards if shard.machine.states)
    (state,) = shard.machine.states.values()
    assert (state.snapshot_epoch, state.updates) == (1, 0)


def test_a_coordinator_is_found_by_a_key_and_its_topic_is_created(share: Share) -> None:
    assert share.find(share.key(0), share.key(1, "a:b")) == [(NONE, 1)] * 2
    assert len(share.machine.broker.image.topics[SHARE_STATE_TOPIC].partitions) == 3


@pytest.mark.parametrize("key", ["", "g", "g:0", "g:short:0", ":AAECAwQFBgcICQoLDA0ODw:0", "g:AAECAwQFBgcICQoLDA0ODw:x"])
def test_a_malformed_key_is_an_invalid_request_and_creates_no_topic(share: Share, key: str) -> None:
    assert share.find(key) == [(INVALID_REQUEST, -1)]
    assert SHARE_STATE_TOPIC not in share.machine.broker.image.topics
    assert share.find(share.key(0), key) == [(NONE, 1), (INVALID_REQUEST, -1)]


@pytest.mark.parametrize("version", [4, 5])
def test_older_versions_find_no_share_coordinators(share: Share, version: int) -> None:
    assert share.find(share.key(0), version=version) == [(INVALID_REQUEST, -1)]
    one = share.machine.ask(10, 3, FindCoordinatorRequest(key_type=2, key=share.key(0)))
    assert (one.error_code, one.node_id) == (INVALID_REQUEST, -1)


def place_of(operation: StateOperation, topic_id: bytes) -> SharePlace:
    """A place of an operation that nothing is wrong with."""
    if operation is StateOperation.INITIALIZE:
        return InitializeState(topic_id, 0, 0, 0)
    if operation is StateOperation.WRITE:
        return WriteState(topic_id, 0, 0, 0, 0, 0, ())
    return DeleteState(topic_id, 0) if operation is StateOperation.DELETE else ReadState(topic_id, 0, 0)


@pytest.mark.parametrize("operation", StateOperation)
def test_a_request_without_group_topics_or_partitions_has_an_empty_response(share: Share, operation: StateOperation) -> None:
    share.initialize(0)
    place = place_of(operation, share.topic_id)
    assert share.ask(operation, place, group="") == {}
    assert share.ask(operation) == {}
    request: Any = to_request(operation, GROUP, [place])
    request.topics[0].partitions = []
    assert results_of(operation, share.machine.ask(request.WIRE.key, 0, request)) == {}
    assert share.read(0) == StateResult(start_offset=-1), "nothing was changed"


def test_large_requests_are_served_in_pieces(share: Share) -> None:
    share.initialize(0)
    share.topic_id = share.create("huge", 1_000)
    places = [InitializeState(share.topic_id, index, 0, index) for index in range(1_000)]
    results = share.ask(StateOperation.INITIALIZE, *places, *places[:3])
    assert list(results) == [(share.topic_id, index) for index in range(1_000)]
    assert {result.error_code for result in results.values()} == {NONE}
    summary = share.ask(StateOperation.READ_SUMMARY, *[ReadState(share.topic_id, index, 0) for index in range(1_000)])
    assert [result.start_offset for result in summary.values()] == list(range(1_000))


def test_without_its_topic_there_is_no_coordinator(share: Share) -> None:
    assert share.ask(StateOperation.READ, ReadState(share.topic_id, 0, 0))[share.topic_id, 0].error_code == NOT_COORDINATOR
    many = share.ask(StateOperation.READ, *[ReadState(share.topic_id, index, 0) for index in range(500)])
    assert {result.error_code for result in many.values()} == {NOT_COORDINATOR}


def test_a_group_with_the_longest_name_is_coordinated(share: Share) -> None:
    group = "g" * 32_767
    assert share.persist(StateOperation.INITIALIZE, InitializeState(share.topic_id, 0, 0, 3), group=group) == [StateResult()]
    share.machine.restart()
    assert share.persist(StateOperation.READ, ReadState(share.topic_id, 0, 0), group=group) == [StateResult(start_offset=3)]


def test_only_brokers_may_ask() -> None:
    users = MachineOfUsers(share_coordinator_state_topic_num_partitions=3)
    topic_id = bytes(16)
    for operation in StateOperation:
        request = to_request(operation, GROUP, [place_of(operation, topic_id)])
        results = results_of(operation, users.ask("stranger", request.WIRE.key, 0, request))
        assert [result.error_code for result in results.values()] == [CLUSTER_AUTHORIZATION_FAILED]
    key = f"g:{urlsafe_b64encode(topic_id).decode().rstrip('=')}:0"
    found = users.ask("stranger", 10, 6, FindCoordinatorRequest(key_type=2, coordinator_keys=[key, "bad"]))
    assert [one.error_code for one in found.coordinators] == [CLUSTER_AUTHORIZATION_FAILED] * 2


def test_a_request_with_many_state_batches_is_stored_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    share = Share()
    share.initialize(0, start_offset=0)
    share.initialize(1, start_offset=0)
    many = tuple((2 * at, 2 * at, 2, 1) for at in range(4 * MOST_BATCHES))
    with measured(monkeypatch) as work, work.piece("bundle"):
        found = share.ask(StateOperation.WRITE, share.written(0, *many), share.written(1, *many))
    assert [result.error_code for result in found.values()] == [NONE, NONE]
    assert work.most_calls.calls <= MOST_CALLS
    assert [share.read(index).batches for index in (0, 1)] == [many, many]


def test_a_reversed_batch_among_many_changes_nothing() -> None:
    share = Share()
    share.initialize(0, start_offset=0)
    many = [(2 * at, 2 * at, 2, 1) for at in range(2 * MOST_BATCHES)]
    found = share.ask(StateOperation.WRITE, share.written(0, *many, (9_001, 9_000, 2, 1)))
    assert [result.error_code for result in found.values()] == [INVALID_REQUEST]
    assert share.read(0).batches == ()
