"""Classic groups whose rebalance is held back by a member, and what may be asked of them there: the error codes of the answers.

Each case has a group of its own with a leader and a follower; a newcomer may be on its way in. Whoever waits is left waiting.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count
from typing import Any, NamedTuple

from ottla.broker.serving.purgatory import DelayedReply
from ottla.wire.errors import MEMBER_ID_REQUIRED, NONE
from tests.support.bad_groups import (
    COMMIT,
    DELETE,
    DESCRIBE,
    FETCH,
    HEARTBEAT,
    JOIN,
    LEAVE,
    LOADING,
    OFFSET_DELETE,
    SUBSCRIPTION,
    SYNC,
    TOPIC,
    Questioner,
    codes,
)
from tests.support.machine import Machine
from tests.support.messages import request

REBALANCES = (
    "stable",
    "preparing",
    "preparing, the leader has joined",
    "completing",
    "completing, the follower waits",
)
GENERATIONS = {"now": 0, "before": -1, "ahead": 1, "none": None}
WITH_GENERATION = ("Heartbeat 0", "Heartbeat 4", "SyncGroup 0", "SyncGroup 5", "OffsetCommit 2", "OffsetCommit 8", "OffsetCommit 9")
WITH_MEMBER = ("LeaveGroup 0", "LeaveGroup 5", "JoinGroup 0", "JoinGroup 5", "JoinGroup 5, changed", "JoinGroup 9, other type")
WITH_NEITHER = ("OffsetDelete 0", "DeleteGroups 2", "OffsetFetch 8")
KEYS = {
    "Heartbeat": HEARTBEAT,
    "SyncGroup": SYNC,
    "OffsetCommit": COMMIT,
    "LeaveGroup": LEAVE,
    "JoinGroup": JOIN,
    "OffsetDelete": OFFSET_DELETE,
    "DeleteGroups": DELETE,
    "OffsetFetch": FETCH,
}
WHO = ("leader", "follower", "newcomer", "nobody")
PATIENCE_S = 0.3
"""A reply that is not there by then waits for members."""
SENT_S = 0.1
"""Somebody who is sure to wait is given so long to be on its way."""
PROTOCOL = {"protocol_type": "consumer", "protocol_name": "range"}
ATTEMPTS = 5
PATIENT_S = 30.0
CURRENT = 2


class RebalanceCase(NamedTuple):
    """How far the rebalance is, what is asked, as whom, and with which generation."""

    state: str
    asked: str
    who: str
    generation: str

    def __str__(self) -> str:
        return f"{self.state}: {self.asked} as {self.who}, generation {self.generation}"


def rebalance_cases() -> Iterator[RebalanceCase]:
    for state in REBALANCES:
        for who in WHO:
            if who == "newcomer" and not state.startswith("preparing"):
                continue
            is_member = who in ("leader", "follower")
            for asked in WITH_GENERATION:
                for generation in GENERATIONS if is_member else ("now", "none"):
                    yield RebalanceCase(state, asked, who, generation)
            for asked in WITH_MEMBER:
                yield RebalanceCase(state, asked, who, "none")
        for asked in WITH_NEITHER:
            yield RebalanceCase(state, asked, "nobody", "none")


class Rebalances:
    """Brings groups into the midst of a rebalance, and asks one thing of each."""

    def __init__(self, questioner: Questioner) -> None:
        self._questioner = questioner

    def answer(self, case: RebalanceCase, group: str) -> list[Any]:
        """Return what comes of a case: the error codes or a word, and the group's state and number of members afterwards."""
        group, members = self._settled(case.state, group)
        key, version = KEYS[case.asked.split()[0]], int(case.asked.partition(",")[0].split()[1])
        shift = GENERATIONS[case.generation]
        generation = -1 if shift is None else CURRENT + shift
        values = self._values(key, case.asked, group, members.get(case.who, ""), generation)
        answered = self._ask(key, version, **values)
        described = self._ask(DESCRIBE, 5, groups=[group]).groups[0]
        return [
            answered if isinstance(answered, str) else codes(answered),
            described.group_state,
            len(described.members),
        ]

    def _ask(self, key: int, version: int, patience_s: float = PATIENCE_S, **values: Any) -> Any:
        return self._questioner.ask(key, version, request(key, version, **values), patience_s)

    def _values(self, key: int, asked: str, group: str, member_id: str, generation: int) -> dict[str, Any]:
        if key == JOIN:
            return self._joining(group, member_id, asked)
        part = {"partition_index": 0, "committed_offset": 5, "committed_metadata": "m"}
        known: dict[int, dict[str, Any]] = {
            HEARTBEAT: {"group_id": group, "member_id": member_id, "generation_id": generation},
            SYNC: {"group_id": group, "member_id": member_id, "generation_id": generation, **PROTOCOL, "assignments": []},
            COMMIT: {
                "group_id": group,
                "member_id": member_id,
                "generation_id_or_member_epoch": generation,
                "topics": [{"name": TOPIC, "partitions": [part]}],
            },
            LEAVE: {"group_id": group, "member_id": member_id, "members": [{"member_id": member_id}]},
            OFFSET_DELETE: {"group_id": group, "topics": [{"name": TOPIC, "partitions": [{"partition_index": 0}]}]},
            DELETE: {"groups_names": [group]},
            FETCH: {"groups": [{"group_id": group, "topics": [{"name": TOPIC, "partition_indexes": [0]}]}]},
        }
        wanted = known[key]
        if key == LEAVE and asked == "LeaveGroup 0":
            del wanted["members"]
        elif key == LEAVE:
            del wanted["member_id"]
        return wanted

    def _joining(self, group: str, member_id: str, asked: str = "") -> dict[str, Any]:
        metadata = SUBSCRIPTION + b"\0" if asked.endswith("changed") else SUBSCRIPTION
        return {
            "group_id": group,
            "member_id": member_id,
            "session_timeout_ms": 30_000,
            "rebalance_timeout_ms": 60_000,
            "protocol_type": "other" if asked.endswith("other type") else "consumer",
            "protocols": [{"name": "range", "metadata": metadata}],
        }

    def _join(self, group: str, member_id: str, patience_s: float = PATIENT_S) -> Any:
        while True:
            answer = self._ask(JOIN, 5, patience_s, **self._joining(group, member_id))
            if answer == "waits" or answer.error_code not in LOADING:
                return answer
            time.sleep(0.1)

    def _entered(self, group: str, patience_s: float = PATIENT_S) -> tuple[str, Any]:
        """Return the member id of somebody new, and the answer or word to its join."""
        given = self._join(group, "")
        assert given.error_code == MEMBER_ID_REQUIRED
        return given.member_id, self._join(group, given.member_id, patience_s)

    def _synced(self, group: str, member_id: str, generation: int, *assigned: str, patience_s: float = PATIENT_S) -> Any:
        assignments = [{"member_id": each, "assignment": b"some"} for each in assigned]
        wanted = {"group_id": group, "member_id": member_id, "generation_id": generation, **PROTOCOL}
        return self._ask(SYNC, 5, patience_s, **wanted, assignments=assignments)

    def _settled(self, state: str, name: str) -> tuple[str, dict[str, str]]:
        """Bring a group of such a name into a state; another one if its members were not on their way in time."""
        for attempt in count():
            group = f"{name}-{attempt}"
            try:
                return group, self._brought_to(state, group)
            except AssertionError:
                if attempt == ATTEMPTS:
                    raise
        raise AssertionError("the last attempt says what is wrong")

    def _brought_to(self, state: str, group: str) -> dict[str, str]:
        leader, joined = self._entered(group)
        assert (joined.error_code, joined.generation_id) == (NONE, 1), joined
        assert self._synced(group, leader, 1, leader).error_code == NONE
        follower, word = self._entered(group, SENT_S)
        assert word == "waits"
        joined = self._join(group, leader)
        assert (joined.error_code, joined.generation_id, joined.leader) == (NONE, CURRENT, leader)
        members = {"leader": leader, "follower": follower}
        if state.startswith("completing"):
            if state.endswith("waits"):
                assert self._synced(group, follower, CURRENT, patience_s=SENT_S) == "waits"
            return members
        assert self._synced(group, leader, CURRENT, leader, follower).error_code == NONE
        if state == "stable":
            return members
        members["newcomer"], word = self._entered(group, SENT_S)
        assert word == "waits"
        for who in ("leader", "follower"):
            if who in state:
                assert self._join(group, members[who], SENT_S) == "waits"
        return members


class QuestionerInside(Questioner):
    """Asks an Ottla in this process, whose time passes when it is asked."""

    def __init__(self, **settings: object) -> None:
        super().__init__("")
        self._machine = Machine(offsets_topic_num_partitions=3, **settings)

    def ask(self, key: int, version: int, body: Any, patience_s: float = 30) -> Any:
        answer = self._machine.begin(key, version, body)
        if isinstance(answer, DelayedReply) and not answer.done:
            self._machine.pass_time(1)
        if not isinstance(answer, DelayedReply):
            return answer
        return self._machine.finish(key, version, answer) if answer.done else "waits"
