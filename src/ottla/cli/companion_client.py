"""The client of a server that runs beside a broker, in its process: which of the broker's listeners it connects to, and how."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.net.server.listeners import Listen

SECURITIES = ("PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL")
"""The security protocols of listeners, in the order in which the console prefers them: its connection leaves no machine."""
SELF = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}
"""The addresses at which a listener of all interfaces is reached from the same machine."""


def client_of(listeners: Sequence[Listen]) -> dict[str, Any]:
    """Return the settings of a client of the listener that suits a console best."""
    current = [each for each in listeners if each.release.is_today] or list(listeners)
    best = min(current, key=lambda each: SECURITIES.index(_security(each)))
    host = SELF.get(best.host, best.host)
    return {
        "bootstrap_servers": f"[{host}]:{best.port}" if ":" in host else f"{host}:{best.port}",
        "security_protocol": _security(best),
    }


def _security(listener: Listen) -> str:
    return "PLAINTEXT" if listener.security is None else listener.security.value
