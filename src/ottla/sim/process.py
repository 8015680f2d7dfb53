"""One process of a simulated world: the calls on its thread, and their times. Brokers are unknown here.

A process can be paused, as by SIGSTOP; its calls then wait. Calls after the end of the process are lost. Its monotonic clock can
run faster or slower than the world's clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from ottla.ports import Now
from ottla.sim.world import World

Call = Callable[[], None]

MOST_DRIFT = 0.01
"""The limit on a clock's drift from true time, as a fraction. One second in a hundred is far worse than real clocks."""


class DriftingClock:
    """A clock that runs faster than the world's by `drift` (0.01: 10 ms in a second); implements `ottla.ports.Clock`."""

    def __init__(self, world: World, drift: float = 0.0, wall_ahead_ms: int = 0) -> None:
        self._world = world
        self._rate = 1 + drift
        self._wall_ahead_ms = wall_ahead_ms
        self._true: Now | None = None
        self._shown = Now(0, 0)

    def now(self) -> Now:
        true = self._world.clock.now()
        if true is not self._true:
            self._true = true
            self._shown = Now(true.wall_ms + self._wall_ahead_ms, int(true.mono_ms * self._rate))
        return self._shown

    def jump(self, ms: int) -> None:
        """Move the wall clock by `ms`, as a time server does, without a change of the monotonic clock."""
        self._wall_ahead_ms += ms
        self._true = None

    def true_ms(self, mono_ms: int) -> int:
        """Return the world's time at which this clock will show `mono_ms`."""
        if self._rate == 1:
            return mono_ms
        true_ms = int(mono_ms / self._rate)
        while int(true_ms * self._rate) < mono_ms:
            true_ms += 1
        return true_ms


def _at_once(call: Call) -> None:
    call()


class SimProcess:
    """A process with one thread, which runs its calls in order. `around` is a function that runs each call."""

    def __init__(
        self, world: World, name: str, *, clock: DriftingClock | None = None, around: Callable[[Call], None] = _at_once
    ) -> None:
        self.world = world
        self.name = name
        self.clock = clock or DriftingClock(world)
        self.has_ended = False
        self._around = around
        self._calls: deque[Call] = deque()
        self._still_until_ms = 0

    @property
    def is_paused(self) -> bool:
        return self.world.now_ms < self._still_until_ms

    def post(self, call: Call) -> None:
        """Schedule a call on the thread. It runs after `post` has returned."""
        if self.has_ended:
            return
        self._calls.append(call)
        self.world.after(self._still_until_ms - self.world.now_ms, self._run)

    def pause(self, ms: int) -> None:
        """Pause the process for `ms`."""
        self._still_until_ms = max(self._still_until_ms, self.world.now_ms + ms)
        self.world.after(self._still_until_ms - self.world.now_ms, self._run)

    def end(self) -> None:
        """End the process. Scheduled calls are dropped, and later ones are ignored."""
        self.has_ended = True
        self._calls.clear()

    def _run(self) -> None:
        while self._calls and not self.has_ended and not self.is_paused:
            self._around(self._calls.popleft())


class Cuts:
    """The interrupted network connections between named processes. Each direction is cut and healed separately."""

    def __init__(self) -> None:
        self._cut: set[tuple[str, str]] = set()

    def cut(self, source: str, target: str, *, both: bool = True) -> None:
        self._cut.add((source, target))
        if both:
            self._cut.add((target, source))

    def heal(self, source: str, target: str) -> None:
        """Remove the cuts between two places, in both directions."""
        self._cut -= {(source, target), (target, source)}

    def heal_all(self) -> None:
        self._cut.clear()

    def is_open(self, source: str, target: str) -> bool:
        return (source, target) not in self._cut


class OrderedWay:
    """One direction of a connection. Messages arrive in order, each after `delay_ms()`.

    A message is lost if `passes()` is False when it should arrive. After the connection's end, sent messages still arrive, unless
    `is_closed` is set.
    """

    def __init__(self, world: World, passes: Callable[[], bool], delay_ms: Callable[[], int]) -> None:
        self._world = world
        self._passes = passes
        self._delay_ms = delay_ms
        self._arrival_ms = 0
        self.is_closed = False

    def send(self, arrive: Call) -> None:
        """Send a message; `arrive` is called at the other end when the message arrives. A lost message closes the direction."""
        self._arrival_ms = max(self._arrival_ms, self._world.now_ms + self._delay_ms())
        self._world.after(self._arrival_ms - self._world.now_ms, partial(self._arrive, arrive))

    def _arrive(self, arrive: Call) -> None:
        if self.is_closed:
            return
        if self._passes():
            arrive()
        else:
            self.is_closed = True  # after a lost message, a connection delivers no later one
