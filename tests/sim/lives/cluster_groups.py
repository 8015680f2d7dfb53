"""Groups in a simulated cluster: members of both protocols read, commit and change places while their coordinators move.

`group_ledger` knows what must be true, and `group_crowd` who comes and goes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import NamedTuple

from ottla.sim.network import RequestLink
from tests.sim.lives.cluster_work import Act, ClusterAround, ClusterWork
from tests.sim.lives.group_crowd import KINDS, SimCrowd
from tests.sim.lives.group_crowd import SESSION_MS as CLASSIC_SESSION_MS
from tests.sim.lives.group_ledger import GroupLedger
from tests.sim.seeds import Violation

COMING_MS = 5_000
SESSION_MS, HEARTBEAT_MS = 3_000, 1_000
QUIET_MS = 3_000
"""For so long nothing may change once all is quiet."""
SETTINGS = {
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
}


class GroupsPlan(NamedTuple):
    """One group for each of the `kinds`; `topics`: topic -> number of partitions."""

    kinds: tuple[str, ...]
    members: int
    topics: Mapping[str, int]


def groups_plan(random: Random) -> GroupsPlan:
    """Few members, as brokers are what there are many of."""
    return GroupsPlan(
        kinds=tuple(random.choice(KINDS) for _ in range(random.choice((1, 1, 2)))),
        members=random.randrange(2, 6),
        topics={f"t{number}": random.randrange(1, 5) for number in range(random.choice((1, 2)))},
    )


class ClusterGroups(ClusterWork):
    """All groups."""

    def __init__(self, plan: GroupsPlan) -> None:
        self._plan = plan
        self._around: ClusterAround
        self._crowd: SimCrowd
        self.ledger: GroupLedger
        self._missed_by_ms = 0

    @property
    def topics(self) -> Mapping[str, int]:
        return self._plan.topics

    def counts(self) -> Mapping[str, int]:
        return self._plan.topics

    def names(self) -> Mapping[bytes, str]:
        return {topic_id: name for name, topic_id in self._around.topic_ids.items()}

    def begin(self, around: ClusterAround) -> None:
        self._around = around
        self.ledger = GroupLedger(around.view, remembers_fenced=False)
        self._crowd = SimCrowd(around.world, self._link, self.ledger, around.view, self, self._plan.kinds, around.say)
        self._crowd.begin_all(self._plan.members, COMING_MS)

    def _link(self) -> RequestLink:
        """The protocols of groups have no remedy for a commit that comes late on a connection that was given up."""
        link = self._around.link(self._around.link_faults)
        link.cuts_given_up = True
        return link

    def acts(self) -> Sequence[Act]:
        crowd = self._crowd
        return (3, crowd.somebody_dies), (2, crowd.somebody_leaves), (3, crowd.somebody_stands_still)

    def go_on(self) -> None:
        self._crowd.go_on()
        self._missed_by_ms = self._around.world.now_ms + max(SESSION_MS, CLASSIC_SESSION_MS)

    def look(self) -> None:
        self.ledger.check()
        self.ledger.read_all(self._around.view.has_coordinator)

    def undone(self) -> list[str]:
        """Who has stood still may have been silent for so long that it is missed when it goes on."""
        if self._around.world.now_ms < self._missed_by_ms:
            return ["members may be missed yet"]
        return [] if self._crowd.is_quiet() else [self._crowd.unsettled()]

    def insist(self) -> bool:
        return self._crowd.stir()

    def check(self) -> None:
        """What is quiet stays so."""
        before = self._crowd.shares()
        self._around.world.run(QUIET_MS)
        after = self._crowd.shares()
        if after != before:
            raise Violation(f"soon settled: what was quiet has changed again, from {before} to {after}")
        self.ledger.read_all()
