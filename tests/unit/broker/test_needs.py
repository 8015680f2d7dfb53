"""What a client may not do is refused in one place, for those parts of its request alone, and never reaches a handler."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.serving.request import Close, Peer
from ottla.cluster.acls import CLUSTER_NAME, Operation, Resource
from ottla.records.batches.builder import build
from ottla.wire.apis import API
from ottla.wire.errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    GROUP_AUTHORIZATION_FAILED,
    NONE,
    NOT_CONTROLLER,
    TOPIC_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
from tests.support.acl_peers import MachineOfUsers
from tests.support.machine import Machine, OpenMachine
from tests.support.messages import request
from tests.support.producing import create


class Denying:
    """Allows all but what it was told, and notes what it was asked."""

    def __init__(self) -> None:
        self.denied: set[tuple[Operation, Resource, str]] = set()
        self.asked: set[tuple[Operation, Resource, str]] = set()

    def allows(self, peer: Peer, operation: Operation, resource: Resource, name: str) -> bool:
        self.asked.add((operation, resource, name))
        return (operation, resource, name) not in self.denied


@pytest.fixture
def denying() -> Denying:
    return Denying()


@pytest.fixture
def machine(denying: Denying) -> Machine:
    machine = OpenMachine(authorizer=denying)
    for name in ("open", "secret"):
        create(machine, name, 2)
    return machine


def produce(machine: Machine, version: int, *topics: str, acks: int = 1) -> Any:
    batch = build(None, [b"v"], machine.clock.now().wall_ms)
    image = machine.broker.image.topics
    data = [{"name": name, "topic_id": image[name].topic_id, "partition_data": [{"index": 0, "records": batch}]} for name in topics]
    return machine.ask(0, version, request(0, version, acks=acks, timeout_ms=1000, topic_data=data))


def told(response: Any, version: int) -> dict[object, int]:
    return {one.name or one.topic_id: one.partition_responses[0].error_code for one in response.responses}


@pytest.mark.parametrize("acks", [1, -1])
def test_of_a_request_for_several_topics_only_those_are_refused_that_are_denied(
    machine: Machine, denying: Denying, acks: int
) -> None:
    denying.denied.add((Operation.WRITE, Resource.TOPIC, "secret"))
    assert told(produce(machine, 9, "open", "secret", acks=acks), 9) == {"open": NONE, "secret": TOPIC_AUTHORIZATION_FAILED}
    secret = machine.broker.partitions.get("secret", 0)
    assert secret is not None
    assert secret.high_watermark == 0


def test_a_request_of_which_nothing_is_left_is_refused_whole(machine: Machine, denying: Denying) -> None:
    denying.denied.add((Operation.WRITE, Resource.TOPIC, "secret"))
    assert told(produce(machine, 9, "secret"), 9) == {"secret": TOPIC_AUTHORIZATION_FAILED}


@pytest.mark.parametrize("topics", [("secret",), ("secret", "open"), ("secret",) * 3000])
def test_a_denied_produce_that_wants_no_response_ends_its_connection(
    machine: Machine, denying: Denying, topics: tuple[str, ...]
) -> None:
    """A response would be taken for that of the next request."""
    denying.denied.add((Operation.WRITE, Resource.TOPIC, "secret"))
    assert isinstance(produce(machine, 7, *topics, acks=0), Close)
    assert produce(machine, 7, "open", acks=0) is None


def test_a_topic_named_by_its_id_is_looked_up(machine: Machine, denying: Denying) -> None:
    denying.denied.add((Operation.WRITE, Resource.TOPIC, "secret"))
    secret = machine.broker.image.topics["secret"].topic_id
    answered = told(produce(machine, 13, "open", "secret"), 13)
    assert answered.pop(secret) == TOPIC_AUTHORIZATION_FAILED
    assert list(answered.values()) == [NONE]


def test_a_name_that_a_request_gives_itself_is_checked(machine: Machine, denying: Denying) -> None:
    denying.denied.add((Operation.READ, Resource.GROUP, "g"))
    assert machine.ask(12, 4, request(12, 4, group_id="g", member_id="m")).error_code == GROUP_AUTHORIZATION_FAILED
    denying.denied.add((Operation.WRITE, Resource.TRANSACTIONAL_ID, "t"))
    assert machine.ask(22, 4, request(22, 4, transactional_id="t")).error_code == TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_a_transactional_id_needs_a_right_only_with_records_of_a_transaction(machine: Machine, denying: Denying) -> None:
    denying.denied.add((Operation.WRITE, Resource.TRANSACTIONAL_ID, "t"))
    wall_ms = machine.clock.now().wall_ms
    plain = build(None, [b"v"], wall_ms)
    in_transaction = build(None, [b"v"], wall_ms, producer_id=1, producer_epoch=0, transactional=True)
    for records, error_code in ((plain, NONE), (in_transaction, TRANSACTIONAL_ID_AUTHORIZATION_FAILED)):
        data = [{"name": "open", "partition_data": [{"index": 0, "records": records}]}]
        told = machine.ask(0, 9, request(0, 9, transactional_id="t", acks=1, timeout_ms=1000, topic_data=data))
        assert told.responses[0].partition_responses[0].error_code == error_code


def test_two_phases_need_a_right_of_their_own_where_they_are_asked_for(denying: Denying) -> None:
    machine = OpenMachine(authorizer=denying, transaction_two_phase_commit_enable=True)
    denying.denied.add((Operation.TWO_PHASE_COMMIT, Resource.TRANSACTIONAL_ID, "t"))
    body = {"transactional_id": "t", "transaction_timeout_ms": 1000}
    asked = machine.ask(22, 6, request(22, 6, **body, enable_2pc=True))
    assert asked.error_code == TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert machine.ask(22, 6, request(22, 6, **body)).error_code != TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_names_in_a_list_are_checked_one_by_one(machine: Machine, denying: Denying) -> None:
    denying.denied.add((Operation.DESCRIBE, Resource.GROUP, "hidden"))
    assert machine.ask(10, 3, request(10, 3, key="seen", key_type=0)).error_code == NONE
    groups = machine.ask(15, 5, request(15, 5, groups=["hidden", "seen"])).groups
    assert {group.group_id: group.error_code for group in groups} == {"hidden": GROUP_AUTHORIZATION_FAILED, "seen": NONE}


def test_a_pattern_gives_no_topics_that_its_member_may_not_describe(machine: Machine, denying: Denying) -> None:
    denying.denied.add((Operation.DESCRIBE, Resource.TOPIC, "secret"))
    ids = {name: machine.broker.image.topics[name].topic_id for name in ("open", "secret")}
    member = {"group_id": "g", "member_id": "m", "rebalance_timeout_ms": 6000, "topic_partitions": []}
    member["subscribed_topic_regex"] = "open|secret"
    machine.ask(10, 3, request(10, 3, key="g", key_type=0))
    joined = machine.ask(68, 1, request(68, 1, **member, member_epoch=0))
    assert joined.error_code == NONE
    assert {bytes(each.topic_id) for each in joined.assignment.topic_partitions} == {ids["open"]}


def test_the_cluster_is_a_resource(machine: Machine, denying: Denying) -> None:
    denying.denied.add((Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME))
    assert machine.ask(43, 2, request(43, 2, topic_partitions=None)).error_code == CLUSTER_AUTHORIZATION_FAILED


def test_each_resource_with_settings_is_checked_as_what_it_is(machine: Machine, denying: Denying) -> None:
    denying.denied |= {
        (Operation.DESCRIBE_CONFIGS, Resource.TOPIC, "secret"),
        (Operation.DESCRIBE_CONFIGS, Resource.CLUSTER, CLUSTER_NAME),
    }
    wanted = [(2, "open"), (2, "secret"), (4, "1"), (8, "1"), (16, "metrics"), (32, "g")]
    resources = [{"resource_type": kind, "resource_name": name, "configuration_keys": None} for kind, name in wanted]
    results = machine.ask(32, 4, request(32, 4, resources=resources)).results
    assert {(one.resource_type, one.resource_name): one.error_code for one in results} == {
        (2, "open"): NONE,
        (2, "secret"): TOPIC_AUTHORIZATION_FAILED,
        (4, "1"): CLUSTER_AUTHORIZATION_FAILED,
        (8, "1"): CLUSTER_AUTHORIZATION_FAILED,
        (16, "metrics"): CLUSTER_AUTHORIZATION_FAILED,
        (32, "g"): NONE,
    }


def test_levels_of_loggers_and_subscriptions_are_altered_with_the_rights_of_the_cluster(machine: Machine, denying: Denying) -> None:
    denying.denied.add((Operation.ALTER_CONFIGS, Resource.CLUSTER, CLUSTER_NAME))
    changes = {
        8: {"name": "ottla", "config_operation": 0, "value": "DEBUG"},
        16: {"name": "metrics", "config_operation": 0, "value": "*"},
    }
    resources = [{"resource_type": kind, "resource_name": "1", "configs": [change]} for kind, change in changes.items()]
    responses = machine.ask(44, 1, request(44, 1, resources=resources)).responses
    assert {one.error_code for one in responses} == {CLUSTER_AUTHORIZATION_FAILED}
    assert machine.loggers.levels()["ottla"] != 10
    assert not machine.broker.image.client_metrics


def test_where_a_response_has_no_place_for_the_refusal_it_says_nothing(machine: Machine, denying: Denying) -> None:
    denying.denied.add((Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME))
    assert machine.ask(35, 1, request(35, 1, topics=None)).results == []


def test_where_nothing_is_named_nobody_is_asked(machine: Machine, denying: Denying) -> None:
    denying.asked.clear()
    assert machine.ask(1, 4, request(1, 4, replica_id=-1, max_wait_ms=0, max_bytes=1, topics=[])).responses == []
    assert denying.asked == set()


def test_only_the_controller_changes_topics(machine: Machine) -> None:
    image = machine.broker.image
    machine.broker.controller.leave(machine.clock.now())
    response = machine.ask(20, 5, request(20, 5, topic_names=["open"]))
    assert [one.error_code for one in response.responses] == [NOT_CONTROLLER]
    assert "open" in image.topics


def test_of_transactional_ids_a_client_is_told_those_that_it_may_see(machine: Machine, denying: Denying) -> None:
    machine.ask(10, 4, request(10, 4, key_type=1, coordinator_keys=["open"]))
    for name in ("open", "secret"):
        assert machine.ask(22, 4, request(22, 4, transactional_id=name, transaction_timeout_ms=60_000)).error_code == NONE
    denying.denied.add((Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, "secret"))
    listed = machine.ask(66, 1, request(66, 1))
    assert [each.transactional_id for each in listed.transaction_states] == ["open"]


@pytest.mark.parametrize("topics", [[], [{"name": "t", "partitions": []}]])
@pytest.mark.parametrize(("key", "version"), [(8, 0), (8, 9), (9, 0), (9, 1), (24, 0), (24, 3), (28, 0), (28, 4)])
def test_a_denied_request_that_names_no_partition_is_answered(key: int, version: int, topics: list[dict[str, Any]]) -> None:
    wire = {field.name for field in API[key].request.WIRE.fields if version in field.present}
    name = "v3_and_below_topics" if key == 24 else "topics"
    asked = [dict(topic) for topic in topics]
    if key == 9:
        asked = [{"name": topic["name"], "partition_indexes": []} for topic in topics]
    values: dict[str, Any] = {name: asked, "group_id": "g", "transactional_id": "x", "v3_and_below_transactional_id": "x"}
    body = request(key, version, **{field: value for field, value in values.items() if field in wire})
    answer = MachineOfUsers().ask("mallory", key, version, body)
    assert isinstance(answer, API[key].response), answer
