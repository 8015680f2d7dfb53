"""Long answers are made and written in pieces, however much is told of one thing, and say what they would say at once."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.handlers.groups import MOST_GROUP_BYTES
from ottla.broker.serving.request import Close
from ottla.broker.serving.routes import MOST_BYTES
from ottla.cluster import layout
from ottla.cluster.acls import MOST_BYTES as MOST_OF_RULES
from ottla.coord.memory import MOST_OF_ONE
from ottla.log.producer_state.producers import ProducerState
from ottla.wire.codec.blocks import BlockWriter
from ottla.wire.errors import GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED, NONE, POLICY_VIOLATION, UNKNOWN_TOPIC_OR_PARTITION
from ottla.wire.schema import Message
from tests.support.acl_cases import ADMIN
from tests.support.acl_peers import MachineOfUsers
from tests.support.machine import Machine
from tests.support.messages import request
from tests.unit.broker.test_delegation_tokens import Tokens
from tests.unit.broker.test_old_versions import machine_with

MOST_WRITTEN = 700
"""Things of one piece, in what these tests have described."""


@pytest.fixture
def largest(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of things in each piece that was written."""
    sizes: list[int] = []
    real = BlockWriter.add

    def add(writer: BlockWriter, message: Message) -> None:
        sizes.append(things(message))
        real(writer, message)

    monkeypatch.setattr(BlockWriter, "add", add)
    return sizes


def things(message: Any) -> int:
    """How many structs there are in a message."""
    lists = [getattr(message, field.name) or [] for field in message.WIRE.fields if field.array and field.kind == "struct"]
    return sum(1 + things(each) for found in lists for each in found)


def test_the_producers_of_one_partition_are_told_in_pieces_and_each_partition_by_itself(largest: list[int]) -> None:
    machine = machine_with("t")
    partition = machine.broker.partitions.get("t", 0)
    assert partition is not None
    for producer_id in range(2_000):
        partition.log.producers.by_id[producer_id] = ProducerState(producer_id % 7)
    wanted = [{"name": "t", "partition_indexes": [0, 0, 99]}, {"name": "u", "partition_indexes": [1, 2]}]
    answer = machine.ask(61, 0, request(61, 0, topics=wanted))
    (topic, unknown) = answer.topics
    assert [part.partition_index for part in topic.partitions] == [0, 0, 99]
    for part in topic.partitions[:2]:
        assert [(each.producer_id, each.producer_epoch) for each in part.active_producers] == [(i, i % 7) for i in range(2_000)]
    assert [part.error_code for part in topic.partitions] == [NONE, NONE, UNKNOWN_TOPIC_OR_PARTITION]
    assert [part.error_code for part in unknown.partitions] == [UNKNOWN_TOPIC_OR_PARTITION] * 2
    assert max(largest) <= MOST_WRITTEN


def member(group: str, metadata: bytes) -> Any:
    return request(
        11,
        3,
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": metadata}],
    )


@pytest.mark.parametrize("version", [0, 3, 6])
def test_the_members_of_one_group_are_told_in_pieces_and_each_group_by_itself(largest: list[int], version: int) -> None:
    machine = machine_with("t")
    machine.ask(10, 4, request(10, 4, key_type=0, coordinator_keys=["big"]))
    for number in range(800):
        machine.begin(11, 3, member("big", b"%d" % number))
    answer = machine.ask(15, version, request(15, version, groups=["big", "big", "nobody", "big"]))
    assert [group.group_id for group in answer.groups] == ["big", "big", "nobody", "big"]
    assert [len(group.members) for group in answer.groups] == [800, 800, 0, 800]
    assert len({one.member_id for one in answer.groups[0].members}) == 800
    assert answer.groups[2].error_code == (GROUP_ID_NOT_FOUND if version >= 6 else NONE)
    assert max(largest) <= MOST_WRITTEN


