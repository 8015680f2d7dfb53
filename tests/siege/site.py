"""What an attack is given: where the broker is, how long to go on, and the few ways there are to trouble it.

`press` keeps requests unanswered on some connections, `hold` keeps connections open, `churn` makes them and ends them. Time begins
when the first of them is called: what an attack does before is preparation. Each counts what it did, and ends when the time is up.
Knows Ottla's messages for making frames, and nothing of what they do to a broker.
"""

from __future__ import annotations

import errno
import resource
import select
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import Any

from ottla.wire.framing import FrameHeader, decode_response, encode_request
from ottla.wire.schema import Message

Frames = bytes | Callable[[int], bytes]
"""The same frame again and again, or the frame of this number."""

CHUNK_BYTES = 64 * 1024
TURN_S = 0.05
MOST_BYTES = 2 << 30
MOST_SENDS = 100
CONNECT_S = 2.0
HANDS = 16
RESET = struct.pack("ii", 1, 0)
FINE = (BlockingIOError, InterruptedError)


def framed(body: Message, version: int, client_id: str | None = "s") -> bytes:
    """A whole request with its size."""
    return b"".join(encode_request(FrameHeader(type(body).WIRE.key, version, 7, client_id), body))


class Site:
    """The broker's address, the time that is left, and a count of what was done."""

    def __init__(self, address: str, name: str, seconds: float, number: int, wait: Callable[[], None]) -> None:
        """`wait` is called once before time begins."""
        self.address = address
        self.name = name
        self.seconds = seconds
        self.number = number
        """Which of the attack's processes this is."""
        self.counts: Counter[str] = Counter()
        self._wait = wait
        self._ends_at = 0.0

    @property
    def topic(self) -> str:
        """A topic of four partitions of this attack's own."""
        return self.named("topic")

    @property
    def innocent_topic(self) -> str:
        """The topic of one partition to which the innocent client writes."""
        return f"innocent-{self.name}"

    def named(self, what: object) -> str:
        return f"{self.name}-{what}"

    def begin(self) -> None:
        """End the preparations: wait until all may attack. Only the first time."""
        if not self._ends_at:
            self._wait()
            self.counts.clear()
            self._ends_at = time.perf_counter() + self.seconds

    @property
    def is_over(self) -> bool:
        return time.perf_counter() >= self._ends_at

    def rest(self, seconds: float = TURN_S) -> None:
        """Do nothing for so long, or until the time is up."""
        time.sleep(max(0.0, min(seconds, self._ends_at - time.perf_counter())))

    def connect(self, *, receive_buffer_bytes: int = 0) -> socket.socket:
        """A connection, which need not become one if the broker takes none. Raises OSError."""
        host, _, port = self.address.rpartition(":")
        made = socket.socket()
        if receive_buffer_bytes:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        made.settimeout(CONNECT_S)
        try:
            made.connect((host, int(port)))
        except OSError:
            made.close()
            self.counts["refused"] += 1
            raise
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.counts["connections"] += 1
        return made

    def ask(self, body: Message, version: int, timeout_s: float = 60.0) -> Any:
        """One request and its answer, for preparations. Raises OSError."""
        with self.connect() as connection:
            connection.settimeout(timeout_s)
            connection.sendall(framed(body, version))
            answer = connection.makefile("rb")
            (size,) = struct.unpack(">i", answer.read(4))
            return decode_response(type(body).WIRE.key, version, answer.read(size))[1]


