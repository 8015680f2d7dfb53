"""Users of a registry that brokers share, whatever it is: each has a session, and keeps what it was told."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, TypeVar

from ottla.net.sqlite.registry import HostRegistry
from ottla.net.startup.loop_calls import Posts
from ottla.ports import Change, Condition, SessionEvent, SharedRegistry, Steps, StorageFailed
from ottla.sim.ensemble import SimEnsemble
from ottla.sim.process import SimProcess
from ottla.sim.shared_registry import SimSharedRegistry
from tests.support.simulated import PATIENCE_MS, completed

Result = TypeVar("Result")
PATIENCE_S = 60


class SharedUser(ABC):
    """One broker's session, and what it was told."""

    registry: SharedRegistry

    def __init__(self) -> None:
        self.events: list[SessionEvent] = []
        self.changed: list[str] = []

    def begun(self) -> Self:
        """Wait for the session."""
        self.run(lambda: SessionEvent.BEGUN in self.events)
        return self

    @abstractmethod
    def run(self, until: Callable[[], bool]) -> None:
        """Let things happen until something is so."""

    @abstractmethod
    def done(self, steps: Steps[Result]) -> Result:
        """What the steps come to. Raises what they raise."""

    def read(self, *paths: str, watch: bool = False) -> Any:
        return self.done(self.registry.read(paths, changed=self.changed.append if watch else None))

    def list(self, *paths: str, watch: bool = False) -> Any:
        return self.done(self.registry.list(paths, changed=self.changed.append if watch else None))

    def commit(self, *changes: Change | Condition) -> None:
        self.done(self.registry.commit(changes))

    @abstractmethod
    def close(self) -> None: ...


class LoopUser(SharedUser):
    """One whose registry calls back on an event loop, which is the test's own."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.posts = Posts(self.loop)

    def run(self, until: Callable[[], bool]) -> None:
        deadline = self.loop.time() + PATIENCE_S
        while not until():
            assert self.loop.time() < deadline, f"it does not come about after {self.events}"
            self.loop.run_until_complete(asyncio.sleep(0.005))

    def done(self, steps: Steps[Result]) -> Result:
        return self.loop.run_until_complete(_completed(steps))

    def close(self) -> None:
        self.registry.close()
        self.loop.close()


async def _completed(steps: Steps[Result]) -> Result:
    resumed: StorageFailed | None = None
    while True:
        try:
            start = steps.send(resumed)
        except StopIteration as end:
            result: Result = end.value
            return result
        resumed = None
        if start is not None:
            waiting: asyncio.Future[StorageFailed | None] = asyncio.get_running_loop().create_future()
            start(waiting.set_result)
            resumed = await asyncio.wait_for(waiting, PATIENCE_S)


class HostUser(LoopUser):
    """A session with the registry of a host."""

    def __init__(self, directory: Path, timeout_ms: int) -> None:
        super().__init__()
        self.registry = self.host = HostRegistry(directory, timeout_ms, self.posts)
        self.registry.on_session(self.events.append)
        self.host.start()


class SimulatedUser(SharedUser):
    """A session with a simulated registry."""

    def __init__(self, ensemble: SimEnsemble, name: str, **more: Any) -> None:
        super().__init__()
        self.world = ensemble.world
        self.process = SimProcess(ensemble.world, name)
        self.registry = self.simulated = SimSharedRegistry(ensemble, self.process, **more)
        self.registry.on_session(self.events.append)

    def run(self, until: Callable[[], bool]) -> None:
        assert self.world.run(PATIENCE_MS, until), f"it does not come about after {self.events}"

    def done(self, steps: Steps[Result]) -> Result:
        return completed(self.world, steps)

    def close(self) -> None:
        self.registry.close()
