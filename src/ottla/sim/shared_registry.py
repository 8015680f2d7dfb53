"""A broker's session with a simulated shared registry: delays, broken connections, expired sessions, lost answers.

The module uses the ensemble, and the process whose thread runs the callbacks. Every choice comes from the world's seed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ottla.ports import (
    Change,
    CommitSteps,
    Condition,
    Done,
    DuplicateEntry,
    Entry,
    NoEntry,
    RegistryAway,
    SessionEvent,
    Steps,
    StorageFailed,
    VersionConflict,
)
from ottla.sim.ensemble import CHILDREN, DATA, ServedSession, SimEnsemble, Watched
from ottla.sim.process import MOST_DRIFT, Cuts, OrderedWay, SimProcess
from ottla.sim.world import Delays

REGISTRY = "registry"
"""The registry's name in `Cuts`."""
BEATS = 6
"""The number of pings, or of connection attempts, within one session timeout."""
PIPELINED = 50
"""The number of paths that one message reads. Between two messages, other sessions can change entries."""
REFUSALS = (DuplicateEntry, NoEntry, VersionConflict, StorageFailed)


@dataclass(slots=True)
class RegistryFaults(Delays):
    """The faults of the connection to the shared registry. `lose_answer` is the probability that an answer is lost."""

    lose_answer: float = 0.0

    def clear_up(self) -> None:
        self.delay = self.lose_answer = 0.0


@dataclass(slots=True, eq=False)
class _RegistryRequest:
    """A request: what the server must do, the watches that it sets, the callback, and the result."""

    work: Callable[[ServedSession], Any]
    watches: dict[Watched, Callable[[str], None]] = field(default_factory=dict)
    done: Done = lambda failure: None
    sent_ms: int = 0
    result: Any = None


@dataclass(slots=True, eq=False)
class _Wire:
    """A simulated network connection to a server of the registry: its two directions, and the requests that are not answered
    yet.
    """

    there: OrderedWay
    back: OrderedWay
    asked: deque[_RegistryRequest] = field(default_factory=deque)
    is_up: bool = False


