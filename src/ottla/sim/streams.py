"""A network of byte streams between asyncio clients and brokers. It delays, splits and breaks streams, or makes them silent.

As over TCP, the bytes of one connection arrive in order, or not at all. A connection can break within a frame. What a client sent
before can still arrive, even after frames of its next connection.
"""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ottla.broker.serving.request import Peer
from ottla.sim.event_loop import SimEventLoop
from ottla.sim.host import Host, SimConnection
from ottla.sim.links import FrameServer
from ottla.sim.world import Delays, World

SIZE_BYTES = 4
REFUSED_MS = 1
"""The time, in ms, after which a connection attempt is refused."""


@dataclass(slots=True)
class StreamFaults(Delays):
    """The faults of streams, as probabilities of each piece of bytes, or of each connection attempt (`refuse`).

    `lose` breaks the connection; a part of the piece arrives before. `silence` lets no more bytes pass in either direction, and
    neither side gets an error. `split` delivers a piece in two parts. A sender waits while more than `window_bytes` are on the way.
    """

    longest_ms: int = 3_000
    lose: float = 0.0
    silence: float = 0.0
    refuse: float = 0.0
    split: float = 0.0
    window_bytes: int = 65_536

    def clear_up(self) -> None:
        """End all faults."""
        self.delay = self.lose = self.silence = self.refuse = 0.0


Accept = Callable[[Host, Peer], FrameServer]
"""Returns the server of a new connection."""


class StreamNetwork:
    """The streams to brokers, which are found by host name and port. `accept` returns the servers of connections."""

    def __init__(self, world: World, faults: StreamFaults, accept: Accept = SimConnection) -> None:
        self.world = world
        self.faults = faults
        self.connections = 0
        """The number of connection attempts."""
        self._accept = accept
        self._hosts: dict[tuple[str, int], Host] = {}
        self._open: list[_Stream] = []

    def listen(self, name: str, port: int, host: Host) -> None:
        """Let a broker be reached at an address."""
        self._hosts[name, port] = host
        host.when_ended.append(partial(self._reset, host))

    def _reset(self, host: Host) -> None:
        """Break the streams of a broker that ended. After a power cut, its clients get no error."""
        for stream in [each for each in self._open if each.host is host]:
            if host.was_power_cut:
                stream.is_silent = True
            else:
                stream.reset(0)

    def drop_all(self, loop: SimEventLoop) -> None:
        for stream in [each for each in self._open if each.loop is loop]:
            stream.hang_up()

    def silence_all(self) -> None:
        """Let no more bytes pass on the streams that are open now. Neither side gets an error."""
        for stream in self._open:
            stream.is_silent = True

    async def connect(self, loop: SimEventLoop, factory: Callable[[], Any], host: str, port: int) -> tuple[Any, Any]:
        """Connect a process to the broker at an address. Raises `ConnectionRefusedError`."""
        self.connections += 1
        number = self.connections
        await asyncio.sleep(self.faults.draw_ms(self.world) / 1000)
        there = self._hosts.get((host, port))
        if there is None or not there.is_listening or self.world.chance(self.faults.refuse):
            await asyncio.sleep(REFUSED_MS / 1000)
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        peer = Peer(2_000_000 + number, f"10.2.{number >> 8 & 255}.{number & 255}", 40_000, host, port)
        stream = _Stream(self, loop, there, self._accept(there, peer))
        self._open.append(stream)
        protocol = factory()
        stream.protocol = protocol
        protocol.connection_made(stream)
        return stream, protocol

    def remove(self, stream: _Stream) -> None:
        """Forget a stream that has ended at both sides."""
        if stream in self._open:
            self._open.remove(stream)


class _Way:
    """One direction of a stream: pieces arrive in order."""

    def __init__(self, network: StreamNetwork) -> None:
        self._network = network
        self._arrival_ms = 0

    def send(self, arrive: Callable[[], None], extra_ms: int = 0) -> None:
        world = self._network.world
        self._arrival_ms = max(self._arrival_ms, world.now_ms + extra_ms + self._network.faults.draw_ms(world))
        world.after(self._arrival_ms - world.now_ms, arrive)


