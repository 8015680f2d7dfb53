"""Replies that wait: woken, expired, dropped."""

from __future__ import annotations

import pytest

from ottla.broker.failures import Changes
from ottla.broker.scheduler import Scheduler
from ottla.broker.serving.purgatory import DelayedOperation, DelayedReply, Purgatory, Reply
from ottla.broker.serving.request import Close, Ready
from ottla.ports import Now
from ottla.sim.clock import SimClock

READY, EXPIRED = Close("ready"), Close("expired")


def at(mono_ms: int) -> Now:
    return Now(0, mono_ms)


def waiting_for(keys: tuple[str, ...], ready: list[bool], until_ms: int | None = None) -> DelayedOperation:
    def retry(now: Now, expired: bool) -> Reply | None:
        return EXPIRED if expired else READY if ready else None

    return DelayedOperation(keys, until_ms, retry)


def test_a_wake_is_noted_and_the_retry_happens_when_the_bundle_is_settled() -> None:
    purgatory = Purgatory(Scheduler(SimClock()), Changes())
    replies: list[Ready] = []
    ready: list[bool] = []
    purgatory.watch(waiting_for(("k",), ready), replies.append)
    ready.append(True)
    purgatory.wake("k")
    assert replies == []
    purgatory.evaluate_woken(at(0))
    assert replies == [READY]
    assert len(purgatory) == 0


def test_a_reply_that_is_not_ready_yet_later_on() -> None:
    purgatory = Purgatory(Scheduler(SimClock()), Changes())
    replies: list[Ready] = []
    ready: list[bool] = []
    purgatory.watch(waiting_for(("k", "l"), ready), replies.append)
    purgatory.wake("k")
    purgatory.evaluate_woken(at(0))
    assert replies == []
    ready.append(True)
    purgatory.wake("l")
    purgatory.evaluate_woken(at(0))
    assert replies == [READY]


def test_a_reply_is_delivered_once_though_several_of_its_keys_are_woken() -> None:
    purgatory = Purgatory(Scheduler(SimClock()), Changes())
    replies: list[Ready] = []
    purgatory.watch(waiting_for(("k", "l"), [True]), replies.append)
    purgatory.wake("k")
    purgatory.wake("l")
    purgatory.evaluate_woken(at(0))
    purgatory.evaluate_woken(at(0))
    assert replies == [READY]


def test_when_its_time_is_over_a_reply_leaves_as_it_is() -> None:
    scheduler = Scheduler(SimClock())
    purgatory = Purgatory(scheduler, Changes())
    replies: list[Ready] = []
    purgatory.watch(waiting_for(("k",), [], until_ms=5), replies.append)
    scheduler.run_due(at(5))
    assert replies == [EXPIRED]
    purgatory.wake("k")
    purgatory.evaluate_woken(at(6))
    assert replies == [EXPIRED]


def test_what_is_answered_when_the_time_is_over_may_take_slices() -> None:
    scheduler = Scheduler(SimClock())
    purgatory = Purgatory(scheduler, Changes())
    replies: list[Ready] = []
    ready: list[bool] = []
    purgatory.watch(DelayedOperation(("k",), 5, lambda now, expired: waiting_for(("slices",), ready)), replies.append)
    scheduler.run_due(at(5))
    assert replies == []
    ready.append(True)
    purgatory.wake("slices")
    purgatory.evaluate_woken(at(6))
    assert replies == [READY]


@pytest.mark.parametrize("answer", [None, waiting_for(("k",), [], until_ms=9)], ids=["nothing", "another-end"])
def test_a_reply_whose_time_is_over_never_later_for_time_again(answer: Reply | None) -> None:
    scheduler = Scheduler(SimClock())
    purgatory = Purgatory(scheduler, Changes())
    purgatory.watch(DelayedOperation(("k",), 5, lambda now, expired: answer), lambda reply: None)
    with pytest.raises(AssertionError):
        scheduler.run_due(at(5))


def test_a_dropped_reply_is_never_delivered_and_leaves_no_timer() -> None:
    scheduler = Scheduler(SimClock())
    purgatory = Purgatory(scheduler, Changes())
    replies: list[Ready] = []
    wait = purgatory.watch(waiting_for(("k",), [True], until_ms=5), replies.append)
    purgatory.forget(wait)
    purgatory.wake("k")
    purgatory.evaluate_woken(at(0))
    scheduler.run_due(at(9))
    assert replies == []
    assert scheduler.next_ms() is None


def test_a_promise_is_fulfilled_when_the_last_of_what_it_waits_for_has_happened() -> None:
    replies: list[Ready] = []
    delayed = DelayedReply(lambda: READY, blocking=False)
    for _ in range(2):
        delayed.expect()
    assert delayed.reply() is delayed
    delayed.encode_with(replies.append)
    delayed.count_down()
    assert not delayed.done
    delayed.count_down()
    assert delayed.done
    assert replies == [READY]


def test_what_has_happened_before_its_handler_returns_leaves_at_once() -> None:
    delayed = DelayedReply(lambda: READY, blocking=False)
    delayed.expect()
    delayed.count_down()
    delayed.expect()
    assert delayed.reply() is delayed
    delayed.count_down()
    assert delayed.reply() is READY


def test_a_promise_that_follows_a_waiting_is_delivered_in_its_place() -> None:
    purgatory, replies = Purgatory(Scheduler(SimClock()), Changes()), list[Ready]()
    second = DelayedReply(lambda: READY, blocking=True)
    second.expect()
    first = purgatory.watch(DelayedOperation(("k",), None, lambda now, expired: second.reply()), replies.append)
    purgatory.wake("k")
    purgatory.evaluate_woken(at(0))
    assert not first.done
    second.count_down()
    assert first.done
    assert replies == [READY]


def test_nobody_wants_a_promise_that_stands_in_for_a_forgotten_one() -> None:
    purgatory = Purgatory(Scheduler(SimClock()), Changes())
    first, second = DelayedReply(blocking=True), DelayedReply(blocking=True)
    first.encode_with(lambda reply: None)
    purgatory.complete(first, second)
    assert second.is_wanted
    purgatory.forget(first)
    assert not second.is_wanted
