"""What the controller knows of its cluster: live brokers, replicas of partitions, and who leads them.

It is a copy of the registry, changed only after the registry took a change. Knows no registry and no messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple, TypeAlias

from ottla.cluster.image import NO_LEADER

TopicPartition: TypeAlias = tuple[str, int]
"""A topic's name and the number of one of its partitions."""

AT_ONCE = 200
"""Partitions that are looked at between two pauses: less than a millisecond's work, whatever is asked of each."""

RECOVERED, RECOVERING = 0, 1
"""A leader's recovery (KIP-704): after an unclean election it is `RECOVERING` until it has told otherwise."""

EPOCH_DURING_DELETE = LEADER_DURING_DELETE = -2
"""What stands for the leader, and for its epoch, of a topic that is being deleted: it overrides any other."""

NO_EPOCH = -1
"""The leader epoch of a partition that never had a leader."""


class LeaderAndIsr(NamedTuple):
    """Who leads a partition, and which replicas are in sync: what its state entry in the registry says.

    `partition_epoch` is that entry's version: whoever writes the next state expects it.
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    leader_recovery_state: int = RECOVERED
    controller_epoch: int = 0
    partition_epoch: int = 0

    def led(self, leader: int, isr: tuple[int, ...]) -> LeaderAndIsr:
        """The next state, in which this replica leads: every change by a controller is a new leader epoch."""
        return self._replace(leader=leader, isr=isr, leader_epoch=self.leader_epoch + 1)


class ReplicaAssignment(NamedTuple):
    """The brokers that hold a partition, the preferred leader first; those `adding` and `removing` are among `replicas`."""

    replicas: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_being_reassigned(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas that are left when a reassignment is over."""
        return tuple(node for node in self.replicas if node not in self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """The replicas that there were before the reassignment."""
        return tuple(node for node in self.replicas if node not in self.adding)


class Endpoint(NamedTuple):
    """An address of a broker. `security_protocol` is Kafka's number of it: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL."""

    listener: str
    host: str
    port: int
    security_protocol: int = 0


class LiveBroker(NamedTuple):
    """A broker that is registered. `epoch` is the number of the transaction that registered it: another life, another epoch."""

    node_id: int
    epoch: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    features: tuple[tuple[str, int, int], ...] = ()

    def endpoint(self, listener: str) -> Endpoint | None:
        """Where the broker listens under this name."""
        return next((one for one in self.endpoints if one.listener == listener), None)


@dataclass(slots=True)
class ControllerContext:
    """All of it, while this broker is the controller. A new one is filled after each election."""

    epoch: int = 0
    epoch_version: int = 0
    """The version of the registry's entry of the epoch: another one means that another broker was elected."""
    brokers: dict[int, LiveBroker] = field(default_factory=dict)
    """Those that are registered, also those that are about to stop."""
    shutting_down: set[int] = field(default_factory=set)
    topics: dict[str, dict[int, ReplicaAssignment]] = field(default_factory=dict)
    topic_ids: dict[str, bytes] = field(default_factory=dict)
    names: dict[bytes, str] = field(default_factory=dict)
    leaders: dict[TopicPartition, LeaderAndIsr] = field(default_factory=dict)
    """Partitions that never had a leader are not in it."""
    reassigning: dict[TopicPartition, None] = field(default_factory=dict)
    """Those on the move, in the order in which that began."""
    failed: dict[int, set[TopicPartition]] = field(default_factory=dict)
    """The replicas that a live broker can't use, for their log directory failed."""
    begun_anew: set[int] = field(default_factory=set)
    """Brokers that registered anew before this controller took office: none of them is elected where others are in sync."""
    _held: dict[int, dict[TopicPartition, None]] = field(default_factory=dict)

    def set_topic(self, name: str, topic_id: bytes | None, assignments: Mapping[int, ReplicaAssignment]) -> list[TopicPartition]:
        """Take in what the entry of a topic says; returns the partitions that are new."""
        if topic_id is not None:
            self.topic_ids[name] = topic_id
            self.names[topic_id] = name
        known = self.topics.setdefault(name, {})
        new = [(name, index) for index in assignments if index not in known]
        for index, assignment in assignments.items():
            if known.get(index) != assignment:
                self.assign((name, index), assignment)
        return new

    def assign(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Let a partition have these replicas."""
        name, index = partition
        before = self.assignment(partition)
        for node in before.replicas:
            if node not in assignment.replicas:
                self._held[node].pop(partition, None)
        for node in assignment.replicas:
            self._held.setdefault(node, {})[partition] = None
        self.topics.setdefault(name, {})[index] = assignment
        if assignment.is_being_reassigned:
            self.reassigning[partition] = None
        else:
            self.reassigning.pop(partition, None)

    def remove_topic(self, name: str) -> None:
        """Forget a topic that is gone."""
        for partition in list(self.partitions([name])):
            self.remove_partition(partition)
        self.topics.pop(name, None)
        topic_id = self.topic_ids.pop(name, None)
        if topic_id is not None:
            self.names.pop(topic_id, None)

    def remove_partition(self, partition: TopicPartition) -> None:
        """Forget a partition of a topic that is gone, for who removes them piece by piece; the topic is to be removed last."""
        for node in self.assignment(partition).replicas:
            self._held[node].pop(partition, None)
        self.leaders.pop(partition, None)
        self.reassigning.pop(partition, None)
        for failed in self.failed.values():
            failed.discard(partition)

    def remove_broker(self, node_id: int) -> None:
        """Forget a broker whose registration is gone."""
        self.brokers.pop(node_id, None)
        self.shutting_down.discard(node_id)
        self.failed.pop(node_id, None)

    def assignment(self, partition: TopicPartition) -> ReplicaAssignment:
        """The replicas of a partition; none if there is no such partition."""
        return self.topics.get(partition[0], {}).get(partition[1], _NO_REPLICAS)

    def partitions(self, topics: Iterable[str] | None = None) -> Iterator[TopicPartition]:
        """All partitions, or those of some topics."""
        for name in list(self.topics) if topics is None else topics:
            yield from ((name, index) for index in self.topics.get(name, ()))

    def held_by(self, node_ids: Iterable[int]) -> list[TopicPartition]:
        """The partitions of which one of these brokers holds a replica, each once."""
        return list(dict.fromkeys(chain.from_iterable(self._held.get(node_id, ()) for node_id in node_ids)))

    def live(self) -> set[int]:
        """The brokers that may lead: registered, and not about to stop."""
        return self.brokers.keys() - self.shutting_down

    def is_online(self, node_id: int, partition: TopicPartition, *, is_stopping_counted: bool = False) -> bool:
        """Whether a broker is there to hold its replica of this partition, and its disk lets it."""
        if node_id not in self.brokers or (node_id in self.shutting_down and not is_stopping_counted):
            return False
        failed = self.failed.get(node_id)
        return not failed or partition not in failed

    def online(self, partition: TopicPartition, *, is_stopping_counted: bool = False) -> tuple[int, ...]:
        """The replicas of a partition that are online, the preferred leader first."""
        replicas = self.assignment(partition).replicas
        return tuple(node for node in replicas if self.is_online(node, partition, is_stopping_counted=is_stopping_counted))

    def needs_leader(self, partition: TopicPartition) -> bool:
        """Whether nobody leads this partition: it is new, or its leader is gone. One that is about to stop still leads."""
        state = self.leaders.get(partition)
        if state is None or state.leader == NO_LEADER or state.leader in self.begun_anew:
            return True
        return not self.is_online(state.leader, partition, is_stopping_counted=True)


_NO_REPLICAS = ReplicaAssignment()
