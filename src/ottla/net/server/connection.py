"""One client's connection: it splits bytes into frames, and sends replies in order.

Memory is bounded in both directions. Incoming bytes are read into a buffer that all connections share. Only an incomplete frame
gets its own buffer, for which memory is claimed. A connection stops reading in four cases: its reply is pending, its peer does not
read, its time is used up, or memory for its request is missing. In the output direction, asyncio's buffer contains one chunk at
most. File slices are read only when the socket can take them.
"""

from __future__ import annotations

import asyncio
import logging
import mmap
import re
import socket
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from struct import Struct
from typing import Protocol, cast

from ottla.broker.serving.purgatory import DelayedReply
from ottla.broker.serving.request import Answer, Close, Peer, Throttled
from ottla.net.server.buffer_pool import FramePool, Tally
from ottla.net.server.exception_boundary import Door
from ottla.net.server.garbage_collector import release
from ottla.net.server.listeners import Listen
from ottla.net.server.outbox import SENT_BYTES, Outbox
from ottla.net.server.turns import Turns
from ottla.ports import Clock, FileSlice, Now, StorageFailed

log = logging.getLogger("ottla.net")

SIZE = Struct(">i")
NUMBER = re.compile(r"\d+")
BACKLOG_BYTES = 64 * 1024
EAGER_BYTES = 2 * 1024 * 1024
READ_BYTES = 1024 * 1024
CROWDED_READ_BYTES = 4096
"""The size, in bytes, of one read while the backlogs of all connections together exceed their limit."""
OWED_REPLIES = 2048
COPIED_BYTES = CROWDED_READ_BYTES
"""The largest size, in bytes, of a copied frame that is not counted, because the connection itself uses more memory."""


class Answered:
    """A finished reply of a connection that waits until earlier replies of the connection are sent."""

    __slots__ = ("answer", "size")
    blocking = False
    done = True

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        parts = answer.parts if isinstance(answer, Throttled) else () if answer is None or isinstance(answer, Close) else answer
        self.size = sum(len(part) for part in parts if not isinstance(part, FileSlice))


class Resting:
    """A pause of a connection whose client exceeded its quota. The replies after it wait.

    `answer`, if any, is sent at the end of the pause.
    """

    __slots__ = ("answer", "began_ms", "done", "timer")
    blocking = True
    timer: asyncio.TimerHandle

    def __init__(self, answer: Answer, began_ms: int) -> None:
        self.answer = answer
        self.began_ms = began_ms
        self.done = False


class Owner(Protocol):
    """The interface of the server that owns a connection. All connections read into the one buffer `scratch`, one after another."""

    scratch: memoryview
    max_request_bytes: int
    turns: Turns
    pool: FramePool
    backlogs: Tally
    unsent: Tally

    unheard: set[ServerConnection]
    """The connections from which the server does not read at present."""

    def admit(self, connection: ServerConnection, transport: asyncio.Transport) -> Peer:
        """Register a new connection, and return its peer."""

    def dismiss(self, connection: ServerConnection, owed: Iterable[DelayedReply]) -> None:
        """Remove a closed connection, and cancel its pending replies `owed`."""

    def close_soon(self, connection: ServerConnection) -> None:
        """Schedule the close of a connection whose peer has left. Only a limited number is closed in one iteration of the loop."""

    def finish_bundle_soon(self) -> None:
        """Schedule `finish_bundle`, which runs after all connections with input were read, and ends the current batch of
        requests.
        """

    def later(self, ms: int, call: Callable[[], None]) -> asyncio.TimerHandle:
        """Call a function after `ms` milliseconds."""

    def resume_soon(self, connection: ServerConnection) -> None:
        """Call `connection.resume()` after the current batch of requests has ended."""


