"""Steps of pure machines in a simulated world, done to their end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ottla.ports import Steps, StorageFailed
from ottla.sim.world import World

Result = TypeVar("Result")
PATIENCE_MS = 60_000


def completed(world: World, steps: Steps[Result]) -> Result:
    """What the steps come to, while the world goes on. Raises what they raise."""
    resumed: StorageFailed | None = None
    while True:
        try:
            start = steps.send(resumed)
        except StopIteration as end:
            result: Result = end.value
            return result
        resumed = None
        if start is not None:
            resumed = _awaited(world, start)


def _awaited(world: World, start: Callable[[Callable[[StorageFailed | None], None]], None]) -> StorageFailed | None:
    results: list[StorageFailed | None] = []
    start(results.append)
    assert world.run(PATIENCE_MS, lambda: bool(results)), "nobody answers"
    return results[0]
