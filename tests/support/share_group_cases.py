"""Requests about share groups in each state: heartbeats with each epoch, descriptions, offsets, and what other kinds of groups ask.

Each case has a group of its own. Epochs are relative to the last that the member was told, so that brokers can be compared.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from tests.support.bad_groups import SUBSCRIPTION
from tests.support.share_world import KNOWN, ShareWorld

COMMIT, OFFSET_FETCH, JOIN, CLASSIC_DESCRIBE, LIST, DELETE_GROUPS, OFFSET_DELETE = 8, 9, 11, 15, 16, 42, 47
CONSUMER_HEARTBEAT, CONSUMER_DESCRIBE, DESCRIBE = 68, 69, 77
DESCRIBE_OFFSETS, ALTER_OFFSETS, DELETE_OFFSETS = 90, 91, 92
CLASSIC_MEMBER: Mapping[str, Any] = {
    "session_timeout_ms": 30_000,
    "rebalance_timeout_ms": 60_000,
    "protocol_type": "consumer",
    "protocols": [{"name": "range", "metadata": SUBSCRIPTION}],
}
CONSUMER_MEMBER: Mapping[str, Any] = {
    "member_id": "m",
    "member_epoch": 0,
    "rebalance_timeout_ms": 60_000,
    "topic_partitions": [],
    "subscribed_topic_names": [KNOWN],
}
STATES = ("unknown", "joining", "one member", "two members", "empty", "expired", "classic", "consumer")
SESSION_MS = 1000
"""The least session timeout that a broker allows."""
EXPIRED_S = 2.0
LARGEST = (1 << 31) - 1

EPOCHS: Mapping[str, int | None] = {"now": 0, "before": -1, "long before": -2, "ahead": 1}
ABSOLUTE: Mapping[str, int] = {"joining": 0, "leaving": -1, "-2": -2, "least": -(1 << 31), "largest": LARGEST}
MEMBERS = ("m", "second", "nobody")
SUBSCRIBES: Mapping[str, Any] = {"": None, " to the topic": [KNOWN], " to nothing": []}

JOINS: Mapping[str, dict[str, Any]] = {
    "empty group": {"group": ""},
    "blank group": {"group": " "},
    "group of 250 bytes": {"group": "g" * 250},
    "group of 32 000 bytes": {"group": "g" * 32_000},
    "group with odd characters": {"group": "not/a name\t"},
    "empty member": {"member": ""},
    "blank member": {"member": " "},
    "member of 36 bytes": {"member": "m" * 36},
    "member of 37 bytes": {"member": "m" * 37},
    "member of 32 000 bytes": {"member": "m" * 32_000},
    "member with odd characters": {"member": "not/a name\t"},
    "no subscription": {"topics": None},
    "empty subscription": {"topics": []},
    "unknown topic": {"topics": ["unknown"]},
    "known and unknown topic": {"topics": [KNOWN, "unknown"]},
    "topic twice": {"topics": [KNOWN, KNOWN]},
    "empty topic": {"topics": [""]},
    "odd topic": {"topics": ["not/a name\t"]},
    "topic of 250 bytes": {"topics": ["t" * 250]},
    "internal topic": {"topics": ["__consumer_offsets"]},
    "topic of share states": {"topics": ["__share_group_state"]},
    "empty rack": {"more": {"rack_id": ""}},
    "blank rack": {"more": {"rack_id": " "}},
    "rack": {"more": {"rack_id": "r"}},
    "500 topics": {"topics": [f"unknown-{number}" for number in range(500)]},
}
ONCE = (
    "ShareGroupDescribe",
    "ShareGroupDescribe twice",
    "ConsumerGroupDescribe",
    "DescribeGroups",
    "ListGroups share",
    "ListGroups others",
    "DeleteGroups",
    "OffsetCommit 8",
    "OffsetCommit 9 as a member",
    "OffsetFetch",
    "OffsetFetch as a member",
    "OffsetDelete",
    "JoinGroup",
    "ConsumerGroupHeartbeat",
    "DescribeShareGroupOffsets",
    "DescribeShareGroupOffsets of all",
    "DescribeShareGroupOffsets of partitions twice",
    "DescribeShareGroupOffsets of unknown partitions",
    "DescribeShareGroupOffsets of an unknown topic",
    "DescribeShareGroupOffsets of no topic",
    "DescribeShareGroupOffsets 0",
    "AlterShareGroupOffsets",
    "AlterShareGroupOffsets to the end",
    "AlterShareGroupOffsets beyond the end",
    "AlterShareGroupOffsets to -1",
    "AlterShareGroupOffsets to -5",
    "AlterShareGroupOffsets of a partition twice",
    "AlterShareGroupOffsets of an unknown partition",
    "AlterShareGroupOffsets of an unknown topic",
    "AlterShareGroupOffsets of no topic",
    "DeleteShareGroupOffsets",
    "DeleteShareGroupOffsets of a topic twice",
    "DeleteShareGroupOffsets of an unknown topic",
    "DeleteShareGroupOffsets of no topic",
)


class GroupCase(NamedTuple):
    """The group's state, what is asked, and as whom with which epoch."""

    state: str
    asked: str
    who: str = ""
    epoch: str = ""

    def __str__(self) -> str:
        return f"{self.state}: {self.asked}" + (f" as {self.who}, epoch {self.epoch}" if self.who else "")


