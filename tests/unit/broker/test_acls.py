"""Rules of access: which of them decide, from when on, and what of them is kept, told and deleted."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from ottla.broker.security.acls import AclAuthorizer, Kind
from ottla.broker.security.rights import LINES_A_SECOND, Rights
from ottla.broker.serving.request import Peer
from ottla.broker.settings import SettingError
from ottla.cluster import acls, layout
from ottla.cluster.acls import CLUSTER_NAME, Acl, AclFilter, Acls, Operation, Pattern, Permission, Resource
from ottla.net.startup.plugins import own_authorizer
from ottla.ports import Now
from ottla.wire.errors import INVALID_REQUEST, NONE, SECURITY_DISABLED, TOPIC_AUTHORIZATION_FAILED, UNKNOWN_SERVER_ERROR
from tests.support.acl_peers import MachineOfUsers
from tests.support.machine import Machine
from tests.support.messages import request
from tests.support.producing import create

ALICE = Peer(1, "10.0.0.1", 50000, principal="User:alice")
ALLOW, DENY = Permission.ALLOW, Permission.DENY
LITERAL, PREFIXED = Pattern.LITERAL, Pattern.PREFIXED


def rule(
    name: str,
    operation: Operation = Operation.READ,
    permission: Permission = ALLOW,
    *,
    pattern: Pattern = LITERAL,
    principal: str = "User:alice",
    host: str = "*",
    resource: Resource = Resource.TOPIC,
) -> Acl:
    return Acl(resource, pattern, name, principal, host, operation, permission)


def known(*rules: Acl) -> Acls:
    """These rules, as a registry gives them back."""
    found = Acls()
    add(found, *rules)
    return found


def add(found: Acls, *rules: Acl) -> None:
    for decision in acls.create(found, rules):
        for change in decision.changes:
            *_, kind, entry = change.path.split("/")
            found.apply(*acls.read(kind, entry, change.value, is_prefixed=change.path.startswith(layout.ACLS[PREFIXED])))


def may(found: Acls, operation: Operation, name: str, peer: Peer = ALICE, **options: Any) -> bool:
    return Rights(AclAuthorizer(found, **options)).may(peer, operation, Resource.TOPIC, name)


@pytest.mark.parametrize(
    ("rules", "name", "allowed"),
    [
        ([], "t", False),
        ([rule("t")], "t", True),
        ([rule("t")], "tt", False),
        ([rule("t", pattern=PREFIXED)], "tt", True),
        ([rule("t", pattern=PREFIXED)], "t", True),
        ([rule("tt", pattern=PREFIXED)], "t", False),
        ([rule("T", pattern=PREFIXED)], "tt", False),
        ([rule("*")], "anything", True),
        ([rule("*", pattern=PREFIXED)], "anything", False),
        ([rule("*"), rule("t", permission=DENY)], "t", False),
        ([rule("t"), rule("*", permission=DENY)], "t", False),
        ([rule("t"), rule("t", permission=DENY, pattern=PREFIXED)], "t", False),
        ([rule("t"), rule("t", Operation.ALL, DENY, principal="User:*")], "t", False),
        ([rule("t"), rule("t", permission=DENY, principal="User:bob")], "t", True),
        ([rule("t", principal="User:*")], "t", True),
        ([rule("t", principal="User:Alice")], "t", False),
        ([rule("t", principal="User:alic\u0435")], "t", False),
        ([rule("t", host="10.0.0.1")], "t", True),
        ([rule("t", host="10.0.0.2")], "t", False),
        ([rule("t"), rule("t", permission=DENY, host="10.0.0.1")], "t", False),
        ([rule("t", Operation.ALL)], "t", True),
        ([rule("t", Operation.WRITE)], "t", False),
        ([rule("t", resource=Resource.GROUP)], "t", False),
    ],
)
def test_a_rule_allows_what_it_names_and_one_that_denies_goes_first(rules: list[Acl], name: str, *, allowed: bool) -> None:
    assert may(known(*rules), Operation.READ, name) is allowed


@pytest.mark.parametrize("operation", [Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER, Operation.ALL])
def test_who_may_use_a_thing_may_describe_it_and_denying_one_denies_no_other(operation: Operation) -> None:
    assert may(known(rule("t", operation)), Operation.DESCRIBE, "t")
    denied = known(rule("t", Operation.DESCRIBE), rule("t", operation, DENY))
    assert may(denied, Operation.DESCRIBE, "t") is (operation is not Operation.ALL)


def test_who_may_change_settings_may_see_them() -> None:
    found = known(rule("t", Operation.ALTER_CONFIGS))
    assert may(found, Operation.DESCRIBE_CONFIGS, "t")
    assert not may(found, Operation.DESCRIBE, "t")


def test_super_users_may_do_everything_and_nothing_else_is_free_unless_settings_say_so() -> None:
    found = known(rule("t", principal="User:bob"), rule("s", Operation.ALL, DENY))
    assert may(found, Operation.WRITE, "s", super_users=["User:alice"])
    assert not may(found, Operation.READ, "other")
    assert may(found, Operation.READ, "other", allow_if_none=True)
    assert not may(found, Operation.READ, "t", allow_if_none=True), "there is a rule, and it is not about alice"


@pytest.mark.parametrize(
    ("rules", "some"),
    [
        ([], False),
        ([rule("a", Operation.WRITE)], True),
        ([rule("a", Operation.WRITE), rule("a", Operation.WRITE, DENY)], False),
        ([rule("ab", Operation.WRITE, pattern=PREFIXED), rule("a", Operation.WRITE, DENY, pattern=PREFIXED)], False),
        ([rule("a", Operation.WRITE, pattern=PREFIXED), rule("ab", Operation.WRITE, DENY, pattern=PREFIXED)], True),
        ([rule("*", Operation.WRITE), rule("a", Operation.WRITE, DENY, pattern=PREFIXED)], True),
        ([rule("a", Operation.WRITE), rule("*", Operation.WRITE, DENY)], False),
    ],
)
def test_whether_anything_of_a_type_is_allowed(rules: list[Acl], *, some: bool) -> None:
    assert AclAuthorizer(known(*rules)).allows_some(ALICE, Operation.WRITE, Resource.TOPIC) is some


def test_answers_are_kept_until_rules_change() -> None:
    found = known(rule("t"))
    authorizer = AclAuthorizer(found)
    asked: list[str] = []
    decide = authorizer.decide

    def counted(kind: Kind, name: str) -> bool:
        asked.append(name)
        return decide(kind, name)

    authorizer.decide = counted  # type: ignore[method-assign]  # it counts
    for _ in range(3):
        assert authorizer.answers(ALICE, Operation.READ, Resource.TOPIC)["t"]
    assert asked == ["t"]
    add(found, rule("t", permission=DENY))
    assert not authorizer.answers(ALICE, Operation.READ, Resource.TOPIC)["t"]


@pytest.mark.parametrize(
    ("wanted", "fitting"),
    [
        (AclFilter(), {"foo", "fo", "*"}),
        (AclFilter(name="foo"), {"foo"}),
        (AclFilter(name="foo", pattern=Pattern.MATCH), {"foo", "fo", "*"}),
        (AclFilter(name="fox", pattern=Pattern.MATCH), {"fo", "*"}),
        (AclFilter(pattern=Pattern.PREFIXED), {"fo"}),
        (AclFilter(operation=Operation.WRITE), set()),
        (AclFilter(principal="User:alice", host="*", permission=ALLOW), {"foo", "fo", "*"}),
    ],
)
def test_a_filter_fits_rules_as_kafka_matches_them(wanted: AclFilter, fitting: set[str]) -> None:
    rules = known(rule("foo"), rule("fo", pattern=PREFIXED), rule("*"))
    assert {acl.name for acl in rules if wanted.fits(acl)} == fitting


@pytest.mark.parametrize(("operation", "written"), [(Operation.ALL, "All"), (Operation.READ, "Read"), (Operation.WRITE, "Write")])
def test_operations_stand_in_the_registry_in_kafkas_words(operation: Operation, written: str) -> None:
    """Numbers of types of resources are those of operations too."""
    users = MachineOfUsers()
    creation = {
        "resource_type": 2,
        "resource_name": "t",
        "principal": "User:alice",
        "host": "*",
        "operation": int(operation),
        "permission_type": 3,
    }
    users.ask("admin", 30, 3, request(30, 3, creations=[{**creation, "resource_pattern_type": 3}]))
    entry = users.machine.registry.get(layout.acl_path(LITERAL, "Topic", "t"))
    assert entry is not None
    assert [stored["operation"] for stored in layout.read(entry.value)["acls"]] == [written]


@pytest.mark.parametrize("name", ["plain", "with/slash", ".", "%41", "*", "Straße \u2603"])
def test_a_rule_about_any_name_comes_back_from_the_registry(name: str) -> None:
    users = MachineOfUsers()
    creation = {
        "resource_type": 3,
        "resource_name": name,
        "principal": "User:alice",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    assert users.ask("admin", 30, 3, request(30, 3, creations=[creation, creation])).results[0].error_code == NONE
    users.machine.restart()
    assert [acl.name for acl in users.machine.broker.image.acls] == [name]
    wanted = {"resource_type_filter": 3, "resource_name_filter": name, "operation": 1, "permission_type": 1}
    deleted = users.ask("admin", 31, 3, request(31, 3, filters=[wanted | {"principal_filter": None, "host_filter": None}]))
    assert [acl.resource_name for acl in deleted.filter_results[0].matching_acls] == [name]
    assert not users.machine.broker.image.acls.rules
    assert users.machine.registry.children(layout.ACLS[LITERAL] + "/Group") == []


@pytest.mark.parametrize(
    "filtering",
    [{"resource_type": 1}, {"resource_pattern_type": 1}, {"resource_pattern_type": 2}, {"operation": 1}, {"permission_type": 1}],
)
def test_what_only_filters_may_have_makes_none_of_a_requests_rules(filtering: dict[str, int]) -> None:
    users = MachineOfUsers()
    rule = {"resource_type": 2, "resource_name": "t", "principal": "User:a", "operation": 3, "permission_type": 3, "host": "*"}
    rule["resource_pattern_type"] = 3
    made = users.ask("admin", 30, 3, request(30, 3, creations=[rule, rule | filtering]))
    assert [one.error_code for one in made.results] == [UNKNOWN_SERVER_ERROR, UNKNOWN_SERVER_ERROR]
    assert not users.machine.broker.image.acls.rules


def test_where_nobody_asks_for_rules_none_is_kept() -> None:
    machine = Machine()
    wanted = {"resource_type_filter": 1, "operation": 1, "permission_type": 1, "resource_name_filter": None}
    wanted |= {"principal_filter": None, "host_filter": None}
    assert machine.ask(29, 3, request(29, 3, **wanted)).error_code == SECURITY_DISABLED
    creation = {"resource_type": 2, "resource_name": "t", "principal": "User:a", "operation": 3, "permission_type": 3, "host": "*"}
    assert machine.ask(30, 3, request(30, 3, creations=[creation])).results[0].error_code == SECURITY_DISABLED
    assert machine.ask(31, 3, request(31, 3, filters=[wanted])).filter_results[0].error_code == SECURITY_DISABLED


def test_a_principal_without_a_type_is_no_principal() -> None:
    assert [one.error_code for one in acls.create(Acls(), [rule("t", principal="alice"), rule("t")])] == [INVALID_REQUEST, NONE]


def test_a_session_stops_reading_what_its_client_may_no_longer_read() -> None:
    users = MachineOfUsers()
    create(users.machine, "t", 1)
    allowed = {"resource_type": 2, "resource_name": "t", "principal": "User:alice", "host": "*", "operation": 3}
    users.ask("admin", 30, 3, request(30, 3, creations=[allowed | {"permission_type": ALLOW}]))
    topics = [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}]}]
    base = {"replica_id": -1, "max_wait_ms": 0, "max_bytes": 1000}
    began = users.ask("alice", 1, 11, request(1, 11, **base, session_epoch=0, topics=topics))
    assert began.responses[0].partitions[0].error_code == NONE
    session = base | {"session_id": began.session_id, "topics": []}
    assert users.ask("alice", 1, 11, request(1, 11, **session, session_epoch=1)).responses == []
    users.ask("admin", 30, 3, request(30, 3, creations=[allowed | {"permission_type": DENY}]))
    for epoch in (2, 3):
        told = users.ask("alice", 1, 11, request(1, 11, **session, session_epoch=epoch))
        assert told.responses[0].partitions[0].error_code == TOPIC_AUTHORIZATION_FAILED


def test_refusals_are_written_so_many_a_second_with_names_that_cannot_forge_a_line(caplog: pytest.LogCaptureFixture) -> None:
    rights = Rights(AclAuthorizer(Acls()))
    with caplog.at_level(logging.INFO, "ottla.authorizer"):
        for _ in range(LINES_A_SECOND + 5):
            rights.log_refusal(ALICE, Operation.READ, Resource.TOPIC, ["a\nb" + "x" * 500], "Fetch", Now(0, 0))
        rights.log_refusal(ALICE, Operation.READ, Resource.TOPIC, list("abcdefg"), "Fetch", Now(2000, 2000))
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == LINES_A_SECOND + 1
    assert all("\n" not in line and len(line) < 300 for line in lines)
    assert lines[-1].endswith("and 2 more: Fetch was refused (5 more refusals were not written here)")


class Own:
    """Somebody's own authorizer."""

    def allows(self, peer: Peer, operation: Operation, resource: Resource, name: str) -> bool:
        return name == "open" or resource is Resource.CLUSTER


def test_an_authorizer_of_ones_own_is_found_by_its_name() -> None:
    found = own_authorizer(f"{__name__}:Own")
    assert found is not None
    assert found.allows(ALICE, Operation.READ, Resource.CLUSTER, CLUSTER_NAME)


@pytest.mark.parametrize("name", ["nowhere:At", "kafka.security.Other", f"{__name__}:nothing", "collections:Counter"])
def test_what_is_no_authorizer_is_refused_in_one_sentence(name: str) -> None:
    with pytest.raises(SettingError, match=r"authorizer\.class\.name names .*: (name|give)"):
        own_authorizer(name)


def test_an_address_of_its_own_is_asked_anew() -> None:
    found = known(rule("t", host="10.0.0.1"))
    rights = Rights(AclAuthorizer(found))
    assert rights.may(ALICE, Operation.READ, Resource.TOPIC, "t")
    assert not rights.may(replace(ALICE, host="10.0.0.2"), Operation.READ, Resource.TOPIC, "t")
