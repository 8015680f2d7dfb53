"""Losses of a simulated cluster: disks that are gone, all brokers dead at once, leaders that miss leader epochs.

A disk is lost only where another replica in sync of each partition is well, and nothing else happens until its broker is a member
again: else the last of an in-sync set could be the one without records. Knows hosts, the registry and the network.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from ottla.broker.replication.replica import Replica
from ottla.cluster import layout
from ottla.cluster.replicas.leader import LeaderState
from ottla.ports import Change
from ottla.sim.cluster_host import ClusterHost
from ottla.sim.ensemble import SimEnsemble
from ottla.sim.links import SimNetwork
from ottla.sim.world import World
from tests.sim.lives.cluster_faults import Losing

Act = tuple[float, Callable[[], None]]

RESTS_MS = (100, 1_000, 5_000, 12_000)
"""After so long a broker starts again: before its session has ended, about then, and well after."""


TOPIC = "log"
"""The topic whose partitions nobody moves."""

ORDERED_MS = 200
"""So long the controller needs to notice another order of replicas."""


class MissedEpoch(NamedTuple):
    """A partition whose leader is about to miss that its first replica, `preferred`, leads in between."""

    topic: str
    partition: str
    leader: ClusterHost
    preferred: ClusterHost


class ClusterLosses:
    """The losses of one seed. `losing` says who may lose a disk, and begins a host's next life."""

    def __init__(
        self,
        world: World,
        hosts: Mapping[int, ClusterHost],
        ensemble: SimEnsemble,
        network: SimNetwork,
        losing: Losing,
        say: Callable[[str], None],
    ) -> None:
        self._world = world
        self._hosts = hosts
        self._ensemble = ensemble
        self._network = network
        self._losing = losing
        self._say = say
        self._wiped: ClusterHost | None = None

    def acts(self, *, wipes: bool, storms: bool) -> list[Act]:
        """Return the losses that may happen."""
        found: list[Act] = [(5, self._wipe)] if wipes else []
        return found + ([(2, partial(self._storm, wipes=wipes)), (5, self._miss_epochs)] if storms else [])

    @property
    def is_under_way(self) -> bool:
        """Return whether a broker that lost its disk is not a member again."""
        return self._wiped is not None and not self._wiped.is_member

    def states(self) -> Iterator[tuple[str, str, Any]]:
        """Yield (topic, partition, state) of the registry."""
        for topic in self._ensemble.children(layout.TOPICS):
            for index in self._ensemble.children(layout.partitions_path(topic)):
                entry = self._ensemble.get(layout.state_path(topic, int(index)))
                if entry is not None:
                    yield topic, index, json.loads(entry.value)

    def _controller(self) -> ClusterHost | None:
        entry = self._ensemble.get(layout.CONTROLLER)
        return None if entry is None else self._hosts[json.loads(entry.value)["brokerid"]]

    # Disks

    def _wipe(self) -> None:
        """Kill a broker, often the controller, and start it on an empty disk."""
        up = [host for host in self._hosts.values() if host.broker is not None]
        controller = self._controller()
        host = controller if controller in up and self._world.chance(0.5) else self._world.random.choice(up) if up else None
        if host is None or not self._may_be_wiped(host):
            return
        self._say(f"{host.name} is killed, and its disk is gone")
        host.die(power_cut=False)
        self._lose_disk(host)
        if self._world.chance(0.5):  # as its will does
            host.session.expire()
        self._start_later(host)

    def _lose_disk(self, host: ClusterHost) -> None:
        host.lose_disk()
        self._wiped = host

    def _start_later(self, host: ClusterHost) -> None:
        self._world.after(self._world.random.choice((0, *RESTS_MS)), partial(self._losing.start, host))

    def _may_be_wiped(self, host: ClusterHost) -> bool:
        """Return whether others in sync keep all that it has, whatever leaders have asked for and not been answered yet."""
        if self.is_under_way or host.broker is None or any(_is_about_to_change(one) for one in host.broker.partitions):
            return False
        return self._losing.may(host)

    # All at once

    def _storm(self, *, wipes: bool) -> None:
        """Kill all brokers, and start them again in any order, perhaps one of them on an empty disk."""
        random = self._world.random
        up = [host for host in self._hosts.values() if host.broker is not None]
        lost = random.choice(up) if wipes and up and self._world.chance(0.5) else None
        if lost is not None and not self._may_be_wiped(lost):
            lost = None
        self._say(f"all brokers are killed{f', and the disk of {lost.name} is gone' if lost is not None else ''}")
        for host in up:
            host.die(power_cut=False)
            if lost is not None:  # else one that dies a little later could be left as the last in sync
                host.session.expire()
            if host is lost:
                self._lose_disk(host)
            self._start_later(host)

    # Epochs

    def _miss_epochs(self) -> None:
        """Let a leader not notice that another one leads in between, while requests wait in that one's sockets."""
        found = [(topic, index, state) for topic, index, state in self.states() if len(state["isr"]) > 2 and topic == TOPIC]
        if not found:
            return
        random, controller = self._world.random, self._controller()
        led_by_others = [one for one in found if controller is not None and one[2]["leader"] != controller.node_id]
        topic, index, state = random.choice(led_by_others or found)
        others = [self._hosts[node_id] for node_id in state["isr"] if node_id != state["leader"]]
        preferred = controller if controller in others else random.choice(others)
        leader = self._hosts.get(state["leader"])
        if leader is None or preferred is None or leader.broker is None or preferred.broker is None:
            return
        one, still_ms = MissedEpoch(topic, index, leader, preferred), random.choice((1_000, 2_000, 2_500))
        self._say(f"{leader.name} is about to miss that {preferred.name} leads {topic}-{index}")
        self._order(one)
        self._world.after(ORDERED_MS, partial(preferred.pause, still_ms))
        self._world.after(ORDERED_MS + still_ms - random.randrange(300), partial(self._cut_off, leader))
        self._world.after(ORDERED_MS + still_ms + random.randrange(100), partial(self._elect, one))
        ends_ms = ORDERED_MS + still_ms + random.choice((500, 1_000, 2_000))
        self._world.after(ends_ms, partial(self._end, one, preferred.lives))

    def _order(self, one: MissedEpoch) -> None:
        """Let the one that is to be elected be the first replica, and the leader the one after it."""
        entry = self._ensemble.get(layout.topic_path(one.topic))
        assert entry is not None, "the topic is there"
        first = [one.preferred.node_id, one.leader.node_id]
        replicas = first + [node for node in json.loads(entry.value)["partitions"][one.partition] if node not in first]
        self._ask("/admin/reassign_partitions", [{"topic": one.topic, "partition": int(one.partition), "replicas": replicas}])

    def _ask(self, path: str, partitions: list[dict[str, Any]]) -> None:
        """Ask the controller as older tools do, unless something is asked already."""
        if self._ensemble.get(path) is None:
            self._ensemble.put(Change(path, json.dumps({"version": 1, "partitions": partitions}).encode()))

    def _others(self, host: ClusterHost) -> list[ClusterHost]:
        return [other for other in self._hosts.values() if other is not host]

    def _cut_off(self, host: ClusterHost) -> None:
        for other in self._others(host):
            self._network.cuts.cut(other.name, host.name, both=self._world.chance(0.7))

    def _elect(self, one: MissedEpoch) -> None:
        """Have the first replica elected."""
        self._ask("/admin/preferred_replica_election", [{"topic": one.topic, "partition": int(one.partition)}])

    def _end(self, one: MissedEpoch, life: int) -> None:
        for other in self._others(one.leader):
            self._network.cuts.heal(other.name, one.leader.name)
        if not self.is_under_way and one.preferred.broker is not None and one.preferred.lives == life:
            self._say(f"{one.preferred.name} is killed")
            one.preferred.die(power_cut=False)
            if self._world.chance(0.7):
                one.preferred.session.expire()
            self._start_later(one.preferred)


def _is_about_to_change(partition: object) -> bool:
    return isinstance(partition, Replica) and isinstance(partition.replicas, LeaderState) and partition.replicas.pending is not None
