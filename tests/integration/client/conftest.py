"""The loop of a blocking client, for tests of its calls."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.net.client.background import BackgroundLoop


@pytest.fixture
def background() -> Iterator[BackgroundLoop]:
    async def start() -> None: ...

    loop = BackgroundLoop.begin("test", start)
    yield loop
    loop.stop()
