"""The registry's entry of a broker, as lone brokers wrote it that had no controller."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.cluster.layout import json_bytes


def broker_json(host: str, port: int, endpoints: Sequence[str], rack: str | None, wall_ms: int) -> bytes:
    """Encode a registration. Each endpoint is LISTENER://host:port, with PLAINTEXT security."""
    value = {
        "features": {},
        "listener_security_protocol_map": {endpoint.partition("://")[0]: "PLAINTEXT" for endpoint in endpoints},
        "endpoints": list(endpoints),
        "jmx_port": -1,
        "port": port,
        "host": host,
        "version": 5,
        "timestamp": str(wall_ms),
    }
    return json_bytes(value if rack is None else value | {"rack": rack})
