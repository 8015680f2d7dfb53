"""Replies that wait, and the timers below them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.serving.request import Close, Reply, Waiting
from ottla.broker.serving.waits import Waits
from ottla.broker.timers import Timers
from ottla.ports import EntryExists, NoEntry, Now, StorageFailed, VersionConflict
from ottla.wire import Malformed

READY, EXPIRED = Close("ready"), Close("expired")


def at(mono_ms: int) -> Now:
    return Now(0, mono_ms)


def test_a_deadline_is_called_once_when_its_time_has_come() -> None:
    timers = Timers()
    calls: list[Now] = []
    timers.at("a", 10, calls.append)
    timers.run_due(at(9))
    assert calls == []
    timers.run_due(at(10))
    timers.run_due(at(11))
    assert calls == [at(10)]


def test_setting_a_deadline_anew_replaces_the_former_one() -> None:
    timers = Timers()
    calls: list[str] = []
    timers.at("a", 10, lambda now: calls.append("early"))
    timers.at("a", 20, lambda now: calls.append("late"))
    timers.run_due(at(15))
    assert calls == []
    assert timers.next_ms() == 20
    timers.run_due(at(20))
    assert calls == ["late"]


def test_a_cancelled_deadline_is_never_called() -> None:
    timers = Timers()
    calls: list[Now] = []
    timers.at("a", 10, calls.append)
    timers.cancel("a")
    timers.run_due(at(100))
    assert calls == []
    assert timers.next_ms() is None


REFUSALS = [
    StorageFailed("f", "No space left on device"),
    Malformed("Fetch", 4, "topics", 7, "cut off"),
    VersionConflict("/v"),
    EntryExists("/e"),
    NoEntry("/n"),
]


@pytest.mark.expects_errors("did not come to its end")
@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: type(refusal).__name__)
def test_what_one_deadline_is_refused_keeps_no_other_back(refusal: Exception, caplog: pytest.LogCaptureFixture) -> None:
    timers = Timers()
    calls: list[Now] = []

    def refused(now: Now) -> None:
        raise refusal

    timers.at("first", 1, refused)
    timers.at("second", 2, calls.append)
    timers.run_due(at(3))
    assert calls == [at(3)]
    assert caplog.messages == [f"first did not come to its end: {refusal}"]


def test_a_mistake_is_never_taken_for_a_refusal() -> None:
    timers = Timers()

    def mistaken(now: Now) -> None:
        raise IndexError

    timers.at("first", 1, mistaken)
    with pytest.raises(IndexError):
        timers.run_due(at(3))


@pytest.mark.expects_errors("did not come to its end")
def test_what_comes_again_and_again_comes_again_after_a_refusal() -> None:
    timers = Timers()
    calls: list[Now] = []

    def refused(now: Now) -> None:
        calls.append(now)
        raise StorageFailed("f", "Input/output error")

    timers.every("often", lambda: 10, refused, at(0))
    for mono_ms in (9, 10, 15, 20, 30):
        timers.run_due(at(mono_ms))
    assert calls == [at(10), at(20), at(30)]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 50)), max_size=300))
def test_only_the_last_deadline_of_each_key_is_called_and_in_order(deadlines: list[tuple[int, int]]) -> None:
    timers = Timers()
    calls: list[tuple[int, int]] = []

    def noting(mono_ms: int, key: int) -> Callable[[Now], None]:
        return lambda now: calls.append((mono_ms, key))

    for key, mono_ms in deadlines:
        timers.at(key, mono_ms, noting(mono_ms, key))
    timers.run_due(at(50))
    assert sorted(calls) == sorted((mono_ms, key) for key, mono_ms in dict(deadlines).items())
    assert [mono_ms for mono_ms, _ in calls] == sorted(mono_ms for mono_ms, _ in calls)


def waiting_for(keys: tuple[str, ...], ready: list[bool], until_ms: int | None = None) -> Waiting:
    def retry(now: Now, expired: bool) -> Reply | None:
        return EXPIRED if expired else READY if ready else None

    return Waiting(keys, until_ms, retry)


def test_a_wake_is_noted_and_the_retry_happens_when_the_bundle_is_settled() -> None:
    waits = Waits(Timers())
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
    waits = Waits(Timers())
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
    waits = Waits(Timers())
    replies: list[Reply] = []
    waits.add(waiting_for(("k", "l"), [True]), replies.append)
    waits.wake("k")
    waits.wake("l")
    waits.settle(at(0))
    waits.settle(at(0))
    assert replies == [READY]


def test_when_its_time_is_over_a_reply_leaves_as_it_is() -> None:
    timers = Timers()
    waits = Waits(timers)
    replies: list[Reply] = []
    waits.add(waiting_for(("k",), [], until_ms=5), replies.append)
    timers.run_due(at(5))
    assert replies == [EXPIRED]
    waits.wake("k")
    waits.settle(at(6))
    assert replies == [EXPIRED]


def test_what_is_answered_when_the_time_is_over_may_take_slices() -> None:
    timers = Timers()
    waits = Waits(timers)
    replies: list[Reply] = []
    ready: list[bool] = []
    waits.add(Waiting(("k",), 5, lambda now, expired: waiting_for(("slices",), ready)), replies.append)
    timers.run_due(at(5))
    assert replies == []
    ready.append(True)
    waits.wake("slices")
    waits.settle(at(6))
    assert replies == [READY]


@pytest.mark.parametrize("answer", [None, waiting_for(("k",), [], until_ms=9)], ids=["nothing", "another-end"])
def test_a_reply_whose_time_is_over_never_waits_for_time_again(answer: Reply | None) -> None:
    timers = Timers()
    waits = Waits(timers)
    waits.add(Waiting(("k",), 5, lambda now, expired: answer), lambda reply: None)
    with pytest.raises(AssertionError):
        timers.run_due(at(5))


def test_a_dropped_reply_is_never_delivered_and_leaves_no_timer() -> None:
    timers = Timers()
    waits = Waits(timers)
    replies: list[Reply] = []
    wait = waits.add(waiting_for(("k",), [True], until_ms=5), replies.append)
    waits.drop(wait)
    waits.wake("k")
    waits.settle(at(0))
    timers.run_due(at(9))
    assert replies == []
    assert timers.next_ms() is None
