"""A connection that measures its requests. A broker that measures nothing uses `ServerConnection` itself, at no cost.

The clock is read once for each request, and once for each read and write.
"""

from __future__ import annotations

from ottla.broker.serving.purgatory import DelayedReply
from ottla.net.kernel_meter import REMOTE, SEND, SYNC, TOTAL, RequestWatch, clock_ns
from ottla.net.server.connection import Owner, ServerConnection
from ottla.net.server.exception_boundary import Door
from ottla.net.server.listeners import Listen
from ottla.net.server.request_meters import HEAD_BYTES, RequestMeter, RequestMeters
from ottla.ports import Clock, Now

Begun = tuple[RequestMeter, int, int, int, bytes]
"""A request whose reply is delayed: see `RequestWatch`."""


class MeasuredConnection(ServerConnection):
    """A connection to a client whose requests are measured by stages."""

    def __init__(self, owner: Owner, door: Door, clock: Clock, where: Listen, host: str, meters: RequestMeters) -> None:
        super().__init__(owner, door, clock, where, host)
        self._meters = meters
        self._watch = RequestWatch(self._receive, DelayedReply, meters, HEAD_BYTES)
        self._receive = self._watch.receive
        self._send_ns = 0

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._watch.begun.clear()

    def buffer_updated(self, nbytes: int) -> None:
        if not self._backlog or self._frame is not None:  # the oldest request that waits has arrived now
            self._watch.arrive()
        ServerConnection.buffer_updated(self, nbytes)  # super() would make an object for each read

    def _work_off(self, now: Now) -> None:
        self._watch.resume()
        super()._work_off(now)

    def _ready(self) -> None:
        super()._ready()
        begun = self._watch.begun
        while begun:
            reply = next(iter(begun))
            if not reply.done:
                break
            self._finish(reply, begun.pop(reply))

    def _finish(self, reply: DelayedReply, begun: Begun) -> None:
        """Count the last stages of a request whose delayed reply is complete."""
        meter, queue_ns, local_ns, ended_ns, head = begun
        waited_ns = clock_ns() - ended_ns
        meter.add(REMOTE if reply.blocking else SYNC, waited_ns)
        meter.add(TOTAL, queue_ns + local_ns + waited_ns)
        self._watch.last = meter
        slow_ns, sync_ns = self._meters.slow_ns, 0 if reply.blocking else waited_ns
        if slow_ns is not None and queue_ns + local_ns + sync_ns > slow_ns:
            self._meters.log_slow(meter, head, self.peer, (queue_ns, local_ns, waited_ns - sync_ns, sync_ns))

    def _flush(self) -> bool:
        meter = self._watch.last
        if meter is None:
            return ServerConnection._flush(self)
        began_ns = self._send_ns or clock_ns()
        has_more = ServerConnection._flush(self)
        if self._outbox.is_empty:
            meter.add(SEND, clock_ns() - began_ns)
            self._watch.last, self._send_ns = None, 0
        else:
            self._send_ns = began_ns
        return has_more
