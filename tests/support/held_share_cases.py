"""Share groups whose stored states are held back, and the answers of a broker meanwhile and afterwards.

Two brokers: the first has all topics and groups, and the second replicas of `__share_group_state`. Its first partition lacks a
replica that is needed in sync while the second broker is stopped, and its second partition has no leader then.
"""

from __future__ import annotations

import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from bench.apache_kafka import ApacheKafka
from ottla.testing import Cluster
from ottla.wire.errors import NONE, error_name
from tests.support.held_cases import Other
from tests.support.share_world import CREATE, FIND, KNOWN, METADATA, SETTINGS, Lines, ShareWorld
from tests.support.waiting import eventually

STATES = "__share_group_state"
REASSIGN = 45
DESCRIBE_OFFSETS, ALTER_OFFSETS, DELETE_OFFSETS, DELETE_GROUPS = 90, 91, 92, 42
INITIALIZE, READ, WRITE, DELETE_STATE, SUMMARY = 83, 84, 85, 86, 87
SHARE_KEY = 2
HOLDS = {"too few replicas in sync": 1, "no leader": 2}
"""How states are held back, and which broker is their coordinator before."""
LOCK_MS = 600_000
LOOK_S = 5
PATIENCE_S = 60
LATER = 1000
"""A later epoch than those of a state."""
HELD: dict[str, object] = {
    **SETTINGS,
    "share.coordinator.state.topic.num.partitions": 2,
    "group.share.max.record.lock.duration.ms": LOCK_MS,
}
ACCEPT, RELEASE, REJECT = 1, 2, 3


class Second(Protocol):
    """The broker that is stopped and started again."""

    def start(self) -> Any: ...
    def stop(self) -> Any: ...


class PatientLines(Lines):
    """Connections on which answers can come late."""

    def ask(self, line: str, key: int, version: int, body: Any, patience_s: float = PATIENCE_S) -> Any:
        return super().ask(line, key, version, body, patience_s)


class HeldGroup(NamedTuple):
    """A group of a case with connections of its own, and the epoch of its member's session."""

    world: ShareWorld
    group: str
    epoch: int


class HeldShares:
    """Runs all cases with all holds at once, in three steps: `prepare`, `meet` while states are held back, `look` afterwards."""

    def __init__(self, world: ShareWorld, address: str) -> None:
        self._world, self._address = world, address
        self._groups: dict[str, HeldGroup] = {}

    def create_states(self) -> None:
        """Create the topic of states, whose second partition has one replica: on the second broker."""
        assignments = [{"partition_index": index, "broker_ids": ids} for index, ids in enumerate(([1, 2], [2, 1]))]
        configs = [{"name": "min.insync.replicas", "value": "2"}, {"name": "cleanup.policy", "value": "compact"}]
        topic = {"name": STATES, "num_partitions": -1, "replication_factor": -1, "assignments": assignments, "configs": configs}
        # The first broker can learn a little late of the second one.
        eventually(lambda: self._world.ask("admin", CREATE, 7, topics=[topic], timeout_ms=10_000).topics[0].error_code == NONE)
        eventually(self._is_moved)
        self.wait_until_whole()

    def _is_moved(self) -> bool:
        moved = [{"name": STATES, "partitions": [{"partition_index": 1, "replicas": [2]}]}]
        told = self._world.ask("admin", REASSIGN, 0, timeout_ms=10_000, topics=moved)
        return bool(told.responses) and told.responses[0].partitions[0].error_code == NONE

    def wait_until_whole(self) -> None:
        eventually(lambda: self._stored() == [(1, [1, 2]), (2, [2])], timeout_s=90, what="the states have all replicas")

    def wait_until_held(self) -> None:
        eventually(self._is_held, timeout_s=90, what="the second broker is gone")

    def _is_held(self) -> bool:
        first, second = self._stored()
        return first == (1, [1]) and second[0] == -1

    def _stored(self) -> list[tuple[int, list[int]]]:
        [found] = self._world.ask("admin", METADATA, 12, topics=[{"name": STATES}]).topics
        parts = sorted(found.partitions, key=lambda part: int(part.partition_index))
        return [(part.leader_id, sorted(part.isr_nodes)) for part in parts]

    def prepare(self) -> None:
        """Give each case a group whose state is in the partition that will be held back."""
        unused = {node_id: list[str]() for node_id in HOLDS.values()}
        while min(map(len, unused.values())) < len(CASES):
            for group in self._world.groups(20, share_record_lock_duration_ms=LOCK_MS):
                unused[self._coordinator(group)].append(group)
        for hold, node_id in HOLDS.items():
            for case in CASES:
                self._groups[f"{hold}: {case}"] = self._held(case, unused[node_id].pop())

    def _coordinator(self, group: str) -> int:
        key = f"{group}:{urlsafe_b64encode(self._world.id_of(KNOWN)).decode().rstrip('=')}:0"

        def find() -> int:
            found = self._world.ask("admin", FIND, 6, key_type=SHARE_KEY, coordinator_keys=[key]).coordinators[0]
            return -1 if found.error_code else int(found.node_id)

        return eventually(lambda: max(0, find()))

    def _held(self, case: str, group: str) -> HeldGroup:
        world = copy(self._world)
        world.lines = PatientLines(self._address)
        if case in NEW:
            return HeldGroup(world, group, 0)
        world.join(group, "member")
        epoch = world.acquire("line", group, "member")
        if case in EMPTY:
            told = world.acknowledge("line", group, "member", epoch, _batches(ACCEPT))
            assert told.responses[0].partitions[0].error_code == NONE, told
            assert world.acknowledge("line", group, "member", -1, []).error_code == NONE
            assert world.beat(group, "member", -1).error_code == NONE
        return HeldGroup(world, group, epoch)

    def meet(self) -> dict[str, Any]:
        """Return the answers while states are held back."""
        return self._of_all(lambda case, held: CASES[case](held))

    def look(self) -> dict[str, Any]:
        """Return what a new member acquires once states can be stored again: offsets and delivery counts, or errors."""
        return self._of_all(_look)

    def _of_all(self, act: Callable[[str, HeldGroup], Any]) -> dict[str, Any]:
        with ThreadPoolExecutor(len(self._groups)) as pool:
            found = {name: pool.submit(act, name.partition(": ")[2], held) for name, held in self._groups.items()}
            return {name: future.result() for name, future in found.items()}

    def close(self) -> None:
        for held in self._groups.values():
            held.world.lines.close_all()


