"""Requests about streams groups: topologies right and wrong, members in each state with each epoch, and owned tasks.

Each case has a group of its own. Epochs are relative to the last that the member was told, so that brokers can be compared.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from ottla.wire.errors import (
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    NOT_COORDINATOR,
)
from tests.support.share_group_cases import CLASSIC_MEMBER, CONSUMER_MEMBER
from tests.support.share_world import BATCHED, EMPTY, KNOWN, ShareWorld
from tests.support.waiting import eventually

HEARTBEAT, DESCRIBE, METADATA, JOIN, CONSUMER_HEARTBEAT, SHARE_HEARTBEAT = 88, 89, 3, 11, 68, 76
COMMIT, OFFSET_FETCH, CLASSIC_DESCRIBE, LIST, DELETE_GROUPS, OFFSET_DELETE, CONSUMER_DESCRIBE, SHARE_DESCRIBE = (
    8,
    9,
    15,
    16,
    42,
    47,
    69,
    77,
)
LARGEST = (1 << 31) - 1
PASSING = (COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, CONCURRENT_TRANSACTIONS)
SESSION_MS = 1000
EXPIRED_S = 2.5
SETTLED_S = 1.0
"""Internal topics are created by then."""
FIND, INIT_PRODUCER_ID, TXN_COMMIT = 10, 22, 28
COMMITS = (
    "OffsetCommit of its task",
    "OffsetCommit of the other task",
    "TxnOffsetCommit of its task",
    "TxnOffsetCommit of the other task",
)
"""Commits after a task has moved from the first member to the second; `its task` is the one that the first member has kept."""
STATES = (
    "topologies",
    "joining",
    "unknown",
    "one member",
    "two members",
    "moved",
    "empty",
    "expired",
    "classic",
    "consumer",
    "share",
)
SETTINGS: dict[str, object] = {
    "group.streams.assignment.interval.ms": 0,
    "group.streams.initial.rebalance.delay.ms": 0,
    "group.streams.min.session.timeout.ms": 1000,
    "group.streams.min.heartbeat.interval.ms": 100,
    "group.consumer.migration.policy": "bidirectional",
}

Values = dict[str, Any]


def subtopology(name: str = "0", sources: Any = (KNOWN,), **more: Any) -> Values:
    """Return a subtopology; topics of its own are named with `*` in place of the group."""
    nothing: Values = {"source_topic_regex": [], "state_changelog_topics": [], "repartition_sink_topics": []}
    nothing |= {"repartition_source_topics": [], "copartition_groups": []}
    return {"subtopology_id": name, "source_topics": list(sources), **nothing, **more}


def internal(name: str, partitions: int = 0, replication_factor: int = 0, **configs: str) -> Values:
    """Return an internal topic."""
    told = [{"key": key.replace("_", "."), "value": value} for key, value in configs.items()]
    return {"name": f"*-{name}", "partitions": partitions, "replication_factor": replication_factor, "topic_configs": told}


def together(sources: Any = (), patterns: Any = (), repartitions: Any = ()) -> Values:
    """Return a copartition group, by the indexes of topics."""
    return {"source_topics": list(sources), "source_topic_regex": list(patterns), "repartition_source_topics": list(repartitions)}


TOPOLOGIES: Mapping[str, list[Values]] = {
    "one subtopology": [subtopology()],
    "two subtopologies": [subtopology("0"), subtopology("1", [BATCHED])],
    "two of one topic": [subtopology("0"), subtopology("1")],
    "two topics": [subtopology("0", [KNOWN, BATCHED])],
    "no subtopology": [],
    "no source": [subtopology("0", [])],
    "a subtopology twice": [subtopology("0"), subtopology("0", [BATCHED])],
    "an empty name": [subtopology("")],
    "a long name": [subtopology("s" * 300)],
    "a name of 32 000 bytes": [subtopology("s" * 32_000)],
    "unsorted names": [subtopology("1"), subtopology("0", [BATCHED])],
    "unknown source": [subtopology("0", ["unknown"])],
    "known and unknown source": [subtopology("0", [KNOWN, "unknown"])],
    "a source twice": [subtopology("0", [KNOWN, KNOWN])],
    "empty source": [subtopology("0", [""])],
    "odd source": [subtopology("0", ["not/a name\t"])],
    "source of 250 bytes": [subtopology("0", ["t" * 250])],
    "internal source": [subtopology("0", ["__consumer_offsets"])],
    "pattern": [subtopology("0", [], source_topic_regex=["kno.*"])],
    "pattern that is none": [subtopology("0", [], source_topic_regex=["(a"])],
    "source and pattern": [subtopology("0", [KNOWN], source_topic_regex=["bat.*"])],
    "changelog": [subtopology(state_changelog_topics=[internal("store-changelog", cleanup_policy="compact")])],
    "two changelogs": [subtopology(state_changelog_topics=[internal("a-changelog"), internal("b-changelog")])],
    "changelog with a count": [subtopology(state_changelog_topics=[internal("store-changelog", 5)])],
    "changelog of a replication factor": [subtopology(state_changelog_topics=[internal("store-changelog", 0, 1)])],
    "changelog of too many replicas": [subtopology(state_changelog_topics=[internal("store-changelog", 0, 3)])],
    "changelog of -1 replicas": [subtopology(state_changelog_topics=[internal("store-changelog", 0, -1)])],
    "changelog with an unknown setting": [subtopology(state_changelog_topics=[internal("store-changelog", nonsense="1")])],
    "changelog with a bad value": [subtopology(state_changelog_topics=[internal("store-changelog", retention_ms="soon")])],
    "changelog of an odd name": [subtopology(state_changelog_topics=[internal("not/a name\t")])],
    "changelog of 300 bytes": [subtopology(state_changelog_topics=[internal("c" * 300)])],
    "changelog twice": [subtopology(state_changelog_topics=[internal("c"), internal("c")])],
    "changelog in two": [
        subtopology("0", state_changelog_topics=[internal("c")]),
        subtopology("1", [BATCHED], state_changelog_topics=[internal("c")]),
    ],
    "changelog without source": [subtopology("0", [], state_changelog_topics=[internal("c")])],
    "repartition": [
        subtopology("0", repartition_sink_topics=["*-r"]),
        subtopology("1", [], repartition_source_topics=[internal("r")]),
    ],
    "repartition with a count": [
        subtopology("0", repartition_sink_topics=["*-r"]),
        subtopology("1", [], repartition_source_topics=[internal("r", 4)]),
    ],
    "repartition with a negative count": [
        subtopology("0", repartition_sink_topics=["*-r"]),
        subtopology("1", [], repartition_source_topics=[internal("r", -1)]),
    ],
    "repartition with a large count": [
        subtopology("0", repartition_sink_topics=["*-r"]),
        subtopology("1", [], repartition_source_topics=[internal("r", LARGEST)]),
    ],
    "repartition of the larger source": [
        subtopology("0", [KNOWN, BATCHED], repartition_sink_topics=["*-r"]),
        subtopology("1", [], repartition_source_topics=[internal("r")]),
    ],
    "repartition with a changelog": [
        subtopology("0", repartition_sink_topics=["*-r"]),
        subtopology("1", [], repartition_source_topics=[internal("r")], state_changelog_topics=[internal("c")]),
    ],
    "repartition by repartition": [
        subtopology("0", repartition_sink_topics=["*-r"]),
        subtopology("1", [], repartition_source_topics=[internal("r")], repartition_sink_topics=["*-s"]),
        subtopology("2", [], repartition_source_topics=[internal("s")]),
    ],
    "repartition without sink": [subtopology("0", [], repartition_source_topics=[internal("r")])],
    "sink without source": [subtopology("0", repartition_sink_topics=["*-r"])],
    "repartition in a circle": [
        subtopology("0", [], repartition_sink_topics=["*-r"], repartition_source_topics=[internal("s")]),
        subtopology("1", [], repartition_sink_topics=["*-s"], repartition_source_topics=[internal("r")]),
    ],
    "repartition in a circle with a count": [
        subtopology("0", [], repartition_sink_topics=["*-r"], repartition_source_topics=[internal("s", 3)]),
        subtopology("1", [], repartition_sink_topics=["*-s"], repartition_source_topics=[internal("r")]),
    ],
    "repartition into itself": [
        subtopology("0", repartition_sink_topics=["*-r"], repartition_source_topics=[internal("r")]),
    ],
    "repartition of an unknown source": [
        subtopology("0", ["unknown"], repartition_sink_topics=["*-r"]),
        subtopology("1", [], repartition_source_topics=[internal("r")]),
    ],
    "copartitioned": [subtopology("0", [BATCHED, EMPTY], copartition_groups=[together([0, 1])])],
    "copartitioned of other counts": [subtopology("0", [KNOWN, BATCHED], copartition_groups=[together([0, 1])])],
    "copartitioned with repartition": [
        subtopology("0", [BATCHED], repartition_sink_topics=["*-r"]),
        subtopology("1", [KNOWN], repartition_source_topics=[internal("r")], copartition_groups=[together([0], [], [0])]),
    ],
    "copartitioned with repartition of another count": [
        subtopology("0", [BATCHED], repartition_sink_topics=["*-r"]),
        subtopology("1", [KNOWN], repartition_source_topics=[internal("r", 3)], copartition_groups=[together([0], [], [0])]),
    ],
    "copartitioned out of range": [subtopology("0", copartition_groups=[together([7])])],
    "copartitioned at -1": [subtopology("0", copartition_groups=[together([-1])])],
    "copartitioned patterns": [subtopology("0", copartition_groups=[together([0], [0])])],
    "copartitioned with nothing": [subtopology("0", copartition_groups=[together()])],
}
EXISTING: Mapping[str, tuple[str, int, list[Values]]] = {
    "changelog that exists": ("c", 2, [subtopology(state_changelog_topics=[internal("c")])]),
    "changelog that exists with other partitions": ("c", 5, [subtopology(state_changelog_topics=[internal("c")])]),
    "repartition that exists": (
        "r",
        2,
        [subtopology("0", repartition_sink_topics=["*-r"]), subtopology("1", [], repartition_source_topics=[internal("r")])],
    ),
    "repartition that exists with other partitions": (
        "r",
        5,
        [subtopology("0", repartition_sink_topics=["*-r"]), subtopology("1", [], repartition_source_topics=[internal("r", 3)])],
    ),
    "source that is named as the group's": ("x", 3, [subtopology("0", ["*-x"])]),
}
"""Topologies with a topic that is created before, and the number of its partitions."""
ONE = TOPOLOGIES["one subtopology"]

JOINS: Mapping[str, Values] = {
    "usual": {},
    "no topology": {"topology": None},
    "topology epoch -1": {"topology_epoch": -1},
    "topology epoch 7": {"topology_epoch": 7},
    "largest topology epoch": {"topology_epoch": LARGEST},
    "empty group": {"group_id": ""},
    "blank group": {"group_id": " "},
    "group with odd characters": {"group_id": "not/a name\t"},
    "empty member": {"member_id": ""},
    "blank member": {"member_id": " "},
    "member of 37 bytes": {"member_id": "m" * 37},
    "member of 32 000 bytes": {"member_id": "m" * 32_000},
    "instance": {"instance_id": "i"},
    "empty instance": {"instance_id": ""},
    "rack": {"rack_id": "r"},
    "empty rack": {"rack_id": ""},
    "no process": {"process_id": None},
    "empty process": {"process_id": ""},
    "rebalance timeout 0": {"rebalance_timeout_ms": 0},
    "rebalance timeout -1": {"rebalance_timeout_ms": -1},
    "rebalance timeout -2": {"rebalance_timeout_ms": -2},
    "no active tasks": {"active_tasks": None},
    "no standby tasks": {"standby_tasks": None},
    "no warm-up tasks": {"warmup_tasks": None},
    "active tasks": {"active_tasks": [{"subtopology_id": "0", "partitions": [0]}]},
    "standby tasks": {"standby_tasks": [{"subtopology_id": "0", "partitions": [0]}]},
    "warm-up tasks": {"warmup_tasks": [{"subtopology_id": "0", "partitions": [0]}]},
    "endpoint": {"user_endpoint": {"host": "h", "port": 9090}},
    "endpoint without host": {"user_endpoint": {"host": "", "port": 0}},
    "tags": {"client_tags": [{"key": "k", "value": "v"}]},
    "a tag twice": {"client_tags": [{"key": "k", "value": "v"}, {"key": "k", "value": "w"}]},
    "no tags": {"client_tags": None},
    "shutdown": {"shutdown_application": True},
    "task offsets": {"task_offsets": [{"subtopology_id": "0", "partition": 0, "offset": 5}]},
    "endpoint epoch 5": {"endpoint_information_epoch": 5},
    "endpoint epoch -1": {"endpoint_information_epoch": -1},
}
EPOCHS: Mapping[str, int | None] = {"now": 0, "before": -1, "long before": -2, "ahead": 1}
ABSOLUTE: Mapping[str, int] = {"joining": 0, "leaving": -1, "leaving for a while": -2, "-3": -3, "largest": LARGEST}
MEMBERS = ("m", "second", "nobody")
BEATS: Mapping[str, Values] = {
    "heartbeat": {},
    "heartbeat with all": {"whole": True},
    "heartbeat with its tasks": {"active_tasks": [{"subtopology_id": "0", "partitions": [0, 1]}], "others": True},
    "heartbeat with one task": {"active_tasks": [{"subtopology_id": "0", "partitions": [0]}], "others": True},
    "heartbeat with no task": {"active_tasks": [], "others": True},
}
"""What is sent with each epoch."""
CHANGES: Mapping[str, Values] = {
    "the topology again": {"topology": ONE},
    "the next topology": {"topology": TOPOLOGIES["two subtopologies"], "topology_epoch": 1},
    "an earlier topology": {"topology": ONE, "topology_epoch": -1},
    "another topology of the same epoch": {"topology": TOPOLOGIES["two subtopologies"]},
    "unknown tasks": {"active_tasks": [{"subtopology_id": "nobody", "partitions": [0]}], "others": True},
    "tasks out of range": {"active_tasks": [{"subtopology_id": "0", "partitions": [7, -1]}], "others": True},
    "tasks twice": {"active_tasks": [{"subtopology_id": "0", "partitions": [0, 0, 1]}], "others": True},
    "active tasks alone": {"active_tasks": [{"subtopology_id": "0", "partitions": [0, 1]}]},
    "standby tasks alone": {"standby_tasks": []},
    "standby tasks": {"active_tasks": [], "standby_tasks": [{"subtopology_id": "0", "partitions": [0]}], "warmup_tasks": []},
    "another process": {"process_id": "other"},
    "another rack": {"rack_id": "other"},
    "another instance": {"instance_id": "other"},
    "an endpoint": {"user_endpoint": {"host": "h", "port": 9090}},
    "tags": {"client_tags": [{"key": "k", "value": "v"}]},
    "another rebalance timeout": {"rebalance_timeout_ms": 5},
    "task offsets": {"task_offsets": [{"subtopology_id": "0", "partition": 0, "offset": 5}]},
    "negative task offsets": {"task_offsets": [{"subtopology_id": "0", "partition": -1, "offset": -5}]},
    "shutdown": {"shutdown_application": True},
    "endpoint epoch 5": {"endpoint_information_epoch": 5},
}
"""What a member may change."""
ONCE: Mapping[str, tuple[int, int, Values]] = {
    "StreamsGroupDescribe": (DESCRIBE, 0, {"group_ids": ["*"]}),
    "StreamsGroupDescribe twice": (DESCRIBE, 0, {"group_ids": ["*", "*"]}),
    "ShareGroupDescribe": (SHARE_DESCRIBE, 1, {"group_ids": ["*"]}),
    "ConsumerGroupDescribe": (CONSUMER_DESCRIBE, 1, {"group_ids": ["*"]}),
    "DescribeGroups": (CLASSIC_DESCRIBE, 6, {"groups": ["*"]}),
    "ListGroups streams": (LIST, 5, {"types_filter": ["streams"]}),
    "ListGroups others": (LIST, 5, {"types_filter": ["classic", "consumer", "share"]}),
    "DeleteGroups": (DELETE_GROUPS, 2, {"groups_names": ["*"]}),
    "OffsetCommit": (COMMIT, 8, {"group_id": "*", "topics": [{"name": KNOWN, "partitions": [{"partition_index": 0}]}]}),
    "OffsetCommit as a member": (
        COMMIT,
        9,
        {
            "group_id": "*",
            "member_id": "m",
            "generation_id_or_member_epoch": "epoch",
            "topics": [{"name": KNOWN, "partitions": [{"partition_index": 0}]}],
        },
    ),
    "OffsetFetch": (OFFSET_FETCH, 9, {"groups": [{"group_id": "*", "topics": [{"name": KNOWN, "partition_indexes": [0]}]}]}),
    "OffsetFetch as a member": (
        OFFSET_FETCH,
        9,
        {
            "groups": [
                {
                    "group_id": "*",
                    "member_id": "m",
                    "member_epoch": "epoch",
                    "topics": [{"name": KNOWN, "partition_indexes": [0]}],
                }
            ]
        },
    ),
    "OffsetDelete": (
        OFFSET_DELETE,
        0,
        {"group_id": "*", "topics": [{"name": KNOWN, "partitions": [{"partition_index": 0}]}]},
    ),
    "JoinGroup": (JOIN, 4, {"group_id": "*", **CLASSIC_MEMBER}),
    "ConsumerGroupHeartbeat": (CONSUMER_HEARTBEAT, 1, {"group_id": "*", **CONSUMER_MEMBER}),
    "ShareGroupHeartbeat": (
        SHARE_HEARTBEAT,
        1,
        {"group_id": "*", "member_id": "m", "member_epoch": 0, "subscribed_topic_names": [KNOWN]},
    ),
}


class StreamsCase(NamedTuple):
    """The group's state, what is asked, and as whom with which epoch."""

    state: str
    asked: str
    who: str = ""
    epoch: str = ""

    def __str__(self) -> str:
        return f"{self.state}: {self.asked}" + (f" as {self.who}, epoch {self.epoch}" if self.who else "")


