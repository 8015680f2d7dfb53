"""The scheduler: deadlines by key, and jobs in slices that pause, wait for the disk, fail, and are dropped."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.scheduler import MOST_ROUNDS, MOST_STEPS, Countdown, Scheduler
from ottla.ports import Done, DuplicateEntry, NoEntry, Now, Steps, StorageFailed, TryAgain, VersionConflict
from ottla.sim.clock import SimClock
from ottla.wire import Malformed

REFUSED = StorageFailed("t-0", "No space left on device")


def at(mono_ms: int) -> Now:
    return Now(0, mono_ms)


class TickingClock(SimClock):
    """Each reading takes half a millisecond."""

    readings = 0

    def now(self) -> Now:
        self.readings += 1
        now = super().now()
        return Now(now.wall_ms, now.mono_ms + self.readings // 2)


def test_a_deadline_is_called_once_when_its_time_has_come() -> None:
    scheduler = Scheduler(SimClock())
    calls: list[Now] = []
    scheduler.at("a", 10, calls.append)
    scheduler.run_due(at(9))
    assert calls == []
    scheduler.run_due(at(10))
    scheduler.run_due(at(11))
    assert calls == [at(10)]


def test_setting_a_deadline_anew_replaces_the_former_one() -> None:
    scheduler = Scheduler(SimClock())
    calls: list[str] = []
    scheduler.at("a", 10, lambda now: calls.append("early"))
    scheduler.at("a", 20, lambda now: calls.append("late"))
    scheduler.run_due(at(15))
    assert calls == []
    assert scheduler.next_ms() == 20
    scheduler.run_due(at(20))
    assert calls == ["late"]


def test_a_cancelled_deadline_is_never_called() -> None:
    scheduler = Scheduler(SimClock())
    calls: list[Now] = []
    scheduler.at("a", 10, calls.append)
    scheduler.cancel("a")
    scheduler.run_due(at(100))
    assert calls == []
    assert scheduler.next_ms() is None


REFUSALS = [
    StorageFailed("f", "No space left on device"),
    Malformed("Fetch", 4, "topics", 7, "cut off"),
    VersionConflict("/v"),
    DuplicateEntry("/e"),
    NoEntry("/n"),
]


@pytest.mark.expects_errors("failed")
@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: type(refusal).__name__)
def test_what_one_deadline_is_refused_keeps_no_other_back(refusal: Exception, caplog: pytest.LogCaptureFixture) -> None:
    scheduler = Scheduler(SimClock())
    calls: list[Now] = []

    def refused(now: Now) -> None:
        raise refusal

    scheduler.at("first", 1, refused)
    scheduler.at("second", 2, calls.append)
    scheduler.run_due(at(3))
    assert calls == [at(3)]
    assert caplog.messages == [f"first failed: {refusal}"]


def test_what_is_due_at_once_for_ever_keeps_nobody_from_a_turn() -> None:
    scheduler, calls = Scheduler(SimClock()), list[str]()

    def again(now: Now) -> None:
        assert len(calls) < 5000, "nobody else would ever have a turn"
        calls.append("again")
        scheduler.at("again", now.mono_ms - 1, again)

    scheduler.at("again", 1, again)
    scheduler.at("other", 2, lambda now: calls.append("other"))
    scheduler.run_due(at(2))
    assert calls[:2] == ["again", "other"]
    assert calls.count("again") == MOST_ROUNDS
    assert scheduler.next_ms() == 1, "it goes on the next time"
    scheduler.run_due(at(3))
    assert calls.count("again") == 2 * MOST_ROUNDS


def test_a_mistake_is_never_taken_for_a_refusal() -> None:
    scheduler = Scheduler(SimClock())

    def mistaken(now: Now) -> None:
        raise IndexError

    scheduler.at("first", 1, mistaken)
    with pytest.raises(IndexError):
        scheduler.run_due(at(3))


@pytest.mark.expects_errors("failed")
def test_what_comes_again_and_again_comes_again_after_a_refusal() -> None:
    scheduler = Scheduler(SimClock())
    calls: list[Now] = []

    def refused(now: Now) -> None:
        calls.append(now)
        raise StorageFailed("f", "Input/output error")

    scheduler.every("often", lambda: 10, refused, at(0))
    for mono_ms in (9, 10, 15, 20, 30):
        scheduler.run_due(at(mono_ms))
    assert calls == [at(10), at(20), at(30)]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 50)), max_size=300))
def test_only_the_last_deadline_of_each_key_is_called_and_in_order(deadlines: list[tuple[int, int]]) -> None:
    scheduler = Scheduler(SimClock())
    calls: list[tuple[int, int]] = []

    def noting(mono_ms: int, key: int) -> Callable[[Now], None]:
        return lambda now: calls.append((mono_ms, key))

    for key, mono_ms in deadlines:
        scheduler.at(key, mono_ms, noting(mono_ms, key))
    scheduler.run_due(at(50))
    assert sorted(calls) == sorted((mono_ms, key) for key, mono_ms in dict(deadlines).items())
    assert [mono_ms for mono_ms, _ in calls] == sorted(mono_ms for mono_ms, _ in calls)


def nothing() -> Steps[None]:
    yield from ()


def counting(counted: list[int], count: int) -> Steps[int]:
    for number in range(count):
        counted.append(number)
        yield None
    return count


def refused() -> Steps[None]:
    yield None
    raise REFUSED


def run(scheduler: Scheduler, clock: SimClock, *, rests: bool = False) -> int:
    """Let everything come to its end, with a rest before each slice if `rests`; the number of deadlines that this took."""
    deadlines = 0
    while (next_ms := scheduler.next_ms()) is not None:
        assert not rests or next_ms > clock.now().mono_ms
        clock.advance(max(0, next_ms - clock.now().mono_ms))
        scheduler.run_due(clock.now())
        deadlines += 1
    return deadlines


@pytest.mark.parametrize("urgent", [False, True])
def test_a_job_is_done_in_slices_and_only_one_of_a_name_is_under_way(urgent: bool) -> None:
    clock, counted, results = TickingClock(), list[int](), list[int]()
    scheduler = Scheduler(clock)
    assert scheduler.begin("count", counting(counted, 40), results.append, urgent=urgent)
    assert 0 < len(counted) < 10
    assert bool(scheduler.busy) == urgent
    assert not scheduler.begin("count", nothing())
    assert scheduler.begin("other", nothing())
    assert run(scheduler, clock, rests=not urgent) >= 5
    assert counted == list(range(40))
    assert results == [40]
    assert not scheduler.busy
    assert scheduler.begin("count", nothing())


def test_a_slice_ends_though_the_clock_stands_still() -> None:
    counted = list[int]()
    Scheduler(SimClock()).begin("count", counting(counted, 10 * MOST_STEPS))
    assert len(counted) == MOST_STEPS


@pytest.mark.expects_errors("failed: t-0: No space left")
def test_a_job_that_is_refused_something_can_begin_again(caplog: pytest.LogCaptureFixture) -> None:
    scheduler, counted = Scheduler(SimClock()), list[int]()
    assert scheduler.begin("count", refused())
    assert caplog.messages == ["count failed: t-0: No space left on device; it starts again when it is next due"]
    assert scheduler.begin("count", counting(counted, 3))
    assert counted == [0, 1, 2]


def test_whoever_waits_for_a_job_learns_that_it_failed() -> None:
    failures = list[Exception]()
    Scheduler(SimClock()).begin("refused", refused(), failed=failures.append, urgent=True)
    assert failures == [REFUSED]


def test_a_mistake_in_a_job_is_never_taken_for_a_refusal() -> None:
    def mistaken() -> Steps[None]:
        yield None
        raise IndexError

    with pytest.raises(IndexError):
        Scheduler(SimClock()).begin("mistaken", mistaken())


def asking(start: Callable[[Done], None], results: list[StorageFailed | None]) -> Steps[None]:
    results.append((yield start))
    results.append((yield start))


@pytest.mark.parametrize("urgent", [False, True])
@pytest.mark.parametrize("result", [None, REFUSED])
def test_a_job_waits_for_what_it_started_and_is_told_the_result(result: StorageFailed | None, urgent: bool) -> None:
    clock, started, results = SimClock(), list[Done](), list[StorageFailed | None]()
    scheduler = Scheduler(clock)
    scheduler.begin("sync", asking(started.append, results), urgent=urgent)
    for number in range(2):
        assert (len(started), len(results)) == (number + 1, number)
        assert scheduler.next_ms() is None, "nothing goes on by itself"
        assert not scheduler.begin("sync", nothing()), "one is under way"
        started[number](result)
        scheduler.run_due(clock.now())  # an urgent one has its turn among the others, at once if there are none
    assert results == [result, result]
    assert scheduler.begin("sync", nothing())


@pytest.mark.parametrize("failure", [REFUSED, TryAgain("t-0", "Too many open files")])
def test_what_cannot_start_is_told_like_what_failed_later(failure: StorageFailed) -> None:
    def refuse(done: Done) -> None:
        raise failure

    results = list[StorageFailed | None]()
    Scheduler(SimClock()).begin("sync", asking(refuse, results))
    assert results == [failure, failure]


@pytest.mark.parametrize("urgent", [False, True])
def test_a_dropped_job_is_closed_and_goes_on_no_more(urgent: bool) -> None:
    clock, closed, started = SimClock(), list[str](), list[Done]()
    scheduler = Scheduler(clock)

    def closing(name: str, start: Callable[[Done], None] | None) -> Steps[None]:
        try:
            while True:
                yield start
        finally:
            closed.append(name)

    scheduler.begin("pauses", closing("pauses", None), urgent=urgent)
    scheduler.begin("waits", closing("waits", started.append), urgent=urgent)
    for name in ("pauses", "waits", "unknown"):
        scheduler.drop(name)
    assert closed == ["pauses", "waits"]
    started[0](None)
    run(scheduler, clock)
    assert not scheduler.busy
    assert len(started) == 1


@pytest.mark.expects_errors("could not clean up")
def test_closing_drops_every_job_and_every_deadline() -> None:
    scheduler, closed = Scheduler(SimClock()), list[str]()

    def refusing() -> Steps[None]:
        try:
            while True:
                yield None
        finally:
            closed.append("refusing")
            raise REFUSED

    def quiet() -> Steps[None]:
        try:
            yield lambda done: None
        finally:
            closed.append("quiet")

    scheduler.begin("refusing", refusing())
    scheduler.begin("quiet", quiet())
    scheduler.at("a", 10, lambda now: None)
    scheduler.close()
    assert closed == ["refusing", "quiet"]
    assert scheduler.next_ms() is None


@pytest.mark.expects_errors("failed: t-0: No space left")
def test_a_job_can_wait_until_others_are_over_whatever_comes_of_them() -> None:
    scheduler, over, started = Scheduler(SimClock()), list[str](), list[Done]()

    def waiting(countdown: Countdown) -> Steps[None]:
        for name in ("one", "two"):
            scheduler.begin(name, countdown.count(asking(started.append, [])))
        scheduler.begin("three", countdown.count(refused()))
        while countdown.left:
            yield countdown.wait
        over.append("all")

    scheduler.begin("all", waiting(Countdown()))
    started[0](None)
    started[1](REFUSED)
    scheduler.drop("two")
    assert over == []
    started[2](None)
    assert over == ["all"]
    assert scheduler.begin("all", nothing())
