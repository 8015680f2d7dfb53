"""Brokers' sessions with a real ZooKeeper, as tests use them: on a loop of the test's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from kazoo.client import KazooClient

from ottla.net.posts import Posts
from ottla.net.zookeeper.address import ZooKeeperAddress
from ottla.net.zookeeper.client import Access
from ottla.net.zookeeper.registry import ZooKeeperRegistry
from ottla.net.zookeeper.session import ZooKeeperSession
from ottla.ports import Change, Condition, RegistrySteps, SessionEvent, StorageFailed

Result = TypeVar("Result")
PATIENCE_S = 60


async def completed(steps: RegistrySteps[Result]) -> Result:
    """What the steps come to. Raises what they raise."""
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


class RegistryUser:
    """One broker's session, and what it was told."""

    def __init__(self, address: str, timeout_ms: int, *, are_secured: bool = False, **access: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self.events: list[SessionEvent] = []
        self.changed: list[str] = []
        wanted = Access(ZooKeeperAddress.parse(address), timeout_ms, **access)
        self.session = ZooKeeperSession(wanted, self._loop, Posts(self._loop), are_secured=are_secured)
        self.registry = ZooKeeperRegistry(self.session)
        self.registry.on_session(self.events.append)
        self.session.start()

    def begun(self) -> RegistryUser:
        """Wait for the session."""
        self.run(lambda: SessionEvent.BEGUN in self.events)
        return self

    def run(self, until: Callable[[], bool]) -> None:
        """Let things happen until something is so."""

        deadline = self._loop.time() + PATIENCE_S
        while not until():
            assert self._loop.time() < deadline, f"it does not come about after {self.events}"
            self._loop.run_until_complete(asyncio.sleep(0.005))

    def read(self, *paths: str, watch: bool = False) -> Any:
        return self._done(self.registry.read(paths, changed=self.changed.append if watch else None))

    def list(self, *paths: str, watch: bool = False) -> Any:
        return self._done(self.registry.list(paths, changed=self.changed.append if watch else None))

    def commit(self, *changes: Change | Condition) -> None:
        self._done(self.registry.commit(changes))

    def _done(self, steps: Generator[Any, Any, Result]) -> Result:
        return self._loop.run_until_complete(completed(steps))

    def close(self) -> None:
        self.registry.close()
        self._loop.close()


def end_elsewhere(session: ZooKeeperSession) -> None:
    """End a session by another connection, as nothing else does before its timeout."""
    client = session.client
    other = KazooClient(client.hosts[0][0] + f":{client.hosts[0][1]}", client_id=client.client_id)
    other.start(PATIENCE_S)
    other.stop()
    other.close()
