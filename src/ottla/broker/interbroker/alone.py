"""The links of a single broker: it sends requests to itself only, and reaches no other broker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ottla.ports import Buffer


class NoLinks:
    """Implementation of `ottla.ports.Links` and `ottla.ports.BrokerLink` that reaches no broker.

    `later(call)` runs a call after the current work.
    """

    def __init__(self, later: Callable[[Callable[[], None]], None]) -> None:
        self._later = later

    def open(self, host: str, port: int, receive_buffer_bytes: int) -> NoLinks:
        """Return the link to a broker that can't be reached."""
        return self

    def send(self, frame: Sequence[Buffer], timeout_ms: int, answered: Callable[[memoryview | None], None]) -> None:
        """Call `answered(None)` later, because no response will arrive."""
        self._later(partial(answered, None))

    def close(self) -> None: ...
