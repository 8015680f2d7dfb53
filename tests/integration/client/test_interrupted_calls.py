"""Interrupts (Ctrl-C) of calls that wait for the loop of a blocking client, at every point that can be interrupted."""

from __future__ import annotations

import asyncio
import sys
import warnings
from collections import deque
from queue import SimpleQueue
from types import FrameType

import pytest

from ottla.client.errors import Closed
from ottla.net.client.background import BackgroundLoop, UserCalls

POINTS_AT_MOST = 200


class Interrupted:
    """A profile function that raises `error` after the call number `wanted` of a function in C.

    This is where the interpreter handles signals, so that a real Ctrl-C arrives there, or an exception of a signal handler.
    """

    def __init__(self, wanted: int, error: type[BaseException]) -> None:
        self.wanted, self._error = wanted, error
        self.count = 0

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "c_return" and frame.f_code.co_filename.endswith(("client/background.py", "asyncio/base_events.py")):
            self.count += 1
            if self.count == self.wanted:
                raise self._error


class TimeIsUp(Exception):
    """An exception that handlers of SIGALRM raise, as those of task queues and test runners do."""


@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeIsUp])
@pytest.mark.parametrize("pause_s", [0.0, 0.01])
def test_an_interrupt_at_any_point_of_a_call_loses_nothing_that_the_call_took(
    background: BackgroundLoop, pause_s: float, error: type[BaseException]
) -> None:
    items = deque(range(10))
    taken: list[int] = []

    async def take() -> int:
        await asyncio.sleep(pause_s)
        taken.append(items.popleft())
        return taken[-1]

    def put_back() -> None:
        items.appendleft(taken[-1])

    interrupts = 0
    for wanted in range(1, POINTS_AT_MOST):
        before = list(items)
        interrupted = Interrupted(wanted, error)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            work = take()
            sys.setprofile(interrupted)
            try:
                item = background.run(work, put_back)
            except error:
                interrupts += 1
            else:
                items.appendleft(item)
            finally:
                sys.setprofile(None)
        background.do(lambda: None)  # the abandoned call has ended
        background.run(asyncio.sleep(2 * pause_s))
        assert list(items) == before, f"after an interrupt at point {wanted}"
        if interrupted.count < wanted:
            break
    else:
        pytest.fail("every point was interrupted, and the call still has more")
    assert interrupts >= 4


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_an_exception_that_ends_programs_is_raised_to_the_caller_and_leaves_the_loop_running(
    background: BackgroundLoop, error: type[BaseException]
) -> None:
    async def give_up() -> None:
        raise error

    with pytest.raises(error):
        background.run(give_up())
    assert background.run(asyncio.sleep(0, "running")) == "running"


def test_calls_end_with_closed_when_another_thread_stops_the_loop(background: BackgroundLoop) -> None:
    waiting = background.run(asyncio.sleep(0))
    assert waiting is None
    background.stop()
    with pytest.raises(Closed):
        background.run(asyncio.sleep(0))


def test_functions_that_an_interrupted_thread_has_left_are_run_by_the_next() -> None:
    calls, ran, interrupted = UserCalls(), [], SimpleQueue[object]()
    calls.put(lambda: ran.append(1))
    calls.add_queue(interrupted)
    calls.put(lambda: ran.append(2))
    calls.recover(interrupted)
    calls.remove_queue(interrupted)
    following = SimpleQueue[object]()
    calls.add_queue(following)
    while not following.empty():
        function = following.get()
        assert callable(function)
        function()
    assert ran == [1, 2]
