"""The current leaders in errors about partitions that this broker does not lead, which save a Metadata request (KIP-951).

Depends on the leaders that the controller has sent, and on the responses with a field for leaders. Responses that are written in
blocks contain no leaders.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from ottla.broker.partitions.partitions import Partitions
from ottla.broker.serving.addresses import Address, Addresses
from ottla.broker.serving.request import Peer
from ottla.cluster.image import ClusterImage
from ottla.cluster.replicas.follower import FollowerState
from ottla.wire.api.fetch import FetchResponse
from ottla.wire.api.produce import ProduceResponse
from ottla.wire.errors import FENCED_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER
from ottla.wire.schema import Message

UNKNOWN: Final = (-1, -1)
LEADERS_FROM: Final = {ProduceResponse.WIRE.key: 10, FetchResponse.WIRE.key: 16}
"""The first version of each response with fields for leaders."""


class CurrentLeaders:
    """The leaders of partitions, as last received."""

    def __init__(self, partitions: Partitions, image: ClusterImage, addresses: Addresses) -> None:
        self._partitions = partitions
        self._image = image
        self._addresses = addresses

    def add(self, response: Message, peer: Peer) -> None:
        """Add the current leader to each error that a wrong leader causes."""
        if isinstance(response, ProduceResponse):
            self._add_to_produce(response, peer)
        elif isinstance(response, FetchResponse):
            self._add_to_fetch(response, peer)

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