class Line:
    """One connection on which requests are kept unanswered."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.socket = connection
        self.asked = self.answered = 0
        self._out = memoryview(b"")
        self._size = bytearray()
        self._left = 0

    @property
    def has_more(self) -> bool:
        return len(self._out) > 0

    @property
    def unanswered(self) -> int:
        return self.asked - self.answered

    def queue(self, data: bytes, requests: int) -> None:
        self._out = memoryview(data)
        self.asked += requests

    def send(self) -> int:
        """Send what the socket takes; how much that was. Raises OSError."""
        try:
            sent = self.socket.send(self._out)
        except FINE:
            return 0
        self._out = self._out[sent:]
        return sent

    def read(self, room: memoryview) -> None:
        """Take in what is there, and count the answers that end in it. Raises OSError."""
        try:
            size = self.socket.recv_into(room)
        except FINE:
            return
        if not size:
            raise ConnectionResetError("closed")
        data = room[:size]
        while data:
            if not self._left:
                wanted = 4 - len(self._size)
                self._size += data[:wanted]
                data = data[wanted:]
                if len(self._size) < 4:
                    return
                self._left = int.from_bytes(self._size, "big")
                self._size.clear()
            taken = min(self._left, len(data))
            self._left -= taken
            data = data[taken:]
            self.answered += not self._left


class Press:
    """Some connections with so many unanswered requests each. One that the broker closes is made anew."""

    def __init__(self, site: Site, frames: Frames, in_flight: int, *, reads: bool, receive_buffer_bytes: int, most: int) -> None:
        self._site = site
        self._frames = frames
        self._in_flight = in_flight
        self._reads = reads
        self._receive_buffer_bytes = receive_buffer_bytes
        self._most = most
        self._asked = 0
        self._sent_bytes = 0
        self._room = memoryview(bytearray(256 * 1024))
        self._poll = select.epoll()
        self._lines: dict[int, Line] = {}

    def run(self, count: int) -> None:
        site = self._site
        site.begin()
        while not site.is_over:
            for _ in range(min(count - len(self._lines), 50)):
                if not self._open():
                    break
            for handle, event in self._poll.poll(TURN_S):
                line = self._lines[handle]
                try:
                    if event & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR) and self._reads:
                        line.read(self._room)
                    self._feed(line)
                except OSError:
                    self._drop(handle, line)
            if not self._reads or self._asked >= self._most:
                site.rest(0.001)
        site.counts["requests"] += self._asked
        site.counts["answers"] += sum(line.answered for line in self._lines.values())
        site.counts["bytes"] += self._sent_bytes
        for line in self._lines.values():
            line.socket.close()
        self._poll.close()

    def _open(self) -> bool:
        try:
            line = Line(self._site.connect(receive_buffer_bytes=self._receive_buffer_bytes))
        except OSError:
            self._site.rest()
            return False
        self._lines[line.socket.fileno()] = line
        self._poll.register(line.socket, select.EPOLLIN if self._reads else 0)
        with suppress(OSError):
            self._feed(line)
        return True

    def _drop(self, handle: int, line: Line) -> None:
        self._poll.unregister(handle)
        del self._lines[handle]
        line.socket.close()
        self._site.counts["closed"] += 1
        self._site.counts["answers"] += line.answered

    def _feed(self, line: Line) -> None:
        """Send while the socket takes it and fewer are unanswered than wanted; not for ever, since other lines want to send."""
        for _ in range(MOST_SENDS):
            if not line.has_more:
                wanted = min(self._in_flight - line.unanswered, self._most - self._asked)
                if wanted <= 0 or self._sent_bytes > MOST_BYTES:
                    self._poll.modify(line.socket, select.EPOLLIN if self._reads else 0)
                    return
                line.queue(*self._next(wanted))
            sent = line.send()
            self._sent_bytes += sent
            if line.has_more:
                break
        self._poll.modify(line.socket, (select.EPOLLIN if self._reads else 0) | select.EPOLLOUT)

    def _next(self, wanted: int) -> tuple[bytes, int]:
        if not isinstance(self._frames, bytes):
            self._asked += 1
            return self._frames(self._asked - 1), 1
        count = max(1, min(wanted, CHUNK_BYTES // len(self._frames)))
        self._asked += count
        return self._frames * count, count


def press(
    site: Site,
    frames: Frames,
    *,
    lines: int = 1,
    in_flight: int = 1,
    reads: bool = True,
    receive_buffer_bytes: int = 0,
    most: int = 1 << 40,
) -> None:
    """Keep `in_flight` requests unanswered on each of `lines` connections; `most` requests and two gigabytes at most."""
    Press(site, frames, in_flight, reads=reads, receive_buffer_bytes=receive_buffer_bytes, most=most).run(lines)


def hold(site: Site, count: int, first: bytes = b"", drip: bytes = b"", drip_every_s: float = 1.0) -> None:
    """Keep `count` connections open: each sends `first`, and `drip` now and then. Those that the broker closes are made anew."""
    allow_files(count + 100)
    share = -(-count // HANDS)
    _with_hands(site, lambda: _hold(site, share, first, drip, drip_every_s))


def _hold(site: Site, count: int, first: bytes, drip: bytes, drip_every_s: float) -> None:
    held: list[socket.socket] = []
    try:
        while not site.is_over:
            _add(site, held, count, first)
            held = [connection for connection in held if _goes_on(site, connection, drip)]
            site.rest(drip_every_s)
    finally:
        for connection in held:
            connection.close()


def _add(site: Site, held: list[socket.socket], count: int, first: bytes) -> None:
    while len(held) < count and not site.is_over:
        try:
            connection = site.connect()
        except OSError:
            return
        held.append(connection)
        connection.settimeout(0.5)
        with suppress(OSError):
            connection.sendall(first)


def _goes_on(site: Site, connection: socket.socket, drip: bytes) -> bool:
    """Whether the broker still holds this connection."""
    connection.setblocking(False)
    try:
        if drip:
            connection.send(drip)
        if connection.recv(1 << 16):
            return True
    except FINE:
        return True
    except OSError:
        pass  # the broker has cut it, which is counted below
    connection.close()
    site.counts["closed"] += 1
    return False


def churn(site: Site, frame: bytes, *, reset: bool = False, reads: bool = False, per_second: int = 3000) -> None:
    """Connect, send, end the connection, and again. `reset`: without ceremony. `reads`: after a first piece of the answer."""
    _with_hands(site, lambda: _churn(site, frame, reset, reads, per_second / HANDS))


def _churn(site: Site, frame: bytes, reset: bool, reads: bool, per_second: float) -> None:
    began = time.perf_counter()
    made = 0
    while not site.is_over:
        with suppress(OSError), site.connect() as connection:
            made += 1
            connection.sendall(frame)
            if reads:
                connection.recv(1 << 16)
            if reset:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        site.rest(began + made / per_second - time.perf_counter())


def _with_hands(site: Site, work: Callable[[], None]) -> None:
    """Have several threads do it: a connection that the broker does not accept yet keeps one of them waiting."""
    site.begin()
    threads = [Thread(target=work) for _ in range(HANDS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def allow_files(count: int) -> None:
    """Let this process hold so many files. Raises OSError where it may not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        if hard < count:
            raise OSError(
                errno.EMFILE, f"this attack needs {count} open files, and {hard} are allowed: raise the limit (ulimit -Hn)"
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
