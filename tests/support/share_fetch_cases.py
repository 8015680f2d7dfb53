"""Fetches of share groups: sessions at each epoch, topics and partitions right and wrong, limits, and the records' isolation.

Each case has a group of its own, and connections of its own, with which its share sessions end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tests.support.share_world import BATCHED, KNOWN, ShareWorld

PATIENCE_MS = 700
"""A fetch that is given so long acquires what there is."""
SETTLED_S = 0.5
LARGEST = (1 << 31) - 1

SESSIONS = ("none", "opened", "second fetch", "closed", "of both partitions", "its connection closed", "of another member")
Fetch = dict[str, Any]

EPOCHS: Mapping[str, Fetch] = {
    "epoch 0": {"epoch": 0},
    "epoch 0 without topics": {"epoch": 0, "topics": []},
    "next epoch": {},
    "next epoch without topics": {"topics": []},
    "old epoch": {"epoch": -1, "relative": True},
    "future epoch": {"epoch": 1, "relative": True},
    "last epoch": {"epoch": LARGEST},
    "closing": {"epoch": -1, "topics": []},
    "closing with topics": {"epoch": -1},
    "epoch -2": {"epoch": -2},
    "forgetting": {"topics": [], "forgotten": [(KNOWN, [0])]},
    "forgetting what is added": {"forgotten": [(KNOWN, [0])]},
    "adding the other partition": {"topics": [(KNOWN, 1)]},
    "adding another topic": {"topics": [(BATCHED, 0)]},
    "other member": {"member": "other"},
    "other connection": {"line": "other"},
    "acknowledging all": {"epoch_of": "acknowledge"},
}
"""What is asked in each state of a session, with epochs relative to its next."""
PLACES: Mapping[str, list[tuple[Any, int]]] = {
    "unknown topic": [("unknown", 0)],
    "topic zero": [(None, 0)],
    "unknown partition": [(KNOWN, 7)],
    "negative partition": [(KNOWN, -1)],
    "largest partition": [(KNOWN, LARGEST)],
    "known and unknown": [(KNOWN, 0), ("unknown", 0), (KNOWN, 9)],
    "a partition twice": [(KNOWN, 0), (KNOWN, 0)],
    "both partitions": [(KNOWN, 0), (KNOWN, 1)],
    "internal topic": [("__consumer_offsets", 0)],
}
NAMES: Mapping[str, Fetch] = {
    "unknown group": {"group": "nobody"},
    "empty group": {"group": ""},
    "group null": {"group": None},
    "unknown member": {"member": "nobody"},
    "empty member": {"member": ""},
    "member null": {"member": None},
    "member of 36 bytes": {"member": "m" * 36},
    "member of 37 bytes": {"member": "m" * 37},
    "member of 32 000 bytes": {"member": "m" * 32_000},
    "member with odd characters": {"member": "not/a name\t\n"},
    "group of another kind": {"kind": "consumer"},
}
LIMITS: Mapping[str, Fetch] = {
    "1 record": {"max_records": 1, "batch_size": 1},
    "2 records": {"max_records": 2, "batch_size": 2},
    "3 records": {"max_records": 3, "batch_size": 3},
    "4 records": {"max_records": 4, "batch_size": 4},
    "5 records": {"max_records": 5, "batch_size": 5},
    "9 records": {"max_records": 9, "batch_size": 9},
    "5 records in batches of 1": {"max_records": 5, "batch_size": 1},
    "5 records in batches of 2": {"max_records": 5, "batch_size": 2},
    "all records in batches of 3": {"batch_size": 3},
    "all records in one batch": {"batch_size": LARGEST},
    "no record": {"max_records": 0},
    "-1 records": {"max_records": -1},
    "least records": {"max_records": -LARGEST},
    "batches of 0": {"batch_size": 0},
    "batches of -1": {"batch_size": -1},
    "no byte": {"max_bytes": 0},
    "1 byte": {"max_bytes": 1},
    "100 bytes": {"max_bytes": 100},
    "-1 bytes": {"max_bytes": -1},
    "at least 1 MB": {"min_bytes": 1 << 20},
    "at least -1 bytes": {"min_bytes": -1},
    "more at least than at most": {"min_bytes": 1 << 20, "max_bytes": 100},
    "at most 1 record": {"share_acquire_mode": 1, "max_records": 1, "batch_size": 1},
    "at most 2 records": {"share_acquire_mode": 1, "max_records": 2, "batch_size": 2},
    "at most 4 records": {"share_acquire_mode": 1, "max_records": 4, "batch_size": 4},
    "at most 5 records": {"share_acquire_mode": 1, "max_records": 5, "batch_size": 5},
    "at most 9 records": {"share_acquire_mode": 1, "max_records": 9, "batch_size": 9},
    "at most 5 records in batches of 2": {"share_acquire_mode": 1, "max_records": 5, "batch_size": 2},
    "at most all records": {"share_acquire_mode": 1},
    "at most no record": {"share_acquire_mode": 1, "max_records": 0},
    "acquire mode 2": {"share_acquire_mode": 2},
    "acquire mode -1": {"share_acquire_mode": -1},
    "renewing": {"is_renew_ack": True},
    "renewing nothing": {"is_renew_ack": True, "max_bytes": 0, "max_records": 0, "min_bytes": 0, "max_wait_ms": 0},
}
"""Limits of a fetch of batches of 3, 1, 5 and 1 records."""


class FetchCase(NamedTuple):
    """The session's state, or what is otherwise, and what is asked."""

    state: str
    asked: str

    def __str__(self) -> str:
        return f"{self.state}: {self.asked}"