class _Stream(asyncio.Transport):
    """A connection of a client to a broker: the client's transport, and the broker's end."""

    def __init__(self, network: StreamNetwork, loop: SimEventLoop, host: Host, server: FrameServer) -> None:
        super().__init__()
        self.host = host
        self.loop = loop
        self.protocol: Any = None
        self.is_silent = False
        self._life = host.lives
        self._network = network
        self._server = server
        self._there, self._back = _Way(network), _Way(network)
        self._is_closing = False
        self._is_lost = False
        self._has_hung_up = False
        self._unsent: deque[bytes] = deque()
        self._on_way = 0
        self._is_paused = False
        self._arrived = bytearray()
        self._owed: deque[list[memoryview]] = deque()

    # --- the client's transport

    def is_closing(self) -> bool:
        return self._is_closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Ignore the limits: writing pauses as soon as a byte waits."""

    def get_write_buffer_size(self) -> int:
        return sum(map(len, self._unsent))

    def write(self, data: Any) -> None:
        if self._is_closing or not len(data):
            return
        self._unsent.append(bytes(data))
        self._push()
        if self._unsent and not self._is_paused:
            self._is_paused = True
            self.protocol.pause_writing()

    def abort(self) -> None:
        self._close(None)

    def close(self) -> None:
        self._close(None)

    def _close(self, error: Exception | None) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._unsent.clear()
            self.hang_up()
            self.loop.call_soon(self.protocol.connection_lost, error)

    def hang_up(self) -> None:
        """End the client's side. Pieces that are on the way still arrive."""
        if not self._has_hung_up:
            self._has_hung_up = self._is_closing = True
            self._there.send(self._end_there)

    def _push(self) -> None:
        """Send waiting bytes as far as the window allows."""
        faults, world = self._network.faults, self._network.world
        while self._unsent and self._on_way < faults.window_bytes and not (self._is_closing or self._is_lost):
            data = self._unsent.popleft()
            room = faults.window_bytes - self._on_way
            if len(data) > room:
                self._unsent.appendleft(data[room:])
                data = data[:room]
            self._on_way += len(data)
            for piece in self._pieces(data):
                if world.chance(faults.silence):
                    self.is_silent = True
                if world.chance(faults.lose):
                    self._is_lost = True
                    self._there.send(partial(self._arrive, piece[: world.random.randrange(len(piece) + 1)]))
                    self.reset(faults.draw_ms(world))
                    return
                self._there.send(partial(self._arrive, piece))

    def _pieces(self, data: bytes) -> Sequence[bytes]:
        world = self._network.world
        if len(data) < 2 or not world.chance(self._network.faults.split):
            return [data]
        at = world.random.randrange(1, len(data))
        return [data[:at], data[at:]]

    def reset(self, ms: int) -> None:
        """Break the stream: the client notices it after `ms`."""
        self._network.world.after(ms, self._on_reset)

    def _on_reset(self) -> None:
        if not self._is_closing and not self.loop.has_ended and not self.is_silent:
            self._close(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))

    # --- the broker's end

    @property
    def _is_served(self) -> bool:
        return self.host.broker is not None and self.host.lives == self._life

    def _arrive(self, piece: bytes) -> None:
        if self.is_silent:
            return
        self._on_way -= len(piece)
        if self._unsent or self._is_paused:
            self.loop.call_soon(self._on_room)
        if not self._is_served:
            self._back.send(self._on_reset)
            return
        self._arrived += piece
        while len(self._arrived) >= SIZE_BYTES:
            end = SIZE_BYTES + int.from_bytes(self._arrived[:SIZE_BYTES], "big")
            if len(self._arrived) < end:
                return
            frame = memoryview(bytearray(self._arrived[SIZE_BYTES:end]))
            del self._arrived[:end]
            self.host.post(partial(self._serve, frame))

    def _on_room(self) -> None:
        if self._is_closing:
            return
        self._push()
        if self._is_paused and not self._unsent:
            self._is_paused = False
            self.protocol.resume_writing()

    def _serve(self, frame: memoryview) -> None:
        if self._is_served:
            place: list[memoryview] = []
            self._owed.append(place)
            self._server.serve(frame, partial(self._on_answer, place))

    def _end_there(self) -> None:
        self._network.remove(self)
        if self._is_served and not self.is_silent:
            self.host.post(self._server.close)

    def _on_answer(self, place: list[memoryview], answer: memoryview | None) -> None:
        if answer is None:
            self._back.send(self._on_reset)
            return
        place.append(answer)
        while self._owed and self._owed[0]:
            (ready,) = self._owed.popleft()
            self._reply(len(ready).to_bytes(SIZE_BYTES, "big") + bytes(ready))

    def _reply(self, data: bytes) -> None:
        faults, world = self._network.faults, self._network.world
        for piece in self._pieces(data):
            if self._is_lost:
                return
            if world.chance(faults.silence):
                self.is_silent = True
            if world.chance(faults.lose):
                self._is_lost = True
                self._back.send(partial(self._deliver, piece[: world.random.randrange(len(piece) + 1)]))
                self._back.send(self._on_reset)
                return
            self._back.send(partial(self._deliver, piece))

    def _deliver(self, piece: bytes) -> None:
        if not self._is_closing and not self.is_silent and not self.loop.has_ended:
            self.loop.call_soon(self._pass_to_protocol, piece)

    def _pass_to_protocol(self, piece: bytes) -> None:
        view = memoryview(piece)
        while view and not self._is_closing:
            buffer = memoryview(self.protocol.get_buffer(-1))
            size = min(len(buffer), len(view))
            buffer[:size] = view[:size]
            view = view[size:]
            self.protocol.buffer_updated(size)