def streams_cases(state: str) -> list[StreamsCase]:
    """Return the cases of a state."""
    if state in ("topologies", "joining"):
        return [StreamsCase(state, asked) for asked in ((*TOPOLOGIES, *EXISTING) if state == "topologies" else JOINS)]
    if state == "moved":
        return [StreamsCase(state, asked, who, epoch) for asked in COMMITS for who in MEMBERS for epoch in EPOCHS]
    found = [
        StreamsCase(state, asked, who, epoch)
        for who in MEMBERS
        for epoch in (*(EPOCHS if who != "nobody" else ("ahead",)), *ABSOLUTE)
        for asked in (BEATS if who == "m" and epoch in ("now", "before", "joining") else ("heartbeat",))
        if who != "second" or state == "two members"
    ]
    if state == "one member":
        found += [StreamsCase(state, asked, "m", "now") for asked in CHANGES]
    skipped = {("classic", "ConsumerGroupHeartbeat")}
    return found + [StreamsCase(state, asked) for asked in ONCE if (state, asked) not in skipped]


class StreamsRequests:
    """Brings streams groups into a state, and asks one thing of each."""

    def __init__(self, world: ShareWorld) -> None:
        self._world = world
        self._kept: dict[str, int] = {}
        self._producer: Any = None
        self._answer: Any = None

    def answers(self, state: str) -> dict[str, Any]:
        """Return of each case of a state: the answer, a later one, how the group is described then, and its internal topics."""
        cases = streams_cases(state)
        session_ms = SESSION_MS if state == "expired" else 45_000
        configs = {"streams_session_timeout_ms": session_ms, "streams_heartbeat_interval_ms": 500}
        groups = self._world.groups(len(cases), **configs)
        asked = list(zip(cases, groups, strict=True))
        epochs = self._all_brought_to(state, asked)
        told = {group: self._met(case, group, epochs[group]) for case, group in asked}
        if state == "topologies":
            time.sleep(SETTLED_S)
            for group in groups:
                told[group] = [told[group], self._met_again(group), self._topics_of(group)]
        found = {str(case): [told[group], self._stands(group, epochs[group])] for case, group in asked}
        self._world.lines.close_all()
        return found

    def _all_brought_to(self, state: str, asked: list[tuple[StreamsCase, str]]) -> dict[str, dict[str, int]]:
        epochs = {group: self._brought_to(state, group) for _, group in asked}
        for case, group in asked:
            if case.asked in EXISTING:
                self._world.create(f"{group}-{EXISTING[case.asked][0]}", EXISTING[case.asked][1])
        time.sleep({"expired": EXPIRED_S, "topologies": SETTLED_S}.get(state, 0))
        return epochs

    def _brought_to(self, state: str, group: str) -> dict[str, int]:
        """Return the epoch that each member was told last."""
        if state == "classic":
            self._world.ask("admin", JOIN, 3, group_id=group, **CLASSIC_MEMBER)
        if state == "consumer":
            return {"m": self._world.ask("admin", CONSUMER_HEARTBEAT, 1, group_id=group, **CONSUMER_MEMBER).member_epoch}
        if state == "share":
            return {"m": self._world.join(group, "m")}
        if state in ("topologies", "joining", "unknown", "classic"):
            return {}
        epochs = {"m": self._joined(group, "m")}
        if state in ("two members", "moved"):
            epochs["second"] = self._joined(group, "second")
        if state == "moved":
            self._move(group, epochs)
        if state == "empty":
            assert not self._beat(group, "m", -1, {}).error_code
        return epochs

    def _joined(self, group: str, member: str) -> int:
        told = self._beat(group, member, 0, {"whole": True})
        assert not told.error_code, told
        epoch: int = told.member_epoch
        return epoch

    def _move(self, group: str, epochs: dict[str, int]) -> None:
        """Have the first member give a task up, and the second one take it."""
        [kept] = [each.partitions for each in self._beat(group, "m", epochs["m"], BEATS["heartbeat with its tasks"]).active_tasks]
        self._kept[group] = kept[0]
        owned = {"active_tasks": [{"subtopology_id": "0", "partitions": kept}], "others": True}
        epochs["m"] = self._beat(group, "m", epochs["m"], owned).member_epoch
        epochs["second"] = self._beat(group, "second", epochs["second"], {"active_tasks": [], "others": True}).member_epoch

    def _committed(self, case: StreamsCase, group: str, epoch: int) -> Any:
        """Return the answer to a commit of one partition, in a transaction or outside of one."""
        partition = self._kept[group] if case.asked.endswith("its task") else 1 - self._kept[group]
        topics = [{"name": KNOWN, "partitions": [{"partition_index": partition, "committed_offset": 5, "committed_metadata": ""}]}]
        values: Values = {"group_id": group, "member_id": case.who, "generation_id_or_member_epoch": epoch, "topics": topics}
        if case.asked.startswith("Offset"):
            return self._world.told(self._world.ask("admin", COMMIT, 9, **values), 9, group=group)

        def begun() -> bool:
            self._world.ask("admin", FIND, 3, key=group, key_type=1)  # Apache Kafka creates __transaction_state then
            self._producer = self._world.ask("admin", INIT_PRODUCER_ID, 4, transactional_id=group, transaction_timeout_ms=10_000)
            return not self._producer.error_code

        def answered() -> bool:
            self._answer = self._world.ask("admin", TXN_COMMIT, 5, **values)
            return self._answer.topics[0].partitions[0].error_code not in PASSING

        eventually(begun)
        values |= {"transactional_id": group}
        values |= {"producer_id": self._producer.producer_id, "producer_epoch": self._producer.producer_epoch}
        eventually(answered)
        return self._world.told(self._answer, 5, group=group)

    def _beat(self, group: str, member: str, epoch: int, change: Values) -> Any:
        values: Values = {"group_id": group, "member_id": member, "member_epoch": epoch}
        if change.get("whole"):
            nothing: Values = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
            values |= {"rebalance_timeout_ms": 60_000, "process_id": f"p-{member}", "client_tags": [], **nothing}
            values["topology"] = ONE
        if change.get("others"):
            values |= {"standby_tasks": [], "warmup_tasks": []}
        values |= {name: value for name, value in change.items() if name not in ("whole", "others", "topology_epoch")}
        if values.get("topology") is not None:
            subtopologies = named_for(values["topology"], group)
            values["topology"] = {"epoch": change.get("topology_epoch", 0), "subtopologies": subtopologies}
        return self._world.ask("admin", HEARTBEAT, 0, **values)

    def _met(self, case: StreamsCase, group: str, epochs: dict[str, int]) -> Any:
        if case.state == "topologies":
            topology = EXISTING[case.asked][2] if case.asked in EXISTING else TOPOLOGIES[case.asked]
            return self._told(self._beat(group, "m", 0, {"whole": True, "topology": topology}), 0, group)
        if case.state == "joining":
            return self._told(self._beat(group, "m", 0, {"whole": True, **JOINS[case.asked]}), 0, group)
        known = epochs.get(case.who or "m", 1)
        if case.who:
            shift = EPOCHS.get(case.epoch)
            epoch = ABSOLUTE[case.epoch] if shift is None else max(0, known + shift)
            if case.state == "moved":
                return self._committed(case, group, epoch)
            return self._told(
                self._beat(group, case.who, epoch, BEATS.get(case.asked) or CHANGES.get(case.asked, {})), known, group
            )
        key, version, values = ONCE[case.asked]
        told = self._world.ask("admin", key, version, **named_for(values, group, epochs.get("m", 1)))
        if key == LIST and not isinstance(told, str):
            told.groups = [each for each in told.groups if each.group_id == group]
        if key == DESCRIBE and not isinstance(told, str):
            for described in told.groups:
                self._shift(described, epochs)
        return self._world.told(told, version, group=group)

    def _met_again(self, group: str) -> Any:
        """Return the answer to the same member's next heartbeat."""
        [found] = self._world.ask("admin", DESCRIBE, 0, group_ids=[group]).groups
        if found.error_code or not found.members:
            return None
        epoch = found.members[0].member_epoch
        return self._told(self._beat(group, "m", epoch, {"active_tasks": [], "others": True}), epoch, group)

    def _told(self, told: Any, known: int, group: str) -> Any:
        if isinstance(told, str):
            return told
        if told.member_epoch > 0:
            told.member_epoch -= known
        for status in told.status or ():
            status.status_detail = ""
        return self._world.told(told, 0, group=group)

    def _topics_of(self, group: str) -> Any:
        """Return the internal topics of a group: the number of partitions of each."""
        found = self._world.ask("admin", METADATA, 12, topics=None).topics
        return {topic.name.replace(group, "*"): len(topic.partitions) for topic in found if topic.name.startswith(f"{group}-")}

    def _stands(self, group: str, epochs: dict[str, int]) -> Any:
        [found] = self._world.ask("admin", DESCRIBE, 0, group_ids=[group]).groups
        self._shift(found, epochs)
        return self._world.told(found, 0, group=group)

    def _shift(self, found: Any, epochs: dict[str, int]) -> None:
        """Make epochs relative, and name internal topics without the group."""
        if found.error_code:
            return
        first = epochs.get("m", 0)
        found.group_epoch -= first
        found.assignment_epoch -= first
        for member in found.members:
            member.member_epoch -= epochs.get(member.member_id, 0)
        found.members.sort(key=lambda member: member.member_id)
        for each in (found.topology and found.topology.subtopologies) or ():
            each.source_topics = [name.replace(found.group_id, "*") for name in each.source_topics]
            each.repartition_sink_topics = [name.replace(found.group_id, "*") for name in each.repartition_sink_topics]
            for topic in (*each.state_changelog_topics, *each.repartition_source_topics):
                topic.name = topic.name.replace(found.group_id, "*")


def named_for(value: Any, group: str, epoch: int = 0) -> Any:
    """Return values with the group's name in place of `*`, and its member's epoch in place of "epoch"."""
    if isinstance(value, dict):
        return {key: named_for(one, group, epoch) for key, one in value.items()}
    if isinstance(value, list):
        return [named_for(one, group, epoch) for one in value]
    if value == "epoch":
        return epoch
    return value.replace("*", group) if isinstance(value, str) and value.startswith("*") else value
