"""A simulated thread of a streams application (KIP-1071), as small as can be: one heartbeat at a time, close before opening.

Each subtopology reads one topic. The partitions of its active tasks are read and committed as any member's are; standby tasks are
only held. Written for the simulator; knows nothing of how tasks are assigned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ottla.client.types import TopicPartition
from ottla.sim.network import RequestLink
from ottla.sim.world import World
from ottla.wire import errors as codes
from ottla.wire.api.streams_group_heartbeat import StreamsGroupHeartbeatRequest as Heartbeat
from tests.sim.lives.group_ledger import GroupLedger, Seat
from tests.sim.lives.group_members import REQUEST_TIMEOUT_MS, RETRY_MS, SLOW_GIVING, SLOWEST_GIVING_MS, SimMember, TopicView
from tests.sim.seeds import Violation

STREAMS_GROUP_HEARTBEAT, HEARTBEAT_VERSION = 88, 1
FATAL = frozenset({codes.FENCED_INSTANCE_ID, codes.GROUP_MAX_SIZE_REACHED, codes.GROUP_ID_NOT_FOUND})
"""Answers to a heartbeat after which clients give up."""

WRITTEN = 30_000
"""The records of each changelog."""

Task = tuple[str, int]


class SimTopology(NamedTuple):
    """What all members of a group run: the topic of each subtopology, by its id. With state, each has a changelog."""

    group_id: str
    topics: tuple[str, ...]
    has_state: bool

    def message(self) -> Heartbeat.Topology:
        return Heartbeat.Topology(
            epoch=0,
            subtopologies=[
                Heartbeat.Subtopology(
                    subtopology_id=str(number),
                    source_topics=[topic],
                    state_changelog_topics=[Heartbeat.TopicInfo(name=f"{self.group_id}-{topic}-log")] if self.has_state else [],
                )
                for number, topic in enumerate(self.topics)
            ],
        )

    def place(self, task: Task) -> TopicPartition:
        return TopicPartition(self.topics[int(task[0])], task[1])


class OwnedTasks(NamedTuple):
    """Tasks of each kind."""

    active: frozenset[Task] = frozenset()
    standby: frozenset[Task] = frozenset()
    warmup: frozenset[Task] = frozenset()


class SimStreamsMember(SimMember):
    """A thread of the application in a process. `owned` are the tasks that it runs."""

    def __init__(
        self,
        world: World,
        link: RequestLink,
        ledger: GroupLedger,
        cluster: TopicView,
        topology: SimTopology,
        name: str,
        process_id: str,
        *,
        instance_id: str | None = None,
        rebalance_timeout_ms: int = 10_000,
    ) -> None:
        self._member_id = f"{name}-{world.random.getrandbits(32):08x}"
        self._instance_id = instance_id
        self._topology = topology
        self._process_id = process_id
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._epoch = self._highest = 0
        self._target: OwnedTasks | None = None
        self._told: OwnedTasks | None = None
        self.owned = OwnedTasks()
        self._closing = False
        self._restored: dict[Task, int] = {}
        self._number = 0
        self._interval_ms = 1_000
        super().__init__(world, link, ledger, cluster, topology.group_id, name)
        self.soon(0, self._beat)

    @property
    def member_id(self) -> str:
        return self._member_id

    @property
    def instance_id(self) -> str | None:
        return self._instance_id

    @property
    def generation(self) -> None:
        return None

    @property
    def epoch(self) -> int:
        return self._epoch if self._epoch > 0 else -1

    @property
    def is_settled(self) -> bool:
        return self._epoch > 0 and self._target == self.owned and not self.owned.warmup

    def leave(self) -> None:
        def said() -> None:
            body = Heartbeat(
                group_id=self.group_id,
                member_id=self.member_id,
                member_epoch=-1 if self.instance_id is None else -2,
                instance_id=self.instance_id,
            )
            self._own(OwnedTasks())
            self.ask(STREAMS_GROUP_HEARTBEAT, HEARTBEAT_VERSION, body, lambda response: self.die(), REQUEST_TIMEOUT_MS)

        self._number += 1
        self.commit(said)

    def refused(self, code: int, seat: Seat) -> None:
        """Wait for a heartbeat to say what to do."""

    def topics(self) -> list[str]:
        return list(self._topology.topics)

    def _beat(self) -> None:
        """Send what has changed, or everything to a coordinator that may have forgotten."""
        self._number += 1
        number, owned = self._number, self.owned
        body = Heartbeat(group_id=self.group_id, member_id=self.member_id, member_epoch=self._epoch, instance_id=self.instance_id)
        if self._epoch == 0:
            body.topology = self._topology.message()
            body.process_id = self._process_id
        if self._told is None:
            body.rebalance_timeout_ms = self._rebalance_timeout_ms
        if self._epoch == 0 or owned != self._told:
            body.active_tasks, body.standby_tasks, body.warmup_tasks = map(_listed, owned)

        self._report(body)

        def answered(response: Any) -> None:
            if number == self._number:
                self._answered(response, owned)

        self.ask(STREAMS_GROUP_HEARTBEAT, HEARTBEAT_VERSION, body, answered, REQUEST_TIMEOUT_MS)

    def _report(self, body: Heartbeat) -> None:
        """Report how far warm-up tasks are, which restore their state little by little."""
        step = self.world.random.randrange(6_000, 20_000)
        self._restored = {task: self._restored.get(task, 0) + step for task in sorted(self.owned.warmup)}
        if self._restored:
            of = Heartbeat.TaskOffset
            body.task_offsets = [of(subtopology_id=name, partition=at, offset=how) for (name, at), how in self._restored.items()]
            body.task_end_offsets = [of(subtopology_id=name, partition=at, offset=WRITTEN) for name, at in self._restored]

    def _answered(self, response: Any, owned: OwnedTasks) -> None:
        if response is None:
            self._told = None
            self.soon(RETRY_MS, self._beat)
        elif response.error_code:
            self._refused(response.error_code)
        else:
            if self._epoch == 0:
                self.ledger.admitted(self.group_id, self.member_id, response.member_epoch)
            if response.member_epoch < self._highest:
                raise Violation(f"epochs rise: {self.member_id} was at {self._highest}, and is told {response.member_epoch}")
            self._epoch = self._highest = response.member_epoch
            self._interval_ms, self._told = response.heartbeat_interval_ms, owned
            if response.active_tasks is not None:
                self._target = OwnedTasks(*map(_tasks, (response.active_tasks, response.standby_tasks, response.warmup_tasks)))
            self._reconcile()

    def _refused(self, code: int) -> None:
        if code in (codes.UNKNOWN_MEMBER_ID, codes.FENCED_MEMBER_EPOCH):
            if code == codes.UNKNOWN_MEMBER_ID and self._epoch > 0:
                self.commit_all_the_same()
            self._own(OwnedTasks())
            self._epoch, self._target, self._told, self._closing = 0, None, None, False
            self.soon(0, self._beat)
        elif code in FATAL:
            self.die()
        else:
            self._told = None
            self.soon(RETRY_MS, self._beat)

    def _own(self, owned: OwnedTasks) -> None:
        """Run these tasks and no others."""
        self.owned = owned
        counts = self.cluster.counts()
        places = [place for task in sorted(owned.active) if (place := self._topology.place(task)).partition < counts[place.topic]]
        self.give([where for where in self.positions if where not in places])
        self.take(places)

    def _reconcile(self) -> None:
        """Close what is not in the target, perhaps slowly and with heartbeats meanwhile; open what is new; report at once."""
        target = self._target
        if target is None or self._closing or target == self.owned:
            self.soon(self._interval_ms, self._beat_if_due(self._number))
            return
        kept = OwnedTasks(*(own & wanted for own, wanted in zip(self.owned, target, strict=True)))
        if kept == self.owned:
            self._own(target)
            self._beat()
            return
        self._closing = True
        epoch = self._epoch

        def done() -> None:
            if self._closing and epoch and self._epoch:
                self._closing = False
                self._own(OwnedTasks(*(own & wanted for own, wanted in zip(self.owned, target, strict=True))))
                self._number += 1
                self._reconcile()

        slow_ms = self.world.random.randrange(SLOWEST_GIVING_MS) if self.world.chance(SLOW_GIVING) else 0
        self.commit(lambda: self.soon(slow_ms, done))
        self.soon(self._interval_ms, self._beat_if_due(self._number))

    def _beat_if_due(self, number: int) -> Callable[[], None]:
        return lambda: self._beat() if number == self._number else None


def _listed(tasks: Iterable[Task]) -> list[Heartbeat.TaskIds]:
    by_subtopology: dict[str, list[int]] = {}
    for name, partition in sorted(tasks):
        by_subtopology.setdefault(name, []).append(partition)
    return [Heartbeat.TaskIds(subtopology_id=name, partitions=partitions) for name, partitions in by_subtopology.items()]


def _tasks(listed: Iterable[Heartbeat.TaskIds]) -> frozenset[Task]:
    return frozenset((each.subtopology_id, partition) for each in listed for partition in each.partitions)
