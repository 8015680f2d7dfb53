"""Where clients reach each broker that is up, as seen from the listener that a request came through."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.serving.request import Peer


class Address(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None


def addresses(broker: Broker, peer: Peer) -> Iterator[Address]:
    """Every broker with an endpoint of the peer's listener, by number."""
    for node_id, known in sorted(broker.topics.image.brokers.items()):
        if node_id == broker.node_id:
            yield Address(node_id, *broker.advertised(peer), known.rack)
            continue
        for name, host, port in known.endpoints:
            if name == peer.listener:
                yield Address(node_id, host, port, known.rack)
