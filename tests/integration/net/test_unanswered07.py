"""What was produced to a broker of Kafka 0.7 that says nothing more is not sent again: it may be there."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from ottla.client.errors import ConnectionFailed
from ottla.kafka07.client.connection import Connection07
from ottla.net.client.link import Link
from ottla.records.batches.columns import build
from ottla.wire.api.produce import ProduceRequest


async def produced(timeout_ms: int, *, closes: bool) -> None:
    """Send one message to a peer that never answers, and perhaps hangs up."""

    over = asyncio.Event()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        if not closes:
            with suppress(ConnectionError):
                await reader.read()
        writer.close()
        over.set()

    part = ProduceRequest.PartitionProduceData(index=0, records=bytes(build(None, [b"v"], 0)))
    request = ProduceRequest(acks=1, topic_data=[ProduceRequest.TopicProduceData(name="t", partition_data=[part])])
    async with await asyncio.start_server(listen, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        link = await Link.open("127.0.0.1", port, None, 60_000, "0.7", None, Connection07())
        try:
            await link.request(request, timeout_ms)
        finally:
            link.close()
            await over.wait()


@pytest.mark.parametrize(("timeout_ms", "closes", "cause"), [(50, False, "did not answer within 50 ms"), (60_000, True, "broke")])
def test_a_message_that_nobody_confirmed_fails_for_good(timeout_ms: int, closes: bool, cause: str) -> None:
    with pytest.raises(ConnectionFailed, match=f"duplicates are acceptable.*{cause}") as raised:
        asyncio.run(produced(timeout_ms, closes=closes))
    assert not raised.value.retriable