def _look(case: str, held: HeldGroup) -> list[Any]:
    held.world.lines.close_all()
    if case in NEW:
        held.world.join(held.group, "member")
    found: list[Any] = []
    epochs = count()

    def is_acquired() -> bool:
        epoch = next(epochs)
        told = held.world.fetch("probe", held.group, "probe", epoch, [] if epoch else [(KNOWN, 0, [])], max_wait_ms=500)
        found[:] = _acquired(told)
        return any(isinstance(each, list) for each in found)

    with suppress(AssertionError):
        eventually(is_acquired, timeout_s=LOOK_S)
    return found


Act = Callable[[HeldGroup], list[Any]]


def _batches(types: int) -> list[tuple[str, int, list[dict[str, Any]]]]:
    return [(KNOWN, 0, [{"first_offset": 0, "last_offset": 2, "acknowledge_types": [types]}])]


def _fetches(held: HeldGroup) -> list[Any]:
    return [held.world.told(held.world.fetch("line", held.group, "member", held.epoch, _batches(ACCEPT)))]


def _acknowledges(types: int, held: HeldGroup) -> list[Any]:
    return [held.world.told(held.world.acknowledge("line", held.group, "member", held.epoch, _batches(types)))]


def _acknowledges_twice(held: HeldGroup) -> list[Any]:
    first = held.world.acknowledge("line", held.group, "member", held.epoch, _batches(ACCEPT))
    second = held.world.acknowledge("line", held.group, "member", held.epoch + 1, _batches(ACCEPT))
    return [held.world.told(first), held.world.told(second)]


def _ends_session(held: HeldGroup) -> list[Any]:
    return [held.world.told(held.world.acknowledge("line", held.group, "member", -1, _batches(ACCEPT)))]


def _disconnects(held: HeldGroup) -> list[Any]:
    """Close the member's connection, and return what another member acquires."""
    held.world.lines.close("line")
    told = held.world.fetch("other", held.group, "other", 0, [(KNOWN, 0, [])], max_wait_ms=500)
    held.world.lines.close("other")
    return [_acquired(told)]


def _acquired(told: Any) -> list[Any]:
    """Return the errors of a ShareFetch, and the acquired records as offsets and delivery counts."""
    parts = [part for each in told.responses for part in each.partitions]
    errors = [error_name(code) for code in (told.error_code, *(part.error_code for part in parts)) if code]
    return [*errors, *([a.first_offset, a.last_offset, a.delivery_count] for part in parts for a in part.acquired_records)]


def _beats(held: HeldGroup) -> list[Any]:
    return [held.world.told(held.world.beat(held.group, "member", 0, [KNOWN]), member="member")]


def _joins(held: HeldGroup) -> list[Any]:
    """Join, and send heartbeats for two seconds: the last answer."""
    epoch, end_s = 0, time.monotonic() + 2
    while True:
        told = held.world.beat(held.group, "member", epoch, None if epoch else [KNOWN])
        if told == "waits" or told.error_code or time.monotonic() > end_s:
            return [held.world.told(told)]
        epoch = told.member_epoch
        time.sleep(0.2)


