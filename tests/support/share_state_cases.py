"""Requests of the share coordinator, as brokers send them: states of share partitions with each epoch, and batches right and wrong.

Each case has a group of its own, and the partition of a topic whose state is brought to a point before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ottla.wire.errors import NONE
from tests.support.share_world import KNOWN, ShareWorld
from tests.support.waiting import eventually

INITIALIZE, READ, WRITE, DELETE, SUMMARY, FIND = 83, 84, 85, 86, 87, 10
STATES = ("unknown", "initialized", "written", "read by a leader", "deleted", "initialized anew")
EPOCH, LEADER = 5, 3
"""State epoch and leader epoch of what is written before."""
LARGEST = (1 << 31) - 1
LAST = (1 << 63) - 1


def batch(first: int, last: int, state: int = 0, count: int = 1) -> dict[str, int]:
    """Return a batch of a state."""
    return {"first_offset": first, "last_offset": last, "delivery_state": state, "delivery_count": count}


BATCHES: Mapping[str, list[dict[str, int]]] = {
    "no batch": [],
    "one batch": [batch(10, 19)],
    "an acknowledged batch": [batch(10, 19, 2)],
    "an archived batch": [batch(10, 19, 4)],
    "an unknown state": [batch(10, 19, 7)],
    "an acquired batch": [batch(10, 19, 1)],
    "a negative state": [batch(10, 19, -1)],
    "batches that follow each other": [batch(10, 14), batch(15, 19)],
    "overlapping batches": [batch(10, 15), batch(12, 19, 0, 3)],
    "a batch twice": [batch(10, 19), batch(10, 19)],
    "descending batches": [batch(20, 29), batch(10, 19)],
    "a reversed batch": [batch(19, 10)],
    "a batch before the start": [batch(0, 5)],
    "a batch around the start": [batch(0, 15)],
    "a negative batch": [batch(-5, -1)],
    "a giant batch": [batch(10, LAST)],
    "a negative delivery count": [batch(10, 19, 0, -1)],
    "no delivery": [batch(10, 19, 0, 0)],
    "1 000 batches": [batch(10 + 2 * number, 10 + 2 * number, 0, number % 5) for number in range(1000)],
}
EPOCHS: Mapping[str, int] = {"now": 0, "before": -1, "ahead": 1}
PLACES: Mapping[str, dict[str, Any]] = {
    "empty group": {"group_id": ""},
    "topic zero": {"topic": None},
    "unknown topic": {"topic": "unknown"},
    "negative partition": {"partition": -1},
    "largest partition": {"partition": LARGEST},
    "no topic": {"topics": []},
    "no partition": {"partitions": []},
    "a partition twice": {"twice": True},
    "group of 32 000 bytes": {"group_id": "g" * 32_000},
    "group with colons": {"group_id": "a:b:c"},
}
NUMBERS: Mapping[str, dict[str, Any]] = {
    "state epoch -1": {"state_epoch": -1},
    "state epoch -2": {"state_epoch": -2},
    "largest state epoch": {"state_epoch": LARGEST},
    "leader epoch -1": {"leader_epoch": -1},
    "leader epoch -2": {"leader_epoch": -2},
    "largest leader epoch": {"leader_epoch": LARGEST},
    "start offset -1": {"start_offset": -1},
    "start offset -2": {"start_offset": -2},
    "start offset 0": {"start_offset": 0},
    "largest start offset": {"start_offset": LAST},
    "delivery complete count -2": {"delivery_complete_count": -2},
    "largest delivery complete count": {"delivery_complete_count": LARGEST},
}


class StateCase(NamedTuple):
    """The state of the share partition, and what is asked."""

    state: str
    asked: str
    what: str

    def __str__(self) -> str:
        return f"{self.state}: {self.asked}, {self.what}"


ASKED: Mapping[str, tuple[int, int]] = {
    "Initialize": (INITIALIZE, 0),
    "Read": (READ, 0),
    "Write 0": (WRITE, 0),
    "Write 1": (WRITE, 1),
    "Delete": (DELETE, 0),
    "Summary 0": (SUMMARY, 0),
    "Summary 1": (SUMMARY, 1),
}


def state_cases(state: str) -> list[StateCase]:
    """Return the cases of a state."""
    found = []
    for asked in ASKED:
        found += [StateCase(state, asked, f"state epoch {one}, leader epoch {other}") for one, other in epochs_of(asked)]
        if state == "written":
            found += [StateCase(state, asked, place) for place in PLACES]
            fields = {"Initialize": ("state", "start"), "Write 1": ("state", "start", "leader", "delivery"), "Read": ("leader",)}
            found += [StateCase(state, asked, number) for number in NUMBERS if any(f in number for f in fields.get(asked, ()))]
        if asked == "Write 1" and state in ("initialized", "written"):
            found += [StateCase(state, asked, batches) for batches in BATCHES]
    return found


def epochs_of(asked: str) -> list[tuple[str, str]]:
    """Return the pairs of epochs that a request has, by their names."""
    states = EPOCHS if asked.startswith(("Initialize", "Write")) else ("now",)
    leaders = EPOCHS if asked.startswith(("Write", "Read", "Summary")) else ("now",)
    return [(one, other) for one in states for other in leaders]


class ShareStates:
    """Brings states of share partitions to a point, and asks one thing of each."""

    def __init__(self, world: ShareWorld) -> None:
        self._world = world
        eventually(self._is_coordinated, timeout_s=60)

    def _is_coordinated(self) -> bool:
        """Ask for coordinators and a state of each partition of their topic until all are loaded."""
        found = []
        for number in range(16):
            key = f"group:{'A' * 22}:{number}"
            found.append(self._world.ask("admin", FIND, 6, key_type=2, coordinator_keys=[key]).coordinators[0].error_code)
            if not found[-1]:
                told = self._asked("Summary 1", "group", {"partition": number, "topic": None})
                found += [part.error_code for each in told.results for part in each.partitions if part.error_code in (14, 15, 16)]
        return not any(found)

    def answers(self, state: str) -> dict[str, Any]:
        """Return of each case of a state: the answer, and how the partition's state is read afterwards."""
        found = {}
        for case in state_cases(state):
            group = self._world.name("state")
            self._brought_to(state, group)
            told = self._world.told(self._met(case, group), ASKED[case.asked][1], group=group)
            found[str(case)] = [told, self._stands(group)]
        return found

    def _brought_to(self, state: str, group: str) -> None:
        if state == "unknown":
            return
        self._done("Initialize", group)
        if state in ("written", "deleted", "initialized anew"):
            self._done("Write 1", group)
        if state == "read by a leader":
            self._done("Read", group)
        if state in ("deleted", "initialized anew"):
            self._done("Delete", group)
        if state == "initialized anew":
            self._done("Initialize", group)

    def _done(self, asked: str, group: str) -> None:
        told = self._asked(asked, group, {})
        assert told.results[0].partitions[0].error_code == NONE, told

    def _met(self, case: StateCase, group: str) -> Any:
        return self._asked(case.asked, group, change_of(case))

    def _asked(self, asked: str, group: str, change: dict[str, Any]) -> Any:
        key, version = ASKED[asked]
        usual: dict[str, Any] = {"partition": 0, "state_epoch": EPOCH, "leader_epoch": LEADER, "start_offset": 10}
        usual |= {"delivery_complete_count": 0, "state_batches": [batch(10, 19)]}
        part = usual | {name: value for name, value in change.items() if name in usual}
        fields = {
            INITIALIZE: ("partition", "state_epoch", "start_offset"),
            READ: ("partition", "leader_epoch"),
            WRITE: tuple(usual),
            DELETE: ("partition",),
            SUMMARY: ("partition", "leader_epoch"),
        }[key]
        parts = change.get("partitions", [{name: part[name] for name in fields}] * (2 if change.get("twice") else 1))
        topic = self._world.id_of(change.get("topic", KNOWN))
        topics = change.get("topics", [{"topic_id": topic, "partitions": parts}])
        return self._world.ask("states", key, version, group_id=change.get("group_id", group), topics=topics)

    def _stands(self, group: str) -> Any:
        """Return the state as it is read with no leader's epoch, which leaves it as it is."""
        told = self._asked("Read", group, {"leader_epoch": -1})
        summed = self._asked("Summary 1", group, {"leader_epoch": -1})
        parts = [self._world.told(part, 1) for part in (*told.results[0].partitions, *summed.results[0].partitions)]
        batches = parts[0].get("state_batches", [])
        return parts if len(batches) < 20 else [len(batches), *parts[1:]]


def change_of(case: StateCase) -> dict[str, Any]:
    """Return the fields of a case that are otherwise than usual."""
    if case.what in BATCHES:
        return {"state_batches": BATCHES[case.what]}
    if case.what in PLACES:
        return dict(PLACES[case.what])
    if case.what in NUMBERS:
        return dict(NUMBERS[case.what])
    one, other = (part.rpartition(" ")[2] for part in case.what.split(", "))
    return {"state_epoch": EPOCH + EPOCHS[one], "leader_epoch": LEADER + EPOCHS[other]}
