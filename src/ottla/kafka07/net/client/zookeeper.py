"""A client's own session with the ZooKeeper in which Kafka 0.7 brokers are registered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from ottla.client.errors import ConnectionFailed, KafkaError
from ottla.net.startup.loop_calls import complete
from ottla.ports import RegistryAway, SessionEvent, SharedRegistry, Steps, StorageFailed

T = TypeVar("T")


async def open_session(servers: str, timeout_ms: int) -> SharedRegistry:
    """Return a new session. Raises `ConnectionFailed` after `timeout_ms`, `SettingError`, and `ImportError` if kazoo is missing."""
    try:
        from ottla.net.zookeeper.address import ZooKeeperAddress, why
        from ottla.net.zookeeper.client import Access
        from ottla.net.zookeeper.registry import ZooKeeperRegistry
        from ottla.net.zookeeper.session import ZooKeeperSession
    except ImportError as missing:
        raise ImportError("zookeeper_connect needs kazoo: install it with pip install 'ottla[zookeeper]'.") from missing
    address, loop = ZooKeeperAddress.parse(servers), asyncio.get_running_loop()
    begun = asyncio.Event()

    def post(call: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the event loop is closed, and the client with it
            loop.call_soon_threadsafe(call)

    def on_event(event: SessionEvent) -> None:
        if event is SessionEvent.BEGUN:
            begun.set()

    session = ZooKeeperSession(Access(address, timeout_ms), loop, post, are_secured=False)
    session.told.append(on_event)
    session.start()
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await begun.wait()
    except TimeoutError:
        session.abandon()
        raise ConnectionFailed(await why(address, timeout_ms, has_tls=False, named_by="zookeeper_connect")) from None
    except BaseException:
        session.abandon()
        raise
    session.told.remove(on_event)
    return ZooKeeperRegistry(session)


async def finish_steps(steps: Steps[T]) -> T:
    """Return the result of registry steps. Raises `ConnectionFailed` if ZooKeeper is unreachable, `KafkaError` if it refuses."""
    try:
        return await complete(steps)
    except RegistryAway as away:
        raise ConnectionFailed(f"ZooKeeper did not answer for {away.path}: {away.reason}.") from away
    except StorageFailed as refused:
        raise KafkaError(f"ZooKeeper refused {refused.path}: {refused.reason}.") from refused
