"""The addresses of live brokers, as seen from the listener of a request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ottla.broker.identity import BrokerIdentity
from ottla.broker.serving.request import Peer
from ottla.broker.settings import SettingsInForce
from ottla.cluster.image import ClusterImage


class Address(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None


class Addresses:
    """The addresses returned to clients."""

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
