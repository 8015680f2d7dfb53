"""One asyncio connection to one broker. Knows sockets and `ottla.client.connection`; nothing of what requests mean."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import cast

from ottla.client.connection import AnswerBody, ClientConnection
from ottla.client.errors import ConnectionFailed, KafkaError, TimedOut
from ottla.net.client.bulk import BulkReceiver
from ottla.net.client.failures import no_connection
from ottla.net.outbox import Outbox
from ottla.ports import Buffer, Part
from ottla.wire.schema import Message

PERHAPS_OLD = "A broker older than Kafka 0.10 cannot say which versions it serves: name its release with api_version='0.9.0'."


class Link(asyncio.BufferedProtocol):
    """Pipelines requests; an answer resolves the future of its request. Once broken, a link stays so, and every future says why."""

    def __init__(self, client_id: str | None, where: str, release: str | None = None) -> None:
        self.where = where
        self.closed = False
        self._connection = ClientConnection(client_id, release)
        self._transport: asyncio.Transport | None = None
        self._outbox: Outbox | None = None
        self._writable = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    @classmethod
    async def open(cls, host: str, port: int, client_id: str | None, timeout_ms: int, release: str | None = None) -> Link:
        """Connect, and ask which versions the broker serves unless its `release` is given.

        Raises `ConnectionFailed`, `TimedOut`, `BrokerError`.
        """
        loop = asyncio.get_running_loop()
        link = cls(client_id, f"{host}:{port}", release)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await loop.create_connection(lambda: link, host, port)
                if not release:
                    await link._greet()
        except TimeoutError as error:
            link.close()
            if isinstance(error, KafkaError):
                raise
            raise TimedOut(f"{link.where} did not answer within request_timeout_ms={timeout_ms}. {PERHAPS_OLD}") from None
        except BaseException as error:
            link.close()
            if isinstance(error, OSError) and not isinstance(error, KafkaError):
                raise no_connection(link.where, error) from error
            raise
        return link

    async def _greet(self) -> None:
        for version in ({}, {"version": 0}):
            answer: asyncio.Future[AnswerBody] = self._loop.create_future()
            self._write(self._connection.hello(answer, **version))
            try:
                greeted = self._connection.greeted(await answer)
            except ConnectionFailed as error:
                raise ConnectionFailed(f"{error} {PERHAPS_OLD}") from error
            if greeted:
                return

    def version(self, api_key: int) -> int:
        """The version in which `api_key` is spoken here, -1 if in none."""
        return self._connection.versions.get(api_key, -1)

    def feature(self, name: str) -> int:
        """The level of a feature that the cluster has finalized, 0 if it has not (KIP-584)."""
        return self._connection.features.get(name, 0)

    def send(self, api_key: int, body: Message, most: int | None = None) -> asyncio.Future[AnswerBody]:
        """Write a request, in version `most` at most; the future gives its answer. Raises `ConnectionFailed`, `NotSupported`."""
        self._check_open()
        answer: asyncio.Future[AnswerBody] = self._loop.create_future()
        self._write(self._connection.send(api_key, body, answer, most=most))
        return answer

    async def send_unanswered(self, api_key: int, body: Message) -> None:
        """Write a request that brokers do not answer (acks=0), and wait until it has left for the socket. Raises as `send`."""
        self._check_open()
        self._write(self._connection.send(api_key, body, None, expect=False))
        await self._writable.wait()
        self._check_open()

    async def ask(self, api_key: int, body: Message, timeout_ms: int, most: int | None = None) -> AnswerBody:
        """The answer to a request. Raises as `send` and `answer`."""
        return await self.answer(self.send(api_key, body, most), timeout_ms)

    async def answer(self, sent: asyncio.Future[AnswerBody], timeout_ms: int) -> AnswerBody:
        """The answer that `send` returned a future of.

        Raises `TimedOut`, and closes the connection then: a broker answers in order, and all that follows would be late too.
        """
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await sent
        except TimeoutError:
            if self.closed:
                raise
            self._fail(TimedOut(f"{self.where} gave no answer within {timeout_ms} ms."))
            raise TimedOut(f"{self.where} gave no answer within {timeout_ms} ms.") from None

    def _check_open(self) -> None:
        if self.closed:
            raise ConnectionFailed(f"The connection to {self.where} is closed.")

    def _write(self, parts: Sequence[Part]) -> None:
        if self._outbox is not None:
            self._outbox.put(parts)
            self._outbox.flush()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=0)
        self._outbox = Outbox(self._transport)
        self._writable.set()
        self._bulk = BulkReceiver(transport)

    def pause_writing(self) -> None:
        if self._outbox is not None:
            self._outbox.writable = False
            self._writable.clear()

    def resume_writing(self) -> None:
        if self._outbox is not None:
            self._outbox.writable = True
            self._outbox.flush()
            if self._outbox.is_empty and self._outbox.writable:
                self._writable.set()

    def get_buffer(self, sizehint: int) -> Buffer:
        return self._connection.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            answers = self._connection.filled(nbytes)
            while self._connection.missing_bytes and (count := self._bulk.read(self._connection.buffer())):
                answers += self._connection.filled(count)
        except ConnectionFailed as error:
            self._fail(error)
            return
        self._bulk.wake_at(self._connection.missing_bytes)
        for token, body in answers:
            answer = cast("asyncio.Future[AnswerBody]", token)
            # The future of a caller that gave up (timeout, cancellation) is done already.
            if not answer.done():
                answer.set_result(body)

    def connection_lost(self, exc: Exception | None) -> None:
        """An error that is not the network's is a bug of this client: whoever waits for an answer gets it unchanged."""
        broke = ConnectionFailed(f"The connection to {self.where} broke: {exc or 'the other end closed it'}.")
        self._fail(broke if exc is None or isinstance(exc, OSError) else exc)

    def _fail(self, error: Exception) -> None:
        if self.closed:
            return
        self.closed = True
        self._writable.set()
        for sent in self._connection.unanswered:
            answer = cast("asyncio.Future[AnswerBody]", sent.token)
            if not answer.done():
                answer.set_exception(error)
                answer.exception()  # keeps asyncio from logging it where nobody waits any more
        self.close()

    def close(self) -> None:
        """Close at once; unanswered requests end with `ConnectionFailed`."""
        self._fail(ConnectionFailed(f"The connection to {self.where} was closed here."))
        if self._transport is not None:
            with suppress(RuntimeError):
                self._transport.abort()
