"""Simulated consumers of a group: of the classic protocol, by Ottla's own client machine, and of the consumer protocol (KIP-848).

A member reads what it is assigned from the committed offset on, commits now and then, may be slow, may stand still, may die without
a word, and may go on committing after it was told that it is no member. Knows no broker but through its `Lane`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Protocol

from ottla.client.errors import KafkaError, TimedOut
from ottla.client.membership import Ask, Assign, GroupSettings, Lose, Membership, Phase, Plan, Revoke
from ottla.client.offsets import commit_request, fetch_offsets_request, read_commit, read_fetch_offsets
from ottla.client.types import OffsetAndMetadata, TopicPartition
from ottla.client.versions import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, OFFSET_COMMIT, OFFSET_FETCH, SPOKEN
from ottla.sim.group_ledger import Ledger, Seat
from ottla.sim.network import Lane
from ottla.sim.world import World
from ottla.wire import errors as codes
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

CONSUMER_GROUP_HEARTBEAT = 68
REQUEST_TIMEOUT_MS = 2_000
RETRY_MS = 100
WORK_MS = 1_000
SLOWEST_GIVING_MS = 4_000
SLOW_GIVING, DEAF = 0.1, 0.3
"""How often a member takes long to give partitions up, and how often one goes on committing though it was told it is out."""


FATAL = frozenset({codes.FENCED_INSTANCE_ID, codes.GROUP_MAX_SIZE_REACHED, codes.GROUP_ID_NOT_FOUND})
"""Answers to a heartbeat after which clients give up; the last one if the group has become a classic one without them."""


class Cluster(Protocol):
    """What a member knows of the topics."""

    def counts(self) -> Mapping[str, int]:
        """Topic -> number of partitions."""
        ...

    def names(self) -> Mapping[bytes, str]:
        """Topic id -> topic."""
        ...


class Member:
    """What both kinds do: read, commit, stand still, die."""

    def __init__(self, world: World, lane: Lane, ledger: Ledger, cluster: Cluster, group_id: str, name: str) -> None:
        self.world, self.lane, self.ledger, self.cluster = world, lane, ledger, cluster
        self.group_id = group_id
        self.name = name
        self.alive = True
        self.positions: dict[TopicPartition, int | None] = {}
        self.seat: Seat | None = None
        self._still_until_ms = 0
        self._tick()

    member_id: str

    @property
    def generation(self) -> int | None:
        raise NotImplementedError

    @property
    def is_settled(self) -> bool:
        """Whether it has what it shall have, as far as it knows."""
        raise NotImplementedError

    def leave(self) -> None:
        """Go with a word."""
        raise NotImplementedError

    def topics(self) -> list[str]:
        """What it subscribes to, of what is there."""
        raise NotImplementedError

    def die(self) -> None:
        """Be no more, at once."""
        self.alive = False
        self.ledger.give(self, list(self.positions))

    def stand_still(self, ms: int) -> None:
        """Do nothing for a while, and know nothing of it."""
        self._still_until_ms = self.world.now_ms + ms

    def soon(self, ms: int, call: Callable[[], None]) -> None:
        """Do something later, if it is alive then; when it stands still, once it does no more."""

        def due() -> None:
            if not self.alive:
                return
            wait_ms = self._still_until_ms - self.world.now_ms
            if wait_ms > 0:
                self.world.after(min(wait_ms, WORK_MS), due)
            else:
                call()

        self.world.after(ms, due)

    def ask(self, key: int, version: int, body: Any, answered: Callable[[Any], None], timeout_ms: int) -> None:
        watch = partial(self.ledger.committing, self) if key == OFFSET_COMMIT else None
        self.lane.ask(key, version, body, lambda response: self.soon(0, lambda: answered(response)), timeout_ms, watch)

    def take(self, partitions: Iterable[TopicPartition]) -> None:
        new = [where for where in partitions if where not in self.positions]
        if new:
            self.positions.update(dict.fromkeys(new))
            self.ledger.take(self, new)
            self._fetch(new)

    def give(self, partitions: Iterable[TopicPartition]) -> None:
        for where in partitions:
            self.positions.pop(where, None)
            self.ledger.give(self, [where])

    def commit(self, then: Callable[[], None] = lambda: None) -> None:
        """Commit all positions that are known; `then` comes when an answer, or none, has come."""
        if self.epoch < 0:
            then()
            return
        self.seat = Seat(self.group_id, self.member_id, self.epoch)
        self._commit(self.seat, 0, then)

    def _commit(self, seat: Seat, ahead: int, then: Callable[[], None]) -> None:
        offsets = {where: OffsetAndMetadata(offset + ahead) for where, offset in self.positions.items() if offset is not None}
        if not offsets:
            then()
            return
        body = commit_request(
            self.group_id, offsets, generation_id=seat.generation, member_id=seat.member_id, group_instance_id=self.instance_id
        )

        def answered(response: Any) -> None:
            for _, code in read_commit(response) if response is not None else ():
                if code:
                    self.refused(code, seat)
            then()

        self.ask(OFFSET_COMMIT, SPOKEN[OFFSET_COMMIT][1], body, answered, REQUEST_TIMEOUT_MS)

    instance_id: str | None

    @property
    def epoch(self) -> int:
        """The generation or member epoch that it commits with; below 0 while it has none."""
        raise NotImplementedError

    def refused(self, code: int, seat: Seat) -> None:
        """A commit was refused."""

    def commit_all_the_same(self) -> None:
        """What somebody does who has not heard yet that it was told to be out; for the ledger to see it refused."""
        if self.seat is not None:
            if self.generation is None:
                self.ledger.told_gone(self.seat, lasting=True)
            if self.world.chance(DEAF):
                self._commit(self.seat, 1000, lambda: None)

    def _fetch(self, partitions: list[TopicPartition]) -> None:
        def answered(response: Any) -> None:
            if response is None or response.error_code:
                still = [where for where in partitions if where in self.positions and self.positions[where] is None]
                if still:
                    self.soon(RETRY_MS, lambda: self._fetch(still))
                return
            for where, code, found in read_fetch_offsets(response):
                if not code and where in self.positions and self.positions[where] is None:
                    self.positions[where] = max(0, found.offset)

        body = fetch_offsets_request(self.group_id, partitions, require_stable=False)
        self.ask(OFFSET_FETCH, 7, body, answered, REQUEST_TIMEOUT_MS)

    def _tick(self) -> None:
        """Read a little, and commit."""

        def work() -> None:
            for where, offset in self.positions.items():
                if offset is not None:
                    self.positions[where] = offset + self.world.random.randrange(4)
            self.commit()
            self._tick()

        self.soon(WORK_MS + self.world.random.randrange(WORK_MS), work)


class ClassicMember(Member):
    """A member of the classic protocol: Ottla's client machine, and what drives it."""

    def __init__(
        self, world: World, lane: Lane, ledger: Ledger, cluster: Cluster, settings: GroupSettings, name: str, topics: list[str]
    ) -> None:
        self.machine = Membership(settings)
        self._step_number = 0
        self._known: Mapping[str, int] = {}
        super().__init__(world, lane, ledger, cluster, settings.group_id, name)
        self.machine.subscribe(topics)
        self.soon(0, self._go_on)

    @property
    def member_id(self) -> str:  # type: ignore[override]  # the machine knows it
        return self.machine.member_id

    @property
    def instance_id(self) -> str | None:  # type: ignore[override]  # the machine knows it
        return self.machine.settings.group_instance_id

    @property
    def generation(self) -> int:
        return self.machine.generation_id

    @property
    def epoch(self) -> int:
        return self.machine.generation_id if self.machine.phase in (Phase.STABLE, Phase.ADOPT, Phase.OUT) else -1

    @property
    def is_settled(self) -> bool:
        return self.machine.phase is Phase.STABLE

    def topics(self) -> list[str]:
        return self.machine.topics

    def join_again(self) -> None:
        """Ask for a rebalance."""
        self.machine.rejoin()
        self._go_on()

    def refused(self, code: int, seat: Seat) -> None:
        self.machine.commit_refused(code, seat.generation)

    def leave(self) -> None:
        def said() -> None:
            ask = self.machine.leave()
            if ask is None:
                self.die()
            else:
                self.ask(LEAVE_GROUP, SPOKEN[LEAVE_GROUP][1], ask.body, lambda response: self.die(), REQUEST_TIMEOUT_MS)
                self.give(list(self.positions))

        self._step_number += 1
        self.commit(said)

    def _go_on(self) -> None:
        """Take steps until one takes time."""
        if not self.alive:
            return
        self._step_number += 1
        number = self._step_number

        def later(ms: int = 0) -> None:
            self.soon(ms, lambda: self._go_on() if number == self._step_number else None)

        step = self.machine.next(self.world.now_ms)
        if isinstance(step, Ask):
            self._ask(step, later)
        elif isinstance(step, Revoke):
            self._revoke(step, later)
        elif isinstance(step, Lose):
            self._lose(step)
            later()
        elif isinstance(step, Assign):
            self.take(step.partitions)
            self.machine.assigned(self.world.now_ms)
            later()
        elif isinstance(step, Plan):
            self.machine.share_out({topic: count for topic, count in self.cluster.counts().items() if topic in step.topics})
            later()
        else:
            later(max(1, step.until_ms - self.world.now_ms))

    def _ask(self, step: Ask, later: Callable[[], None]) -> None:
        if step.api_key == JOIN_GROUP:
            self._known = self.cluster.counts()
        elif step.api_key == HEARTBEAT and dict(self.cluster.counts()) != dict(self._known):
            self._known = self.cluster.counts()
            self.machine.rejoin()

        def answered(response: Any) -> None:
            try:
                if response is None:
                    self.machine.broken(step, TimedOut("nobody answered"), self.world.now_ms)
                else:
                    self.machine.answered(step, response, self.world.now_ms)
            except KafkaError:
                self.die()
                return
            later()

        self.ask(step.api_key, SPOKEN[step.api_key][1], step.body, answered, step.timeout_ms)

    def _revoke(self, step: Revoke, later: Callable[[], None]) -> None:
        def done() -> None:
            self.give(step.partitions)
            self.machine.revoked(step.partitions)
            later()

        slow_ms = self.world.random.randrange(SLOWEST_GIVING_MS) if self.world.chance(SLOW_GIVING) else 0
        self.commit(lambda: self.soon(slow_ms, done))

    def _lose(self, step: Lose) -> None:
        if not self.machine.member_id:
            self.commit_all_the_same()
        self.give(step.partitions)
        self.machine.revoked(step.partitions)


