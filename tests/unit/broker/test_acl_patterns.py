"""Regular expressions of a group's members match no topic that the member who has them looked up may not describe (KIP-848)."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.cluster.acls import Operation, Pattern, Permission, Resource
from ottla.coord import patterns
from ottla.coord.consumer.subscription import PAUSE_MS
from ottla.wire.errors import NONE
from tests.support.acl_peers import MachineOfUsers
from tests.support.messages import request
from tests.support.producing import create

INTERVAL_MS = 10_000
RULES = (
    (Resource.GROUP, Pattern.LITERAL, "*", "User:*", Operation.READ),
    (Resource.TOPIC, Pattern.PREFIXED, "a-", "User:*", Operation.DESCRIBE),
    (Resource.TOPIC, Pattern.PREFIXED, "b-", "User:bob", Operation.DESCRIBE),
)


@pytest.fixture
def users() -> MachineOfUsers:
    users = MachineOfUsers(group_consumer_regex_refresh_interval_ms=INTERVAL_MS)
    for name in ("a-1", "a-2", "b-1"):
        create(users.machine, name, 1)
    allow(users, *RULES)
    users.ask("admin", 10, 3, request(10, 3, key="g", key_type=0))
    return users


def allow(users: MachineOfUsers, *rules: tuple[Resource, Pattern, str, str, Operation]) -> None:
    creations = [
        {
            "resource_type": kind,
            "resource_pattern_type": pattern,
            "resource_name": name,
            "principal": principal,
            "host": "*",
            "operation": operation,
            "permission_type": Permission.ALLOW,
        }
        for kind, pattern, name, principal, operation in rules
    ]
    made = users.ask("admin", 30, 3, request(30, 3, creations=creations))
    assert not any(result.error_code for result in made.results)


def beat(users: MachineOfUsers, user: str, epoch: int = 0, **more: Any) -> Any:
    """A heartbeat of the user's one member; with epoch 0 it joins with a pattern for all topics."""
    body: dict[str, Any] = {"group_id": "g", "member_id": user, "member_epoch": epoch, **more}
    if not epoch:
        body |= {"subscribed_topic_regex": ".*", "rebalance_timeout_ms": 60_000, "topic_partitions": []}
    answer = users.ask(user, 68, 1, request(68, 1, **body))
    assert answer.error_code == NONE, answer
    return answer


def topics(users: MachineOfUsers, answer: Any) -> set[str | None]:
    return {users.machine.broker.image.name_of(held.topic_id) for held in answer.assignment.topic_partitions}


def resolved(users: MachineOfUsers) -> set[str]:
    (group,) = (
        machine.consumers.groups["g"] for machine in users.machine.broker.groups.machines if "g" in machine.consumers.groups
    )
    return set(group.resolved[".*"].topics)


def test_a_pattern_matches_only_topics_that_its_member_may_describe(users: MachineOfUsers) -> None:
    assert topics(users, beat(users, "alice")) == {"a-1", "a-2"}
    assert resolved(users) == {"a-1", "a-2"}


def test_a_pattern_that_takes_long_matches_only_topics_that_its_member_may_describe(
    users: MachineOfUsers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patterns, "SLICE_WORK", 1)
    patterns.matcher.cache_clear()
    try:
        joined = beat(users, "alice")
        for _ in range(10):
            users.machine.pass_time(PAUSE_MS)
        assert resolved(users) == {"a-1", "a-2"}
        assert topics(users, beat(users, "alice", joined.member_epoch)) == {"a-1", "a-2"}
    finally:
        patterns.matcher.cache_clear()


def test_who_has_a_pattern_looked_up_again_is_who_counts(users: MachineOfUsers) -> None:
    """One pattern has one set of topics in its group, whoever shares it: that of the last member that called for them."""
    alice = beat(users, "alice")
    bob = beat(users, "bob")
    assert resolved(users) == {"a-1", "a-2"}
    users.machine.pass_time(INTERVAL_MS + 1_000)
    bob = beat(users, "bob", bob.member_epoch)
    assert "b-1" in resolved(users)
    users.machine.pass_time(INTERVAL_MS + 1_000)
    beat(users, "alice", alice.member_epoch)
    assert resolved(users) == {"a-1", "a-2"}


def test_a_right_that_comes_later_counts_when_patterns_are_looked_up_again(users: MachineOfUsers) -> None:
    alice = beat(users, "alice")
    allow(users, (Resource.TOPIC, Pattern.LITERAL, "b-1", "User:alice", Operation.READ))
    users.machine.pass_time(INTERVAL_MS + 1_000)
    beat(users, "alice", alice.member_epoch)
    assert resolved(users) == {"a-1", "a-2", "b-1"}
