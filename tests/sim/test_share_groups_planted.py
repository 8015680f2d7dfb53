"""Mistakes planted into the broker are found by the simulation of share groups, under the name of what is not true any more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from ottla.broker.coordination import share_group_states
from ottla.broker.coordination.share_states import SharePersister
from ottla.broker.handlers import groups as group_handlers
from ottla.broker.partitions.partition import Partition
from ottla.coord.outcome import SessionKey
from ottla.coord.share import heartbeat, initialization, simple_assignor, target
from ottla.coord.share.draft import ShareDraft
from ottla.coord.share.groups import ShareGroups
from ottla.coord.share.records import ShareEpochStored
from ottla.coord.share_state.inputs import InitializeState, StateResult
from ottla.ports import Pauses
from ottla.wire.errors import NONE
from tests.sim import share_groups
from tests.support.planted import found

MOST_SEEDS = 150
ASSIGN, PARTITIONS, PRESENT = simple_assignor.assign_slowly, simple_assignor._partitions, initialization._present


def assign_one_more(subscribers: Any, assignable: Mapping[bytes, frozenset[int]]) -> Pauses[Any]:
    more = {topic_id: numbers | {max(numbers) + 1} for topic_id, numbers in assignable.items()}
    return (yield from ASSIGN(subscribers, more))


def initialize_nothing(
    persister: SharePersister, group_id: str, places: Sequence[Any], done: Callable[[Sequence[StateResult]], None]
) -> None:
    scheduler = persister._scheduler
    scheduler.at(object(), scheduler.now().mono_ms + 5, lambda now: done([StateResult()] * len(places)))


def keep_the_epoch(draft: ShareDraft, metadata_hash: int) -> int:
    draft.store(ShareEpochStored(draft.group_id, draft.group.epoch, metadata_hash))
    return draft.group.epoch + 1


def leave_one_out(places: set[Any], owned: Any) -> Any:
    return PARTITIONS({place for place in places if place[1]}, owned)


def initialize_without_offsets(state_epoch: int, places: Sequence[Any]) -> list[InitializeState]:
    return [InitializeState(place.topic_id, place.partition, state_epoch, -1) for place in places]


def see_no_new_partitions(draft: ShareDraft, topic_id: bytes) -> frozenset[int]:
    return frozenset(range(1_000)) if topic_id in draft.group.initialized else PRESENT(draft, topic_id)


def end_sessions_early(draft: ShareDraft, member_id: str) -> None:
    draft.after(SessionKey(draft.group_id, member_id), 3_000)


MISTAKES: dict[str, tuple[str, object, str, Callable[..., Any]]] = {
    "assigns what is not initialized": ("state agrees", target, "assign_slowly", assign_one_more),
    "initializes nothing": ("state agrees", SharePersister, "initialize", initialize_nothing),
    "answers before the sync": ("epochs grow", Partition, "when_synced", lambda partition, end, call: call(NONE)),
    "removes nobody": ("soon settled", heartbeat, "fence", lambda draft, member, reason: None),
    "forgets sessions at a restart": ("soon settled", ShareGroups, "recall", lambda groups, now: []),
    "sees no new partitions": ("soon settled", initialization, "_present", see_no_new_partitions),
    "ends sessions early": ("members stay", ShareDraft, "expect", end_sessions_early),
    "leaves a partition out": ("soon settled", simple_assignor, "_partitions", leave_one_out),
    "keeps an epoch": ("epochs grow", heartbeat, "_bump", keep_the_epoch),
    "leaves state behind": ("nothing is left", group_handlers, "_has_share_state", lambda groups, name: False),
    "initializes again": ("offsets stay", initialization, "_present", lambda draft, topic_id: frozenset()),
    "loses start offsets": ("offsets stay", share_group_states, "_initial_states", initialize_without_offsets),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_share_groups_is_found_and_named(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, owner, attribute, wrong = MISTAKES[mistake]
    monkeypatch.setattr(owner, attribute, wrong)
    assert name in found(name, share_groups.live, range(MOST_SEEDS))
