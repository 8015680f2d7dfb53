"""One broker of a cluster as a machine, whose controller, followers and leaders are played by tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ottla.broker.broker import BrokerMachine
from ottla.broker.replication.replica import Replica
from ottla.broker.replication.replica_manager import ReplicaManager
from ottla.cluster.metadata import ClusterPorts
from ottla.ports import (
    BrokerLink,
    Buffer,
    Change,
    CommitSteps,
    Condition,
    Entry,
    RegistryAway,
    SessionEvent,
    Steps,
)
from ottla.sim.registry import MemoryRegistry
from ottla.wire.api.leader_and_isr import LeaderAndIsrRequest
from ottla.wire.api.stop_replica import StopReplicaRequest
from ottla.wire.api.update_metadata import UpdateMetadataRequest
from ottla.wire.framing import decode_request, encode_response
from tests.support.machine import Machine

TOPIC_ID = bytes(range(16))
CONTROLLER = 9

Role = LeaderAndIsrRequest.LeaderAndIsrPartitionState


class NearRegistry:
    """A registry that brokers share and that answers at once, unless it is `away`."""

    timeout_ms = 6000

    def __init__(self) -> None:
        self.entries = MemoryRegistry()
        self.is_away = False

    def read(self, paths: Sequence[str], *, changed: Callable[[str], None] | None = None) -> Steps[list[Entry | None]]:
        self._check(paths)
        yield None
        return [self.entries.get(path) for path in paths]

    def list(self, paths: Sequence[str], *, changed: Callable[[str], None] | None = None) -> Steps[list[list[str] | None]]:
        self._check(paths)
        yield None
        return [self.entries.children(path) for path in paths]

    def commit(self, changes: Sequence[Change | Condition]) -> CommitSteps:
        self._check([change.path for change in changes])
        yield None
        numbered = [
            change._replace(path=f"{change.path}{1:010}", sequential=False)
            if isinstance(change, Change) and change.sequential
            else change
            for change in changes
        ]
        self.entries.commit([change for change in numbered if isinstance(change, Change)])

    def _check(self, paths: Sequence[str]) -> None:
        if self.is_away:
            raise RegistryAway(paths[0], "nobody answers")

    def session_end_ms(self) -> int:
        return 1 << 60

    def on_session(self, told: Callable[[SessionEvent], None]) -> None: ...

    def close(self) -> None: ...


class PlayedLinks:
    """Links to other brokers, on whose behalf the test answers."""

    def __init__(self) -> None:
        self.sent: list[tuple[Any, Any, Callable[[memoryview | None], None]]] = []
        self.receive_buffers_bytes: list[int] = []
        """Those that links were opened with."""

    def open(self, host: str, port: int, receive_buffer_bytes: int) -> BrokerLink:
        self.receive_buffers_bytes.append(receive_buffer_bytes)
        return self

    def send(self, frame: Sequence[Buffer], timeout_ms: int, answered: Callable[[memoryview | None], None]) -> None:
        self.sent.append((*decode_request(b"".join(frame)[4:]), answered))

    def close(self) -> None: ...

    def answer(self, response: Any) -> None:
        """Answer the oldest request; with None the connection breaks."""
        header, _, answered = self.sent.pop(0)
        if response is None:
            answered(None)
        else:
            parts = encode_response(header.correlation_id, header.api_key, header.api_version, response)
            answered(memoryview(b"".join(parts))[4:])


class ClusterMachine(Machine):
    """Broker 1 of a cluster in which the test plays brokers 2 and 3 and the controller."""

    def __init__(self, **settings: object) -> None:
        self.shared = NearRegistry()
        self.links = PlayedLinks()
        super().__init__(**settings)

    def _start(self, *, clean: bool) -> BrokerMachine:
        broker = BrokerMachine(
            settings=self.settings,
            clock=self.clock,
            disk=self.disk,
            cluster=ClusterPorts(self.shared, self.links),
            node_id=1,
            cluster_id="simulated-cluster-id-0",
            random_bytes=self._random.randbytes,
        )
        broker.start(clean=clean, was_killed=self._ran_on)
        self.broker = broker
        self.manager.begin_registration(100, self.clock.now())
        return broker

    @property
    def manager(self) -> ReplicaManager:
        assert self.broker.replication is not None
        return self.broker.replication.manager

    def replica(self, topic: str = "t", index: int = 0) -> Replica:
        found = self.broker.partitions.get(topic, index)
        assert isinstance(found, Replica)
        return found

    def tell_brokers(self, *nodes: int, **fields: Any) -> None:
        """UpdateMetadata with these brokers, and no topics."""
        self._tell(nodes, [], **fields)

    def _tell(self, nodes: Sequence[int], topics: list[UpdateMetadataRequest.UpdateMetadataTopicState], **fields: Any) -> None:
        live = [
            UpdateMetadataRequest.UpdateMetadataBroker(
                id=node,
                endpoints=[UpdateMetadataRequest.UpdateMetadataEndpoint(port=9092, host=f"h{node}", listener="PLAINTEXT")],
            )
            for node in nodes
        ]
        given = {"controller_id": CONTROLLER, "controller_epoch": 1, "broker_epoch": 100} | fields
        body = UpdateMetadataRequest(live_brokers=live, topic_states=topics, **given)
        assert self.ask(6, 8, body).error_code == 0

    def tell_topic(
        self, *partitions: Any, topic: str = "t", topic_id: bytes = TOPIC_ID, brokers: Sequence[int] = (), **fields: Any
    ) -> None:
        """UpdateMetadata with these partitions of a topic, and these brokers, or those that are alive already."""
        told = UpdateMetadataRequest.UpdateMetadataTopicState(
            topic_name=topic, topic_id=topic_id, partition_states=list(partitions)
        )
        self._tell(brokers or sorted(self.broker.image.brokers), [told], **fields)

    def tell_roles(self, *states: Any, topic: str = "t", topic_id: bytes = TOPIC_ID, version: int = 7, **fields: Any) -> Any:
        """LeaderAndIsr; the response's error codes, or its error."""
        told = LeaderAndIsrRequest.LeaderAndIsrTopicState(topic_name=topic, topic_id=topic_id, partition_states=list(states))
        given = {"controller_id": CONTROLLER, "controller_epoch": 1, "broker_epoch": 100} | fields
        response = self.ask(4, version, LeaderAndIsrRequest(topic_states=[told], **given))
        if response.error_code:
            return response.error_code
        return [part.error_code for each in response.topics for part in each.partition_errors]

    def stop(self, index: int = 0, *, leader_epoch: int, delete: bool, topic: str = "t", **fields: Any) -> int:
        """StopReplica; what became of the replica, or the error of the response."""
        part = StopReplicaRequest.StopReplicaPartitionState(
            partition_index=index, leader_epoch=leader_epoch, delete_partition=delete
        )
        topics = [StopReplicaRequest.StopReplicaTopicState(topic_name=topic, partition_states=[part])]
        given = {"controller_id": CONTROLLER, "controller_epoch": 1, "broker_epoch": 100} | fields
        response = self.ask(5, 4, StopReplicaRequest(topic_states=topics, **given))
        return int(response.error_code or response.partition_errors[0].error_code)


def role(
    leader: int,
    leader_epoch: int = 0,
    *,
    isr: Sequence[int] = (1, 2, 3),
    replicas: Sequence[int] = (1, 2, 3),
    index: int = 0,
    partition_epoch: int = 0,
) -> Role:
    """What LeaderAndIsr says of a partition."""
    return Role(
        partition_index=index,
        controller_epoch=1,
        leader=leader,
        leader_epoch=leader_epoch,
        isr=list(isr),
        partition_epoch=partition_epoch,
        replicas=list(replicas),
    )


def told(index: int, leader: int, **fields: Any) -> UpdateMetadataRequest.UpdateMetadataPartitionState:
    """What UpdateMetadata says of a partition."""
    given: dict[str, Any] = {"leader_epoch": 3, "isr": [2, 3], "replicas": [2, 3, 1]} | fields
    return UpdateMetadataRequest.UpdateMetadataPartitionState(partition_index=index, leader=leader, **given)
