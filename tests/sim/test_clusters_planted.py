"""Mistakes planted into brokers of a cluster are found by their simulation, under the name of what is not true any more."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest

from ottla.broker.coordination.marker_sender import Ending, MarkerSender
from ottla.broker.coordination.moving import MovingCoordinators
from ottla.broker.membership.membership import BrokerMembership
from ottla.broker.partitions.partition import Partition
from ottla.broker.replication import taking
from ottla.broker.replication.replica import Replica
from ottla.broker.topics.shared_producer_ids import ProducerIdBlocks
from ottla.cluster.controller import elections
from ottla.cluster.controller.context import ControllerContext, LeaderAndIsr, TopicPartition
from ottla.cluster.replication.leader import LeaderState
from ottla.cluster.replication.truncation import Cut, EpochEnd
from ottla.sim import cluster_life, clusters
from ottla.sim.cluster_faults import FaultsPlan
from ottla.wire.errors import NONE
from tests.support.planted import Mistake, found

MOST_SEEDS = 20
NO_FAULTS = FaultsPlan(disks=False, jumps=False, lags=False, versions=None)
PLAIN, COPYING, GROUPS = (0.0, 0.0), (1.0, 0.0), (0.0, 1.0)
"""How many seeds have programs with transactions, and how many have groups."""

HEARD = MarkerSender._heard
LED = LeaderAndIsr.led


def tell_at_once(replica: Replica, offset: int, callback: Callable[[int], None]) -> None:
    callback(NONE)


def see_all(leader: LeaderState, end_offset: int, now_ms: int, min_insync_replicas: int) -> int:
    return end_offset


def see_what_any_follower_has(leader: LeaderState, end_offset: int, now_ms: int, min_insync_replicas: int) -> int:
    return max([leader.start_offset, *(one.log_end_offset for one in leader.followers.values())])


def cut_nothing(leaders: EpochEnd, own: EpochEnd, log_end_offset: int, high_watermark: int) -> Cut:
    return Cut(log_end_offset, is_final=True)


def lead_in_the_same_epoch(state: LeaderAndIsr, leader: int, isr: tuple[int, ...]) -> LeaderAndIsr:
    return LED(state, leader, isr)._replace(leader_epoch=state.leader_epoch)


def let_anybody_lead(
    context: ControllerContext, partition: TopicPartition, *, is_unclean: bool, tells_recovery: bool
) -> LeaderAndIsr | None:
    online = context.online(partition)
    return context.leaders[partition].led(online[-1], online) if online else None


def take_the_first_block(blocks: ProducerIdBlocks, node_id: int) -> Generator[None, Any, range]:
    yield None
    return range(1_000)


def load_nothing(coordinators: MovingCoordinators[Any], partition: Partition) -> Generator[None, Any, None]:
    yield None
    shard = coordinators._new_shard(partition)
    coordinators._loading.pop(partition.index, None)
    now = coordinators._scheduler.now()
    shard.load((), now)
    coordinators._hold(partition, shard, now)


def take_refused_markers_for_written(sender: MarkerSender, ending: Ending, error_codes: dict[Any, int]) -> None:
    HEARD(sender, ending, dict.fromkeys(error_codes, NONE))


MISTAKES = {
    "acknowledges what the leader alone has": (PLAIN, Mistake("acknowledged stays", Replica, "when_committed", tell_at_once)),
    "shows readers what the leader alone has": (PLAIN, Mistake("acknowledged stays", LeaderState, "high_watermark", see_all)),
    "shows readers what any follower has": (
        PLAIN, Mistake("acknowledged stays", LeaderState, "high_watermark", see_what_any_follower_has),
    ),
    "flushes nothing where all may lose power at once": (PLAIN, Mistake("what is read stays", cluster_life, "FLUSHED", {}, 134)),
    "never wakes up": (PLAIN, Mistake("heals", BrokerMembership, "_wake_up", lambda membership, now: None, 13)),
    "does not truncate": (PLAIN, Mistake("heals", taking, "cut", cut_nothing, 20)),
    "gives no new leader a new epoch": (PLAIN, Mistake("one leader per epoch", LeaderAndIsr, "led", lead_in_the_same_epoch)),
    "lets any replica lead": (PLAIN, Mistake("acknowledged stays", elections, "offline_leader", let_anybody_lead, 33)),
    "coordinates on after a move": (
        GROUPS, Mistake("commits stay", MovingCoordinators, "leads_no_more", lambda coordinators, index: None),
    ),
    "gives all brokers the same producer ids": (PLAIN, Mistake("ids once", ProducerIdBlocks, "taken", take_the_first_block)),
    "knows no transactions after a move": (COPYING, Mistake("nothing hangs", MovingCoordinators, "_loaded_slowly", load_nothing)),
    "knows no commits after a move": (GROUPS, Mistake("commits stay", MovingCoordinators, "_loaded_slowly", load_nothing)),
    "takes refused markers for written": (
        COPYING, Mistake("only what is committed", MarkerSender, "_heard", take_refused_markers_for_written, 5),
    ),
}  # fmt: skip


@pytest.mark.parametrize("planted", MISTAKES.values(), ids=MISTAKES.keys())
def test_a_planted_mistake_is_found(planted: tuple[tuple[float, float], Mistake], monkeypatch: pytest.MonkeyPatch) -> None:
    (copying, groups), mistake = planted
    monkeypatch.setattr(cluster_life, "COPYING", copying)
    monkeypatch.setattr(cluster_life, "GROUPS", groups)
    monkeypatch.setattr(cluster_life, "OPERATED", 0.0)
    monkeypatch.setattr(cluster_life, "faults_plan", lambda random, **chosen: NO_FAULTS)
    monkeypatch.setattr(mistake.owner, mistake.attribute, mistake.wrong)
    assert mistake.name in found(mistake.name, clusters.live, range(mistake.seed, mistake.seed + MOST_SEEDS))
