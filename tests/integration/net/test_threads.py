"""Threads beside the broker's own: large work keeps no other waiting, and a stop waits for nobody."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from queue import Queue
from threading import Event

from ottla.net.startup.worker_threads import RealWorkers
from ottla.ports import StorageFailed

PATIENCE_S = 30


def test_work_is_done_in_order_and_told_by_way_of_the_broker_s_thread() -> None:
    posted: Queue[Callable[[], None]] = Queue()
    seen: list[str] = []

    def tell(name: str, _: StorageFailed | None) -> None:
        seen.append(f"{name} told")

    workers = RealWorkers(posted.put)
    for name in ("first", "second", "third"):
        workers.run(partial(seen.append, name), partial(tell, name), is_large=False)
    told = [posted.get(timeout=PATIENCE_S) for _ in range(3)]
    assert seen == ["first", "second", "third"]
    for call in told:
        call()
    assert seen[3:] == ["first told", "second told", "third told"]
    workers.close()


def test_only_large_work_waits_for_large_work() -> None:
    posted: Queue[Callable[[], None]] = Queue()
    workers, end = RealWorkers(posted.put), Event()
    workers.run(lambda: assert_true(end.wait(PATIENCE_S)), lambda _: None, is_large=True)
    workers.run(lambda: None, lambda _: end.set(), is_large=False)
    posted.get(timeout=PATIENCE_S)()
    posted.get(timeout=PATIENCE_S)()
    workers.close()


def test_a_stop_waits_for_no_work_and_nothing_is_told_after_it() -> None:
    posted: Queue[Callable[[], None]] = Queue()
    workers, began, end, ended = RealWorkers(posted.put), Event(), Event(), Event()

    def work() -> None:
        began.set()
        end.wait(PATIENCE_S)
        ended.set()

    workers.run(work, lambda _: None, is_large=True)
    workers.run(work, lambda _: None, is_large=True)
    assert began.wait(PATIENCE_S)
    workers.close()
    assert not ended.is_set()
    end.set()
    assert ended.wait(PATIENCE_S)
    assert posted.empty()


def assert_true(value: bool) -> None:
    assert value
