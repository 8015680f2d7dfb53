"""Brokers of a simulated cluster that are controllers and nothing else: they note what the controller tells them, and answer it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from ottla.broker.controller.controller import Controller
from ottla.broker.failures import Changes
from ottla.broker.interbroker.channels import Channels
from ottla.broker.interbroker.loopback import Answered, Within
from ottla.broker.scheduler import Scheduler
from ottla.broker.serving.request import Peer
from ottla.broker.settings import BrokerSettings, SettingsInForce
from ottla.cluster import layout
from ottla.cluster.controller_rules import entries
from ottla.cluster.controller_rules.context import LeaderAndIsr, ReplicaAssignment
from ottla.cluster.features import NEWEST
from ottla.cluster.image import ClusterImage
from ottla.ports import NEW, Buffer, Change, Now, StorageFailed
from ottla.sim.ensemble import SimEnsemble
from ottla.sim.links import SimNetwork
from ottla.sim.process import SimProcess
from ottla.sim.shared_registry import SimSharedRegistry
from ottla.sim.world import World
from ottla.wire.api.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from ottla.wire.api.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from ottla.wire.api.stop_replica import StopReplicaRequest, StopReplicaResponse
from ottla.wire.api.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from ottla.wire.errors import KAFKA_STORAGE_ERROR, NONE
from ottla.wire.framing import decode_request, encode_response
from ottla.wire.schema import Message
from tests.support.simulated import completed

TIMEOUT_MS = 6_000
SETTLED_MS = 2_000
PORT = 9092


class Candidate:
    """One broker. `heard` is what it was told; `failed` are replicas that it can't use; `goodbyes` are its answers to who stops.

    `refusal` is the error with which it answers roles and metadata, if any.
    """

    def __init__(self, cluster: ControlledCluster, node_id: int) -> None:
        self.node_id = node_id
        self.cluster = cluster
        self.world = cluster.world
        self.process = SimProcess(self.world, f"host{node_id}")
        self.registry = SimSharedRegistry(cluster.ensemble, self.process)
        self.scheduler = Scheduler(self.process.clock)
        self.world.timed.append(self)
        self.heard: list[Any] = []
        self.failed: set[tuple[str, int]] = set()
        self.undeletable = 0
        """How often its disk refuses to delete replicas."""
        self.is_deaf = False
        self.refusal = NONE
        self.roles: dict[tuple[str, int], tuple[int, int]] = {}
        self.metadata: dict[tuple[str, int], int] = {}
        self.goodbyes: list[ControlledShutdownResponse] = []
        self.shutdowns: list[ControlledShutdownRequest] = []
        cluster.network.listen(f"host{node_id}", PORT, self.process, lambda: Ear(self))
        settings = SettingsInForce(BrokerSettings.parse(cluster.settings))
        within = Within(self.scheduler, Changes(), self._serve)
        self.channels = Channels(node_id, cluster.network.links(self.process), ClusterImage(), settings, within)
        new_id = partial(self.world.random.randbytes, 16)
        self.controller = Controller(self.registry, self.channels, settings, self.scheduler, node_id, new_id)

    def register(self) -> None:
        """Be one of the cluster, and a candidate."""
        endpoints = [("PLAINTEXT", f"host{self.node_id}", PORT, "PLAINTEXT")]
        served = self.cluster.features.get(self.node_id, NEWEST)
        value = layout.member_json(endpoints, None, self.world.clock.now().wall_ms, 5, served)
        completed(self.world, self.registry.commit([Change(layout.broker_path(self.node_id), value, NEW, ephemeral=True)]))
        self.controller.become_candidate(self.process.clock.now())

    def end(self) -> None:
        """Die at once; the session ends when the registry notices."""
        self.process.end()
        self.world.timed.remove(self)
        self.cluster.network.reset(self.process)

    def leave(self) -> None:
        """Stop in good order: the session ends now."""
        self.registry.close()
        self.end()

    def next_ms(self) -> int | None:
        """As of `Timed`."""
        return None if self.process.is_paused else self.scheduler.next_ms()

    def run_due(self, now: Now) -> None:
        """As of `Timed`."""
        if not self.process.is_paused:
            self.scheduler.run_due(now)

    def _serve(self, message: Message, version: int, peer: Peer, now: Now, answered: Answered) -> None:
        answered(self._noted(message))

    def answer(self, frame: Buffer) -> Any:
        """Note a request, and do as it says."""
        header, body = decode_request(bytes(frame))
        return encode_response(header.correlation_id, header.api_key, header.api_version, self._noted(body))

    def _noted(self, body: Any) -> Any:
        if isinstance(body, ControlledShutdownRequest):
            self.shutdowns.append(body)
        else:
            self.heard.append(body)
        return self._answer(body)

    def _answer(self, body: Any) -> Any:
        if isinstance(body, LeaderAndIsrRequest):
            return self._take_roles(body)
        if isinstance(body, StopReplicaRequest) and self.undeletable:
            self.undeletable -= 1
            return StopReplicaResponse(error_code=KAFKA_STORAGE_ERROR)
        if isinstance(body, StopReplicaRequest):
            for topic in body.topic_states:
                for one in topic.partition_states:
                    self.roles.pop((topic.topic_name, one.partition_index), None)
            return StopReplicaResponse()
        if isinstance(body, ControlledShutdownRequest):
            return self.goodbyes.pop(0)
        assert isinstance(body, UpdateMetadataRequest)
        if self.refusal:
            return UpdateMetadataResponse(error_code=self.refusal)
        for told in body.topic_states:
            self.metadata.update(((told.topic_name, one.partition_index), one.leader) for one in told.partition_states)
        return UpdateMetadataResponse()

    def _take_roles(self, body: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        response = LeaderAndIsrResponse(error_code=self.refusal)
        if self.refusal:
            return response
        for topic in body.topic_states:
            error = LeaderAndIsrResponse.LeaderAndIsrTopicError(topic_id=topic.topic_id)
            for one in topic.partition_states:
                self.roles[topic.topic_name, one.partition_index] = (one.leader, one.leader_epoch)
                code = KAFKA_STORAGE_ERROR if (topic.topic_name, one.partition_index) in self.failed else 0
                error.partition_errors.append(
                    LeaderAndIsrResponse.LeaderAndIsrPartitionError(partition_index=one.partition_index, error_code=code)
                )
            response.topics.append(error)
        return response


class Ear:
    """One connection to a candidate."""

    def __init__(self, candidate: Candidate) -> None:
        self._candidate = candidate

    def serve(self, frame: memoryview, answered: Callable[[memoryview | None], None]) -> None:
        """Answer, unless it is deaf."""
        if not self._candidate.is_deaf:
            answered(memoryview(b"".join(self._candidate.answer(frame)))[4:])

    def close(self) -> None:
        """Nothing to do."""


class ControlledCluster:
    """A registry, a network and candidates that are registered."""

    def __init__(self, nodes: Iterable[int] = (1, 2, 3), seed: int = 0, **settings: str) -> None:
        self.world = World(seed)
        self.ensemble = SimEnsemble(self.world, timeout_ms=TIMEOUT_MS)
        self.network = SimNetwork(self.world)
        self.settings = {name.replace("_", "."): text for name, text in settings.items()}
        self.nodes: dict[int, Candidate] = {}
        self.features: dict[int, dict[str, int]] = {}
        """What some brokers can serve; the others can serve everything."""
        for node_id in nodes:
            self.join(node_id)
            self.settle()

    def join(self, node_id: int) -> Candidate:
        """A new broker, or a new life of one."""
        candidate = self.nodes[node_id] = Candidate(self, node_id)
        self.world.run(SETTLED_MS, lambda: candidate.registry.session_end_ms() > 0)
        candidate.register()
        return candidate

    def settle(self, ms: int = SETTLED_MS) -> None:
        """Let time pass."""
        self.world.run(ms)

    @property
    def controller(self) -> Candidate:
        """The broker that is the controller."""
        (found,) = [node for node in self.nodes.values() if node.controller.is_active and not node.process.has_ended]
        return found

    def create(self, name: str, *replicas: tuple[int, ...], topic_id: bytes | None = None) -> None:
        """Write the entry of a topic, as any broker or tool does."""
        assignments = {index: ReplicaAssignment(nodes) for index, nodes in enumerate(replicas)}
        self.ensemble.put(Change(layout.topic_path(name), entries.topic_value(topic_id, assignments), NEW))

    def state(self, name: str, index: int = 0) -> LeaderAndIsr | None:
        """Who leads a partition, as the registry says."""
        entry = self.ensemble.get(layout.state_path(name, index))
        return None if entry is None else entries.state(entry)

    def ask(self, steps: Any) -> Any:
        """What steps come to, while the world goes on."""
        try:
            return completed(self.world, steps)
        except StorageFailed as failure:
            return failure
