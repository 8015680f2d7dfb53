"""The pages /metrics, /health and /ready of one broker, as an ASGI application.

A broker that does not answer within a few seconds costs the page one sentence and the status 503, and nothing waits any longer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import Future
from typing import Final, TypeVar

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from ottla.broker.metrics.declaration import MetricRows
from ottla.broker.metrics.prometheus_text import negotiate, render
from ottla.net.server.exception_boundary import BrokerFailed
from ottla.net.server.metrics_source import MetricsSource

PATIENCE_S: Final = 8.0
"""The time, in s, for a snapshot: less than the ten seconds that Prometheus waits for a scrape by default."""
ANSWER_S: Final = 5.0
"""The time, in s, in which the broker's thread must answer to be healthy."""
CHUNK_BYTES: Final = 64 * 1024
PAUSE_S: Final = 0.0005
LARGE_PIECE: Final = 2000
"""The size, in characters, of a piece of text after which other threads run."""
ENDED: Final = "The broker has ended because of a bug in it: see its log, and start it again."
INDEX: Final = "The metrics are at /metrics. /health says whether the broker answers, /ready whether it serves clients.\n"

T = TypeVar("T")


class Unanswered(Exception):
    """The broker did not answer. The message is a sentence."""


class MonitoringPages:
    """The pages of one broker."""

    def __init__(self, source: MetricsSource, *, patience_s: float = PATIENCE_S, answer_s: float = ANSWER_S) -> None:
        self._source = source
        self._patience_s = patience_s
        self._answer_s = answer_s
        self._texts: dict[str, tuple[MetricRows, asyncio.Future[list[bytes]]]] = {}

    def routes(self) -> list[Route]:
        return [
            Route("/", self.index),
            Route("/metrics", self.metrics),
            Route("/health", self.health),
            Route("/ready", self.ready),
        ]

    async def index(self, request: Request) -> Response:
        return PlainTextResponse(INDEX)

    async def metrics(self, request: Request) -> Response:
        """Return all metrics, as text of Prometheus or OpenMetrics."""
        content_type = negotiate(request.headers.get("accept", ""))
        try:
            rows = await self._wait(self._source.snapshot(), self._patience_s)
        except Unanswered as why:
            return PlainTextResponse(f"{why}\n", 503)
        chunks = await self._text(rows, content_type)
        headers = {"content-type": content_type, "content-length": str(sum(map(len, chunks)))}
        return StreamingResponse(_each(chunks), headers=headers)

    async def _text(self, rows: MetricRows, content_type: str) -> list[bytes]:
        """Return the text of a snapshot, which is made once for all that ask for it."""
        known = self._texts.get(content_type)
        if known is None or known[0] is not rows:
            known = self._texts[content_type] = rows, asyncio.ensure_future(render_all(rows, content_type))
        return await asyncio.shield(known[1])

    async def health(self, request: Request) -> Response:
        """Return 200 if the process lives and the broker's thread answers, else 503: then it must be started again."""
        try:
            late_s = await self._wait(self._source.answer(), self._answer_s)
        except Unanswered as why:
            return JSONResponse({"status": "down", "reasons": [str(why)]}, 503)
        return JSONResponse({"status": "up", "answered_after_ms": round(late_s * 1000, 3)})

    async def ready(self, request: Request) -> Response:
        """Return 200 if the broker serves clients: it listens, its partitions are online, and it is registered. Else return 503."""
        try:
            found = await self._wait(self._source.readiness(), self._answer_s)
        except Unanswered as why:
            return JSONResponse({"status": "not ready", "reasons": [str(why)]}, 503)
        facts = {"partitions": found.partitions, "offline": list(found.offline)}
        if found.is_ready:
            return JSONResponse({"status": "ready", **facts})
        return JSONResponse({"status": "not ready", "reasons": list(found.reasons), **facts}, 503)

    async def _wait(self, future: Future[T], timeout_s: float) -> T:
        """Wait for an answer of the broker. Raises `Unanswered`."""
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), timeout_s)
        except TimeoutError:
            raise Unanswered(f"The broker's thread did not answer within {timeout_s:g} s: see its log.") from None
        except BrokerFailed:
            raise Unanswered(ENDED) from None


async def _each(chunks: list[bytes]) -> AsyncIterator[bytes]:
    """Yield the chunks: each is sent when the client has read those before, so that slow clients take no memory."""
    for chunk in chunks:
        yield chunk


async def render_all(rows: MetricRows, content_type: str) -> list[bytes]:
    """Return the text of all metrics, in chunks. Between its pieces other threads can run, above all the broker's.

    A pause must last for a moment: a thread that releases Python's lock and takes it again at once leaves the others waiting for
    their five milliseconds.
    """
    chunks, chunk = list[bytes](), bytearray()
    for piece in render(rows, content_type):
        chunk += piece.encode()
        if len(chunk) >= CHUNK_BYTES:
            chunks.append(bytes(chunk))
            chunk.clear()
        if len(piece) >= LARGE_PIECE:
            await asyncio.sleep(PAUSE_S)
    return [*chunks, bytes(chunk)]


def make_app(source: MetricsSource) -> Starlette:
    """Return the application with the pages of a broker."""
    return Starlette(routes=MonitoringPages(source).routes())
