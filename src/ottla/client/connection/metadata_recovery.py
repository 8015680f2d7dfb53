"""The decision whether a client forgets the brokers that it knows and begins again at its bootstrap servers (KIP-899, KIP-1102).

The brokers of a cluster can all be replaced while a client is idle. Its bootstrap servers, usually names that are resolved anew,
then lead to the new brokers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ottla.client.types import Node

REBOOTSTRAP, NONE = "rebootstrap", "none"
Address = tuple[str, int]
"""Host and port."""


class MetadataRecovery:
    """The addresses to connect to, and how long metadata requests have failed. Times are in ms."""

    def __init__(self, bootstrap: Sequence[Address], strategy: str, trigger_ms: int) -> None:
        self.bootstrap = list(bootstrap)
        self._trigger_ms = trigger_ms
        self._failing_since_ms: int | None = None
        self.is_enabled = strategy == REBOOTSTRAP
        """Whether the client may return to its bootstrap servers once it knows brokers."""

    def addresses(self, known: Iterable[Node]) -> list[Address]:
        """Return the addresses to connect to, in order, when no connection is open: bootstrap servers and known brokers.

        With the strategy `none`, the bootstrap servers count only as long as no broker is known.
        """
        brokers = [(node.host, node.port) for node in known]
        return list(dict.fromkeys(self.bootstrap + brokers if self.is_enabled or not brokers else brokers))

    def record_failure(self, now_ms: int) -> None:
        """Record that a metadata request was not answered."""
        if self._failing_since_ms is None:
            self._failing_since_ms = now_ms

    def record_answer(self) -> None:
        """Reset the time of failures, after an answer to a metadata request or once the brokers were forgotten."""
        self._failing_since_ms = None

    def is_due(self, now_ms: int) -> bool:
        """Return whether all metadata requests have failed for `metadata_recovery_rebootstrap_trigger_ms`."""
        since_ms = self._failing_since_ms
        return self.is_enabled and since_ms is not None and now_ms - since_ms >= self._trigger_ms
