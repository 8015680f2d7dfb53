"""What serves frames: a router for each of the ways in which listeners are spoken to, which their release says."""

from __future__ import annotations

from typing import Protocol

from ottla.broker.serving.purgatory import DelayedReply
from ottla.broker.serving.request import Answer, Peer
from ottla.ports import Buffer, Now


class Speaks(Protocol):
    """A router: what a broker is to those who speak one dialect."""

    def receive(self, frame: Buffer, peer: Peer, now: Now, owned: bool = False) -> Answer | DelayedReply:
        """Serve one request (the bytes after its size): see `Router.receive`."""
        ...

    def refuse(self, error_code: int, sentence: str) -> Answer:
        """Answer the request that was received last with an error, or close its connection where there is no place for one."""
        ...
