"""The single place that catches unexpected exceptions and decides whether the broker can continue.

While a request is read and decided, nothing is changed, so an exception fails only the request. An exception after a change (an
append, an `apply`, a commit to the registry) has broken an invariant, as has an exception in a timer, a background job or a
completion. A broker that continued could lose data, so it ends.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from types import TracebackType

from ottla.broker.broker import BrokerMachine
from ottla.broker.failures import Mistake, first_bytes
from ottla.broker.serving.purgatory import DelayedReply
from ottla.broker.serving.request import Answer, Close, Peer
from ottla.ports import Buffer, Now
from ottla.wire.errors import UNKNOWN_SERVER_ERROR

log = logging.getLogger("ottla.net")

ENDED = (
    "the broker stops, because %s met a bug in Ottla, and continuing could lose data; acknowledged records are on disk. "
    "Start it again, and please report these lines"
)
SENTENCE = "The request was refused because of a bug in the broker: please report the exception in the broker's log."


class BrokerFailed(Exception):
    """The broker ended because of a bug that could have caused a loss of data. `__cause__` is the bug's exception.

    Acknowledged data is on disk. When the broker is started again, it checks its logs.
    """

    def __init__(self) -> None:
        super().__init__("The broker ended because of a bug in it: start it again, and please report the exception that caused it.")


class Door:
    """The only entry to one broker: requests enter through `receive`, all other calls run inside `with door:`.

    `failure` is the exception of the bug that ended the broker, or None. `end` is called when such an exception ends the broker.
    """

    def __init__(self, broker: BrokerMachine, end: Callable[[], None]) -> None:
        self.failure: Exception | None = None
        self._broker = broker
        self._routers = broker.routers
        self._end = end

    @property
    def unexpected(self) -> int:
        """Return the number of requests, or parts of large requests, that were refused because of a bug."""
        return self._broker.changes.mistakes

    def receive(self, frame: Buffer, peer: Peer, now: Now, owned: bool = False) -> Answer | DelayedReply:
        """Serve a request. After a bug, return an error if the API's response has a field for it. `owned`: see `Router.receive`."""
        try:
            return self._routers[peer.release.dialect].receive(frame, peer, now, owned)
        except Exception as error:
            if self._broker.changes.made:
                self.fail(error, f"a request of {peer} that had changed something (it begins with {first_bytes(frame)})")
                return None
            self._broker.changes.report(error, f"a request of {peer}", frame)
            refuse = partial(self._routers[peer.release.dialect].refuse, UNKNOWN_SERVER_ERROR, SENTENCE)
            refused = self._broker.changes.attempt(refuse)
            return Close(SENTENCE) if isinstance(refused, Mistake) else refused  # the bug may be in the encoding of answers

    def fail(self, error: Exception, where: str) -> None:
        """End the broker because of an exception, and log it. Later calls do nothing."""
        if self.failure is None:
            self.failure = error
            log.critical(ENDED, where, exc_info=error)
            self._end()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        if not isinstance(error, Exception):
            return False
        self.fail(error, "its work between requests")
        return True
