"""A simulated consumer of the consumer group protocol (KIP-848), as small as can be: one heartbeat at a time, revoke before taking.

Written for the simulator alone: Ottla's client speaks the classic protocol. Knows nothing of how partitions are assigned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.client.types import TopicPartition
from ottla.sim.network import RequestLink
from ottla.sim.world import World
from ottla.wire import errors as codes
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest as Heartbeat
from tests.sim.lives.group_ledger import GroupLedger, Seat
from tests.sim.lives.group_members import REQUEST_TIMEOUT_MS, RETRY_MS, SLOW_GIVING, SLOWEST_GIVING_MS, SimMember, TopicView

CONSUMER_GROUP_HEARTBEAT, HEARTBEAT_VERSION = 68, 1

FATAL = frozenset({codes.FENCED_INSTANCE_ID, codes.GROUP_MAX_SIZE_REACHED, codes.GROUP_ID_NOT_FOUND})
"""Answers to a heartbeat after which clients give up; the last one if the group became a classic one without them."""


class SimConsumerMember(SimMember):
    """A member of the consumer protocol. `topics`: names, or a pattern that the broker matches."""

    def __init__(
        self,
        world: World,
        link: RequestLink,
        ledger: GroupLedger,
        cluster: TopicView,
        group_id: str,
        name: str,
        topics: list[str] | str,
        *,
        instance_id: str | None = None,
        rebalance_timeout_ms: int = 10_000,
        assignor: str | None = None,
    ) -> None:
        self._member_id = f"{name}-{world.random.getrandbits(32):08x}"
        self._instance_id = instance_id
        self._epoch = 0
        self._topics = topics
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._assignor = assignor
        self._target: frozenset[TopicPartition] | None = None
        self._told: list[TopicPartition] | None = None
        self._giving = False
        self._number = 0
        self._interval_ms = 1_000
        super().__init__(world, link, ledger, cluster, group_id, name)
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
            self.ask(CONSUMER_GROUP_HEARTBEAT, HEARTBEAT_VERSION, body, lambda response: self.die(), REQUEST_TIMEOUT_MS)

        self._number += 1
        self.commit(said)

    def refused(self, code: int, seat: Seat) -> None:
        """Wait for a heartbeat to say what to do."""

    def topics(self) -> list[str]:
        return sorted(self.cluster.counts()) if isinstance(self._topics, str) else self._topics

    def _beat(self) -> None:
        """Send what has changed, or everything to a coordinator that may have forgotten."""
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

        self.ask(CONSUMER_GROUP_HEARTBEAT, HEARTBEAT_VERSION, body, answered, REQUEST_TIMEOUT_MS)

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
            if self._epoch == 0:
                self.ledger.admitted(self.group_id, self.member_id, response.member_epoch)
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
        """Give up what is not in the target, perhaps slowly and with heartbeats meanwhile; take what is new; report at once."""
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
