"""One machine over one partition of its topic: what it decides is appended, applied, timed, and answered once it is durable.

Knows the log and the timers as protocols. Whoever asks gives a callback, which is called exactly once: with the machine's reply, or
with a refusal if the log refused the records, a sync failed, or the shard was unloaded.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from itertools import count
from typing import Any, Generic, Never, Protocol, TypeVar

from ottla.coord.runtime.machine import (
    NOBODY,
    Asked,
    Due,
    KeyAndValue,
    Machine,
    Outcome,
    Reply,
    Shown,
    Timer,
    WrittenBy,
    everything,
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
"""A machine. Its shard hands it back its own records, whatever they are."""

Refuse = Callable[[object, int], object]
"""The reply to an input, or to a part of a request, that says this error code."""

PATIENCE = "patience"
RETRY_MS = 1_000
"""How soon something is decided again whose records the log refused."""
MOST_GATHERED = 500
"""How many outcomes are appended as one batch."""


class RecordLog(Protocol):
    """The partition that keeps a machine's records."""

    @property
    def is_usable(self) -> bool:
        """Whether it can be read and written."""
        ...

    def append(self, records: Sequence[KeyAndValue], now: Now, producer: WrittenBy | None = None, /) -> int:
        """Append these as one batch, in the transaction of `producer` if there is one. An error code: nothing was written."""
        ...

    def when_durable(self, told: Callable[[int], None], /) -> None:
        """Call `told(error_code)` once all that was appended so far is durable, or is known never to be: perhaps at once."""
        ...


class Deadlines(Protocol):
    """Where a shard sets its machine's timers: at most one deadline per key."""

    def at(self, key: Hashable, mono_ms: int, due: Callable[[Now], None], /) -> None: ...

    def cancel(self, key: Hashable, /) -> None: ...


def _no_orders(shard: object, order: object) -> None:
    """Of machines that give none."""
    raise AssertionError(f"nobody carries out {order}")


class ChangeMark(Protocol):
    """Whether the request at hand has changed anything; until then an unexpected failure costs that request alone."""

    made: bool


