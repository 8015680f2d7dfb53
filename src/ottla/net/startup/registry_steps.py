"""The execution of registry steps on the loop, without a broker's scheduler."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TypeVar

from ottla.ports import Steps, StorageFailed

T = TypeVar("T")


async def completed(steps: Steps[T]) -> T:
    """Run registry steps, and return their result. Raises the exceptions of the steps."""
    loop = asyncio.get_running_loop()
    resumed: StorageFailed | None = None
    while True:
        try:
            start = steps.send(resumed)
        except StopIteration as end:
            result: T = end.value
            return result
        resumed = None
        if start is None:
            await asyncio.sleep(0)
            continue
        waiting: asyncio.Future[StorageFailed | None] = loop.create_future()
        start(partial(_arrived, waiting))
        resumed = await waiting


def _arrived(waiting: asyncio.Future[StorageFailed | None], failure: StorageFailed | None) -> None:
    if not waiting.done():  # otherwise the waiting task was cancelled
        waiting.set_result(failure)
