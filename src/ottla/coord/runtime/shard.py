"""The runner of one machine for one partition: it appends and applies records, and releases replies when records are durable.

The log and the timers are protocols. Each input has a callback that is called exactly once: with the machine's reply, or with a
refusal if the log refused the records, a sync failed, or the shard was unloaded.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from itertools import count
from typing import Any, Generic, Never, Protocol, TypeVar

from ottla.coord.runtime.machine import (
    NOBODY,
    Due,
    Input,
    KeyAndValue,
    Machine,
    Outcome,
    Reply,
    Shown,
    Timer,
    WrittenBy,
    every_topic,
)
from ottla.ports import Now
from ottla.wire import Unencodable
from ottla.wire.errors import (
    COORDINATOR_NOT_AVAILABLE,
    NONE,
    NOT_COORDINATOR,
    NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    UNKNOWN_SERVER_ERROR,
)

log = logging.getLogger("ottla.coord")

M = TypeVar("M", bound=Machine[Any])
"""A machine's type. A shard applies only records that its own machine decided or stored."""

Refuse = Callable[[object, int], object]
"""A function that returns the reply to an input, or to a part of a request, with this error code."""

PATIENCE = "patience"
RETRY_MS = 1_000
"""The delay in milliseconds before an input is decided again after the log refused its records."""
MOST_GATHERED = 500
"""The most outcomes that are appended as one batch."""


class RecordLog(Protocol):
    """The partition of an internal topic that stores a coordinator's records."""

    @property
    def is_usable(self) -> bool:
        """Return whether the partition can be read and written."""
        ...

    @property
    def patience_ms(self) -> int | None:
        """Return how many ms a reply may wait until its records are durable; None without a limit.

        A reply that waits longer becomes an error, but the decision is not undone.
        """
        ...

    def append(self, records: Sequence[KeyAndValue], now: Now, producer: WrittenBy | None = None, /) -> int:
        """Append records as one batch, in the transaction of `producer` if given. Return an error code if nothing was written."""
        ...

    def when_durable(self, told: Callable[[int], None], /) -> None:
        """Call `told(error_code)` when all records appended so far are durable, or have failed. The call can come at once."""
        ...


class Deadlines(Protocol):
    """The interface for the timers of a coordinator: at most one deadline per key."""

    def at(self, key: Hashable, mono_ms: int, due: Callable[[Now], None], /) -> None: ...

    def cancel(self, key: Hashable, /) -> None: ...


class ChangeMark(Protocol):
    """The record of whether the present request has changed anything (`made`). If not, an exception fails only this request."""

    made: bool