Heartbeat = ConsumerGroupHeartbeatRequest


class ConsumerMember(Member):
    """A member of the consumer protocol, as small as can be: one heartbeat at a time, revoke first, then take."""

    def __init__(
        self,
        world: World,
        lane: Lane,
        ledger: Ledger,
        cluster: Cluster,
        group_id: str,
        name: str,
        topics: list[str] | str,
        *,
        instance_id: str | None = None,
        rebalance_timeout_ms: int = 10_000,
        assignor: str | None = None,
    ) -> None:
        self.member_id = f"{name}-{world.random.getrandbits(32):08x}"
        self.instance_id = instance_id
        self._epoch = 0
        self._topics = topics
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._assignor = assignor
        self._target: frozenset[TopicPartition] | None = None
        self._told: list[TopicPartition] | None = None
        self._giving = False
        self._number = 0
        self._interval_ms = 1_000
        super().__init__(world, lane, ledger, cluster, group_id, name)
        self.soon(0, self._beat)

    @property
    def generation(self) -> None:
        return None

    @property
    def epoch(self) -> int:
        return self._epoch if self._epoch > 0 else -1

    @property
    def is_settled(self) -> bool:
        return self._epoch > 0 and (self._target is None or self._target == self.positions.keys())

    def leave(self) -> None:
        def said() -> None:
            body = Heartbeat(
                group_id=self.group_id,
                member_id=self.member_id,
                member_epoch=-1 if self.instance_id is None else -2,
                instance_id=self.instance_id,
            )
            self.give(list(self.positions))
            self.ask(CONSUMER_GROUP_HEARTBEAT, 1, body, lambda response: self.die(), REQUEST_TIMEOUT_MS)

        self._number += 1
        self.commit(said)

    def topics(self) -> list[str]:
        return sorted(self.cluster.counts()) if isinstance(self._topics, str) else self._topics

    def _beat(self) -> None:
        """Send what is new, or all of it to somebody who may have forgotten."""
        self._number += 1
        number = self._number
        full = self._epoch == 0 or self._told is None
        owned = sorted(self.positions)
        body = Heartbeat(group_id=self.group_id, member_id=self.member_id, member_epoch=self._epoch, instance_id=self.instance_id)
        if full:
            body.rebalance_timeout_ms = self._rebalance_timeout_ms
            body.server_assignor = self._assignor
            if isinstance(self._topics, str):
                body.subscribed_topic_regex = self._topics
            else:
                body.subscribed_topic_names = list(self._topics)
        if full or owned != self._told:
            body.topic_partitions = self._by_topic(owned)

        def answered(response: Any) -> None:
            if number == self._number:
                self._answered(response, owned)

        self.ask(CONSUMER_GROUP_HEARTBEAT, 1, body, answered, REQUEST_TIMEOUT_MS)

    def _by_topic(self, owned: list[TopicPartition]) -> list[Heartbeat.TopicPartitions]:
        ids = {name: topic_id for topic_id, name in self.cluster.names().items()}
        topics: dict[str, list[int]] = {}
        for topic, partition in owned:
            topics.setdefault(topic, []).append(partition)
        return [Heartbeat.TopicPartitions(topic_id=ids[topic], partitions=parts) for topic, parts in topics.items()]

    def _answered(self, response: Any, owned: list[TopicPartition]) -> None:
        if response is None:
            self._told = None
            self.soon(RETRY_MS, self._beat)
        elif response.error_code:
            self._refused(response.error_code)
        else:
            self._epoch, self._interval_ms, self._told = response.member_epoch, response.heartbeat_interval_ms, owned
            if response.assignment is not None:
                names = self.cluster.names()
                self._target = frozenset(
                    TopicPartition(names[bytes(topic.topic_id)], partition)
                    for topic in response.assignment.topic_partitions
                    for partition in topic.partitions
                )
            self._reconcile()

    def _refused(self, code: int) -> None:
        if code in (codes.UNKNOWN_MEMBER_ID, codes.FENCED_MEMBER_EPOCH):
            if code == codes.UNKNOWN_MEMBER_ID and self._epoch > 0:
                self.commit_all_the_same()
            self.give(list(self.positions))
            self._epoch, self._target, self._told, self._giving = 0, None, None, False
            self.soon(0, self._beat)
        elif code in FATAL:
            self.die()
        else:
            self._told = None
            self.soon(RETRY_MS, self._beat)

    def _reconcile(self) -> None:
        """Give what is not in the target, which may take a while with heartbeats meanwhile; take what is new; say so at once."""
        target = self._target
        if target is None or self._giving or target == self.positions.keys():
            self.soon(self._interval_ms, self._beat_if_due(self._number))
            return
        going = [where for where in self.positions if where not in target]
        if not going:
            self.take(sorted(target))
            self._beat()
            return
        self._giving = True
        epoch = self._epoch

        def done() -> None:
            if self._giving and epoch and self._epoch:
                self._giving = False
                self.give(going)
                self._number += 1
                self._reconcile()

        slow_ms = self.world.random.randrange(SLOWEST_GIVING_MS) if self.world.chance(SLOW_GIVING) else 0
        self.commit(lambda: self.soon(slow_ms, done))
        self.soon(self._interval_ms, self._beat_if_due(self._number))

    def _beat_if_due(self, number: int) -> Callable[[], None]:
        return lambda: self._beat() if number == self._number else None
