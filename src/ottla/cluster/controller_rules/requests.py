"""The controller's requests to brokers: collected during its decisions, then built for each broker.

The module builds messages from the context, and sends nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from ottla.cluster.controller_rules.context import (
    AT_ONCE,
    EPOCH_DURING_DELETE,
    LEADER_DURING_DELETE,
    NO_EPOCH,
    ControllerContext,
    Endpoint,
    LeaderAndIsr,
    LiveBroker,
    TopicPartition,
)
from ottla.ports import Pauses
from ottla.wire.api.leader_and_isr import LeaderAndIsrRequest
from ottla.wire.api.stop_replica import StopReplicaRequest
from ottla.wire.api.update_metadata import UpdateMetadataRequest
from ottla.wire.schema import Message

NO_TOPIC_ID = bytes(16)
RECOVERY_FROM, TOPIC_STATES_FROM = 6, 2
"""The first versions of LeaderAndIsr with a leader's recovery state, and with partitions grouped by topic."""
METADATA_BY_TOPIC_FROM, SEVERAL_ENDPOINTS_FROM = 5, 1
EPOCHS_FROM, STOPPED_BY_TOPIC_FROM = 3, 1
"""The first versions of StopReplica with a deletion flag for each partition, and with partitions grouped by topic."""

S = TypeVar("S")

_Led = LeaderAndIsrRequest.LeaderAndIsrPartitionState
_Told = UpdateMetadataRequest.UpdateMetadataPartitionState
_Stopped = StopReplicaRequest.StopReplicaPartitionState


class _Lists(dict[tuple[int, ...], list[int]]):
    """A cache of equal lists of broker ids, so that the partitions of a request share them. Requests never change."""

    def __missing__(self, nodes: tuple[int, ...]) -> list[int]:
        listed = self[nodes] = list(nodes)
        return listed


class ControlVersions(NamedTuple):
    """The versions of the controller's requests, and the name of the listener between brokers."""

    leader_and_isr: int
    update_metadata: int
    stop_replica: int
    listener: str


class ControlRequest(NamedTuple):
    """A request for one broker, with the number of partitions in it.

    `deleted` are the replicas that a StopReplica request deletes.
    """

    node_id: int
    message: Message
    version: int
    partitions: int
    deleted: frozenset[TopicPartition] = frozenset()