class Shard(Generic[M]):
    """The coordinator for one partition of an internal topic, with the partition's log. `name` is used in log lines."""

    __slots__ = (
        "_catch_up",
        "_changes",
        "_deadlines",
        "_is_timed",
        "_order",
        "_owed",
        "_refuse",
        "_tokens",
        "_waits",
        "gathered",
        "is_loaded",
        "log",
        "machine",
        "name",
    )

    def __init__(
        self,
        name: str,
        machine: M,
        log: RecordLog,
        deadlines: Deadlines,
        changes: ChangeMark,
        refuse: Refuse,
        catch_up: Callable[[Now], None] | None = None,
        order: Callable[[Shard[M], object], None] | None = None,
    ) -> None:
        """Create the shard. `catch_up(now)` is called before each decision, and can pass the machine newer inputs.

        `order(shard, order)` executes the machine's orders once their records are durable. It is None for machines without orders.
        """
        self.name = name
        self.machine = machine
        self.log = log
        self.is_loaded = True
        self._deadlines = deadlines
        self._changes = changes
        self._refuse = refuse
        self._catch_up = catch_up
        self._order = order
        self._tokens = count()
        self._owed: dict[int, tuple[object, Callable[[Never], None]]] = {}
        self.gathered: list[Outcome[object]] = []
        """The outcomes that are not appended yet; `append_gathered` appends them."""
        self._waits: dict[int, tuple[int, Sequence[Reply]]] = {}
        """The deadlines and replies of waiting outcomes, by a sequential number, in the order of their deadlines."""
        self._is_timed = False

    @property
    def is_present(self) -> bool:
        """Return whether the shard is loaded and its partition is usable."""
        return self.is_loaded and self.log.is_usable

    def load(self, records: Iterable[object], now: Now) -> None:
        """Load the machine from the stored records. If iterating them raises, the machine is incomplete and must not be used."""
        for record in records:
            self.machine.apply(record)
        self._insist("recall", self.machine.recall, now)

    def unload(self) -> None:
        """End this coordinator, and refuse all unanswered inputs with NOT_COORDINATOR."""
        self.is_loaded = False
        self.gathered.clear()
        self._waits.clear()
        owed, self._owed = self._owed, {}
        for body, answer in owed.values():
            answer(self._refuse(body, NOT_COORDINATOR))  # type: ignore[arg-type]  # an input's refusal is a reply to it

    def request(
        self,
        body: object,
        answer: Callable[[Never], None],
        now: Now,
        version: int = 0,
        client_id: str = "",
        client_host: str = "",
        shown: Shown = every_topic,
    ) -> None:
        """Pass a request, or a part of a request, to the machine for a decision.

        Outcomes of independent requests are gathered until `append_gathered`, or until the machine decides another input.
        """
        changes = self._changes
        made, changes.made = changes.made, True  # changes for earlier requests do not count as changes by this request
        if self._catch_up is not None:
            self._catch_up(now)
        gathers = self.machine.is_independent(body)
        if self.gathered and not gathers:
            self.append_gathered(now)
        changes.made = made
        token = next(self._tokens)
        outcome = self.machine.decide(Input(body, version, client_id, client_host, token, shown), now)
        self._owed[token] = body, answer
        if gathers:
            self.gathered.append(outcome)
            if len(self.gathered) >= MOST_GATHERED:
                self.append_gathered(now)
            return
        error_code = self._append((outcome,), now, at_once=self.machine.leaves_at_once(body))
        if error_code:
            self._refuse_one(token, error_code)

    def submit(self, body: Hashable, now: Now, answer: Callable[[Never], None] | None = None) -> None:
        """Pass an internal input to the machine, and repeat it until the log accepts the records."""
        if not self.is_present:
            if answer is not None:
                answer(self._refuse(body, NOT_COORDINATOR))  # type: ignore[arg-type]  # an input's refusal is a reply to it
            return
        token = NOBODY
        if answer is not None:
            token = next(self._tokens)
            self._owed[token] = body, answer
        self._decide_internal(body, partial(self.machine.decide, Input(body, token=token)), now)

    def append_gathered(self, now: Now) -> None:
        """Append the gathered outcomes as one batch. If the log refuses it, append each alone, so that only bad ones fail."""
        outcomes, self.gathered = self.gathered, []
        if len(outcomes) > 1 and not self._append(outcomes, now):
            return
        for outcome in outcomes:
            error_code = self._append((outcome,), now)
            if error_code:
                for token, _ in outcome.replies:
                    self._refuse_one(token, error_code)

    def _decide_internal(self, key: Hashable, decide: Callable[[Now], Outcome[object]], now: Now) -> None:
        """Decide an input of the broker itself. Do nothing if this coordinator is unloaded or its partition is unusable."""
        if self.is_present:
            if self._catch_up is not None:
                self._catch_up(now)
            if self.gathered:
                self.append_gathered(now)
            self._insist(key, decide, now)

    def _insist(self, key: Hashable, decide: Callable[[Now], Outcome[object]], now: Now) -> None:
        if self._append((decide(now),), now):
            self._deadlines.at((self.name, key), now.mono_ms + RETRY_MS, partial(self._decide_internal, key, decide))

    def _append(self, outcomes: Sequence[Outcome[object]], now: Now, *, at_once: bool = False) -> int:
        """Append and apply the outcomes' records, set their timers, and release their replies when the records are durable.

        With `at_once`, release the replies immediately. Return an error code if nothing has changed, neither in the log nor in the
        machine.
        """
        machine = self.machine
        records = outcomes[0].records if len(outcomes) == 1 else [record for outcome in outcomes for record in outcome.records]
        producer = outcomes[0].producer
        assert producer is None or len(outcomes) == 1, "a batch has one producer"
        stored: list[KeyAndValue] = []
        if records:
            self._changes.made = True
            error_code = self._store(records, stored, now, producer)
            if error_code:
                return error_code
        replies: list[Reply] = []
        orders: list[object] = []
        for outcome in outcomes:
            for record in outcome.records:
                machine.apply(record)
            if outcome.timers or outcome.orders:
                self._changes.made = True
                for timer in outcome.timers:
                    self._set_timer(timer)
                orders += outcome.orders
            replies += outcome.replies
        if at_once:
            self._release(replies, bool(stored), NONE)
        elif replies:
            release = partial(self._release, replies, bool(stored))
            patience_ms = self.log.patience_ms
            self.log.when_durable(release if patience_ms is None else self._in_time(replies, release, now.mono_ms + patience_ms))
        if orders:
            self.log.when_durable(partial(self._execute_orders, orders))
        return NONE

    def _store(self, records: Sequence[object], stored: list[KeyAndValue], now: Now, producer: WrittenBy | None) -> int:
        """Append records to the log, without volatile events, and add them to `stored`. Return an error code if none is written."""
        encode = self.machine.encode
        try:
            for record in records:
                encoded = encode(record)
                if encoded is not None:
                    stored.append(encoded)
        except Unencodable as unencodable:
            log.error("%s: a record was refused: %s", self.name, unencodable)
            return UNKNOWN_SERVER_ERROR
        return self.log.append(stored, now, producer) if stored else NONE

    def _in_time(self, replies: Sequence[Reply], release: Callable[[int], None], until_ms: int) -> Callable[[int], None]:
        """Return `release` with a deadline: replies that are not released before `until_ms` are refused."""
        number = next(self._tokens)
        self._waits[number] = until_ms, replies
        if not self._is_timed:
            self._is_timed = True
            self._deadlines.at((self.name, PATIENCE), until_ms, self._lose_patience)

        def released(error_code: int) -> None:
            self._waits.pop(number, None)
            release(error_code)

        return released

    def _lose_patience(self, now: Now) -> None:
        """Refuse the replies that have waited too long for durable records, so that clients retry. The records are not undone."""
        self._is_timed = False
        for number, (until_ms, replies) in list(self._waits.items()):
            if until_ms > now.mono_ms:
                self._is_timed = True
                self._deadlines.at((self.name, PATIENCE), until_ms, self._lose_patience)
                return
            del self._waits[number]
            for token, _ in replies:
                self._refuse_one(token, COORDINATOR_NOT_AVAILABLE)

    def _release(self, replies: Sequence[Reply], is_written: bool, error_code: int) -> None:
        """Release replies whose records are durable, or have failed with `error_code`.

        If too few replicas have the records, which stay in the log, refuse the replies. Any other error ends the shard.
        """
        if error_code and error_code != NOT_ENOUGH_REPLICAS_AFTER_APPEND:
            self.unload()
            return
        if error_code and is_written:
            for token, _ in replies:
                self._refuse_one(token, COORDINATOR_NOT_AVAILABLE)
            return
        for token, message in replies:
            owed = self._owed.pop(token, None)
            if owed is not None:
                owed[1](message)  # type: ignore[arg-type]  # the machine answers each input with the input's type of reply

    def _execute_orders(self, orders: Sequence[object], error_code: int) -> None:
        if error_code not in (NONE, NOT_ENOUGH_REPLICAS_AFTER_APPEND):
            self.unload()
        assert self._order is not None, f"nobody carries out {orders}"
        for order in orders:
            if self.is_loaded:
                self._order(self, order)

    def _refuse_one(self, token: int, error_code: int) -> None:
        """Refuse the input with this `token`, if it has no reply yet."""
        owed = self._owed.pop(token, None)
        if owed is not None:
            body, answer = owed
            answer(self._refuse(body, error_code))  # type: ignore[arg-type]  # an input's refusal is a reply to it

    def _set_timer(self, timer: Timer) -> None:
        key = (self.name, timer.key)
        if timer.deadline_ms is None:
            self._deadlines.cancel(key)
        else:
            self._deadlines.at(key, timer.deadline_ms, partial(self._due, timer.key))

    def _due(self, key: Hashable, now: Now) -> None:
        self._decide_internal(key, partial(self.machine.decide, Input(Due(key))), now)
