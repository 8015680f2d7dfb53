"""The log of a client's connections: a line when a broker becomes reachable or unreachable. The module opens no connections."""

from __future__ import annotations

import logging

log = logging.getLogger("ottla.client")

LINES_AT_ONCE = 4
"""The number of changes of one broker that can be logged within a short time, however often its connections break."""
REGAINED_MS = 15_000
"""The time, in ms, after which one more change of a broker can be logged."""


class ConnectionLog:
    """The last logged state of each broker, by address. A client that retries each second logs only the first failure.

    Changes beyond `LINES_AT_ONCE` are not logged at once, but at a later attempt to connect, if the state still differs.
    """

    def __init__(self, client_id: str | None) -> None:
        self._client_id = client_id or "client"
        self._reached: dict[str, bool] = {}
        self._spent_ms: dict[str, int] = {}
        """Address -> the time, in ms, from which `LINES_AT_ONCE` changes can be logged again."""

    def reached(self, where: str, now_ms: int) -> None:
        """Log that a broker is connected, unless this was the last line about the broker."""
        if self._is_news(where, now_ms, reached=True):
            log.info("%s: connected to %s", self._client_id, where)

    def lost(self, where: str, error: BaseException, now_ms: int) -> None:
        """Log that a broker is unreachable or its connection broke, unless this was the last line about the broker."""
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
