"""Steps of a registry on a loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from ottla.net.startup.loop_calls import complete
from ottla.ports import Steps, StorageFailed

Done = Callable[[StorageFailed | None], None]


def test_an_answer_that_comes_after_whoever_waited_was_cancelled_is_nobodys() -> None:
    started: list[Done] = []
    began = asyncio.Event()

    def start(done: Done) -> None:
        started.append(done)
        began.set()

    def steps() -> Steps[None]:
        yield start

    async def cancelled() -> None:
        waiting = asyncio.ensure_future(complete(steps()))
        await began.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        started[0](None)

    asyncio.run(cancelled())
