"""Mistakes planted into brokers of a cluster are found by their simulation, under the name of what is not true any more."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from ottla.broker.controller.broker_changes import BrokerChanges
from ottla.broker.controller.term import PartitionStates
from ottla.broker.coordination.coordinators import Coordinators
from ottla.broker.coordination.markers import PendingMarkers, TransactionMarkers
from ottla.broker.membership.directory import DirectoryEpoch, in_sync_of
from ottla.broker.membership.membership import BrokerMembership
from ottla.broker.partitions.partition import Partition
from ottla.broker.replication import fetch_responses
from ottla.broker.replication.alter_partition import IsrsByRegistry
from ottla.broker.replication.replica import Replica
from ottla.broker.replication.replica_manager import ReplicaManager
from ottla.broker.topics.producer_ids import ProducerIdBlocks
from ottla.cluster import layout
from ottla.cluster.controller_rules import elections
from ottla.cluster.controller_rules.context import ControllerContext, LeaderAndIsr, TopicPartition
from ottla.cluster.replicas.follower import Cut, EpochEnd
from ottla.cluster.replicas.leader import LeaderState
from ottla.cluster.replicas.partition_state import Assigned, IsrChange
from ottla.ports import Change, CommitSteps, Now, Steps
from ottla.sim.links import LinkFaults
from ottla.wire.errors import NONE
from tests.sim import clusters
from tests.sim.lives import cluster_life
from tests.sim.lives.cluster_agreement import ClusterAgreement
from tests.sim.lives.cluster_faults import FaultsPlan
from tests.support.kinds import one_of_each
from tests.support.planted import Mistake, found

MOST_SEEDS = 40


class PlantedWorld(NamedTuple):
    """The world in which a mistake matters.

    How many seeds have programs with transactions, and groups; what else goes wrong; the network, unless it is the seed's; whether
    all brokers may lose power at once; whether controllers compare broker epochs. Records are written all through the trouble.
    """

    copying: float = 0.0
    groups: float = 0.0
    faults: FaultsPlan = FaultsPlan()
    links: LinkFaults | None = None
    flushed: bool = False
    compares: bool = True


PLAIN, COPYING, GROUPS = PlantedWorld(), PlantedWorld(copying=1.0), PlantedWorld(groups=1.0)
LATE = PlantedWorld(links=LinkFaults(longest_ms=2_900, delay=0.3))
CRUMBS = PlantedWorld(faults=FaultsPlan(crumbs=True))
CRUMBS_LATE = PlantedWorld(faults=FaultsPlan(crumbs=True), links=LinkFaults(longest_ms=1_500, delay=0.2))
FLUSHED = PlantedWorld(flushed=True)
DEPOSED = PlantedWorld(faults=FaultsPlan(deposes=True))
DEPOSED_LATE = DEPOSED._replace(links=LATE.links)
DEPOSED_COPYING_LATE, DEPOSED_GROUPS = CRUMBS_LATE._replace(copying=1.0, faults=DEPOSED.faults), DEPOSED._replace(groups=1.0)
OLD_AND_LATE = PlantedWorld(
    faults=FaultsPlan(deposes=True, versions=("2.2", "2.2")), links=LinkFaults(longest_ms=6_000, delay=0.1, lose=0.05)
)
WIPED = PlantedWorld(faults=FaultsPlan(wipes=True), compares=False)
WIPED_WHEN_ALL_DIED = PlantedWorld(faults=FaultsPlan(wipes=True, storms=True))
MISSED = PlantedWorld(faults=FaultsPlan(storms=True))
LOOKED_AT = {"in sync have all", "the newest decides", "epochs grow", "leads as a member"}
"""What is looked at as it happens. All else has to be found by what comes of it alone."""

SETTLED = TransactionMarkers._record_result
LED = LeaderAndIsr.with_leader
FOLLOWER_FETCHED = Replica.follower_fetched
SHRINK = LeaderState.shrink
LEAD = LeaderState.lead


def tell_at_once(replica: Replica, offset: int, callback: Callable[[int], None]) -> None:
    callback(NONE)


def see_all(leader: LeaderState, end_offset: int, now_ms: int, min_insync_replicas: int) -> int:
    return end_offset


def see_what_any_follower_has(leader: LeaderState, end_offset: int, now_ms: int, min_insync_replicas: int) -> int:
    return max([leader.start_offset, *(one.log_end_offset for one in leader.followers.values())])


def cut_nothing(leaders: EpochEnd, own: EpochEnd, log_end_offset: int, high_watermark: int) -> Cut:
    return Cut(log_end_offset, is_final=True)


def lead_in_same_epoch(state: LeaderAndIsr, leader: int, isr: tuple[int, ...]) -> LeaderAndIsr:
    return LED(state, leader, isr)._replace(leader_epoch=state.leader_epoch)


def let_anybody_lead(
    context: ControllerContext, partition: TopicPartition, *, is_unclean: bool, tells_recovery: bool
) -> LeaderAndIsr | None:
    online = context.online(partition)
    return context.leaders[partition].with_leader(online[-1], online) if online else None


def take_the_first_block(blocks: ProducerIdBlocks, node_id: int) -> Generator[None, Any, range]:
    yield None
    return range(1_000)


def load_nothing(coordinators: Coordinators[Any], partition: Partition) -> Generator[None, Any, None]:
    yield None
    shard = coordinators._new_shard(partition)
    coordinators._loading.pop(partition.index, None)
    now = coordinators._scheduler.now()
    shard.load((), now)
    coordinators._held[partition.index] = partition, shard
    assert coordinators._kind.loaded is not None
    coordinators._kind.loaded(shard, partition.index, now)


def take_refused_markers_for_written(markers: TransactionMarkers, pending: PendingMarkers, place: Any, error_code: int) -> None:
    SETTLED(markers, pending, place, NONE)


def let_anybody_be_in_sync(leader: LeaderState, node_id: int, high_watermark: int, now_ms: int) -> IsrChange | None:
    if leader.pending is not None or node_id in leader.isr or node_id not in leader.followers:
        return None
    leader.pending = change = leader._change((*leader.isr, node_id))
    leader.maximal_isr = change.isr
    return change


def wait_for_nobody_to_agree(leader: LeaderState, end_offset: int, now_ms: int) -> IsrChange | None:
    change = SHRINK(leader, end_offset, now_ms)
    if change is not None:
        leader.isr = leader.maximal_isr = change.isr
    return change


def take_what_is_sent_for_copied(
    replica: Replica, node_id: int, offset: int, log_start_offset: int, now: Now, broker_epoch: int = -1
) -> None:
    FOLLOWER_FETCHED(replica, node_id, replica.log.log_end_offset, log_start_offset, now, broker_epoch)


def decide_in_any_epoch(states: PartitionStates, changes: Sequence[Change]) -> CommitSteps:
    yield from states._registry.commit(changes)


def write_over_whatever_is_there(isrs: IsrsByRegistry, replica: Replica, change: IsrChange) -> Steps[int | None]:
    path = layout.state_path(replica.topic, replica.index)
    value = layout.state_json(change.controller_epoch, isrs._node_id, change.leader_epoch, change.isr)
    yield from isrs._registry.commit([Change(path, value)])
    (entry,) = yield from isrs._registry.read([path])
    return None if entry is None else entry.version


def obey_any_controller(manager: ReplicaManager, controller_epoch: int, broker_epoch: int) -> int:
    return NONE


def trust_what_was_known_of_followers(leader: LeaderState, assigned: Assigned, end_offset: int, now_ms: int) -> None:
    known = leader.followers
    LEAD(leader, assigned, end_offset, now_ms)
    for node_id, follower in leader.followers.items():
        if node_id in known:
            follower.log_end_offset = known[node_id].log_end_offset


def see_nobody_begin_anew(changes: BrokerChanges) -> Steps[set[int]]:
    yield None
    return set()


def look_only_who_is_alone(directory: DirectoryEpoch) -> Steps[dict[TopicPartition, LeaderAndIsr]]:
    if not (yield from directory._is_in_doubt()):
        return {}
    counted = yield from in_sync_of(directory._registry, directory._node_id)
    return {one: state for one, state in counted.items() if state.isr == (directory._node_id,)}


MISTAKES = {
    "acknowledges what the leader alone has": (LATE, Mistake("acknowledged stays", Replica, "when_committed", tell_at_once)),
    "shows readers what the leader alone has": (CRUMBS_LATE, Mistake("acknowledged stays", LeaderState, "high_watermark", see_all)),
    "shows readers what any follower has": (
        CRUMBS_LATE, Mistake("in sync have all", LeaderState, "high_watermark", see_what_any_follower_has),
    ),
    "flushes nothing where all may lose power at once": (FLUSHED, Mistake("acknowledged stays", cluster_life, "FLUSHED", {})),
    "never wakes up": (PLAIN, Mistake("heals", BrokerMembership, "_wake_up", lambda membership, now: None, 5)),
    "does not truncate": (PLAIN, Mistake("heals", fetch_responses, "cut", cut_nothing, 1)),
    "gives no new leader a new epoch": (PLAIN, Mistake("one leader per epoch", LeaderAndIsr, "with_leader", lead_in_same_epoch)),
    "lets any replica lead": (CRUMBS_LATE, Mistake("in sync have all", elections, "offline_leader", let_anybody_lead, 1)),
    "coordinates on after a move": (
        DEPOSED_GROUPS, Mistake("commits stay", Coordinators, "on_resignation", lambda coordinators, index: None, 7),
    ),
    "gives all brokers the same producer ids": (PLAIN, Mistake("ids once", ProducerIdBlocks, "allocate", take_the_first_block)),
    "knows no transactions after a move": (
        COPYING, Mistake("nothing hangs", Coordinators, "_loaded_slowly", load_nothing, 3),
    ),
    "knows no commits after a move": (GROUPS, Mistake("commits stay", Coordinators, "_loaded_slowly", load_nothing, 3)),
    "takes refused markers for written": (
        DEPOSED_COPYING_LATE,
        Mistake("only what is committed", TransactionMarkers, "_record_result", take_refused_markers_for_written),
    ),
    "has anybody in sync": (CRUMBS, Mistake("in sync have all", LeaderState, "expand", let_anybody_be_in_sync)),
    "waits for nobody to agree to fewer in sync": (
        CRUMBS, Mistake("in sync have all", LeaderState, "shrink", wait_for_nobody_to_agree, 56),
    ),
    "takes what is sent for copied": (
        PLAIN, Mistake("in sync have all", Replica, "follower_fetched", take_what_is_sent_for_copied),
    ),
    "leads on after its session": (
        PLAIN, Mistake("leads as a member", ReplicaManager, "suspend_leaders", lambda manager: None, 27),
    ),
    "decides as a controller of any epoch": (
        DEPOSED, Mistake("the newest decides", PartitionStates, "commit", decide_in_any_epoch, 22),
    ),
    "writes in-sync sets whoever has decided otherwise": (
        OLD_AND_LATE, Mistake("epochs grow", IsrsByRegistry, "_written_as", write_over_whatever_is_there, 2),
    ),
    "trusts in a new leader epoch what it knew of its followers": (
        MISSED, Mistake("in sync have all", LeaderState, "lead", trust_what_was_known_of_followers, 41),
    ),
    "lets in who lost its disk beside others in sync": (
        WIPED, Mistake("what is read stays", DirectoryEpoch, "_counted_on", look_only_who_is_alone),
    ),
    "lets in who lost its disk when all died": (
        WIPED_WHEN_ALL_DIED, Mistake("what is read stays", DirectoryEpoch, "_counted_on", look_only_who_is_alone),
    ),
    "obeys any controller": (DEPOSED_LATE, Mistake("the newest decides", ReplicaManager, "epoch_error", obey_any_controller)),
}  # fmt: skip


@pytest.mark.parametrize("name", one_of_each(MISTAKES, "obeys any controller", "leads on after its session", seconds=6))
def test_a_planted_mistake_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world, mistake = MISTAKES[name]
    links = world.links
    monkeypatch.setattr(cluster_life, "COPYING", world.copying)
    monkeypatch.setattr(cluster_life, "GROUPS", world.groups)
    monkeypatch.setattr(cluster_life, "OPERATED", 0.0)
    monkeypatch.setattr(cluster_life, "STEADY", 1.0)
    if world.flushed:
        monkeypatch.setattr(cluster_life, "FLUSHED_EACH", 1)
        monkeypatch.setattr(cluster_life, "FLUSHED_FIRST", 0)
    monkeypatch.setattr(cluster_life, "faults_plan", lambda random, **chosen: world.faults)
    if not world.compares:
        monkeypatch.setattr(BrokerChanges, "restarted_brokers", see_nobody_begin_anew)
    if links is not None:
        monkeypatch.setattr(cluster_life, "LinkFaults", lambda **chosen: replace(links))
    if mistake.name not in LOOKED_AT:
        monkeypatch.setattr(ClusterAgreement, "_check_in_sync", lambda agreement, place, state: None)
        monkeypatch.setattr(ClusterAgreement, "_check_decision", lambda agreement, place, before, state: None)
    monkeypatch.setattr(mistake.owner, mistake.attribute, mistake.wrong)
    assert mistake.name in found(mistake.name, clusters.live, range(mistake.seed, mistake.seed + MOST_SEEDS))
