"""Clusters live until each transition of a controller's table was seen, and one of their replicas takes every role in every way."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import pytest

from ottla.broker.controller.controller import Controller
from ottla.broker.partitions.partition import Role
from ottla.broker.replication.replica import Replica
from ottla.cluster.replicas.leader import LeaderState
from ottla.ports import Now
from tests.sim import clusters
from tests.support.transitions import differences
from tools.machines_page import Transition, table

MOST_SEEDS = 12
EVENTS = {
    "lead": "lead",
    "resume": "resume",
    "suspend": "suspend",
    "follow": "follow",
    "stop": "stop",
    "fail_offline": "go offline",
    "use_log": "opened",
}
"""Method of `Replica` -> event of the table."""
CAUSES = {"become_candidate": "registered", "_begin_term": "elected", "_resign": "resigned", "leave": "session over"}
REPLICA, CONTROLLER = "ottla.broker.replication.replica", "ottla.broker.controller.controller"


def role_of(replica: Replica) -> str:
    if replica.offline is not None:
        return "Offline"
    if replica.replicas is None:
        return "Idle"
    if isinstance(replica.replicas, LeaderState):
        return "Leading" if replica.role is Role.LEADER else "Resting"
    return "Following"


def state_of(controller: Any) -> str:
    if controller._objects is not None:
        return "Active"
    return "Candidate" if controller._is_candidate else "Absent"


class Roles:
    """The changes of roles that were seen, and the last call of each event: its replica and its arguments."""

    def __init__(self) -> None:
        self.seen = set[Transition]()
        self.told: dict[str, tuple[Replica, tuple[Any, ...]]] = {}

    def try_all(self) -> None:
        """Have one replica take each role from each other; as it goes offline it is opened again."""
        replica, led = self.told["lead"]
        _, followed = self.told["follow"]

        def lead(*, may_lead: bool) -> None:
            replica._ports.may_lead = may_lead
            replica.lead(*led)

        ways: dict[str, Callable[[], None]] = {
            "Idle": lambda: None,
            "Following": lambda: replica.follow(*followed),
            "Leading": lambda: lead(may_lead=True),
            "Resting": lambda: lead(may_lead=False),
        }
        events: list[Callable[[], None]] = [
            *ways.values(),
            replica.stop,
            partial(replica.fail_offline, "a sync failed"),
            partial(self._while_leading, replica, led[1]),
        ]
        for role, take in ways.items():
            for happen in events:
                replica.stop()
                replica.use_log(replica.log)
                take()
                assert role_of(replica) == role
                happen()

    def _while_leading(self, replica: Replica, now: Now) -> None:
        if role_of(replica) == "Leading":
            replica.suspend()
        elif role_of(replica) == "Resting":
            replica.resume(now)


@pytest.fixture
def roles(monkeypatch: pytest.MonkeyPatch) -> Roles:
    """What one event calls is part of it."""
    found, under_way = Roles(), list[object]()

    def observed(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        def observe(replica: Replica, *arguments: Any) -> Any:
            before = role_of(replica)
            under_way.append(replica)
            try:
                return call(replica, *arguments)
            finally:
                under_way.pop()
                if replica not in under_way:
                    event = "lead without a session" if name == "lead" and not replica._ports.may_lead else EVENTS[name]
                    found.told[name] = replica, arguments
                    found.seen.add(Transition(before, event, role_of(replica)))

        return observe

    for name in EVENTS:
        monkeypatch.setattr(Replica, name, observed(name, getattr(Replica, name)))
    return found


@pytest.fixture
def controllers(monkeypatch: pytest.MonkeyPatch) -> set[Transition]:
    """The changes of what the state follows from, by the method that makes them."""
    seen = set[Transition]()

    def observe(controller: Controller, name: str, value: object) -> None:
        is_made = hasattr(controller, "_objects") and hasattr(controller, "_is_candidate")
        before = state_of(controller) if is_made else ""
        object.__setattr__(controller, name, value)
        if is_made and name in ("_objects", "_is_candidate"):
            cause = CAUSES[sys._getframe(1).f_code.co_name]
            if cause == "resigned" and not controller._is_candidate:
                cause = "session over"
            seen.add(Transition(before, cause, state_of(controller)))

    monkeypatch.setattr(Controller, "__setattr__", observe, raising=False)
    return seen


def test_every_transition_of_replicas_and_controllers_is_in_their_tables(roles: Roles, controllers: set[Transition]) -> None:
    rows = set(table(CONTROLLER))
    for seed in range(MOST_SEEDS):
        clusters.live(seed)
        if rows <= controllers:
            break
    roles.try_all()
    assert differences(REPLICA, roles.seen) == {}
    assert differences(CONTROLLER, controllers) == {}