def group_cases(state: str) -> list[GroupCase]:
    """Return the cases of a state."""
    if state == "joining":
        return [GroupCase(state, asked) for asked in JOINS]
    found = [
        GroupCase(state, f"heartbeat{subscribes}", who, epoch)
        for who in MEMBERS
        for epoch in (*(EPOCHS if who != "nobody" else ("ahead",)), *ABSOLUTE)
        for subscribes in (SUBSCRIBES if who == "m" and epoch in ("now", "before", "joining") else ("",))
        if who != "second" or state == "two members"
    ]
    return found + [GroupCase(state, asked) for asked in ONCE if (state, asked) != ("classic", "ConsumerGroupHeartbeat")]


class ShareGroupRequests:
    """Brings share groups into a state, and asks one thing of each."""

    def __init__(self, world: ShareWorld) -> None:
        self._world = world

    def answers(self, state: str) -> dict[str, Any]:
        """Return of each case of a state: the answer, and how the group is described afterwards."""
        cases = group_cases(state)
        session_ms = SESSION_MS if state == "expired" else 45_000
        groups = self._world.groups(len(cases), share_session_timeout_ms=session_ms, share_heartbeat_interval_ms=500)
        epochs = {group: self._brought_to(state, group) for group in groups}
        if state == "expired":
            time.sleep(EXPIRED_S)
        found = {}
        for case, group in zip(cases, groups, strict=True):
            told = self._met(case, group, epochs[group])
            found[str(case)] = [told, self._stands(group, epochs[group])]
        self._world.lines.close_all()
        return found

    def _brought_to(self, state: str, group: str) -> dict[str, int]:
        """Return the epoch that each member was told last."""
        world = self._world
        if state in ("unknown", "joining"):
            return {}
        if state == "classic":
            world.ask("admin", JOIN, 3, group_id=group, **CLASSIC_MEMBER)
            return {}
        if state == "consumer":
            return {"m": world.ask("admin", CONSUMER_HEARTBEAT, 1, group_id=group, **CONSUMER_MEMBER).member_epoch}
        epochs = {"m": world.join(group, "m")}
        world.acquire("fetching", group, "m", max_records=2, batch_size=2)
        if state == "two members":
            epochs["second"] = world.join(group, "second", partitions=1)
            beaten = world.beat(group, "m", epochs["m"])
            epochs["m"] = beaten.member_epoch
        world.lines.close("fetching")
        if state == "empty":
            assert not world.beat(group, "m", -1).error_code
        return epochs

    def _stands(self, group: str, epochs: dict[str, int]) -> Any:
        [found] = self._world.ask("admin", DESCRIBE, 1, group_ids=[group]).groups
        if not found.error_code:
            first = epochs.get("m", 0)
            found.group_epoch -= first
            found.assignment_epoch -= first
            for member in found.members:
                member.member_epoch -= epochs.get(member.member_id, 0)
            found.members.sort(key=lambda member: member.member_id)
        return self._world.told(found, 1, group=group)

    def _met(self, case: GroupCase, group: str, epochs: dict[str, int]) -> Any:
        world = self._world
        if case.state == "joining":
            asked = JOINS[case.asked]
            told = world.beat(
                asked.get("group", group), asked.get("member", "m"), 0, asked.get("topics", [KNOWN]), **asked.get("more", {})
            )
            return world.told(told, 1)
        if case.who:
            return self._beaten(case, group, epochs.get(case.who, 1))
        return self._asked(case.asked, group, epochs.get("m", 1))

    def _beaten(self, case: GroupCase, group: str, known: int) -> Any:
        shift = EPOCHS.get(case.epoch)
        epoch = ABSOLUTE[case.epoch] if shift is None else max(0, known + shift)
        told = self._world.beat(group, case.who, epoch, SUBSCRIBES[case.asked.removeprefix("heartbeat")])
        if not isinstance(told, str) and told.member_epoch > 0:
            told.member_epoch -= known
        return self._world.told(told, 1)

    def _asked(self, asked: str, group: str, epoch: int) -> Any:
        key, version, values = request_of(asked, group, epoch)
        told = self._world.ask("admin", key, version, **values)
        if key == LIST and not isinstance(told, str):
            told.groups = [each for each in told.groups if each.group_id == group]
        return self._world.told(told, version, group=group)


