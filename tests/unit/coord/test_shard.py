"""The runtime of coordinators, with a machine that Ottla does not know: replies wait for the log, and refusals change nothing."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from ottla.coord.runtime.machine import Input, KeyAndValue, Outcome, WrittenBy
from ottla.coord.runtime.shard import RETRY_MS, Shard
from ottla.ports import Now
from ottla.wire.errors import KAFKA_STORAGE_ERROR, NONE, NOT_COORDINATOR
from tests.support.counters import (
    FORGOTTEN_AFTER_MS,
    Add,
    Counted,
    Counters,
    CounterSet,
    Look,
    WaiterCame,
    WaitFor,
    decode,
    refused,
)


class ListLog:
    """A log in memory that refuses when told to, and is durable when told so."""

    def __init__(self) -> None:
        self.records: list[KeyAndValue] = []
        self.is_usable = True
        self.patience_ms: int | None = None
        self.refusal = NONE
        self._waiting: list[Callable[[int], None]] = []

    def append(self, records: Sequence[KeyAndValue], now: Now, producer: WrittenBy | None = None) -> int:
        if self.refusal == NONE:
            self.records += records
        return self.refusal

    def when_durable(self, told: Callable[[int], None]) -> None:
        self._waiting.append(told)

    def synced(self, error_code: int = NONE) -> None:
        waiting, self._waiting = self._waiting, []
        for told in waiting:
            told(error_code)


class ListedDeadlines:
    def __init__(self) -> None:
        self.due: dict[Hashable, tuple[int, Callable[[Now], None]]] = {}

    def at(self, key: Hashable, mono_ms: int, due: Callable[[Now], None]) -> None:
        self.due[key] = mono_ms, due

    def cancel(self, key: Hashable) -> None:
        self.due.pop(key, None)

    def pass_until(self, ms: int) -> None:
        for key, (mono_ms, due) in list(self.due.items()):
            if mono_ms <= ms:
                del self.due[key]
                due(Now(ms, ms))


class Mark:
    made = False


class Coordinator:
    """A shard with everything that it stands on."""

    def __init__(self, log: ListLog | None = None, ms: int = 0) -> None:
        self.log = log or ListLog()
        self.deadlines = ListedDeadlines()
        self.mark = Mark()
        self.caught_up: list[int] = []
        self.shard = Shard(
            "__counters-0", Counters(), self.log, self.deadlines, self.mark, refused, lambda now: self.caught_up.append(now.mono_ms)
        )
        self.shard.load([record for key, value in self.log.records if (record := decode(key, value))], Now(ms, ms))
        self.ms = ms

    def request(self, body: object) -> list[Counted]:
        """What is answered, as soon as it is."""
        answers: list[Counted] = []
        self.shard.request(body, answers.append, Now(self.ms, self.ms))
        return answers


def test_a_reply_leaves_once_its_records_are_durable() -> None:
    coordinator = Coordinator()
    answers = coordinator.request(Add("a", 3))
    assert (answers, coordinator.shard.machine.values) == ([], {"a": 3})
    coordinator.log.synced()
    assert answers == [Counted(3)]


def test_a_reply_that_shows_nothing_new_leaves_at_once() -> None:
    assert Coordinator().request(Look("a")) == [Counted(0)]


def test_a_request_is_decided_on_what_the_one_before_it_decided() -> None:
    coordinator = Coordinator()
    answers = [coordinator.request(Add("a", 1)) for _ in range(3)]
    coordinator.log.synced()
    assert answers == [[Counted(1)], [Counted(2)], [Counted(3)]]


def test_where_the_log_refuses_nothing_has_changed_and_the_asker_hears_it() -> None:
    coordinator = Coordinator()
    coordinator.log.refusal = NOT_COORDINATOR
    assert coordinator.request(Add("a", 3)) == [Counted(-1, NOT_COORDINATOR)]
    assert (coordinator.shard.machine.values, coordinator.log.records, coordinator.deadlines.due) == ({}, [], {})


def test_a_reply_can_come_with_a_later_decision() -> None:
    coordinator = Coordinator()
    waiting = coordinator.request(WaitFor("a", 2))
    coordinator.request(Add("a", 1))
    coordinator.log.synced()
    assert waiting == []
    coordinator.request(Add("a", 1))
    coordinator.log.synced()
    assert waiting == [Counted(2)]


def test_after_a_failed_sync_all_that_is_owed_is_refused() -> None:
    coordinator = Coordinator()
    waiting, adding = coordinator.request(WaitFor("a", 9)), coordinator.request(Add("a", 1))
    coordinator.log.synced(KAFKA_STORAGE_ERROR)
    assert (waiting, adding) == ([Counted(-1, NOT_COORDINATOR)], [Counted(-1, NOT_COORDINATOR)])
    assert not coordinator.shard.is_loaded


def test_a_new_shard_on_the_same_log_knows_all_that_is_stored_and_nothing_else() -> None:
    before = Coordinator()
    before.request(Add("a", 3))
    before.request(Add("b", 1))
    before.request(WaitFor("a", 9))
    after = Coordinator(before.log)
    assert after.shard.machine.values == {"a": 3, "b": 1}
    assert after.shard.machine.waiting == {}


def test_a_machine_finds_its_timers_again_after_a_start() -> None:
    before = Coordinator()
    before.request(Add("a", 3))
    after = Coordinator(before.log, ms=1_000)
    after.deadlines.pass_until(1_000 + FORGOTTEN_AFTER_MS)
    assert after.shard.machine.values == {}


def test_a_deadline_comes_back_until_the_log_takes_what_it_decides() -> None:
    coordinator = Coordinator()
    coordinator.request(Add("a", 3))
    coordinator.log.refusal = NOT_COORDINATOR
    coordinator.deadlines.pass_until(FORGOTTEN_AFTER_MS)
    assert coordinator.shard.machine.values == {"a": 3}
    coordinator.log.refusal = NONE
    coordinator.deadlines.pass_until(FORGOTTEN_AFTER_MS + RETRY_MS)
    assert coordinator.shard.machine.values == {}


def test_who_tells_something_to_a_shard_that_is_gone_hears_it() -> None:
    coordinator, answers = Coordinator(), list[Counted]()
    coordinator.shard.unload()
    coordinator.shard.submit(Add("a", 1), Now(0, 0), answers.append)
    assert answers == [Counted(-1, NOT_COORDINATOR)]
    coordinator.deadlines.pass_until(1 << 40)
    assert coordinator.log.records == []


def test_what_nobody_sent_is_decided_until_the_log_takes_it_and_answered_when_it_is_durable() -> None:
    coordinator, answers = Coordinator(), list[Counted]()
    coordinator.log.refusal = NOT_COORDINATOR
    coordinator.shard.submit(Add("a", 1), Now(0, 0), answers.append)
    coordinator.log.refusal = NONE
    coordinator.deadlines.pass_until(RETRY_MS)
    assert (answers, coordinator.shard.machine.values) == ([], {"a": 1})
    coordinator.log.synced()
    assert answers == [Counted(1)]


def test_a_request_is_marked_as_a_change_only_once_it_was_decided() -> None:
    coordinator, seen = Coordinator(), list[bool]()
    coordinator.mark.made = False
    machine, decide = coordinator.shard.machine, coordinator.shard.machine.decide

    def watched(asked: Input[object], now: Now) -> Outcome[CounterSet | WaiterCame]:
        seen.append(coordinator.mark.made)
        return decide(asked, now)

    machine.decide = watched  # type: ignore[method-assign]  # to look at the mark in between
    coordinator.request(Look("a"))
    assert (seen, coordinator.mark.made, coordinator.caught_up) == ([False], False, [0])
