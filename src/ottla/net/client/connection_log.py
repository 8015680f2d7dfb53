"""Log lines about a client's connections: a broker is reached or not, each once when it changes. Knows no socket."""

from __future__ import annotations

import logging

log = logging.getLogger("ottla.client")

LINES_AT_ONCE = 4
"""How many changes of one broker are logged at once, however often its connections come and go."""
REGAINED_MS = 15_000
"""How long it takes until one more may be logged."""


class ConnectionLog:
    """The state of each broker that was logged last, by address. A client that tries again each second logs the first failure only.

    A change beyond `LINES_AT_ONCE` is logged later, if it is still so at another try.
    """

    def __init__(self, client_id: str | None) -> None:
        self._client_id = client_id or "client"
        self._reached: dict[str, bool] = {}
        self._spent_ms: dict[str, int] = {}
        """By address, the time at which all its lines may be logged again."""

    def reached(self, where: str, now_ms: int) -> None:
        """Log that a broker is connected, unless that is known."""
        if self._is_news(where, now_ms, reached=True):
            log.info("%s: connected to %s", self._client_id, where)

    def lost(self, where: str, error: BaseException, now_ms: int) -> None:
        """Log that a broker cannot be reached, or that a connection to it broke, unless that is known."""
        if self._is_news(where, now_ms, reached=False):
            sequel = "; it is tried again" if getattr(error, "retriable", True) else ""
            log.info("%s: %s%s", self._client_id, str(error).rstrip("."), sequel)

    def _is_news(self, where: str, now_ms: int, *, reached: bool) -> bool:
        if self._reached.get(where) == reached:
            return False
        spent_ms = max(now_ms, self._spent_ms.get(where, now_ms)) + REGAINED_MS
        if spent_ms - now_ms > LINES_AT_ONCE * REGAINED_MS:
            return False
        self._spent_ms[where] = spent_ms
        self._reached[where] = reached
        return True