def test_the_members_of_one_consumer_group_are_told_in_pieces(largest: list[int]) -> None:
    machine = machine_with("t")
    machine.ask(10, 4, request(10, 4, key_type=0, coordinator_keys=["big"]))
    for number in range(600):
        body = request(
            68,
            1,
            group_id="big",
            member_id=f"m{number}",
            member_epoch=0,
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        machine.begin(68, 1, body)
    answer = machine.ask(69, 1, request(69, 1, group_ids=["big", "nobody"]))
    assert [(group.group_id, len(group.members)) for group in answer.groups] == [("big", 600), ("nobody", 0)]
    assert max(largest) <= MOST_WRITTEN


def test_quotas_and_credentials_are_told_in_pieces(largest: list[int]) -> None:
    machine = Machine()
    for begin in range(0, 600, 200):
        entries = [
            {
                "entity": [{"entity_type": "user", "entity_name": f"u{begin + i}"}],
                "ops": [{"key": "producer_byte_rate", "value": 9.0}],
            }
            for i in range(200)
        ]
        machine.ask(49, 1, request(49, 1, entries=entries, validate_only=False))
    answer = machine.ask(48, 1, request(48, 1, components=[], strict=False))
    assert [each.entity[0].entity_name for each in answer.entries] == [f"u{i}" for i in range(600)]
    upsertions = [
        {"name": f"u{i}", "mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": bytes(32)} for i in range(300)
    ]
    altered = machine.ask(51, 0, request(51, 0, deletions=[{"name": "u7", "mechanism": 1}], upsertions=upsertions))
    codes = {each.user: each.error_code for each in altered.results}
    assert len(altered.results) == 300
    assert [user for user, code in codes.items() if code] == ["u7"], "who is named twice is refused, whatever slices there are"
    answer = machine.ask(50, 0, request(50, 0, users=None))
    assert [each.user for each in answer.results] == [f"u{i}" for i in range(300) if i != 7]
    assert machine.ask(48, 1, request(48, 1, components=[], strict=False)).entries is not None
    assert max(largest) <= 2 * MOST_WRITTEN


def test_tokens_are_told_one_by_one(largest: list[int]) -> None:
    tokens = Tokens()
    for _ in range(4):
        assert tokens.create(*[f"r{i}" for i in range(300)]).error_code == NONE
    described = tokens.ask(41, owners=None).tokens
    assert [len(token.renewers) for token in described] == [300] * 4
    assert max(largest) <= MOST_WRITTEN


def acl(name: str, principal: str) -> dict[str, Any]:
    return {
        "resource_type": 2,
        "resource_name": name,
        "resource_pattern_type": 3,
        "principal": principal,
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }


def test_rules_are_told_and_deleted_in_pieces(largest: list[int]) -> None:
    machine = MachineOfUsers()
    rules = [acl("t", f"User:u{i}") for i in range(900)] + [acl(f"t{i}", "User:v") for i in range(900)]
    made = machine.ask(ADMIN, 30, 3, request(30, 3, creations=rules))
    assert {each.error_code for each in made.results} == {NONE}
    everything: dict[str, Any] = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
    everything |= dict.fromkeys(("resource_name_filter", "principal_filter", "host_filter"))
    told = machine.ask(ADMIN, 29, 3, request(29, 3, **everything))
    assert [(each.resource_name, len(each.acls)) for each in told.resources] == [("t", 900), *((f"t{i}", 1) for i in range(900))]
    filters = [everything | {"principal_filter": who} for who in ("User:u5", "User:v", "User:nobody", "User:u5")]
    deleted = machine.ask(ADMIN, 31, 3, request(31, 3, filters=filters))
    assert [len(each.matching_acls) for each in deleted.filter_results] == [1, 900, 0, 1]
    told = machine.ask(ADMIN, 29, 3, request(29, 3, **everything))
    assert [(each.resource_name, len(each.acls)) for each in told.resources] == [("t", 899)]
    assert max(largest) <= MOST_WRITTEN


def test_rules_about_one_resource_have_a_bound() -> None:
    machine = MachineOfUsers()
    long = "u" * 4000
    codes = []
    for begin in range(0, 300, 100):
        rules = [acl("t", f"User:{long}{begin + i}") for i in range(100)]
        codes += [each.error_code for each in machine.ask(ADMIN, 30, 3, request(30, 3, creations=rules)).results]
    assert set(codes) == {NONE, POLICY_VIOLATION}
    assert codes == sorted(codes)
    assert codes.count(NONE) == MOST_OF_RULES // 4100 + 1 or codes.count(NONE) == MOST_OF_RULES // 4100
    (again,) = machine.ask(ADMIN, 30, 3, request(30, 3, creations=[acl("t", f"User:{long}0")])).results
    assert again.error_code == NONE, "what is there already is made again"
    (other,) = machine.ask(ADMIN, 30, 3, request(30, 3, creations=[acl("u", f"User:{long}0")])).results
    assert other.error_code == NONE


@pytest.mark.parametrize(("key", "version", "field"), [(13, 5, "members"), (16, 5, "states_filter"), (66, 0, "state_filters")])
def test_a_request_that_cannot_be_divided_has_a_bound_in_bytes(key: int, version: int, field: str) -> None:
    machine = machine_with("t")
    for count, closes in ((10, False), (MOST_BYTES // 30_000 + 1, True)):
        names: list[Any] = [f"{number}" + "n" * 30_000 for number in range(count)]
        body = request(key, version, **{field: [{"member_id": name} for name in names] if key == 13 else names})
        answer = machine.ask(key, version, body)
        assert isinstance(answer, Close) is closes, answer
        assert not closes or "name less at a time" in answer.reason


def test_a_member_that_brings_more_than_any_group_takes_is_refused_by_code_or_at_once() -> None:
    machine = machine_with("t")
    machine.ask(10, 4, request(10, 4, key_type=0, coordinator_keys=["g"]))
    member = {"group_id": "g", "session_timeout_ms": 30_000, "rebalance_timeout_ms": 30_000, "protocol_type": "consumer"}
    for size, closes in ((MOST_OF_ONE, False), (MOST_GROUP_BYTES, True)):
        protocols = [{"name": "range", "metadata": bytes(size)}]
        answer = machine.ask(11, 3, request(11, 3, **member, member_id="", protocols=protocols))
        assert isinstance(answer, Close) is closes, answer
        assert closes or answer.error_code == GROUP_MAX_SIZE_REACHED


@pytest.mark.parametrize("name", ["a/b", "%", "%41", "名" * 300, "/" * 4096, "a%2Fb/", "\0", "é/é"])
def test_any_name_comes_back_from_its_entry(name: str) -> None:
    assert layout.name_in(layout.group_config_path(name).removeprefix(f"{layout.GROUP_CONFIGS}/")) == name


@pytest.mark.parametrize("entry", ["%", "a%", "%4", "%4g", "a%zz", "%C3"])
def test_an_entry_that_no_name_has_is_refused(entry: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of either kind, and of Python's words
        layout.name_in(entry)
