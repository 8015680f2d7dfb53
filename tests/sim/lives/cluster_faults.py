"""What else goes wrong in a simulated cluster: disks fail or run full, wall clocks jump, servers of the registry lag behind.

Controllers are deposed while they are at work. Brokers of a seed may also speak two protocol versions, until each has started
again, and followers may be slow to catch up. Knows hosts, the registry, and who may lose what.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import NamedTuple

from ottla.cluster.layout import CONTROLLER
from ottla.ports import Change, Entry
from ottla.sim.cluster_host import ClusterHost
from ottla.sim.disk import IO_ERROR, NO_SPACE
from ottla.sim.ensemble import SimEnsemble
from ottla.sim.world import World

Act = tuple[float, Callable[[], None]]
"""How often something happens beside other things, and what."""

JUMPS_MS = (-3_600_000, -60_000, -1_000, 1_000, 60_000, 3_600_000)
VERSIONS = (("2.2", "3.9"), ("2.7", "2.8"), ("2.8", "3.9"), ("3.2", "3.9"))
"""Protocol versions before and after an upgrade. Before 2.0 followers could lose what was acknowledged."""
BROKEN_MS = 5_000
"""So long a broker goes on with a disk that has failed."""
CRUMBS = {"replica.fetch.max.bytes": "1", "replica.fetch.response.max.bytes": "1"}
"""With these a follower gets one batch at a time: the first is sent whole."""


class FaultsPlan(NamedTuple):
    """Which of these faults a seed has.

    `versions`: that of all brokers at first, and that of those that start again. With `crumbs` followers are slow to catch up, for
    they copy one batch at a time. `wipes` leave brokers without their disks; `storms` kill all at once, and hide leader epochs.
    """

    disks: bool = False
    jumps: bool = False
    lags: bool = False
    versions: tuple[str, str] | None = None
    deposes: bool = False
    crumbs: bool = False
    wipes: bool = False
    storms: bool = False


def faults_plan(random: Random, *, calm: bool, has_features: bool) -> FaultsPlan:
    """Choose. A cluster that was told an older protocol version has no features, and so no groups or transactions by the newest."""
    return FaultsPlan(
        disks=not calm and random.random() < 0.4,
        jumps=not calm and random.random() < 0.3,
        lags=not calm and random.random() < 0.5,
        versions=random.choice(VERSIONS) if random.random() < 0.3 and not has_features else None,
        deposes=not calm and random.random() < 0.4,
        crumbs=random.random() < 0.25,
        wipes=not calm and random.random() < 0.5,
        storms=not calm and random.random() < 0.4,
    )


def is_of_a_disk(message: str) -> bool:
    """Whether a line tells of a fault that was ordered here: nothing else makes disks fail."""
    return IO_ERROR in message or NO_SPACE in message


class Losing(NamedTuple):
    """Who may lose what is on a disk: `may(host)` if others have it; those that are `lost` start when nobody counts on them."""

    may: Callable[[ClusterHost], bool]
    lost: set[int]
    start: Callable[[ClusterHost], None]


class ClusterFaults:
    """The faults of one seed."""

    def __init__(
        self,
        world: World,
        hosts: Mapping[int, ClusterHost],
        ensemble: SimEnsemble,
        plan: FaultsPlan,
        losing: Losing,
        say: Callable[[str], None],
    ) -> None:
        self._world = world
        self._hosts = hosts
        self._ensemble = ensemble
        self._plan = plan
        self._losing = losing
        self._say = say

    def acts(self) -> Sequence[Act]:
        """What may happen."""
        acts: list[Act] = []
        if self._plan.disks:
            acts += [(2, self._fail_disk), (2, self._fill_disk)]
        if self._plan.jumps:
            acts.append((2, self._jump))
        if self._plan.lags:
            acts.append((4, self._lag))
        if self._plan.deposes:
            acts.append((4, self._depose))
        return acts

    def starts(self, host: ClusterHost) -> None:
        """A broker is about to start: perhaps it speaks the later version from now on."""
        if self._plan.versions is not None and host.protocol_version != self._plan.versions[1] and self._world.chance(0.6):
            self._say(f"{host.name} speaks {self._plan.versions[1]} from now on")
            host.speak(self._plan.versions[1])

    def make_peace(self) -> None:
        """All disks have room."""
        for host in self._hosts.values():
            host.disk.capacity_bytes = None

    def _somebody(self) -> ClusterHost | None:
        up = [host for host in self._hosts.values() if host.broker is not None]
        return self._world.random.choice(up) if up else None

    def _fail_disk(self) -> None:
        """Some operations fail; some time later the broker ends, and it starts again when nobody counts on what it has."""
        host = self._somebody()
        if host is None or not self._losing.may(host):
            return
        random = self._world.random
        after, failures = random.randrange(20), random.choice((1, 3, 30))
        self._say(f"{failures} operations of the disk of {host.name} fail after the next {after}")
        self._losing.lost.add(host.node_id)
        host.disk.fail(after, count=failures)
        self._world.after(BROKEN_MS, partial(self._replace_disk, host, host.lives))

    def _replace_disk(self, host: ClusterHost, life: int) -> None:
        host.disk.heal()
        if host.broker is not None and host.lives == life:
            power_cut = self._world.chance(0.5)
            self._say(f"{host.name} ends, and its disk is mended{', not without losses' if power_cut else ''}")
            host.die(power_cut=power_cut)
        self._world.after(0, partial(self._losing.start, host))

    def _fill_disk(self) -> None:
        host = self._somebody()
        if host is None:
            return
        random = self._world.random
        ms = random.choice((1_000, 5_000, 12_000))
        self._say(f"the disk of {host.name} is full for {ms} ms")
        host.disk.capacity_bytes = host.disk.used_bytes + random.choice((0, 300, 3_000))
        self._world.after(ms, partial(_make_room, host))

    def _jump(self) -> None:
        host, ms = self._world.random.choice(list(self._hosts.values())), self._world.random.choice(JUMPS_MS)
        self._say(f"the wall clock of {host.name} jumps by {ms} ms")
        host.jump(ms)

    def _lag(self) -> None:
        host = self._somebody()
        if host is not None:
            ms = self._world.random.choice((200, 1_000, 3_000))
            self._say(f"the server of {host.name} lags behind the registry for {ms} ms")
            host.session.lag(ms)

    def _depose(self) -> None:
        """Remove the controller's entry, as operators do to have another one elected, while it sees to a broker that it has lost.

        Its server may lag behind, so that it hears of that late.
        """
        entry = self._ensemble.get(CONTROLLER)
        other = self._somebody()
        host = None if entry is None else self._hosts[json.loads(entry.value)["brokerid"]]
        if entry is None or host is None or host.broker is None or other is None:
            return
        ms = self._world.random.choice((0, 0, 200, 1_000))
        self._say(f"{host.name} is deposed as the controller{f' by a registry whose server lags {ms} ms' if ms else ''}")
        if other is not host:
            other.session.expire()
        self._world.after(self._world.random.randrange(8), partial(self._remove_controller, entry, host, ms))

    def _remove_controller(self, entry: Entry, host: ClusterHost, lag_ms: int) -> None:
        if self._ensemble.get(CONTROLLER) == entry:
            if lag_ms:
                host.session.lag(lag_ms)
            self._ensemble.put(Change(CONTROLLER, None))


def _make_room(host: ClusterHost) -> None:
    host.disk.capacity_bytes = None
