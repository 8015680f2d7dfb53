"""What a client says when it gives up."""

from __future__ import annotations

import asyncio

import pytest

from ottla.client.errors import ConnectionFailed, KafkaError, TimedOut
from ottla.client.settings.clients import ClientSettings
from ottla.net.client.cluster import ClusterLinks


def give_up(*outcomes: Exception) -> None:
    """Try what ends in each of `outcomes` and then does not end, for as long as a client tries."""
    left = list(outcomes)

    async def call() -> None:
        if left:
            raise left.pop(0)
        await asyncio.Event().wait()

    async def tried() -> None:
        await ClusterLinks(ClientSettings(bootstrap_servers="localhost:1", retry_backoff_ms=1)).retry(call, timeout_ms=200)

    asyncio.run(tried())


def test_a_last_try_without_an_end_does_not_hide_why_those_before_failed() -> None:
    with pytest.raises(KafkaError, match=r"Name its release\."):
        give_up(ConnectionFailed("Name its release."))


def test_a_first_try_without_an_end_is_told_as_such() -> None:
    with pytest.raises(TimedOut, match=r"^No broker answered within 200 ms\.$"):
        give_up()
