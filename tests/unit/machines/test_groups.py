"""Groups lived at random, and members reconciled in every way, until each transition of their tables was seen."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import product
from types import ModuleType
from typing import Any, TypeVar

import pytest

from ottla.coord.classic import group as classic
from ottla.coord.consumer import group as consumer
from ottla.coord.consumer import reconcile as reconciling
from ottla.coord.consumer.member import ConsumerMember
from ottla.coord.consumer.reconcile import Surroundings, Target, reconcile
from ottla.coord.consumer.states import NEXT, Hindrance, MemberState
from ottla.coord.settings import GroupSettings
from ottla.coord.share import group as share
from ottla.coord.streams import group as streams
from ottla.coord.streams import reconcile as streams_reconciling
from ottla.coord.streams.member import AssignedTasks, StreamsMember
from ottla.coord.streams.reconcile import TaskSurroundings, TaskTarget
from ottla.coord.streams.reconcile import reconcile as reconcile_tasks
from ottla.coord.streams.states import NEXT as NEXT_OF_STREAMS
from ottla.coord.streams.states import StreamsMemberState
from ottla.coord.streams.values import TaskSets
from tests.scenarios.steps import Step
from tests.support.transitions import differences
from tests.unit.coord import test_interleavings as classic_worlds
from tests.unit.coord.consumer import test_consumer_interleavings as consumer_worlds
from tests.unit.coord.share import test_share_interleavings as share_worlds
from tests.unit.coord.streams import test_streams_interleavings as streams_worlds
from tools.machines_page import Transition, table

MOST_WORLDS = 300
STEPS = 60
TOPIC = bytes(15) + b"t"
SETS: tuple[frozenset[int], ...] = tuple(map(frozenset, ((), (0,), (0, 1))))

V = TypeVar("V")
S = TypeVar("S")
Watch = Callable[[ModuleType], set[Transition]]


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """Collects the changes of a group's state that the `apply` of a module makes, by the type of the record."""

    def watched(module: Any) -> set[Transition]:
        seen = set[Transition]()

        def observed(change: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
            def apply(group: Any, event: Any) -> None:
                before = group.state.value
                change(group, event)
                seen.add(Transition(before, type(event).__name__, group.state.value))

            return apply

        monkeypatch.setattr(module, "_APPLY", {kind: observed(change) for kind, change in module._APPLY.items()})
        return seen

    return watched


def live(world: Any, verbs: tuple[str, ...], clients: int, chance: random.Random) -> None:
    for _ in range(STEPS):
        world.take(Step(chance.choice(verbs), chance.randrange(clients), chance.randrange(32)))


def test_every_transition_of_a_classic_group_is_in_its_table(watch: Watch) -> None:
    seen, chance, rows = watch(classic), random.Random(1), set(table("ottla.coord.classic.states"))
    for _ in range(MOST_WORLDS):
        world = classic_worlds.World(GroupSettings(group_initial_rebalance_delay_ms=chance.choice((0, 3_000))))
        live(world, classic_worlds.VERBS, len(classic_worlds.CLIENTS), chance)
        if rows <= seen:
            break
    assert differences("ottla.coord.classic.states", seen) == {}


def test_every_transition_of_a_consumer_group_is_in_its_table(watch: Watch) -> None:
    seen, chance, rows = watch(consumer), random.Random(1), set(table("ottla.coord.consumer.group"))
    for _ in range(MOST_WORLDS):
        settings = GroupSettings(
            group_initial_rebalance_delay_ms=0, group_consumer_assignment_interval_ms=chance.choice((0, 1_000))
        )
        live(consumer_worlds.World(settings), consumer_worlds.VERBS, len(consumer_worlds.INSTANCES), chance)
        if rows <= seen:
            break
    assert differences("ottla.coord.consumer.group", seen) == {}


def test_every_transition_of_a_share_group_is_in_its_table(watch: Watch) -> None:
    seen, chance, rows = watch(share), random.Random(1), set(table("ottla.coord.share.group"))
    for _ in range(MOST_WORLDS):
        live(share_worlds.World(), share_worlds.VERBS, share_worlds.CLIENTS, chance)
        if rows <= seen:
            break
    assert differences("ottla.coord.share.group", seen) == {}


def test_every_transition_of_a_streams_group_is_in_its_table(watch: Watch) -> None:
    seen, chance, rows = watch(streams), random.Random(1), set(table("ottla.coord.streams.group"))
    for _ in range(MOST_WORLDS):
        world = streams_worlds.World(chance.choice((0, 1_000)), chance.choice((0, 3_000)))
        live(world, streams_worlds.VERBS, streams_worlds.CLIENTS, chance)
        if rows <= seen:
            break
    assert differences("ottla.coord.streams.group", seen) == {}


class Recorded(dict[Hindrance, S]):
    """The table of next states, which keeps what was asked of it last."""

    asked: Hindrance | None = None

    def __getitem__(self, hindrance: Hindrance) -> S:
        self.asked = hindrance
        return super().__getitem__(hindrance)


def test_every_transition_of_a_member_is_in_its_table(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = Recorded(NEXT)
    monkeypatch.setattr(reconciling, "NEXT", recorded)
    seen = set[Transition]()
    for member, target, around in situations():
        recorded.asked = None
        after = reconcile(member, target, around)
        if recorded.asked is not None:
            seen.add(Transition(member.state.name, recorded.asked.name.lower().replace("_", " "), after.state.name))
        else:
            assert after.state is member.state
    assert differences("ottla.coord.consumer.states", seen) == {}


def test_every_transition_of_a_member_of_a_streams_group_is_in_its_table(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = Recorded(NEXT_OF_STREAMS)
    monkeypatch.setattr(streams_reconciling, "NEXT", recorded)
    seen = set[Transition]()
    for state, held, wanted, taken in product(StreamsMemberState, SETS, SETS, SETS):
        revoking = AssignedTasks({"0": {2: 1}}) if state is StreamsMemberState.UNREVOKED_TASKS else AssignedTasks()
        assigned = AssignedTasks({"0": dict.fromkeys(held, 1)} if held else {})
        member = StreamsMember("m", epoch=1, state=state, assigned=assigned, revoking=revoking)
        for epoch, owned in product((1, 2), (None, {}, {"0": frozenset({0})}, {"0": frozenset({2})})):
            recorded.asked = None
            reported = None if owned is None else TaskSets(owned)
            around = TaskSurroundings(lambda _, partition: partition in taken, lambda _, __: False, reported)  # noqa: B023 - called at once
            after = reconcile_tasks(member, TaskTarget(epoch, TaskSets({"0": wanted} if wanted else {})), around)
            if recorded.asked is not None:
                seen.add(Transition(member.state.name, recorded.asked.name.lower().replace("_", " "), after.state.name))
            else:
                assert after.state is member.state
    assert differences("ottla.coord.streams.states", seen) == {}


def situations() -> Iterator[tuple[ConsumerMember, Target, Surroundings]]:
    """Every member with up to two partitions, in every state, and everything that can stand around it."""
    for state, held, wanted, taken, subscribes, changed in product(MemberState, SETS, SETS, SETS, (True, False), (True, False)):
        revoking = {TOPIC: {2: 1}} if state is MemberState.UNREVOKED_PARTITIONS else {}
        member = ConsumerMember(
            "m", epoch=1, state=state, assigned={TOPIC: dict.fromkeys(held, 1)} if held else {}, revoking=revoking
        )
        for epoch, owned in product((1, 2), (None, {}, {TOPIC: [0]}, {TOPIC: [2]})):
            around = Surroundings(always(taken), always(subscribes), owned, changed)
            yield member, Target(epoch, {TOPIC: wanted}), around


def always(value: V) -> Callable[[bytes], V]:
    return lambda topic_id: value