def fetch_cases(state: str) -> list[FetchCase]:
    """Return the cases of a state."""
    return [FetchCase(state, asked) for asked in STATES[state]]


STATES: dict[str, Mapping[str, Any]] = {
    **{f"session {session}": EPOCHS for session in SESSIONS},
    "places": PLACES,
    "names": NAMES,
    "limits": LIMITS,
}


class Fetching:
    """Brings share sessions into a state, and fetches."""

    def __init__(self, world: ShareWorld) -> None:
        self._world = world
        self._met: dict[str, Callable[[str, str], Any]] = {
            "places": self._placed,
            "names": self._named,
            "limits": self._limited,
        }

    def answers(self, state: str) -> dict[str, Any]:
        """Return of each case of a state: the answer, and of those about sessions that to a fetch with the next epoch."""
        cases = fetch_cases(state)
        groups = self._world.groups(len(cases), share_delivery_count_limit=5)
        meets = self._met.get(state)
        if meets is not None:
            found = {str(case): meets(case.asked, group) for case, group in zip(cases, groups, strict=True)}
        else:
            found = self._of_sessions(state.removeprefix("session "), cases, groups)
        self._world.lines.close_all()
        return found

    def _fetch(self, line: str, group: Any, member: Any, epoch: int, topics: Any, **more: Any) -> Any:
        places: list[tuple[Any, int, list[Any]]] = [(topic, index, []) for topic, index in topics]
        return self._world.fetch(line, group, member, epoch, places, **{"max_wait_ms": PATIENCE_MS, **more})

    def _of_sessions(self, session: str, cases: list[FetchCase], groups: list[str]) -> dict[str, Any]:
        epochs = {group: self._session(session, group) for group in groups}
        time.sleep(SETTLED_S)
        return {str(case): self._in_session(case.asked, group, epochs[group]) for case, group in zip(cases, groups, strict=True)}

    def _session(self, session: str, group: str) -> int:
        """Return the next epoch of a session of the member "m"."""
        world, line = self._world, f"m-{group}"
        world.join(group, "m")
        if session == "none":
            return 0
        if session == "of another member":
            world.acquire(f"other-{group}", group, "other", max_records=2, batch_size=2)
            return 0
        topics = [(KNOWN, 0), (KNOWN, 1)] if session == "of both partitions" else [(KNOWN, 0)]
        few = {"max_records": 2, "batch_size": 2}
        opened = self._fetch(line, group, "m", 0, topics, **few)
        assert not opened.error_code, opened
        if session == "second fetch":
            self._fetch(line, group, "m", 1, [], **few)
            return 2
        if session == "closed":
            world.acknowledge(line, group, "m", -1, [])
        elif session == "its connection closed":
            world.lines.close(line)
        return 1

    def _in_session(self, asked: str, group: str, epoch: int) -> Any:
        change, world = EPOCHS[asked], self._world
        line, member = f"{change.get('line', 'm')}-{group}", change.get("member", "m")
        given = change.get("epoch", 0) + epoch if change.get("relative") else change.get("epoch", epoch)
        if change.get("epoch_of") == "acknowledge":
            batches = [{"first_offset": 0, "last_offset": 1, "acknowledge_types": [1]}]
            told = world.acknowledge(line, group, member, given, [(KNOWN, 0, batches)])
        else:
            forgotten = [{"topic_id": world.id_of(topic), "partitions": parts} for topic, parts in change.get("forgotten", [])]
            topics = change.get("topics", [(KNOWN, 0)])
            limits = {"max_records": 2, "batch_size": 2, "max_wait_ms": 100, "forgotten_topics_data": forgotten}
            told = self._fetch(line, group, member, given, topics, **limits)
        follows = self._fetch(f"m-{group}", group, "m", epoch + 1, [], max_records=2, batch_size=2, max_wait_ms=100)
        return [world.told(told), world.told(follows)]

    def _placed(self, asked: str, group: str) -> Any:
        self._world.join(group, "m", [KNOWN, BATCHED], partitions=3)
        return self._world.told(self._fetch(group, group, "m", 0, PLACES[asked]))

    def _named(self, asked: str, group: str) -> Any:
        change = NAMES[asked]
        if change.get("kind"):
            joined = {"group_id": group, "member_id": "m", "member_epoch": 0, "rebalance_timeout_ms": 60_000}
            self._world.ask("admin", 68, 1, **joined, subscribed_topic_names=[KNOWN], topic_partitions=[])
        else:
            self._world.join(group, "m")
        told = self._fetch(group, change.get("group", group), change.get("member", "m"), 0, [(KNOWN, 0)])
        return self._world.told(told)

    def _limited(self, asked: str, group: str) -> Any:
        self._world.join(group, "m", [BATCHED], partitions=1)
        return self._world.told(self._fetch(group, group, "m", 0, [(BATCHED, 0)], **LIMITS[asked]))
