"""The addresses of live brokers, as seen from the listener of a request.

Errors about partitions that this broker does not lead contain the current leaders with their addresses, which saves a Metadata
request (KIP-951). Responses that are written in blocks contain no leaders.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from ottla.broker.identity import BrokerIdentity
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.serving.request import Peer
from ottla.broker.settings import SettingsInForce
from ottla.cluster.image import ClusterImage
from ottla.cluster.replicas.follower import FollowerState
from ottla.wire.api.fetch import FetchResponse
from ottla.wire.api.produce import ProduceResponse
from ottla.wire.api.share_acknowledge import ShareAcknowledgeResponse
from ottla.wire.api.share_fetch import ShareFetchResponse
from ottla.wire.errors import FENCED_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER
from ottla.wire.schema import Message


class Address(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None


class Addresses:
    """The addresses of brokers that are returned to clients, by the listener of the client's connection."""

    def __init__(self, identity: BrokerIdentity, settings: SettingsInForce, cluster: ClusterImage) -> None:
        self._identity = identity
        self._settings = settings
        self._cluster = cluster

    def own(self, peer: Peer) -> tuple[str, int]:
        """Return this broker's address: the advertised address, else the local address of this peer's connection."""
        for listener in self._settings.value.advertised_listeners or ():
            if listener.name == peer.listener:
                return listener.host, listener.port
        return peer.local_host, peer.local_port

    def of(self, node_id: int, peer: Peer) -> tuple[str, int] | None:
        """Return a broker's address at the peer's listener; None if the broker is unregistered or lacks the listener."""
        if node_id == self._identity.node_id:
            return self.own(peer)
        known = self._cluster.brokers.get(node_id)
        return next(((host, port) for name, host, port in (known.endpoints if known else ()) if name == peer.listener), None)

    def all(self, peer: Peer) -> Iterator[Address]:
        """Yield every broker with an endpoint of the peer's listener, by id. If no broker is known, yield this broker."""
        if not self._cluster.brokers:
            yield Address(self._identity.node_id, *self.own(peer), self._settings.value.broker_rack)
        for node_id, known in sorted(self._cluster.brokers.items()):
            if node_id == self._identity.node_id:
                yield Address(node_id, *self.own(peer), known.rack)
                continue
            for name, host, port in known.endpoints:
                if name == peer.listener:
                    yield Address(node_id, host, port, known.rack)


UNKNOWN: Final = (-1, -1)
LEADERS_FROM: Final = {
    ProduceResponse.WIRE.key: 10,
    FetchResponse.WIRE.key: 16,
    ShareFetchResponse.WIRE.key: 1,
    ShareAcknowledgeResponse.WIRE.key: 1,
}
"""The first version of each response with fields for leaders."""


class CurrentLeaders:
    """The source of leader addresses in error responses: it adds the current leader to errors caused by a wrong leader."""

    def __init__(self, partitions: Partitions, image: ClusterImage, addresses: Addresses) -> None:
        self._partitions = partitions
        self._image = image
        self._addresses = addresses

    def add(self, response: Message, peer: Peer) -> None:
        """Add the id and epoch of the current leader to each error of a response that a wrong leader has caused."""
        if isinstance(response, ProduceResponse):
            self._add_to_produce(response, peer)
        elif isinstance(response, FetchResponse):
            self._add_to_fetch(response, peer)
        elif isinstance(response, (ShareFetchResponse, ShareAcknowledgeResponse)):
            self._add_to_share(response, peer)

    def _add_to_produce(self, response: ProduceResponse, peer: Peer) -> None:
        nodes = set[int]()
        for topic in response.responses:
            for part in topic.partition_responses:
                if part.error_code == NOT_LEADER_OR_FOLLOWER:
                    node_id, epoch = self._leader(topic.name or self._image.name_of(topic.topic_id), part.index)
                    part.current_leader = ProduceResponse.LeaderIdAndEpoch(leader_id=node_id, leader_epoch=epoch)
                    nodes.add(node_id)
        if nodes:
            response.node_endpoints = [ProduceResponse.NodeEndpoint(**address._asdict()) for address in self._of(nodes, peer)]

    def _add_to_fetch(self, response: FetchResponse, peer: Peer) -> None:
        nodes = set[int]()
        for topic in response.responses:
            for part in topic.partitions:
                if part.error_code in (NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH):
                    node_id, epoch = self._leader(topic.topic or self._image.name_of(topic.topic_id), part.partition_index)
                    part.current_leader = FetchResponse.LeaderIdAndEpoch(leader_id=node_id, leader_epoch=epoch)
                    nodes.add(node_id)
        if nodes:
            response.node_endpoints = [FetchResponse.NodeEndpoint(**address._asdict()) for address in self._of(nodes, peer)]

    def _add_to_share(self, response: ShareFetchResponse | ShareAcknowledgeResponse, peer: Peer) -> None:
        nodes = set[int]()
        for topic in response.responses:
            for part in topic.partitions:
                if part.error_code in (NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH):
                    node_id, epoch = self._leader(self._image.name_of(topic.topic_id), part.partition_index)
                    part.current_leader = ShareFetchResponse.LeaderIdAndEpoch(leader_id=node_id, leader_epoch=epoch)
                    nodes.add(node_id)
        if nodes:
            response.node_endpoints = [ShareFetchResponse.NodeEndpoint(**address._asdict()) for address in self._of(nodes, peer)]

    def _leader(self, topic: str | None, index: int) -> tuple[int, int]:
        """Return (id, epoch) of the leader that this broker follows, or else of the leader that the controller sent last."""
        held = self._partitions.get(topic or "", index)
        role = None if held is None else held.replicas
        if isinstance(role, FollowerState):
            return role.leader, role.leader_epoch
        known = self._image.topics.get(topic or "")
        told = known.partitions[index] if known is not None and 0 <= index < len(known.partitions) else None
        if role is not None and (told is None or role.leader_epoch >= told.leader_epoch):
            return role.node_id, role.leader_epoch
        return UNKNOWN if told is None else (told.leader, told.leader_epoch)

    def _of(self, nodes: Collection[int], peer: Peer) -> Iterator[Address]:
        return (address for address in self._addresses.all(peer) if address.node_id in nodes)