class Shard(Generic[M]):
    """One coordinator of one partition, whose `name` goes into the log."""

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
        "patience_ms",
    )

    def __init__(
        self,
        name: str,
        machine: M,
        log: RecordLog,
        deadlines: Deadlines,
        changes: ChangeMark,
        refuse: Refuse,
        catch_up: Callable[[Now], None],
        order: Callable[[Shard[M], object], None] = _no_orders,
    ) -> None:
        """`catch_up(now)` is called before each decision, to tell the machine what it rests on.

        `order(shard, order)` carries out what the machine orders, once that is durable.
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
        """What `settle` has yet to append."""
        self.patience_ms: Callable[[], int] | None = None
        """How long replies wait until what they tell of is durable; None sets no end. What was decided stays decided."""
        self._waits: dict[int, tuple[int, Sequence[Reply]]] = {}
        """When the time of replies is over, in order; each under a number of its own."""
        self._is_timed = False

    @property
    def is_present(self) -> bool:
        """Whether it still coordinates its partition, and that can be used."""
        return self.is_loaded and self.log.is_usable

    def load(self, records: Iterable[object], now: Now) -> None:
        """Bring the machine to where the stored records leave it. Whatever reading them raises leaves it half-way: drop it then."""
        for record in records:
            self.machine.apply(record)
        self._insist("recall", self.machine.recall, now)

    def unload(self) -> None:
        """End this coordinator. Whoever waits for it is refused with NOT_COORDINATOR."""
        self.is_loaded = False
        self.gathered.clear()
        self._waits.clear()
        owed, self._owed = self._owed, {}
        for body, answer in owed.values():
            answer(self._refuse(body, NOT_COORDINATOR))  # type: ignore[arg-type]  # an input's refusal is a reply to it

    def ask(
        self,
        body: object,
        answer: Callable[[Never], None],
        now: Now,
        version: int = 0,
        client_id: str = "",
        client_host: str = "",
        shown: Shown = everything,
    ) -> None:
        """Have the machine decide a request, or the part of one that concerns it.

        What is independent is gathered until `settle`, or until something else is decided.
        """
        changes = self._changes
        made, changes.made = changes.made, True  # what takes effect now was owed to others, and is no change of this request's
        self._catch_up(now)
        gathers = self.machine.is_independent(body)
        if not gathers:
            self.settle(now)
        changes.made = made
        token = next(self._tokens)
        outcome = self.machine.decide(Asked(body, version, client_id, client_host, token, shown), now)
        self._owed[token] = body, answer
        if gathers:
            self.gathered.append(outcome)
            if len(self.gathered) >= MOST_GATHERED:
                self.settle(now)
            return
        error_code = self._carry_out((outcome,), now, at_once=self.machine.leaves_at_once(body))
        if error_code:
            self._refuse_one(token, error_code)

    def tell(self, body: Hashable, now: Now, answer: Callable[[Never], None] | None = None) -> None:
        """Have the machine decide what no client sent; again and again, until the log takes the records."""
        if not self.is_present:
            if answer is not None:
                answer(self._refuse(body, NOT_COORDINATOR))  # type: ignore[arg-type]  # an input's refusal is a reply to it
            return
        token = NOBODY
        if answer is not None:
            token = next(self._tokens)
            self._owed[token] = body, answer
        self._go_on(body, partial(self.machine.decide, Asked(body, token=token)), now)

    def settle(self, now: Now) -> None:
        """Append what was gathered as one batch. If that is refused, each by itself: one must not spoil the others."""
        outcomes, self.gathered = self.gathered, []
        if not outcomes or (len(outcomes) > 1 and not self._carry_out(outcomes, now)):
            return
        for outcome in outcomes:
            error_code = self._carry_out((outcome,), now)
            if error_code:
                for token, _ in outcome.replies:
                    self._refuse_one(token, error_code)

    def _go_on(self, key: Hashable, decide: Callable[[Now], Outcome[object]], now: Now) -> None:
        """Decide what no client waits for, unless this coordinator is gone."""
        if self.is_present:
            self._catch_up(now)
            self.settle(now)
            self._insist(key, decide, now)

    def _insist(self, key: Hashable, decide: Callable[[Now], Outcome[object]], now: Now) -> None:
        if self._carry_out((decide(now),), now):
            self._deadlines.at((self.name, key), now.mono_ms + RETRY_MS, partial(self._go_on, key, decide))

    def _carry_out(self, outcomes: Sequence[Outcome[object]], now: Now, *, at_once: bool = False) -> int:
        """Append, apply, set timers, and release the replies when they may leave.

        An error code means that nothing has changed, neither in the log nor in the machine: the outcomes are void.
        """
        if any(outcome.records or outcome.timers or outcome.orders for outcome in outcomes):
            self._changes.made = True
        machine = self.machine
        try:
            encoded = [machine.encode(record) for outcome in outcomes for record in outcome.records]
        except Unencodable as unencodable:
            log.error("%s: a record was refused: %s", self.name, unencodable)
            return UNKNOWN_SERVER_ERROR
        stored = [record for record in encoded if record is not None]
        producer = outcomes[0].producer
        assert producer is None or len(outcomes) == 1, "a batch has one producer"
        error_code = self.log.append(stored, now, producer) if stored else NONE
        if error_code:
            return error_code
        for outcome in outcomes:
            for record in outcome.records:
                machine.apply(record)
            for timer in outcome.timers:
                self._set_timer(timer)
        replies = [reply for outcome in outcomes for reply in outcome.replies]
        if at_once:
            self._release(replies, bool(stored), NONE)
        elif replies:
            release = partial(self._release, replies, bool(stored))
            self.log.when_durable(release if self.patience_ms is None else self._in_time(replies, release, now))
        orders = [order for outcome in outcomes for order in outcome.orders]
        if orders:
            self.log.when_durable(partial(self._have_carried_out, orders))
        return NONE

    def _in_time(self, replies: Sequence[Reply], release: Callable[[int], None], now: Now) -> Callable[[int], None]:
        """The same release of these replies, which are refused if it does not come in time."""
        assert self.patience_ms is not None, "others wait without an end"
        number, until_ms = next(self._tokens), now.mono_ms + self.patience_ms()
        self._waits[number] = until_ms, replies
        if not self._is_timed:
            self._is_timed = True
            self._deadlines.at((self.name, PATIENCE), until_ms, self._lose_patience)

        def released(error_code: int) -> None:
            self._waits.pop(number, None)
            release(error_code)

        return released

    def _lose_patience(self, now: Now) -> None:
        """Refuse those whose time is over: they may ask again. What was decided holds all the same, once all replicas have it."""
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
        """Records on fewer replicas than are demanded stay, as all that are in sync have them; but nobody is told of them."""
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
                owed[1](message)  # type: ignore[arg-type]  # the machine answers each input as its kind is answered

    def _have_carried_out(self, orders: Sequence[object], error_code: int) -> None:
        if error_code not in (NONE, NOT_ENOUGH_REPLICAS_AFTER_APPEND):
            self.unload()
        for order in orders:
            if self.is_loaded:
                self._order(self, order)

    def _refuse_one(self, token: int, error_code: int) -> None:
        """Refuse the input that came in under `token`, if its reply is still owed."""
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
        self._go_on(key, partial(self.machine.decide, Asked(Due(key))), now)
