"""Losses of a simulated cluster: disks that are gone, all brokers dead at once, leaders that miss leader epochs.

A disk is lost only where another replica in sync of each partition keeps its own. Knows hosts, the registry and the network.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from ottla.broker.replication.replica import Replica
from ottla.cluster import layout
from ottla.cluster.replication.leader import LeaderState
from ottla.ports import Change
from ottla.sim.cluster_host import ClusterHost
from ottla.sim.ensemble import SimEnsemble
from ottla.sim.links import SimNetwork
from ottla.sim.world import World

Act = tuple[float, Callable[[], None]]

RESTS_MS = (100, 1_000, 5_000, 12_000)
"""After so long a broker starts again: before its session has ended, about then, and well after."""


class LeaderAndPreferred(NamedTuple):
    """A partition that another replica than the first leads, while the first is in sync."""

    topic: str
    partition: str
    leader: ClusterHost
    preferred: ClusterHost


class ClusterLosses:
    """The losses of one seed. `start(host)` begins a host's next life."""

    def __init__(
        self,
        world: World,
        hosts: Mapping[int, ClusterHost],
        ensemble: SimEnsemble,
        network: SimNetwork,
        start: Callable[[ClusterHost], None],
        say: Callable[[str], None],
    ) -> None:
        self._world = world
        self._hosts = hosts
        self._ensemble = ensemble
        self._network = network
        self._start = start
        self._say = say
        self._wiped: set[int] = set()

    def acts(self, *, wipes: bool, storms: bool) -> list[Act]:
        """Return the losses that may happen."""
        found: list[Act] = [(4, self._wipe)] if wipes else []
        return found + ([(2, partial(self._storm, wipes=wipes)), (4, self._miss_epochs)] if storms else [])

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
        self._wiped.add(host.node_id)

    def _start_later(self, host: ClusterHost) -> None:
        self._world.after(self._world.random.choice((0, *RESTS_MS)), partial(self._start, host))

    def _may_be_wiped(self, host: ClusterHost) -> bool:
        """Return whether others in sync keep all that it has, whatever leaders have asked for and not been answered yet."""
        self._wiped = {node_id for node_id in self._wiped if not self._hosts[node_id].is_member}
        if host.broker is None or any(_is_about_to_change(one) for one in host.broker.partitions):
            return False
        lost = {host.node_id, *self._wiped}
        return all(host.node_id not in state["isr"] or set(state["isr"]) - lost for _, _, state in self.states())

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
            if host is lost:
                self._lose_disk(host)
            self._start_later(host)

    # Epochs

    def _miss_epochs(self) -> None:
        """Let a leader not notice that another one leads in between, while requests wait in that one's sockets."""
        controller = self._controller()
        found = list(self._led_by_others())
        by_controller = [one for one in found if one.preferred is controller]
        if not found:
            return
        one, random = self._world.random.choice(by_controller or found), self._world.random
        still_ms = random.choice((100, 300, 1_000))
        self._say(f"{one.leader.name} is about to miss that {one.preferred.name} leads {one.topic}-{one.partition}")
        one.preferred.stand_still(still_ms)
        self._world.after(random.randrange(still_ms), partial(self._cut_off, one.leader))
        self._world.after(still_ms + random.randrange(100), partial(self._elect, one))
        self._world.after(still_ms + random.choice((500, 1_000, 2_000)), partial(self._end, one, one.preferred.lives))

    def _led_by_others(self) -> Iterator[LeaderAndPreferred]:
        for topic, index, state in self.states():
            entry = self._ensemble.get(layout.topic_path(topic))
            replicas = [] if entry is None else json.loads(entry.value)["partitions"].get(index, [])
            preferred = self._hosts[replicas[0]] if replicas and replicas[0] in state["isr"] else None
            leader = self._hosts.get(state["leader"])
            if leader is not None and preferred not in (None, leader) and leader.broker is not None:
                assert preferred is not None, "it is in sync"
                if preferred.broker is not None:
                    yield LeaderAndPreferred(topic, index, leader, preferred)

    def _others(self, host: ClusterHost) -> list[ClusterHost]:
        return [other for other in self._hosts.values() if other is not host]

    def _cut_off(self, host: ClusterHost) -> None:
        for other in self._others(host):
            self._network.cuts.cut(other.name, host.name, both=self._world.chance(0.7))

    def _elect(self, one: LeaderAndPreferred) -> None:
        """Have the first replica elected, as older tools ask for it."""
        path = "/admin/preferred_replica_election"
        if self._ensemble.get(path) is None:
            partitions = [{"topic": one.topic, "partition": int(one.partition)}]
            self._ensemble.put(Change(path, json.dumps({"version": 1, "partitions": partitions}).encode()))

    def _end(self, one: LeaderAndPreferred, life: int) -> None:
        for other in self._others(one.leader):
            self._network.cuts.heal(other.name, one.leader.name)
        if one.preferred.broker is not None and one.preferred.lives == life:
            self._say(f"{one.preferred.name} is killed")
            one.preferred.die(power_cut=False)
            if self._world.chance(0.7):
                one.preferred.session.expire()
            self._start_later(one.preferred)


def _is_about_to_change(partition: object) -> bool:
    return isinstance(partition, Replica) and isinstance(partition.replicas, LeaderState) and partition.replicas.pending is not None
