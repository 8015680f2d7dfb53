"""Mistakes planted into brokers of a cluster are found by their simulation, under the name of what is not true any more."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from ottla.broker.membership.membership import BrokerMembership
from ottla.broker.replication.replica import Replica
from ottla.cluster.replication.leader import LeaderState
from ottla.sim import clusters
from ottla.sim.seeds import Violation
from ottla.wire.errors import NONE

MOST_SEEDS = 40


@pytest.fixture(autouse=True)
def silent() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def tell_at_once(replica: Replica, offset: int, callback: Callable[[int], None]) -> None:
    callback(NONE)


def see_all(leader: LeaderState, end_offset: int, now_ms: int, min_insync_replicas: int) -> int:
    return end_offset


class Mistake(NamedTuple):
    """What is wrong instead of what, and the name of what is not true then. `seed`: one of the first that show it."""

    name: str
    owner: object
    attribute: str
    wrong: Any
    seed: int = 0


MISTAKES = {
    "acknowledges what the leader alone has": Mistake("acknowledged stays", Replica, "when_committed", tell_at_once, 20),
    "shows readers what the leader alone has": Mistake("acknowledged stays", LeaderState, "high_watermark", see_all, 3),
    "never wakes up": Mistake("heals", BrokerMembership, "_wake_up", lambda membership, now: None, 19),
}


def found(name: str, first: int) -> set[str]:
    """The names of the violations in some seeds, until the one that is looked for is among them."""
    names: set[str] = set()
    for seed in range(first, first + MOST_SEEDS):
        try:
            clusters.live(seed)
        except Violation as violation:
            names.add(str(violation).split(": ")[2])
            if name in names:
                break
    return names


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES.keys())
def test_a_planted_mistake_is_found(mistake: Mistake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mistake.owner, mistake.attribute, mistake.wrong)
    assert mistake.name in found(mistake.name, mistake.seed)
