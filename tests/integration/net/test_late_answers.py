"""Requests of one connection whose answers are late at the same moment: each caller gets the client's own error."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import pytest

from ottla.client.connection.connection import AnswerBody
from ottla.client.connection.metadata import metadata_request
from ottla.client.connection.versions import METADATA
from ottla.client.errors import TimedOut
from ottla.net.client.link import Link
from ottla.wire.api.metadata import MetadataResponse
from ottla.wire.framing import encode_response

LATE_MS = 20
REST_MS = 60_000

Ask: TypeAlias = Callable[[Link, int], Awaitable[AnswerBody]]
"""A function that requests metadata, with a timeout in ms."""


def await_answer(link: Link, timeout_ms: int) -> Awaitable[AnswerBody]:
    return link.request(metadata_request([], allow_auto_topic_creation=False), timeout_ms, 9)


async def await_callback(link: Link, timeout_ms: int) -> AnswerBody:
    came: asyncio.Future[AnswerBody] = asyncio.get_running_loop().create_future()

    def then(answer: AnswerBody, error: BaseException | None) -> None:
        if error is None:
            came.set_result(answer)
        else:
            came.set_exception(error)

    link.call_back(metadata_request([], allow_auto_topic_creation=False), timeout_ms, then, 9)
    return await came


EITHER_WAY = pytest.mark.parametrize("ask", [await_answer, await_callback])


async def ask_a_silent_server(ask: Ask, count: int) -> list[object]:
    async def stay_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(stay_silent, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        link = await Link.open("127.0.0.1", port, "test", 5_000, "3.0")
        asked = [asyncio.ensure_future(ask(link, LATE_MS)) for _ in range(count)]
        await asyncio.sleep(0)
        time.sleep(LATE_MS * 3 / 1000)  # noqa: ASYNC251 - the loop is busy until all are late, as on a machine that is
        found: list[object] = list(await asyncio.gather(*asked, return_exceptions=True))
        await asyncio.sleep(0)
        return found


@EITHER_WAY
def test_each_of_those_that_are_late_at_once_is_timed_out(ask: Ask) -> None:
    found = asyncio.run(ask_a_silent_server(ask, 5))
    assert [type(error) for error in found] == [TimedOut] * 5


async def ask_a_server_with_a_quota(ask: Ask, count: int) -> tuple[list[object], int]:
    """Ask once, and then `count` times at once while the server rests this client: it answers these later than they may take."""

    async def answer_slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for number in range(1 + count):
            size = int.from_bytes(await reader.readexactly(4))
            correlation_id = int.from_bytes((await reader.readexactly(size))[4:8])
            await asyncio.sleep(0 if number == 0 else LATE_MS * 3 / 1000)
            rested = MetadataResponse(throttle_time_ms=REST_MS if number == 0 else 0)
            frame = b"".join(bytes(part) for part in encode_response(correlation_id, METADATA, 9, rested))
            writer.write(frame)
        await reader.read()
        writer.close()
        await writer.wait_closed()
        is_over.set()

    is_over = asyncio.Event()

    server = await asyncio.start_server(answer_slowly, "127.0.0.1", 0)
    async with server:
        link = await Link.open("127.0.0.1", server.sockets[0].getsockname()[1], "test", 5_000, "2.8")
        request = metadata_request([], allow_auto_topic_creation=False)
        first = link.send(request, 9)
        early = [asyncio.ensure_future(ask(link, 5_000)) for _ in range(count - 1)]
        await link.answer(first, 5_000)
        found: list[object] = list(await asyncio.gather(ask(link, LATE_MS), *early, return_exceptions=True))
        rest_ms = link.rest_ms
        link.close()
        await is_over.wait()
        return found, rest_ms


@EITHER_WAY
def test_what_a_client_that_used_up_its_quota_asks_is_late_only_after_its_rest(ask: Ask) -> None:
    found, rest_ms = asyncio.run(ask_a_server_with_a_quota(ask, 3))
    assert [type(answer) for answer in found] == [MetadataResponse] * 3
    assert 0 < rest_ms <= REST_MS
