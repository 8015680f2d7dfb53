"""A coordinator of counters, as an addition would bring it: a machine, its records, and how they are read and refused.

Knows the runtime of coordinators only; nothing of Ottla knows counters.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.coord.runtime.machine import NOTHING, Due, Input, KeyAndValue, Outcome, Reply, Timer
from ottla.coord.runtime.record_reader import UnreadableRecord
from ottla.ports import Now, Pauses

TOPIC = "__counters"
FORGOTTEN_AFTER_MS = 60_000


class Add(NamedTuple):
    """A request: count on, and answer where the counter is."""

    name: str
    by: int


class Look(NamedTuple):
    """A request: answer where the counter is, without counting and at once."""

    name: str


class WaitFor(NamedTuple):
    """A request: answer when the counter has got so far."""

    name: str
    least: int


class Counted(NamedTuple):
    """The reply to each of them."""

    value: int
    error_code: int = 0


class CounterSet(NamedTuple):
    """A record: the counter is there now; None: it is forgotten."""

    name: str
    value: int | None


class WaiterCame(NamedTuple):
    """A volatile event: somebody waits for a counter."""

    waiting: WaitFor
    token: int


class Counters:
    """The machine. Counters that nobody adds to are forgotten."""

    def __init__(self) -> None:
        self.values: dict[str, int] = {}
        self.waiting: dict[int, WaitFor] = {}

    def decide(self, asked: Input[object], now: Now) -> Outcome[CounterSet | WaiterCame]:
        body = asked.body
        if isinstance(body, Add):
            value = self.values.get(body.name, 0) + body.by
            replies = [Reply(asked.token, Counted(value))]
            replies += [
                Reply(token, Counted(value))
                for token, waiting in self.waiting.items()
                if waiting.name == body.name and value >= waiting.least
            ]
            timer = Timer(body.name, now.mono_ms + FORGOTTEN_AFTER_MS)
            return Outcome((CounterSet(body.name, value),), tuple(replies), (timer,))
        if isinstance(body, WaitFor):
            return Outcome((WaiterCame(body, asked.token),))
        if isinstance(body, Look):
            return Outcome(replies=(Reply(asked.token, Counted(self.values.get(body.name, 0))),))
        assert isinstance(body, Due)
        return Outcome((CounterSet(str(body.key), None),)) if body.key in self.values else NOTHING

    def apply(self, record: CounterSet | WaiterCame) -> None:
        if isinstance(record, WaiterCame):
            self.waiting[record.token] = record.waiting
        elif record.value is None:
            self.values.pop(record.name, None)
        else:
            value = self.values[record.name] = record.value
            over = [token for token, each in self.waiting.items() if each.name == record.name and value >= each.least]
            for token in over:
                del self.waiting[token]

    def recall(self, now: Now) -> Outcome[CounterSet | WaiterCame]:
        return Outcome(timers=tuple(Timer(name, now.mono_ms + FORGOTTEN_AFTER_MS) for name in self.values))

    def encode(self, record: CounterSet | WaiterCame) -> KeyAndValue | None:
        if isinstance(record, WaiterCame):
            return None
        return record.name.encode(), None if record.value is None else b"%d" % record.value

    def is_independent(self, body: object) -> bool:
        return False

    @property
    def weight(self) -> int:
        return 0

    def dissolve(self) -> Pauses[None]:
        while self.values:
            self.values.popitem()
            yield None

    def leaves_at_once(self, body: object) -> bool:
        return isinstance(body, Look)


def decode(key: bytes, value: bytes | None) -> CounterSet | None:
    try:
        return CounterSet(key.decode(), None if value is None else int(value))
    except ValueError as error:
        raise UnreadableRecord(str(error)) from error


def refused(body: object, error_code: int) -> Counted:
    return Counted(-1, error_code)
