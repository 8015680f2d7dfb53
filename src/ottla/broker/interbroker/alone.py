"""The links of a broker that is alone in its cluster: its requests are to itself, and there is no other broker to reach."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ottla.ports import Buffer


class NoLinks:
    """Implements `ottla.ports.Links` and `ottla.ports.BrokerLink`: no broker is ever reached.

    `later(call)` makes a call when the work at hand is over.
    """

    def __init__(self, later: Callable[[Callable[[], None]], None]) -> None:
        self._later = later

    def open(self, host: str, port: int, receive_buffer_bytes: int) -> NoLinks:
        """Return the link to a broker that is not there."""
        return self

    def send(self, frame: Sequence[Buffer], timeout_ms: int, answered: Callable[[memoryview | None], None]) -> None:
        """Call `answered(None)` later: no response will come."""
        self._later(partial(answered, None))

    def close(self) -> None: ...