class ServerConnection(asyncio.BufferedProtocol):
    """A connection to a client, which receives request frames and sends replies.

    While an earlier reply is blocking, no request begins.
    """

    def __init__(self, owner: Owner, door: Door, clock: Clock, where: Listen, host: str) -> None:
        self.host = host
        self.where = where
        self._owner = owner
        self._door = door
        self._receive: Callable[..., Answer | DelayedReply] = door.receive
        self._clock = clock
        self._turns = owner.turns
        self._pool = owner.pool
        self._backlogs = owner.backlogs
        self._scratch = owner.scratch
        self._frame: bytearray | mmap.mmap | None = None
        self._filled = 0
        self._is_claiming = False
        self._granted: dict[DelayedReply, int] = {}
        self._copied: dict[DelayedReply, int] = {}
        self._backlog = bytearray()
        self._counted = 0
        self._owed: deque[DelayedReply | Answered | Resting] = deque()
        self._closing = False
        self._reading = True
        self._resuming = False
        self._heard_all = False
        self.clear_ns = owner.turns.of_newcomers()
        self.waits = False
        self.active_ms = self.moved_ms = clock.now().mono_ms
        self._outbox: Outbox
        self._transport: asyncio.Transport
        self.peer: Peer

    def __str__(self) -> str:
        return str(self.peer)

    # --- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=0)
        self._outbox = Outbox(self._transport, self._owner.unsent)
        self.peer = self._owner.admit(self, self._transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        owed = [reply for reply in self._owed if isinstance(reply, DelayedReply)]
        for reply in self._owed:
            if isinstance(reply, Resting):
                reply.timer.cancel()
        self._owed.clear()
        self._outbox.clear()
        self._drop_input()
        for size in self._granted.values():
            self._pool.release(size)
        self._backlogs.bytes -= sum(self._copied.values())
        self._copied.clear()
        self._owner.dismiss(self, owed)
        release(self._transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._frame is not None:
            return memoryview(self._frame)[self._filled : self._filled + READ_BYTES]
        backlogs = self._backlogs
        return self._scratch if backlogs.bytes <= backlogs.limit_bytes else self._scratch[:CROWDED_READ_BYTES]

    def buffer_updated(self, nbytes: int) -> None:
        with self._door:
            now = self._clock.now()
            self.active_ms = now.mono_ms
            if self._frame is not None:
                self._filled += nbytes
                if self._filled == len(self._frame):
                    self._pool.whole(self, self._filled)
                    self._work(now)
            elif self._backlog or self.waits:
                self._backlog += self._scratch[:nbytes]
                self._work(now)
            elif self._turns.begin(self):
                self._serve_frames(self._scratch[:nbytes], now)
                if self._flush() or (self._backlog and self._can_continue):
                    self.waits = True
                self._turns.end(self)
            else:
                self._backlog += self._scratch[:nbytes]
                self._mind_reading()
            self._owner.finish_bundle_soon()

    def eof_received(self) -> bool:
        """Serve complete requests, as in Kafka, although the peer sends no more data. It can still read."""
        self._heard_all = True
        if self._is_claiming or self.arrived is not None:
            self._drop_input()
        if not self._is_under_way:
            self._owner.close_soon(self)
        return True

    def pause_writing(self) -> None:
        self._outbox.writable = False
        self.moved_ms = self._clock.now().mono_ms

    def resume_writing(self) -> None:
        self._outbox.writable = True
        self.moved_ms = self._clock.now().mono_ms
        self.resume()

    @property
    def idle(self) -> bool:
        """Return whether the connection has no request in progress. Its peer may have unread replies."""
        return not self._owed and not self.waits and not self._is_claiming

    @property
    def last_ms(self) -> int:
        """Return the monotonic time, in ms, of the last transfer in either direction. A peer can take long to read one reply."""
        return max(self.active_ms, self.moved_ms)

    def is_left_idle_since(self, mono_ms: int) -> bool:
        """Return whether the connection was idle since `mono_ms`, and the client's release closes idle connections."""
        return self.idle and self.last_ms < mono_ms and self.peer.release.closes_idle

    def check_peer(self) -> None:
        """Check whether the peer has closed the connection. Only reading would show that, and reading is paused."""
        peer: socket.socket | None = None if self._reading else self._transport.get_extra_info("socket")
        if peer is not None and not self._closing and peer.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self.cut()

    @property
    def unsent(self) -> int:
        """Return the number of reply bytes that the peer has not read."""
        return self._outbox.counted

    @property
    def _is_under_way(self) -> bool:
        """Return whether the connection must stay open although the peer sends no more data: a request or a reply is unfinished."""
        owes = any(not isinstance(reply, Resting) or reply.answer or self._backlog for reply in self._owed)
        return owes or self.waits or self._resuming or not self._outbox.is_empty

    def close_if_done(self) -> None:
        """Close the connection if the peer sends no more data and no work remains."""
        if self._heard_all and not self._closing and not self._is_under_way:
            self.close()

    # --- frames in

    @property
    def _blocked(self) -> bool:
        """Return whether the next request must wait: a reply is blocking, too many are pending, or the peer does not read."""
        if self._closing or self._outbox.full or len(self._owed) >= OWED_REPLIES:
            return True
        owed = self._owed
        return bool(owed) and ((owed[-1].blocking and not owed[-1].done) or (owed[0].blocking and not owed[0].done))

    @property
    def _can_continue(self) -> bool:
        """Return whether buffered input can be served without more data from the peer."""
        return (len(self._backlog) >= SIZE.size or self._has_frame) and not self._is_claiming and not self._blocked

    @property
    def _has_frame(self) -> bool:
        """Return whether a frame with its own buffer is complete and not yet served."""
        return self._frame is not None and self._filled == len(self._frame)

    def _work(self, now: Now) -> None:
        """Serve the received input now, or later if the scheduler lets other connections run first."""
        if not self._blocked and not self.waits and not self._is_claiming and self._turns.begin(self):
            self._work_off(now)
            if self._flush() or self._can_continue:  # sending replies counts as work, too
                self.waits = True
            self._turns.end(self)
        self._mind_reading()

    def _work_off(self, now: Now) -> None:
        """Serve the received input until the scheduler says that this connection's time is used up."""
        frame = self._frame
        if frame is not None and self._filled == len(frame):
            self._frame = None
            self._serve_frames(memoryview(frame), now, owned=True)
            self._release_later(len(frame))
        if self._backlog and not self._blocked:
            backlog, self._backlog = self._backlog, bytearray()
            self._serve_frames(memoryview(backlog), now, owned=True)

    def _serve_frames(self, view: memoryview, now: Now, *, owned: bool = False) -> None:
        """Serve the complete frames in `view` until this connection's time is used up. Keep the bytes that are left.

        `owned` means that the memory of `view` is used for nothing else.
        """
        position, end, done, pace = 0, len(view), 0, 1
        while end - position >= 4:
            if self._blocked:
                break
            (size,) = SIZE.unpack_from(view, position)
            if not 0 <= size <= self._owner.max_request_bytes or (self.peer.authentication is not None and self._is_early(size)):
                self._refuse(size)
                return
            if end - position - 4 < size:
                break
            if not pace:
                pace = self._turns.pace(done)
                if not pace:
                    self.waits = True
                    break
            self._serve(view[position + 4 : position + 4 + size], now, owned)
            position, done, pace = position + 4 + size, done + 1, pace - 1
        if position < end and not self._closing:
            self._keep(view[position:])

    def _is_early(self, size: int) -> bool:
        """Return whether a frame of `size` bytes is too large for a peer that has not authenticated yet."""
        authentication = self.peer.authentication
        most = None if authentication is None else authentication.most_bytes
        return most is not None and size > most

    def _refuse(self, size: int) -> None:
        most = self._owner.max_request_bytes
        if 0 <= size <= most:
            self.abort(f"a frame of {size} bytes before authentication exceeds sasl.server.max.receive.size")
        else:
            self.abort(f"a request of {size} bytes is outside 0 to socket.request.max.bytes ({most})")

    def _keep(self, rest: memoryview) -> None:
        """Keep bytes that cannot be served now: the start of a frame, or a backlog behind earlier input."""
        if len(rest) >= 4 and not self.waits and not self._blocked:
            size = 4 + SIZE.unpack_from(rest)[0]
            if self._pool.claim(self, size):
                self._begin_frame(size, rest)
                return
            self._is_claiming = True
        self._backlog += rest
        self._mind_reading()

    def _begin_frame(self, size: int, start: memoryview | bytearray) -> None:
        self._frame = _room(size)
        self._frame[: len(start)] = start
        self._filled = len(start)

    def on_grant(self, size: int) -> None:
        """Continue to read, because memory is available for the frame whose first bytes were received."""
        self._is_claiming = False
        self._begin_frame(size, self._backlog)
        self._backlog = bytearray()
        self._mind_reading()

    @property
    def arrived(self) -> int | None:
        """Return the number of bytes read of an incomplete frame, or None if no frame is incomplete."""
        return None if self._frame is None or self._has_frame else self._filled

    def cut_off(self) -> None:
        """Close the connection at once. Its request is stalled, while others wait for the memory."""
        if not self._closing:
            sentence = "closed the connection of %s: its request is stalled, and others wait for memory (queued.max.request.bytes)"
            log.warning(sentence, self, extra={"cause": "stalled request"})
            self.cut()

    def _release_later(self, size: int) -> None:
        """Release the memory of a served frame, either now or when the frame's reply is ready."""
        last = self._owed[-1] if self._owed else None
        if isinstance(last, DelayedReply) and not last.done:
            self._granted[last] = size
            self._backlogs.bytes -= self._copied.pop(last, 0)
        else:
            self._pool.release(size)

    def _drop_input(self) -> None:
        """Drop input that was read but not served."""
        if self._frame is not None:
            self._pool.whole(self, len(self._frame))
            self._pool.release(len(self._frame))
        if self._is_claiming:
            self._pool.forget(self)
        self._is_claiming = False
        self._frame, self._backlog = None, bytearray()
        self._count_backlog()

    def _count_backlog(self) -> None:
        self._backlogs.bytes += len(self._backlog) - self._counted
        self._counted = len(self._backlog)

    def _mind_reading(self) -> None:
        """Pause reading if the connection has no room for more input, otherwise resume reading."""
        self._count_backlog()
        most = SIZE.size if self._is_claiming or self._backlogs.is_crowded else BACKLOG_BYTES
        has_room = len(self._backlog) < most and not self._has_frame
        if has_room != self._reading and not self._closing:
            self._reading = has_room
            (self._owner.unheard.discard if has_room else self._owner.unheard.add)(self)
            (self._transport.resume_reading if has_room else self._transport.pause_reading)()

    def _serve(self, frame: memoryview, now: Now, owned: bool) -> None:
        answer = self._receive(frame, self.peer, now, owned)
        if isinstance(answer, DelayedReply):
            answer.ready = self._ready
            self._owed.append(answer)
            if answer.blocking and len(frame) > COPIED_BYTES:  # it is served in steps, from a copy or from the former backlog
                self._copied[answer] = len(frame)
                self._backlogs.bytes += len(frame)
        elif self._owed:
            answered = Answered(answer)
            self._owed.append(answered)
            self._outbox.held += answered.size
        else:
            self._put(answer)

    # --- replies out

    def _ready(self) -> None:
        """Send every reply that is ready and has no unfinished reply before it. Then schedule `resume`."""
        rested_ms = 0
        while self._owed and self._owed[0].done and not self._closing:
            reply = self._owed.popleft()
            if isinstance(reply, Resting):
                rested_ms = self._clock.now().mono_ms - reply.began_ms
            self._put(reply.answer, rested_ms)
            if isinstance(reply, Answered):
                self._outbox.held -= reply.size
        if self._granted or self._copied:
            self._release()
        if not self._resuming:
            self._resuming = True
            self._owner.resume_soon(self)

    def _release(self) -> None:
        """Release the memory of frames whose replies are ready."""
        for delayed in [delayed for delayed in self._granted if delayed.done]:
            self._pool.release(self._granted.pop(delayed))
        for delayed in [delayed for delayed in self._copied if delayed.done]:
            self._backlogs.bytes -= self._copied.pop(delayed)

    def resume(self) -> None:
        """Send the replies that are ready now, and serve the input that has waited for them."""
        self._resuming = False
        if self._closing:
            return
        if self._flush():
            self._turns.wait(self)
            self._owner.finish_bundle_soon()
        if self._backlog or self._frame is not None:
            self._work(self._clock.now())
            self._owner.finish_bundle_soon()
        if self._heard_all:
            self.close_if_done()

    def run(self) -> None:
        """Serve received input and send more replies. The scheduler calls this when the connection can use the thread."""
        if self._closing:
            return
        if not self._blocked:
            self._work_off(self._clock.now())
            self._mind_reading()
            self._owner.finish_bundle_soon()
        if self._flush() or self._can_continue:
            self.waits = True
        if self._heard_all:
            self.close_if_done()

    def _put(self, answer: Answer, rested_ms: int = 0) -> None:
        if isinstance(answer, list):
            self._outbox.put(answer)
        elif isinstance(answer, Close):
            if answer.parts:
                self._outbox.put(answer.parts)
            self.abort(answer.reason)
        elif isinstance(answer, Throttled):
            self._throttle(answer, rested_ms)
        elif answer is not None:
            self._outbox.put(answer)

    def _throttle(self, answer: Throttled, rested_ms: int) -> None:
        """Begin a throttle: no request of this client begins for `answer.throttle_ms`.

        If `answer.rests_first`, the answer is sent after the throttle, but before later answers. The time `rested_ms` of a throttle
        that has just ended is then subtracted.
        """
        left_ms = answer.throttle_ms - rested_ms if answer.rests_first else answer.throttle_ms
        if not answer.rests_first or left_ms <= 0:
            self._outbox.put(answer.parts)
        if left_ms > 0:
            rest = Resting(answer.parts if answer.rests_first else None, self._clock.now().mono_ms)
            rest.timer = self._owner.later(left_ms, partial(self._end_rest, rest))
            (self._owed.appendleft if answer.rests_first else self._owed.append)(rest)

    def _end_rest(self, rest: Resting) -> None:
        """End the pause `rest` of a throttled client, and send the replies that waited for its end."""
        rest.done = True
        self._ready()

    def _flush(self) -> bool:
        """Send up to `SENT_BYTES` if the peer reads them. Return whether the peer would read more."""
        if self._closing:
            return False
        try:
            return self._outbox.flush(SENT_BYTES)
        except StorageFailed as failure:
            self.abort(f"a slice of a log could not be read: {failure}")
            return False

    def abort(self, reason: str) -> None:
        """Send finished replies, then close the connection. Log once which connection was closed, and why."""
        if self._closing:
            return
        cause = {"cause": f"closed connection {NUMBER.sub('', reason)}"}
        log.warning("closed the connection of %s: %s", self, reason, extra=cause)
        self._flush()
        self.close()

    def cut(self) -> None:
        """Close the connection at once, and drop the data in asyncio's buffer."""
        self._closing = True
        self._drop_input()
        self._outbox.clear()
        self._transport.abort()

    def close(self) -> None:
        """Close the connection after the data in asyncio's buffer has been sent."""
        self._closing = True
        self._drop_input()
        self._transport.close()


def _room(size: int) -> bytearray | mmap.mmap:
    """Return a buffer for one frame. A large buffer takes memory only as bytes arrive, however large the announced size."""
    return bytearray(size) if size <= EAGER_BYTES else mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
