"""The records in flight at a broker, for other threads. One request is served at a time, in slices of the broker's thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Final

from ottla.broker.broker import BrokerMachine
from ottla.broker.scheduler import InTurn
from ottla.broker.share.in_flight import read_in_flight
from ottla.net.server.broker_thread import BrokerThread
from ottla.ports import Steps
from ottla.share.in_flight_rows import GroupInFlight, InFlightQuery

MOST_WAITING: Final = 64
"""The most requests at the same time, with the one that is served."""

Groups = dict[str, GroupInFlight]


class InFlightSource:
    """The source of records in flight. Any thread may call `read`."""

    def __init__(self, broker: BrokerMachine, thread: BrokerThread) -> None:
        self.node_id = broker.node_id
        self._broker = broker
        self._thread = thread
        self._turns = InTurn()
        self._requests = 0

    def read(self, queries: Sequence[InFlightQuery]) -> Future[Groups | None]:
        """Return a future of the records in flight of the queries' groups, by group id; of None if too many requests wait.

        The future fails with `BrokerFailed` if the broker has ended.
        """
        return self._thread.request(partial(self._begin, queries))

    def _begin(self, queries: Sequence[InFlightQuery], done: Callable[[Groups | None], None]) -> None:
        if self._requests >= MOST_WAITING:
            done(None)
            return
        self._requests += 1
        self._broker.scheduler.begin(("records in flight", object()), self._turns.steps(self._read(queries)), done)

    def _read(self, queries: Sequence[InFlightQuery]) -> Steps[Groups]:
        try:
            return (yield from read_in_flight(self._broker.shares, queries, self._broker.scheduler.now().mono_ms))
        finally:
            self._requests -= 1