def request_of(asked: str, group: str, epoch: int) -> tuple[int, int, dict[str, Any]]:
    """Return a request that is asked once: its key, version and values."""
    of, _, what = asked.partition(" ")
    one = [{"name": KNOWN, "partitions": [{"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}]}]
    fetched = {"group_id": group, "topics": [{"name": KNOWN, "partition_indexes": [0]}]}
    as_member = {"member_id": "m", "member_epoch": epoch} if "member" in what else {}
    committed = {"member_id": "m", "generation_id_or_member_epoch": epoch} if "member" in what else {}
    deleted = [{"name": KNOWN, "partitions": [{"partition_index": 0}]}]
    known: dict[str, tuple[int, int, dict[str, Any]]] = {
        "ShareGroupDescribe": (DESCRIBE, 1, {"group_ids": [group, group] if what else [group]}),
        "ConsumerGroupDescribe": (CONSUMER_DESCRIBE, 1, {"group_ids": [group]}),
        "DescribeGroups": (CLASSIC_DESCRIBE, 6, {"groups": [group]}),
        "ListGroups": (LIST, 5, {"types_filter": ["share"] if what == "share" else ["classic", "consumer"]}),
        "DeleteGroups": (DELETE_GROUPS, 2, {"groups_names": [group]}),
        "OffsetCommit": (COMMIT, int(what[0]) if of == "OffsetCommit" else 0, {"group_id": group, "topics": one, **committed}),
        "OffsetFetch": (OFFSET_FETCH, 9, {"groups": [fetched | as_member]}),
        "OffsetDelete": (OFFSET_DELETE, 0, {"group_id": group, "topics": deleted}),
        "JoinGroup": (JOIN, 4, {"group_id": group, **CLASSIC_MEMBER}),
        "ConsumerGroupHeartbeat": (CONSUMER_HEARTBEAT, 1, {"group_id": group, **CONSUMER_MEMBER}),
    }
    return known[of] if of in known else of_offsets(of, what, group)


def of_offsets(of: str, what: str, group: str) -> tuple[int, int, dict[str, Any]]:
    """Return a request about the offsets of a share group."""
    topic = {"of an unknown topic": "unknown"}.get(what, KNOWN)
    if of == "DescribeShareGroupOffsets":
        parts = {"of partitions twice": [0, 0, 1], "of unknown partitions": [0, 7, -1]}.get(what, [0, 1])
        topics: Any = [{"topic_name": topic, "partitions": parts}]
        if what.endswith("of all"):
            topics = None
        elif what == "of no topic":
            topics = []
        return DESCRIBE_OFFSETS, 0 if what == "0" else 1, {"groups": [{"group_id": group, "topics": topics}]}
    if of == "AlterShareGroupOffsets":
        offset = {"to the end": 10, "beyond the end": 1000, "to -1": -1, "to -5": -5}.get(what, 3)
        indexes = {"of a partition twice": [0, 0], "of an unknown partition": [7]}.get(what, [0])
        places = [{"partition_index": index, "start_offset": offset} for index in indexes]
        altered = [] if what == "of no topic" else [{"topic_name": topic, "partitions": places}]
        return ALTER_OFFSETS, 0, {"group_id": group, "topics": altered}
    deleted = {"of a topic twice": [KNOWN, KNOWN], "of no topic": []}.get(what, [topic])
    return DELETE_OFFSETS, 0, {"group_id": group, "topics": [{"topic_name": name} for name in deleted]}