class SimSharedRegistry:
    """The client of one process; implements `ottla.ports.SharedRegistry`.

    The client reconnects by itself, and begins a new session after the old one expired.
    """

    def __init__(
        self,
        ensemble: SimEnsemble,
        process: SimProcess,
        *,
        cuts: Cuts | None = None,
        faults: RegistryFaults | None = None,
    ) -> None:
        self.ensemble = ensemble
        self.timeout_ms = ensemble.timeout_ms
        self.faults = faults or RegistryFaults()
        self._process = process
        self._cuts = cuts or Cuts()
        self._session: ServedSession | None = None
        self._wire: _Wire | None = None
        self._heard_ms = 0
        self._lives_until_ms = 0
        self._is_closed = False
        self._told: list[Callable[[SessionEvent], None]] = []
        self._watches: dict[Watched, dict[Callable[[str], None], None]] = {}
        process.post(self._beat)

    # The port

    def read(self, paths: Sequence[str], *, changed: Callable[[str], None] | None = None) -> Steps[list[Entry | None]]:
        def one(session: ServedSession, path: str) -> Entry | None:
            return self.ensemble.read(session, path, watch=changed is not None)

        found: list[Entry | None] = yield from self._read(DATA, paths, one, changed)
        return found

    def list(self, paths: Sequence[str], *, changed: Callable[[str], None] | None = None) -> Steps[list[list[str] | None]]:
        def one(session: ServedSession, path: str) -> Any:
            return self.ensemble.list(session, path, watch=changed is not None)

        found: list[Any] = yield from self._read(CHILDREN, paths, one, changed)
        return found

    def commit(self, changes: Sequence[Change | Condition]) -> CommitSteps:
        yield from self._request(_RegistryRequest(lambda session: self.ensemble.commit(session, changes)))

    def session_end_ms(self) -> int:
        return self._lives_until_ms

    def on_session(self, told: Callable[[SessionEvent], None]) -> None:
        self._told.append(told)

    def close(self) -> None:
        """End the session. No callback is called afterwards."""
        self._is_closed = True
        self._lives_until_ms = 0
        session, passes = self._session, self._passes(self._process.name, REGISTRY)
        if session is not None and passes():
            self.ensemble.end(session)
        self.lose_connection()

    @property
    def has_lapsed(self) -> bool:
        """Return whether the session has expired while this client has not been notified yet."""
        return self._session is not None and self._session.has_lapsed

    # Faults to order

    def lose_connection(self) -> None:
        """Break the connection. The outcome of pending requests stays unknown."""
        wire = self._wire
        if wire is None:
            return
        self._wire = None
        wire.back.is_closed = True
        for asked in wire.asked:
            self._process.post(partial(asked.done, _away()))
        wire.asked.clear()
        if wire.is_up and self._session is not None:
            self._process.post(partial(self._notify, SessionEvent.AWAY))

    def expire(self) -> None:
        """End the session on the servers, as if it had expired."""
        if self._session is not None:
            self.ensemble.end(self._session)

    def lag(self, ms: int) -> None:
        """Let the server of this client's session lag behind the other servers for `ms`."""
        if self._session is not None:
            self.ensemble.lag(self._session, ms)

    # Asking

    def _read(
        self,
        kind: str,
        paths: Sequence[str],
        one: Callable[[ServedSession, str], Any],
        changed: Callable[[str], None] | None,
    ) -> Steps[Any]:
        found: list[Any] = []
        for at in range(0, len(paths), PIPELINED):
            asked = _RegistryRequest(partial(_each, one, paths[at : at + PIPELINED]))
            if changed is not None:
                asked.watches = {(kind, path): changed for path in paths[at : at + PIPELINED]}
            found += yield from self._request(asked)
        return found

    def _request(self, asked: _RegistryRequest) -> Steps[Any]:
        """Send a request, and return its result. Raises the exception with which the registry refused the request."""
        failure = yield partial(self._send, asked)
        if failure is not None:
            raise failure
        if isinstance(asked.result, REFUSALS):
            raise asked.result
        return asked.result

    def _send(self, asked: _RegistryRequest, done: Done) -> None:
        wire, session = self._wire, self._session
        if wire is None or session is None or not wire.is_up:
            self._process.post(partial(done, _away()))
            return
        asked.done, asked.sent_ms = done, self._process.clock.now().mono_ms
        wire.asked.append(asked)
        wire.there.send(partial(self._serve, wire, session, asked))

    def _serve(self, wire: _Wire, session: ServedSession, asked: _RegistryRequest) -> None:
        """Serve a request on the server, unless its connection or session has ended."""
        if self.ensemble.is_down or session.number not in self.ensemble.sessions or session.connection is not wire:
            return
        self.ensemble.extend_session(session)
        result: Any
        try:
            result = asked.work(session)
        except REFUSALS as refused:
            result = refused.with_traceback(None)
        if wire is self._wire and self._process.world.chance(self.faults.lose_answer):
            self.lose_connection()
            return
        wire.back.send(lambda: self._process.post(partial(self._on_answer, wire, session, asked, result)))

    def _on_answer(self, wire: _Wire, session: ServedSession, asked: _RegistryRequest, result: Any) -> None:
        if wire is not self._wire:
            return
        self._extend_session(session, asked.sent_ms)
        for watched, changed in asked.watches.items():  # set only now: an older watch may be called while the request is pending
            self._watches.setdefault(watched, {})[changed] = None
        asked.result = result
        wire.asked.popleft().done(None)

    def _extend_session(self, session: ServedSession, sent_ms: int) -> None:
        """Extend the session's known lifetime after an answer to a request sent at `sent_ms`.

        The session was alive then. The new end allows for the greatest drift of both clocks.
        """
        self._heard_ms = self._process.world.now_ms
        if not self._is_closed and session is self._session:
            self._lives_until_ms = max(self._lives_until_ms, sent_ms + int(self.timeout_ms * (1 - 2 * MOST_DRIFT)))

    # The session

    def _beat(self) -> None:
        """Send a ping to the registry. If the registry has not answered for too long, reconnect."""
        if self._is_closed:
            return
        period_ms = self.timeout_ms // BEATS
        world = self._process.world
        world.after(period_ms, lambda: self._process.post(self._beat))
        wire, session = self._wire, self._session
        if wire is not None and world.now_ms - self._heard_ms > self.timeout_ms * (2 if wire.is_up else 1) // 3:
            self.lose_connection()
        if self._wire is None:
            self._connect()
        elif wire is not None and session is not None and wire.is_up:
            sent_ms = self._process.clock.now().mono_ms
            wire.there.send(partial(self._on_ping, wire, session, sent_ms))

    def _on_ping(self, wire: _Wire, session: ServedSession, sent_ms: int) -> None:
        if not self.ensemble.is_down and session.number in self.ensemble.sessions:
            self.ensemble.extend_session(session)
            wire.back.send(lambda: self._process.post(partial(self._extend_session, session, sent_ms)))

    def _connect(self) -> None:
        self._heard_ms = self._process.world.now_ms
        name = self._process.name
        there = OrderedWay(self._process.world, self._passes(name, REGISTRY), self._delay_ms)
        back = OrderedWay(self._process.world, self._passes(REGISTRY, name), self._delay_ms)
        wire = self._wire = _Wire(there, back)
        sent_ms = self._process.clock.now().mono_ms
        wire.there.send(partial(self._accept_connection, wire, self._session, sent_ms))

    def _accept_connection(self, wire: _Wire, session: ServedSession | None, sent_ms: int) -> None:
        """Accept a connection on the server: continue the session, report its end if it has ended, or begin a new one."""
        if self.ensemble.is_down or self._process.has_ended or wire is not self._wire:
            return
        if session is None:
            begun = self.ensemble.begin()
            self._attach(begun, wire)
            wire.back.send(lambda: self._process.post(partial(self._begun, wire, begun, sent_ms)))
        elif session.number in self.ensemble.sessions:
            self.ensemble.extend_session(session)
            self._attach(session, wire)
            wire.back.send(lambda: self._process.post(partial(self._is_back, wire, session, sent_ms)))
        else:
            wire.back.send(lambda: self._process.post(partial(self._on_session_end, wire)))

    def _attach(self, session: ServedSession, wire: _Wire) -> None:
        """Send the session's watch notifications over this connection. The end of the session is sent too, and closes the
        connection.
        """
        session.connection = wire
        session.told = lambda watched: wire.back.send(lambda: self._process.post(partial(self._on_watch, wire, watched)))
        session.over = lambda: wire.back.send(lambda: self._process.post(partial(self._was_closed, wire)))

    def _begun(self, wire: _Wire, session: ServedSession, sent_ms: int) -> None:
        if wire is self._wire:
            self._session, wire.is_up = session, True
            self._extend_session(session, sent_ms)
            self._notify(SessionEvent.BEGUN)

    def _is_back(self, wire: _Wire, session: ServedSession, sent_ms: int) -> None:
        if wire is self._wire:
            wire.is_up = True
            self._extend_session(session, sent_ms)
            self._notify(SessionEvent.BACK)
            self._call_all_watches()

    def _on_session_end(self, wire: _Wire) -> None:
        if wire is self._wire:
            self._wire = self._session = None
            self._lives_until_ms = 0
            self._notify(SessionEvent.ENDED)
            self._call_all_watches()
            self._connect()

    def _was_closed(self, wire: _Wire) -> None:
        """Handle that the registry closed the connection because the session ended."""
        if wire is self._wire and not self._is_closed:
            self.lose_connection()
            self._connect()

    def _on_watch(self, wire: _Wire, watched: Watched) -> None:
        if wire is self._wire and not self._is_closed:
            for changed in self._watches.pop(watched, {}):
                changed(watched[1])

    def _call_all_watches(self) -> None:
        """Call all watches, because their events may have been missed while the connection was broken."""
        watches, self._watches = self._watches, {}
        for (_, path), called in watches.items():
            for changed in called:
                changed(path)

    def _notify(self, event: SessionEvent) -> None:
        if not self._is_closed:
            for told in self._told:
                told(event)

    def _passes(self, source: str, target: str) -> Callable[[], bool]:
        return lambda: not self.ensemble.is_down and self._cuts.is_open(source, target)

    def _delay_ms(self) -> int:
        return self.faults.draw_ms(self._process.world)


def _each(one: Callable[[ServedSession, str], Any], paths: Sequence[str], session: ServedSession) -> list[Any]:
    return [one(session, path) for path in paths]


def _away() -> RegistryAway:
    return RegistryAway("/", "the registry is not reached: whether it did what was asked is unknown")
