"""A connection that measures its requests. A broker that measures nothing uses `ServerConnection` itself, at no cost.

The clock is read once for each request, and once for each read and write.
"""

from __future__ import annotations

from time import perf_counter_ns

from ottla.broker.serving.purgatory import DelayedReply
from ottla.broker.serving.request import Answer
from ottla.net.kernel_meter import REMOTE, SEND, SYNC, TOTAL
from ottla.net.server.connection import Owner, ServerConnection
from ottla.net.server.exception_boundary import Door
from ottla.net.server.listeners import Listen
from ottla.net.server.request_meters import HEAD_BYTES, RequestMeter, RequestMeters
from ottla.ports import Clock, Now

Begun = tuple[RequestMeter, int, int, int, bytes]
"""A request whose reply is delayed: (meter, queue in ns, local in ns, end of local in ns, first bytes if it may be logged)."""


class MeasuredConnection(ServerConnection):
    """A connection to a client whose requests are measured by stages."""

    def __init__(self, owner: Owner, door: Door, clock: Clock, where: Listen, host: str, meters: RequestMeters) -> None:
        super().__init__(owner, door, clock, where, host)
        self._meters = meters
        self._rows = meters.rows
        self._arrived_ns = self._stamp_ns = 0
        self._begun: dict[DelayedReply, Begun] = {}
        self._unsent: RequestMeter | None = None
        self._send_ns = 0

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._begun.clear()

    def buffer_updated(self, nbytes: int) -> None:
        if not self._backlog or self._frame is not None:  # the oldest request that waits has arrived now
            self._arrived_ns = perf_counter_ns()
        super().buffer_updated(nbytes)

    def _serve_frames(self, view: memoryview, now: Now, *, owned: bool = False) -> None:
        self._stamp_ns = perf_counter_ns()
        super()._serve_frames(view, now, owned=owned)

    def _serve(self, frame: memoryview, now: Now, owned: bool) -> Answer | DelayedReply:
        began_ns = self._stamp_ns
        answer = super()._serve(frame, now, owned)
        self._stamp_ns = ended_ns = perf_counter_ns()
        try:
            meter = self._rows[frame[1]][frame[3]] or self._meters.begin(frame)
        except IndexError:
            meter = self._meters.begin(frame)
        queue_ns, local_ns = began_ns - self._arrived_ns, ended_ns - began_ns
        slow_ns = self._meters.slow_ns
        if isinstance(answer, DelayedReply):
            meter.add_begun(queue_ns, local_ns)
            self._begun[answer] = meter, queue_ns, local_ns, ended_ns, b"" if slow_ns is None else bytes(frame[:HEAD_BYTES])
            return answer
        meter.add_served(queue_ns, local_ns)
        self._unsent = meter
        if slow_ns is not None and queue_ns + local_ns > slow_ns:
            self._meters.log_slow(meter, frame, self.peer, (queue_ns, local_ns, 0, 0))
        return answer

    def _ready(self) -> None:
        super()._ready()
        begun = self._begun
        while begun:
            reply = next(iter(begun))
            if not reply.done:
                break
            self._finish(reply, begun.pop(reply))

    def _finish(self, reply: DelayedReply, begun: Begun) -> None:
        """Count the last stages of a request whose delayed reply is complete."""
        meter, queue_ns, local_ns, ended_ns, head = begun
        waited_ns = perf_counter_ns() - ended_ns
        meter.add(REMOTE if reply.blocking else SYNC, waited_ns)
        meter.add(TOTAL, queue_ns + local_ns + waited_ns)
        self._unsent = meter
        slow_ns, sync_ns = self._meters.slow_ns, 0 if reply.blocking else waited_ns
        if slow_ns is not None and queue_ns + local_ns + sync_ns > slow_ns:
            self._meters.log_slow(meter, head, self.peer, (queue_ns, local_ns, waited_ns - sync_ns, sync_ns))

    def _flush(self) -> bool:
        meter = self._unsent
        if meter is None:
            return super()._flush()
        began_ns = self._send_ns or perf_counter_ns()
        has_more = super()._flush()
        if self._outbox.is_empty:
            meter.add(SEND, perf_counter_ns() - began_ns)
            self._unsent, self._send_ns = None, 0
        else:
            self._send_ns = began_ns
        return has_more
