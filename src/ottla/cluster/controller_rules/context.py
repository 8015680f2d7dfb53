"""The controller's state of its cluster: live brokers, replicas of partitions, and leaders.

It is a copy of the registry's entries, changed only after the registry has committed a change. It uses no registry and no messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from ottla.cluster.image import NO_LEADER

TopicPartition: TypeAlias = tuple[str, int]
"""A topic's name and the index of one of its partitions."""

AT_ONCE = 200
"""The most partitions that a function processes between two pauses, in less than a millisecond."""

RECOVERED, RECOVERING = 0, 1
"""A leader's recovery state (KIP-704): after an unclean election it is `RECOVERING` until the leader reports otherwise."""

EPOCH_DURING_DELETE = LEADER_DURING_DELETE = -2
"""The leader id and leader epoch of a partition whose topic is being deleted. This epoch overrides every other one."""

NO_EPOCH = -1
"""The leader epoch of a partition that never had a leader."""


class LeaderAndIsr(NamedTuple):
    """The leader and the in-sync replicas of a partition, as in its state entry of the registry.

    `partition_epoch` is the entry's version, which the next write of the state expects.
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    leader_recovery_state: int = RECOVERED
    controller_epoch: int = 0
    partition_epoch: int = 0

    def with_leader(self, leader: int, isr: tuple[int, ...]) -> LeaderAndIsr:
        """Return the state after this one, with the given leader and in-sync set, and a new leader epoch."""
        return self._replace(leader=leader, isr=isr, leader_epoch=self.leader_epoch + 1)


class ReplicaAssignment(NamedTuple):
    """The brokers with replicas of a partition, the preferred leader first. `adding` and `removing` are subsets of `replicas`."""

    replicas: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_being_reassigned(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[int, ...]:
        """Return the replicas that remain when a reassignment is complete."""
        return tuple(node for node in self.replicas if node not in self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """Return the replicas that the partition had when the reassignment began."""
        return tuple(node for node in self.replicas if node not in self.adding)


class Endpoint(NamedTuple):
    """An address of a broker. `security_protocol` is Kafka's number: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL."""

    listener: str
    host: str
    port: int
    security_protocol: int = 0


class LiveBroker(NamedTuple):
    """A registered broker. `epoch` is the transaction number of its registration, so each registration has a new epoch."""

    node_id: int
    epoch: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    features: tuple[tuple[str, int, int], ...] = ()

    def endpoint(self, listener: str) -> Endpoint | None:
        """Return the broker's address for this listener name; None if the broker has no such listener."""
        return next((one for one in self.endpoints if one.listener == listener), None)


