"""A network between brokers that delays frames and breaks connections; implements `ottla.ports.Links`.

As over TCP, the frames of one connection arrive in order, or not at all. Frames of a broken connection can still arrive, even after
frames of a newer connection. A repeated request can therefore arrive twice, or after a later request. The contents of frames are
unknown here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from ottla.ports import Buffer
from ottla.sim.process import Cuts, OrderedWay, SimProcess
from ottla.sim.world import Delays, World

SIZE_BYTES = 4
Answered = Callable[[memoryview | None], None]


@dataclass(slots=True)
class LinkFaults(Delays):
    """The faults of the network between brokers.

    `lose` is the probability that a frame breaks the connection. Half of the frames that break a connection arrive nevertheless.
    """

    lose: float = 0.0

    def clear_up(self) -> None:
        self.delay = self.lose = 0.0


class FrameServer(Protocol):
    """Serves the frames of one connection in order, in the listening process."""

    def serve(self, frame: memoryview, answered: Answered) -> None:
        """Serve one request, and call `answered` with the reply, or with None to close the connection. `frame` does not include its
        size.
        """

    def close(self) -> None:
        """Handle the end of the connection at the other side, after which no pending request needs an answer."""


@dataclass(frozen=True, slots=True)
class Listening:
    """A process that listens at an address. `accept()` returns the server for a new connection."""

    process: SimProcess
    accept: Callable[[], FrameServer]


class SimNetwork:
    """The network between simulated processes, with all listeners and connections. A cut names the processes at both ends."""

    def __init__(self, world: World, *, cuts: Cuts | None = None, faults: LinkFaults | None = None) -> None:
        self.world = world
        self.cuts = cuts or Cuts()
        self.faults = faults or LinkFaults()
        self.frames = 0
        """The number of requests that have arrived."""
        self._listening: dict[tuple[str, int], Listening] = {}
        self._connections: list[_Connection] = []

    def listen(self, host: str, port: int, process: SimProcess, accept: Callable[[], FrameServer]) -> None:
        """Register the process that listens at an address. It replaces a process registered before."""
        self._listening[host, port] = Listening(process, accept)

    def find_listener(self, host: str, port: int) -> Listening | None:
        """Return the running process that listens at an address, or None."""
        found = self._listening.get((host, port))
        return None if found is None or found.process.has_ended else found

    def name_of(self, host: str, port: int) -> str:
        """Return the name that `Cuts` uses for an address: the process that last listened there, or else HOST:PORT."""
        found = self._listening.get((host, port))
        return f"{host}:{port}" if found is None else found.process.name

    def register(self, connection: _Connection) -> None:
        """Register a connection, so that `reset` finds it."""
        self._connections = [each for each in self._connections if not each.is_broken]
        self._connections.append(connection)

    def reset(self, process: SimProcess) -> None:
        """Reset the connections of a process that ended, as its operating system does unless the power failed."""
        for connection in self._connections:
            connection.reset_by(process)

    def links(self, process: SimProcess) -> SimLinks:
        """Return the outgoing connections of a process."""
        return SimLinks(self, process)

    def delay_ms(self) -> int:
        return self.faults.draw_ms(self.world)


class SimLinks:
    """The outgoing connections of one process; implements `ottla.ports.Links`."""

    def __init__(self, network: SimNetwork, process: SimProcess) -> None:
        self._network = network
        self._process = process

    def open(self, host: str, port: int, receive_buffer_bytes: int) -> SimLink:
        return SimLink(self._network, self._process, host, port)


class SimLink:
    """The requests of one process to one address; implements `ottla.ports.BrokerLink`."""

    def __init__(self, network: SimNetwork, process: SimProcess, host: str, port: int) -> None:
        self._network = network
        self._process = process
        self._address = (host, port)
        self._connection: _Connection | None = None
        self._is_closed = False

    def send(self, frame: Sequence[Buffer], timeout_ms: int, answered: Answered) -> None:
        if self._is_closed:
            self._process.post(partial(answered, None))
            return
        connection = self._connection
        if connection is None or connection.is_broken:
            connection = self._connection = _Connection(self._network, self._process, *self._address)
        whole = b"".join(frame)
        assert int.from_bytes(whole[:SIZE_BYTES], "big") == len(whole) - SIZE_BYTES, "a frame begins with its size"
        connection.send(memoryview(bytearray(whole))[SIZE_BYTES:], timeout_ms, answered)

    def close(self) -> None:
        self._is_closed = True
        if self._connection is not None:
            self._connection.break_off()


class _Connection:
    """One connection, which delivers frames and answers in order. When the connection breaks, each pending request is answered with
    None.
    """

    def __init__(self, network: SimNetwork, process: SimProcess, host: str, port: int) -> None:
        self._network = network
        self._process = process
        self._address = (host, port)
        name = network.name_of(host, port)
        cuts = network.cuts
        self._there = OrderedWay(network.world, lambda: cuts.is_open(process.name, name), network.delay_ms)
        self._back = OrderedWay(network.world, lambda: cuts.is_open(name, process.name), network.delay_ms)
        self._waiting: deque[Answered] = deque()
        self._owed: deque[list[memoryview]] = deque()
        self._server: FrameServer | None = None
        self._listening: Listening | None = None
        self._answers = 0
        self.is_broken = False
        network.register(self)

    def send(self, frame: memoryview, timeout_ms: int, answered: Answered) -> None:
        self._waiting.append(answered)
        number = self._answers + len(self._waiting)
        self._network.world.after(timeout_ms, lambda: self._process.post(partial(self._check_timeout, number)))
        loses = self._network.world.chance(self._network.faults.lose)
        if not loses or self._network.world.chance(0.5):
            self._there.send(partial(self._arrive, frame))
        if loses:
            self._network.world.after(self._network.delay_ms(), lambda: self._process.post(self.break_off))

    def _check_timeout(self, number: int) -> None:
        """Break the connection if request `number` is unanswered when its timeout ends.

        Answers belong to requests by their order, so a late answer would be taken for the answer of a later request.
        """
        if self._answers < number:
            self.break_off()

    def break_off(self) -> None:
        """Break the connection. Frames that were sent before can still arrive at the other side."""
        if self.is_broken:
            return
        self.is_broken = self._back.is_closed = True
        for answered in self._waiting:
            self._process.post(partial(answered, None))
        self._waiting.clear()
        self._there.send(self._hang_up)

    # On the other side

    def _arrive(self, frame: memoryview) -> None:
        if self._listening is None:
            self._listening = self._network.find_listener(*self._address)
            if self._listening is not None:
                self._server = self._listening.accept()
        if self._listening is None or self._listening.process.has_ended:
            self._back.send(lambda: self._process.post(self.break_off))  # connection refused or reset
            return
        self._listening.process.post(partial(self._serve, frame))

    def _serve(self, frame: memoryview) -> None:
        assert self._server is not None, "a frame is served by who accepted its connection"
        self._network.frames += 1
        place: list[memoryview] = []
        self._owed.append(place)
        self._server.serve(frame, partial(self._on_answer, place))

    def _on_answer(self, place: list[memoryview], answer: memoryview | None) -> None:
        if answer is None:
            self._back.send(lambda: self._process.post(self.break_off))
            return
        place.append(answer)
        while self._owed and self._owed[0]:
            (ready,) = self._owed.popleft()
            self._back.send(partial(self._process.post, partial(self._deliver, ready)))

    def reset_by(self, process: SimProcess) -> None:
        if self._listening is not None and self._listening.process is process and not self.is_broken:
            self._back.send(lambda: self._process.post(self.break_off))

    def _hang_up(self) -> None:
        if self._listening is not None and self._server is not None:
            self._listening.process.post(self._server.close)

    # Answers

    def _deliver(self, answer: memoryview) -> None:
        if not self.is_broken:
            self._answers += 1
            self._waiting.popleft()(answer)
