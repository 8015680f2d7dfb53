"""The opening of a host's registry by a broker's settings. Messages of exceptions are for users."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ottla.broker.membership.membership import NotAMember
from ottla.net.sqlite.registry import HostRegistry
from ottla.ports import Post, RegistryAway, RegistryDamaged, SessionEvent


async def opened_on_host(directory: str, timeout_ms: int, post: Post) -> HostRegistry:
    """Return a registry whose session has begun. Raises `NotAMember`."""
    try:
        registry = await asyncio.to_thread(HostRegistry, Path(directory), timeout_ms, post)
    except RegistryDamaged as damage:
        raise NotAMember(f"The registry of this host's brokers cannot be used: {damage}.") from damage
    except RegistryAway as away:
        raise NotAMember(f"The registry of this host's brokers is not available ({away}): try again.") from away
    begun = asyncio.Event()

    def told(event: SessionEvent) -> None:
        if event is SessionEvent.BEGUN:
            begun.set()

    registry.on_session(told)
    registry.start()
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await begun.wait()
    except TimeoutError:
        await asyncio.to_thread(registry.close)
        raise NotAMember(
            f"No session with the registry in {directory} began within {timeout_ms} ms: another process may be suspended while it "
            "writes there; kill or resume it."
        ) from None
    return registry