@dataclass(slots=True)
class ControllerContext:
    """The controller's view of the cluster: brokers, topics, replicas and leaders. It is loaded again after each election."""

    epoch: int = 0
    epoch_version: int = 0
    """The version of the registry's entry of the controller epoch. It changes when another broker is elected."""
    brokers: dict[int, LiveBroker] = field(default_factory=dict)
    """Registered brokers, including brokers in a controlled shutdown."""
    shutting_down: set[int] = field(default_factory=set)
    topics: dict[str, dict[int, ReplicaAssignment]] = field(default_factory=dict)
    """The replicas of each topic's partitions. Topics of one partition with equal replicas share one dict until it changes."""
    topic_ids: dict[str, bytes] = field(default_factory=dict)
    names: dict[bytes, str] = field(default_factory=dict)
    leaders: dict[TopicPartition, LeaderAndIsr] = field(default_factory=dict)
    """The states of partitions; a partition that never had a leader is missing."""
    reassigning: dict[TopicPartition, None] = field(default_factory=dict)
    """Partitions that are being reassigned, in the order in which the reassignments began."""
    failed: dict[int, set[TopicPartition]] = field(default_factory=dict)
    """The replicas that a live broker cannot use because their log directory failed."""
    begun_anew: set[int] = field(default_factory=set)
    """Brokers that registered again before this controller was elected, and can lack records. They lead only as a last resort."""
    _alike: dict[ReplicaAssignment, dict[int, ReplicaAssignment]] = field(default_factory=dict)

    def set_topic(self, name: str, topic_id: bytes | None, assignments: Mapping[int, ReplicaAssignment]) -> list[TopicPartition]:
        """Set a topic from its entry; return the partitions that are new."""
        if topic_id is not None:
            self.topic_ids[name] = topic_id
            self.names[topic_id] = name
        known = self.topics.setdefault(name, {})
        new = [(name, index) for index in assignments if index not in known]
        first = assignments.get(0, _NO_REPLICAS)
        if not known and len(assignments) == 1 and first.replicas and not first.is_being_reassigned:
            self.topics[name] = self._alike.setdefault(first, {0: first})
            return new
        for index, assignment in assignments.items():
            if known.get(index) != assignment:
                self.assign((name, index), assignment)
        return new

    def assign(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        name, index = partition
        self._changeable(name)[index] = assignment
        if assignment.is_being_reassigned:
            self.reassigning[partition] = None
        else:
            self.reassigning.pop(partition, None)

    def _changeable(self, name: str) -> dict[int, ReplicaAssignment]:
        """Return the assignments of a topic as a dictionary of its own, which no other topic shares."""
        known = self.topics.get(name, {})
        if name not in self.topics or known is self._alike.get(known.get(0, _NO_REPLICAS)):
            known = self.topics[name] = dict(known)
        return known

    def remove_topic(self, name: str) -> None:
        for partition in list(self.partitions([name])):
            self.remove_partition(partition)
        self.topics.pop(name, None)
        topic_id = self.topic_ids.pop(name, None)
        if topic_id is not None:
            self.names.pop(topic_id, None)

    def remove_partition(self, partition: TopicPartition) -> None:
        """Remove one partition of a deleted topic. Callers that pause between partitions call `remove_topic` last."""
        if partition[0] in self.topics:
            self._changeable(partition[0]).pop(partition[1], None)
        self.leaders.pop(partition, None)
        self.reassigning.pop(partition, None)
        for failed in self.failed.values():
            failed.discard(partition)

    def remove_broker(self, node_id: int) -> None:
        """Remove a broker whose registration has ended."""
        self.brokers.pop(node_id, None)
        self.shutting_down.discard(node_id)
        self.failed.pop(node_id, None)

    def assignment(self, partition: TopicPartition) -> ReplicaAssignment:
        """Return the replicas of a partition; an assignment without replicas if the partition does not exist."""
        return self.topics.get(partition[0], {}).get(partition[1], _NO_REPLICAS)

    def partitions(self, topics: Iterable[str] | None = None) -> Iterator[TopicPartition]:
        """Yield all partitions, or the partitions of some topics."""
        for name in list(self.topics) if topics is None else topics:
            yield from [(name, index) for index in self.topics.get(name, ())]

    def is_held(self, partition: TopicPartition, node_ids: Set[int]) -> bool:
        """Return whether one of these brokers has a replica of a partition."""
        return not node_ids.isdisjoint(self.assignment(partition).replicas)

    def live(self) -> set[int]:
        """Return the ids of the brokers that can become leaders: registered, and not in a controlled shutdown."""
        return self.brokers.keys() - self.shutting_down

    def is_online(self, node_id: int, partition: TopicPartition, *, is_stopping_counted: bool = False) -> bool:
        """Return whether a broker is live and the log directory of its replica has not failed.

        With `is_stopping_counted`, a broker in a controlled shutdown also counts as live.
        """
        if node_id not in self.brokers or (node_id in self.shutting_down and not is_stopping_counted):
            return False
        failed = self.failed.get(node_id)
        return not failed or partition not in failed

    def online(self, partition: TopicPartition, *, is_stopping_counted: bool = False) -> tuple[int, ...]:
        """Return the replicas of a partition for which `is_online` returns True, the preferred leader first."""
        replicas = self.assignment(partition).replicas
        return tuple(node for node in replicas if self.is_online(node, partition, is_stopping_counted=is_stopping_counted))

    def is_well(self, partition: TopicPartition) -> bool:
        """Return whether the leader and all in-sync replicas of a partition are online, so that it needs no election."""
        state = self.leaders.get(partition)
        if state is None or self.begun_anew or any(self.failed.values()):
            return False
        there, replicas = self.brokers, self.assignment(partition).replicas
        return state.leader in there and state.leader in replicas and all(node in there and node in replicas for node in state.isr)

    def needs_leader(self, partition: TopicPartition) -> bool:
        """Return whether a partition has no online leader. A leader in a controlled shutdown still counts as online."""
        state = self.leaders.get(partition)
        if state is None or state.leader == NO_LEADER or state.leader in self.begun_anew:
            return True
        return not self.is_online(state.leader, partition, is_stopping_counted=True)


_NO_REPLICAS = ReplicaAssignment()
