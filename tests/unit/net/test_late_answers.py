"""Requests of one connection whose answers are late at the same moment: each caller gets the client's own error."""

from __future__ import annotations

import asyncio
import time

from ottla.client.errors import TimedOut
from ottla.client.metadata import metadata_request
from ottla.client.versions import METADATA
from ottla.net.client.link import Link

LATE_MS = 20


async def ask_a_silent_server(count: int) -> list[object]:
    async def stay_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(stay_silent, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        link = await Link.open("127.0.0.1", port, "test", 5_000, "3.0")
        request = metadata_request([], allow_auto_topic_creation=False)
        asked = [asyncio.ensure_future(link.ask(METADATA, request, LATE_MS)) for _ in range(count)]
        await asyncio.sleep(0)
        time.sleep(LATE_MS * 3 / 1000)  # noqa: ASYNC251 - the loop is busy until all are late, as on a machine that is
        found: list[object] = list(await asyncio.gather(*asked, return_exceptions=True))
        await asyncio.sleep(0)
        return found


def test_each_of_those_that_are_late_at_once_is_timed_out() -> None:
    found = asyncio.run(ask_a_silent_server(5))
    assert [type(error) for error in found] == [TimedOut] * 5