class ControlRequests:
    """The controller's queue of requests to brokers, by broker.

    `drain` builds them from the state of the context at the time of the call.
    """

    def __init__(self, context: ControllerContext, node_id: int, versions: ControlVersions) -> None:
        self._context = context
        self._node_id = node_id
        self._versions = versions
        self._roles: dict[int, dict[TopicPartition, bool]] = {}
        self._stopped: dict[int, dict[TopicPartition, bool]] = {}
        self._hearing: set[int] = set()
        self._told: dict[TopicPartition, None] = {}
        self._deleted_topics: frozenset[str] = frozenset()

    def lead(self, nodes: Iterable[int], partition: TopicPartition, *, is_new: bool = False, is_known: bool = False) -> None:
        """Queue LeaderAndIsr for `nodes` with a partition's state. Unless `is_known`, queue UpdateMetadata for all brokers too."""
        for node in nodes:
            roles = self._roles.setdefault(node, {})
            roles[partition] = is_new or roles.get(partition, False)
        if not is_known:
            self.add_metadata_for_all((partition,))

    def stop(self, nodes: Iterable[int], partition: TopicPartition, *, is_deleted: bool) -> None:
        """Queue StopReplica for `nodes`, which stops their replicas of a partition, and also deletes them if `is_deleted`."""
        for node in nodes:
            stopped = self._stopped.setdefault(node, {})
            stopped[partition] = is_deleted or stopped.get(partition, False)

    def add_metadata(self, nodes: Iterable[int], partitions: Iterable[TopicPartition] = ()) -> None:
        """Queue UpdateMetadata for `nodes`, with all live brokers and the state of these partitions."""
        self._hearing.update(nodes)
        self._told.update(dict.fromkeys(partitions))

    def add_metadata_for_all(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Queue UpdateMetadata for all brokers, with all live brokers and the state of these partitions."""
        self.add_metadata(self._context.brokers, partitions)

    def drain(self, deleting: frozenset[str]) -> Iterator[ControlRequest | None]:
        """Remove and yield all queued requests, in the order in which each broker must get them. `deleting` are topics in deletion.

        Requests for unregistered brokers are dropped. A yielded None is a pause in which other work can run.
        """
        roles, stopped = self._roles, self._stopped
        hearing, told = self._hearing & self._context.brokers.keys(), self._told
        self._roles, self._stopped, self._hearing, self._told = {}, {}, set(), {}
        yield from self._all_roles(roles)
        yield from self._all_metadata(hearing, told, deleting)
        yield from self._all_stopped(stopped, deleting)

    def _all_roles(self, roles: dict[int, dict[TopicPartition, bool]]) -> Iterator[ControlRequest | None]:
        made: dict[tuple[TopicPartition, bool], _Led] = {}
        listed = _Lists()
        for broker, partitions in self._there(roles):
            states = dict[TopicPartition, _Led]()
            for number, key in enumerate(partitions.items(), 1):
                if key not in made and key[0] in self._context.leaders:
                    made[key] = self._role(*key, listed)
                if key in made:
                    states[key[0]] = made[key]
                if number % AT_ONCE == 0:
                    yield None
            if states:
                message = yield from self._leader_and_isr(broker, states)
                yield ControlRequest(broker.node_id, message, self._versions.leader_and_isr, len(states))

    def _there(self, told: Mapping[int, S]) -> Iterator[tuple[LiveBroker, S]]:
        """Yield the registered broker and the value of each broker id in `told`. Omit brokers that are not registered."""
        return ((broker, what) for node, what in told.items() if (broker := self._context.brokers.get(node)) is not None)

    def _role(self, partition: TopicPartition, is_new: bool, listed: _Lists) -> _Led:
        state, assignment = self._context.leaders[partition], self._context.assignment(partition)
        recovery = state.leader_recovery_state if self._versions.leader_and_isr >= RECOVERY_FROM else 0
        return _Led(
            topic_name=partition[0],
            partition_index=partition[1],
            controller_epoch=state.controller_epoch,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=listed[state.isr],
            partition_epoch=state.partition_epoch,
            replicas=listed[assignment.replicas],
            adding_replicas=listed[assignment.adding],
            removing_replicas=listed[assignment.removing],
            is_new=is_new,
            leader_recovery_state=recovery,
        )

    def _leader_and_isr(self, broker: LiveBroker, states: dict[TopicPartition, _Led]) -> Pauses[LeaderAndIsrRequest]:
        by_topic = yield from _by_topic(states)
        context, listener = self._context, self._versions.listener
        leaders = {state.leader for state in states.values()} & context.brokers.keys()
        addresses = [(leader, context.brokers[leader].endpoint(listener)) for leader in sorted(leaders)]
        request = LeaderAndIsrRequest(
            controller_id=self._node_id,
            controller_epoch=context.epoch,
            broker_epoch=broker.epoch,
            live_leaders=[
                LeaderAndIsrRequest.LeaderAndIsrLiveLeader(broker_id=leader, host_name=address.host, port=address.port)
                for leader, address in addresses
                if address is not None
            ],
        )
        if self._versions.leader_and_isr < TOPIC_STATES_FROM:
            request.ungrouped_partition_states = list(states.values())
            return request
        for name, some in by_topic.items():
            topic_id = context.topic_ids.get(name, NO_TOPIC_ID)
            request.topic_states.append(
                LeaderAndIsrRequest.LeaderAndIsrTopicState(topic_name=name, topic_id=topic_id, partition_states=some)
            )
        return request

    def _all_metadata(
        self, hearing: set[int], told: Iterable[TopicPartition], deleting: frozenset[str]
    ) -> Iterator[ControlRequest | None]:
        if not hearing:
            return
        context, version = self._context, self._versions.update_metadata
        states, listed = dict[TopicPartition, _Told](), _Lists()
        for number, one in enumerate(told, 1):
            if one in context.leaders:
                states[one] = self._state(one, one[0] in deleting, listed)
            if number % AT_ONCE == 0:
                yield None
        by_topic = yield from _by_topic(states)
        brokers = [self._describe(broker) for broker in context.brokers.values()]
        topics = [
            UpdateMetadataRequest.UpdateMetadataTopicState(
                topic_name=name, topic_id=context.topic_ids.get(name, NO_TOPIC_ID), partition_states=some
            )
            for name, some in by_topic.items()
        ]
        for node in sorted(hearing):
            request = UpdateMetadataRequest(
                controller_id=self._node_id,
                controller_epoch=context.epoch,
                broker_epoch=context.brokers[node].epoch,
                live_brokers=brokers,
            )
            if version < METADATA_BY_TOPIC_FROM:
                request.ungrouped_partition_states = list(states.values())
            else:
                request.topic_states = topics
            yield ControlRequest(node, request, version, len(states))

    def _state(self, partition: TopicPartition, is_deleted: bool, listed: _Lists) -> _Told:
        context = self._context
        state, replicas = context.leaders[partition], context.assignment(partition).replicas
        if is_deleted:
            state = LeaderAndIsr(LEADER_DURING_DELETE, 0, state.isr, controller_epoch=state.controller_epoch)
        return _Told(
            topic_name=partition[0],
            partition_index=partition[1],
            controller_epoch=state.controller_epoch,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=listed[state.isr],
            zk_version=state.partition_epoch,
            replicas=listed[replicas],
            offline_replicas=listed[tuple(node for node in replicas if not context.is_online(node, partition))],
        )

    def _describe(self, broker: LiveBroker) -> UpdateMetadataRequest.UpdateMetadataBroker:
        described = UpdateMetadataRequest.UpdateMetadataBroker(id=broker.node_id, rack=broker.rack)
        if self._versions.update_metadata < SEVERAL_ENDPOINTS_FROM:
            plain = broker.endpoint("PLAINTEXT") or Endpoint("PLAINTEXT", "", -1)
            described.v0_host, described.v0_port = plain.host, plain.port
            return described
        described.endpoints = [
            UpdateMetadataRequest.UpdateMetadataEndpoint(
                port=one.port, host=one.host, listener=one.listener, security_protocol=one.security_protocol
            )
            for one in broker.endpoints
        ]
        return described

    def _all_stopped(
        self, stopped: dict[int, dict[TopicPartition, bool]], deleting: frozenset[str]
    ) -> Iterator[ControlRequest | None]:
        for broker, partitions in self._there(stopped):
            if self._versions.stop_replica >= EPOCHS_FROM:
                yield (yield from self._stopped_by_epoch(broker, partitions, deleting))
                continue
            for is_deleted in (True, False):
                some = [partition for partition, one in partitions.items() if one == is_deleted]
                if some:
                    yield (yield from self._stopped_alike(broker, some, is_deleted=is_deleted))

    def _stopped_by_epoch(
        self, broker: LiveBroker, partitions: dict[TopicPartition, bool], deleting: frozenset[str]
    ) -> Pauses[ControlRequest]:
        states = dict[TopicPartition, _Stopped]()
        for number, (partition, is_deleted) in enumerate(partitions.items(), 1):
            epoch = EPOCH_DURING_DELETE if partition[0] in deleting else self._leader_epoch(partition)
            states[partition] = _Stopped(partition_index=partition[1], leader_epoch=epoch, delete_partition=is_deleted)
            if number % AT_ONCE == 0:
                yield None
        by_topic = yield from _by_topic(states)
        request = self._stop_replica(broker)
        request.topic_states = [
            StopReplicaRequest.StopReplicaTopicState(topic_name=name, partition_states=some) for name, some in by_topic.items()
        ]
        deleted = frozenset(partition for partition, is_deleted in partitions.items() if is_deleted)
        return ControlRequest(broker.node_id, request, self._versions.stop_replica, len(states), deleted)

    def _stopped_alike(self, broker: LiveBroker, partitions: list[TopicPartition], *, is_deleted: bool) -> Pauses[ControlRequest]:
        by_topic = yield from _by_topic({one: one[1] for one in partitions})
        request = self._stop_replica(broker)
        request.delete_partitions = is_deleted
        if self._versions.stop_replica >= STOPPED_BY_TOPIC_FROM:
            request.topics = [
                StopReplicaRequest.StopReplicaTopicV1(name=name, partition_indexes=indexes) for name, indexes in by_topic.items()
            ]
        else:
            request.ungrouped_partitions = [
                StopReplicaRequest.StopReplicaPartitionV0(topic_name=name, partition_index=index) for name, index in partitions
            ]
        deleted = frozenset(partitions) if is_deleted else frozenset[TopicPartition]()
        return ControlRequest(broker.node_id, request, self._versions.stop_replica, len(partitions), deleted)

    def _stop_replica(self, broker: LiveBroker) -> StopReplicaRequest:
        context = self._context
        return StopReplicaRequest(controller_id=self._node_id, controller_epoch=context.epoch, broker_epoch=broker.epoch)

    def _leader_epoch(self, partition: TopicPartition) -> int:
        state = self._context.leaders.get(partition)
        return NO_EPOCH if state is None else state.leader_epoch


def _by_topic(states: Mapping[TopicPartition, S]) -> Pauses[dict[str, list[S]]]:
    topics: dict[str, list[S]] = {}
    for number, ((name, _), state) in enumerate(states.items(), 1):
        topics.setdefault(name, []).append(state)
        if number % AT_ONCE == 0:
            yield None
    return topics