def _joins_and_fetches(held: HeldGroup) -> list[Any]:
    joined = _joins(held)
    return [*joined, held.world.told(held.world.fetch("line", held.group, "member", 0, [(KNOWN, 0, [])], max_wait_ms=500))]


def _places(**values: Any) -> list[dict[str, Any]]:
    return [{"topic_name": KNOWN, **values}]


def _describes(held: HeldGroup) -> list[Any]:
    asked = [{"group_id": held.group, "topics": _places(partitions=[0])}]
    return [held.world.told(held.world.ask("admin", DESCRIBE_OFFSETS, 1, groups=asked), g=held.group)]


def _alters(held: HeldGroup) -> list[Any]:
    topics = _places(partitions=[{"partition_index": 0, "start_offset": 5}])
    return [held.world.told(held.world.ask("admin", ALTER_OFFSETS, 0, group_id=held.group, topics=topics))]


def _deletes_offsets(held: HeldGroup) -> list[Any]:
    return [held.world.told(held.world.ask("admin", DELETE_OFFSETS, 0, group_id=held.group, topics=_places()))]


def _deletes_group(held: HeldGroup) -> list[Any]:
    return [held.world.told(held.world.ask("admin", DELETE_GROUPS, 2, groups_names=[held.group]), g=held.group)]


def _asks_states(key: int, held: HeldGroup, **values: Any) -> list[Any]:
    topics = [{"topic_id": held.world.id_of(KNOWN), "partitions": [{"partition": 0, **values}]}]
    return [held.world.told(held.world.ask("admin", key, 0, group_id=held.group, topics=topics))]


def _writes(held: HeldGroup) -> list[Any]:
    batches = [{"first_offset": 4, "last_offset": 4, "delivery_state": 2, "delivery_count": 1}]
    epochs = {"state_epoch": LATER, "leader_epoch": LATER, "start_offset": -1}
    return _asks_states(WRITE, held, state_batches=batches, **epochs)


CASES: dict[str, Act] = {
    "ShareFetch accepts": _fetches,
    "ShareAcknowledge accepts": partial(_acknowledges, ACCEPT),
    "ShareAcknowledge releases": partial(_acknowledges, RELEASE),
    "ShareAcknowledge rejects": partial(_acknowledges, REJECT),
    "ShareAcknowledge accepts twice": _acknowledges_twice,
    "ShareAcknowledge ends the session": _ends_session,
    "a member disconnects": _disconnects,
    "ShareGroupHeartbeat, first": _beats,
    "ShareGroupHeartbeat, several": _joins,
    "ShareFetch of a new group": _joins_and_fetches,
    "DescribeShareGroupOffsets": _describes,
    "AlterShareGroupOffsets": _alters,
    "DeleteShareGroupOffsets": _deletes_offsets,
    "DeleteGroups": _deletes_group,
    "InitializeShareGroupState": lambda held: _asks_states(INITIALIZE, held, state_epoch=7, start_offset=3),
    "ReadShareGroupState": lambda held: _asks_states(READ, held, leader_epoch=0),
    "ReadShareGroupState of a later leader": lambda held: _asks_states(READ, held, leader_epoch=9),
    "ReadShareGroupStateSummary": lambda held: _asks_states(SUMMARY, held, leader_epoch=0),
    "WriteShareGroupState": _writes,
    "DeleteShareGroupState": lambda held: _asks_states(DELETE_STATE, held),
}
NEW = {"ShareGroupHeartbeat, first", "ShareGroupHeartbeat, several", "ShareFetch of a new group"}
"""Cases of groups that did not exist before."""
EMPTY = {case for case in CASES if case.startswith(("Describe", "Alter", "Delete", "Initialize", "Read", "Write"))}
"""Cases of groups whose member has accepted two records and left."""


@contextmanager
def held_shares(peer_name: str, home: Path) -> Iterator[tuple[HeldShares, Second]]:
    """Start the first broker with its topics, then the second one with replicas of states."""
    with ExitStack() as stack:
        second: Second
        if peer_name == "ottla":
            cluster = stack.enter_context(Cluster(brokers=1, settings=HELD, home=home))
            address = cluster.members[1].address
            world = ShareWorld(stack.enter_context(PatientLines(address)))
            second = cluster.members[cluster.add()]
        else:
            first = stack.enter_context(ApacheKafka(home / "first", HELD))
            address = first.address
            world = ShareWorld(stack.enter_context(PatientLines(address)))
            second = stack.enter_context(Other(first, home / "second"))
        held = HeldShares(world, address)
        stack.callback(held.close)
        held.create_states()
        held.prepare()
        yield held, second
