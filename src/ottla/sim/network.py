"""A network between clients and a broker that loses, delays and repeats requests.

Each client process has a `ClientLink`. As over TCP, the requests of a process arrive in order, or not at all. They can arrive long
after the process has ended.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from ottla.broker.serving.request import Peer
from ottla.sim.host import Host
from ottla.sim.world import Delays, World
from ottla.wire.schema import Message

REFUSED_MS = 100
"""The time, in ms, after which a connection attempt is refused."""


@dataclass(slots=True)
class NetworkFaults(Delays):
    """The faults of the network between clients and brokers: their probabilities, and the delays."""

    longest_ms: int = 5_000
    lose_request: float = 0.0
    lose_answer: float = 0.0
    repeat: float = 0.0

    def clear_up(self) -> None:
        """End all faults."""
        self.lose_request = self.lose_answer = self.repeat = self.delay = 0.0


Seen = Callable[[Any], None]
Watch = Callable[[Message], Seen]
"""A function that is called with each request that the broker receives.

It returns a function that is called with the answer, even if the answer is then lost.
"""


class RequestLink(Protocol):
    """A client process's connection to a broker, or to all brokers of a cluster."""

    def cut(self) -> None:
        """Cut the connection. No request arrives any more, not even one that was sent before."""

    def request(self, key: int, version: int, body: Message, answered: Seen, timeout_ms: int, watch: Watch | None = None) -> None:
        """Send a request. `answered` is called once: with the response, or with None if no response came within `timeout_ms`."""


class ClientLink:
    """One client process's connection to the broker."""

    def __init__(self, world: World, host: Host, faults: NetworkFaults, number: int) -> None:
        self._world = world
        self._host = host
        self._faults = faults
        self._peer = Peer(number, f"10.0.{number >> 8 & 255}.{number & 255}", 40_000, "127.0.0.1", 9092)
        self._arrival_ms = 0
        self._return_ms = 0
        self._is_cut = False

    def cut(self) -> None:
        """Cut the connection. No request arrives any more, not even one that was sent before."""
        self._is_cut = True

    def request(self, key: int, version: int, body: Message, answered: Seen, timeout_ms: int, watch: Watch | None = None) -> None:
        """Send a request. `answered` is called once: with the response, or with None if no response came within `timeout_ms`."""
        state = {"open": True}

        def once(response: Any) -> None:
            if state["open"]:
                state["open"] = False
                answered(response)

        self._world.after(timeout_ms, lambda: once(None))
        if self._world.chance(self._faults.lose_request):
            return
        self._arrival_ms = max(self._arrival_ms, self._world.now_ms + self._faults.draw_ms(self._world))
        times = 2 if self._world.chance(self._faults.repeat) else 1

        def arrive() -> None:
            for _ in range(times):
                self._arrive(key, version, body, once, watch)

        self._world.after(self._arrival_ms - self._world.now_ms, arrive)

    def _arrive(self, key: int, version: int, body: Message, once: Seen, watch: Watch | None) -> None:
        if self._is_cut:
            return
        if self._host.broker is None:
            self._world.after(REFUSED_MS, lambda: once(None))
            return
        seen = None if watch is None else watch(body)

        def on_response(response: Any) -> None:
            if seen is not None:
                seen(response)
            if not self._world.chance(self._faults.lose_answer):
                self._return_ms = max(self._return_ms, self._world.now_ms + self._faults.draw_ms(self._world))
                self._world.after(self._return_ms - self._world.now_ms, lambda: once(response))

        self._host.receive(key, version, body, self._peer, on_response)
