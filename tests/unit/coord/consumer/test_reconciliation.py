"""One member's way to its target assignment, step by step, and the table that it follows."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coord.consumer.member import ConsumerMember
from ottla.coord.consumer.reconcile import Surroundings, Target, must_begin_anew, reconcile
from ottla.coord.consumer.states import MOVES, NEXT, Hindrance, MemberState

A, B = b"a" * 16, b"b" * 16
STABLE, UNREVOKED, UNRELEASED = MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS, MemberState.UNRELEASED_PARTITIONS


def around(
    owned: dict[bytes, list[int]] | None = None,
    others: Collection[int] = (),
    *,
    changed: bool = False,
    wants: tuple[bytes, ...] = (A, B),
) -> Surroundings:
    def taken(topic_id: bytes) -> set[int]:
        return set(others) if topic_id == A else set()

    return Surroundings(taken, lambda topic_id: topic_id in wants, owned, changed)


def member(state: MemberState = STABLE, assigned: Any = None, revoking: Any = None) -> ConsumerMember:
    return ConsumerMember("m", epoch=3, previous_epoch=2, state=state, assigned=assigned or {}, revoking=revoking or {})


def target(*partitions: int, epoch: int = 4) -> Target:
    return Target(epoch, {A: frozenset(partitions)} if partitions else {})


def test_every_state_has_its_move_and_a_way_out_of_every_hindrance() -> None:
    assert set(MOVES) == set(MemberState)
    assert set(NEXT) == set(Hindrance)


def test_a_member_gives_back_before_it_gets_anything() -> None:
    before = member(assigned={A: {0: 1, 1: 1}})
    told = reconcile(before, target(1, 2), around())
    assert (told.state, told.epoch, told.assigned, told.revoking) == (UNREVOKED, 3, {A: {1: 1}}, {A: {0: 1}})
    still = reconcile(told, target(1, 2), around({A: [0, 1]}))
    assert still is told
    done = reconcile(told, target(1, 2), around({A: [1]}))
    assert (done.state, done.epoch, done.previous_epoch) == (STABLE, 4, 3)
    assert (done.assigned, done.revoking) == ({A: {1: 1, 2: 4}}, {})


def test_what_others_still_have_comes_as_they_give_it_back() -> None:
    waits = reconcile(member(), target(0, 1), around(others={1}))
    assert (waits.state, waits.epoch, waits.assigned) == (UNRELEASED, 4, {A: {0: 4}})
    gets = reconcile(waits, target(0, 1), around())
    assert (gets.state, gets.assigned) == (STABLE, {A: {0: 4, 1: 4}})


def test_a_partition_that_it_has_not_given_back_yet_may_become_its_own_again() -> None:
    told = member(UNREVOKED, {A: {1: 1}}, {A: {0: 1}})
    around_it = around({A: []}, others={0})
    assert reconcile(told, target(0, 1), around_it).assigned == {A: {1: 1, 0: 4}}


def test_a_member_with_the_epoch_of_its_target_stays_as_it_is() -> None:
    before = member(assigned={A: {0: 1}})
    assert reconcile(before, target(1, epoch=3), around()) is before
    assert reconcile(before, target(1, epoch=3), around(changed=True)) is before


@pytest.mark.parametrize("owned", [None, {B: [0]}], ids=["said nothing", "gave it back"])
def test_a_topic_that_it_unsubscribes_from_is_taken_at_once(owned: dict[bytes, list[int]] | None) -> None:
    before = member(assigned={A: {0: 1}, B: {0: 2}})
    left = reconcile(before, target(0, epoch=3), around(owned, changed=True, wants=(B,)))
    assert left.assigned == {B: {0: 2}}
    assert (left.state, left.revoking) == ((UNREVOKED, {A: {0: 1}}) if owned is None else (STABLE, {}))


def test_a_state_that_nobody_knows_means_to_begin_anew() -> None:
    unknown = member(MemberState.UNKNOWN, {A: {0: 1}})
    assert must_begin_anew(unknown, around())
    assert must_begin_anew(unknown, around({A: [0]}))
    assert not must_begin_anew(unknown, around({}))
    assert reconcile(unknown, target(0), around({})).state is STABLE


PARTITIONS = st.frozensets(st.integers(0, 5))


@given(PARTITIONS, PARTITIONS, PARTITIONS, st.booleans())
def test_a_member_never_has_what_others_have_and_ends_with_its_target(
    has: frozenset[int], shall: frozenset[int], others: frozenset[int], answers: bool
) -> None:
    others -= has
    now = member(assigned={A: dict.fromkeys(has, 1)} if has else {})
    for _ in range(3):
        now = reconcile(now, target(*shall), around({A: list(now.assigned.get(A, ()))} if answers else None, others))
        assert not others & now.assigned.get(A, {}).keys()
        assert bool(now.revoking) == (now.state is UNREVOKED)
    if answers or has <= shall:
        assert now.assigned.get(A, {}).keys() == shall - others
        assert now.state is (UNRELEASED if shall & others else STABLE)
