"""Replies that wait: woken, expired, dropped."""

from __future__ import annotations

import pytest

from ottla.broker.scheduler import Scheduler
from ottla.broker.serving.request import Close, Reply, Waiting
from ottla.broker.serving.waits import Waits
from ottla.ports import Now
from ottla.sim.clock import SimClock

READY, EXPIRED = Close("ready"), Close("expired")


def at(mono_ms: int) -> Now:
    return Now(0, mono_ms)


def waiting_for(keys: tuple[str, ...], ready: list[bool], until_ms: int | None = None) -> Waiting:
    def retry(now: Now, expired: bool) -> Reply | None:
        return EXPIRED if expired else READY if ready else None

    return Waiting(keys, until_ms, retry)


def test_a_wake_is_noted_and_the_retry_happens_when_the_bundle_is_settled() -> None:
    waits = Waits(Scheduler(SimClock()))
    replies: list[Reply] = []
    ready: list[bool] = []
    waits.add(waiting_for(("k",), ready), replies.append)
    ready.append(True)
    waits.wake("k")
    assert replies == []
    waits.settle(at(0))
    assert replies == [READY]
    assert len(waits) == 0


def test_a_reply_that_is_not_ready_yet_waits_on() -> None:
    waits = Waits(Scheduler(SimClock()))
    replies: list[Reply] = []
    ready: list[bool] = []
    waits.add(waiting_for(("k", "l"), ready), replies.append)
    waits.wake("k")
    waits.settle(at(0))
    assert replies == []
    ready.append(True)
    waits.wake("l")
    waits.settle(at(0))
    assert replies == [READY]


def test_a_reply_is_delivered_once_though_several_of_its_keys_are_woken() -> None:
    waits = Waits(Scheduler(SimClock()))
    replies: list[Reply] = []
    waits.add(waiting_for(("k", "l"), [True]), replies.append)
    waits.wake("k")
    waits.wake("l")
    waits.settle(at(0))
    waits.settle(at(0))
    assert replies == [READY]


def test_when_its_time_is_over_a_reply_leaves_as_it_is() -> None:
    scheduler = Scheduler(SimClock())
    waits = Waits(scheduler)
    replies: list[Reply] = []
    waits.add(waiting_for(("k",), [], until_ms=5), replies.append)
    scheduler.run_due(at(5))
    assert replies == [EXPIRED]
    waits.wake("k")
    waits.settle(at(6))
    assert replies == [EXPIRED]


def test_what_is_answered_when_the_time_is_over_may_take_slices() -> None:
    scheduler = Scheduler(SimClock())
    waits = Waits(scheduler)
    replies: list[Reply] = []
    ready: list[bool] = []
    waits.add(Waiting(("k",), 5, lambda now, expired: waiting_for(("slices",), ready)), replies.append)
    scheduler.run_due(at(5))
    assert replies == []
    ready.append(True)
    waits.wake("slices")
    waits.settle(at(6))
    assert replies == [READY]


@pytest.mark.parametrize("answer", [None, waiting_for(("k",), [], until_ms=9)], ids=["nothing", "another-end"])
def test_a_reply_whose_time_is_over_never_waits_for_time_again(answer: Reply | None) -> None:
    scheduler = Scheduler(SimClock())
    waits = Waits(scheduler)
    waits.add(Waiting(("k",), 5, lambda now, expired: answer), lambda reply: None)
    with pytest.raises(AssertionError):
        scheduler.run_due(at(5))


def test_a_dropped_reply_is_never_delivered_and_leaves_no_timer() -> None:
    scheduler = Scheduler(SimClock())
    waits = Waits(scheduler)
    replies: list[Reply] = []
    wait = waits.add(waiting_for(("k",), [True], until_ms=5), replies.append)
    waits.drop(wait)
    waits.wake("k")
    waits.settle(at(0))
    scheduler.run_due(at(9))
    assert replies == []
    assert scheduler.next_ms() is None
