"""The background tasks of a client: an exception in any of them ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from ottla.client.errors import Closed
from ottla.net.client.tasks import Tasks


@pytest.mark.parametrize("error", [ValueError("a bug"), SystemExit(3)])
def test_an_exception_of_a_called_function_ends_the_client(error: BaseException) -> None:
    async def go() -> list[Closed]:
        ends: list[Closed] = []
        tasks = Tasks(ends.append)
        running = tasks.spawn(asyncio.sleep(60))
        if isinstance(error, Exception):
            tasks.call(raising(error))
        else:
            with pytest.raises(SystemExit):  # it also leaves the loop, as from any callback
                tasks.call(raising(error))
        await asyncio.wait([running])
        assert running.cancelled()
        return ends

    (end,) = asyncio.run(go())
    assert end.__cause__ is error


def raising(error: BaseException) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail
