"""The entries that a lone broker writes into the registry at start-up: itself, the cluster's id, and itself as the controller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ottla.cluster import layout
from ottla.ports import Change


class BrokerSpec(NamedTuple):
    """A broker that registers. `endpoints` are NAME://host:port; the first is also written as host and port, for old clients."""

    node_id: int
    host: str
    port: int
    endpoints: Sequence[str]
    rack: str | None


def register(broker: BrokerSpec, cluster_id: str, controller_epoch: int, wall_ms: int) -> tuple[Change, ...]:
    """Register this broker, and make it the controller of this epoch. Both entries are ephemeral: they end with its session."""
    described = layout.broker_json(broker.host, broker.port, broker.endpoints, broker.rack, wall_ms)
    return (
        Change(layout.CLUSTER_ID, layout.cluster_id_json(cluster_id)),
        Change(layout.broker_path(broker.node_id), described, ephemeral=True),
        Change(layout.CONTROLLER, layout.controller_json(broker.node_id, wall_ms), ephemeral=True),
        Change(layout.CONTROLLER_EPOCH, str(controller_epoch).encode()),
    )


def address_in(value: bytes) -> str:
    """Return the endpoints in a broker's entry, for messages to people."""
    try:
        stored = layout.read(value)
        return ", ".join(stored.get("endpoints") or [f"{stored['host']}:{stored['port']}"])
    except (ValueError, LookupError, TypeError, AttributeError):
        return "an invalid address"
