"""Whoever asks what there is in a cluster waits until its controller has told this broker, which it does as soon as it can.

An answer before that names no other brokers. The Java client takes it for none; librdkafka forgets all brokers it does not name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ottla.broker.serving.purgatory import DelayedOperation, Purgatory, Reply
from ottla.ports import Now

MOST_WAIT_MS: Final = 5000
"""As long as nobody is controller there is none to tell: a client may find out more from another broker."""


class FirstNews:
    """Whether they `have_come`; a lone broker knows all there is from the start."""

    def __init__(self, purgatory: Purgatory, *, have_come: bool) -> None:
        self.have_come = have_come
        self._purgatory = purgatory

    def come(self) -> None:
        """The controller has told all that it knows."""
        if not self.have_come:
            self.have_come = True
            self._purgatory.wake(self)

    def awaited(self, now: Now, answer: Callable[[], Reply]) -> Reply:
        """The answer once they have come, or as good as it is when that took too long."""
        if self.have_come:
            return answer()

        def retry(now: Now, expired: bool) -> Reply | None:
            return answer() if self.have_come or expired else None

        return DelayedOperation((self,), now.mono_ms + MOST_WAIT_MS, retry)
