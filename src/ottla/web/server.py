"""An HTTP server on a thread and an event loop of its own, so that a page never takes the turn of a broker in the same process.

The module depends on uvicorn, and on no application.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from uvicorn import Config as UvicornConfig
from uvicorn import Server as UvicornServer
from uvicorn.protocols.http.h11_impl import H11Protocol

from ottla.web.address import CannotServe as CannotServe  # raised by `start`
from ottla.web.address import WebAddress

log = logging.getLogger("ottla.web")
_http_log = logging.getLogger("ottla.web.http")
_http_log.setLevel(logging.CRITICAL)  # uvicorn warns of each request that is not HTTP, and repeats errors that the guard has logged

PATIENCE_S = 1
"""The time, in s, that requests have to end when the server stops."""
BACKLOG = 512
"""Connections that the system accepts before the server does."""
IDLE_S = 30
"""The time, in s, after which a connection without a request is closed."""
START_S = 30
"""The time, in s, that the server has to start, and the thread of a server that has started to end."""
HEAD_S = 10
"""The time, in s, that a new connection has for its first request and a TLS handshake."""
MOST_CONNECTIONS = 1024
"""The connections of one server. A further one is closed at once, since each takes a file descriptor of the broker's process."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The paths of a certificate chain and its key, both as PEM. The key may be in the file of the certificate."""

    certificate: str
    key: str | None = None

    def context(self) -> ssl.SSLContext:
        """Return a context for a server. Raises `CannotServe`."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            reason = f"the certificate {self.certificate} cannot be used ({error.strerror or error})"
            raise CannotServe(f"No TLS: {reason}; give a PEM file with the chain, and one with the key.") from None
        return context


class WebServer:
    """An HTTP server for an ASGI application, on its own thread. It can be started once.

        with WebServer(app, WebAddress("127.0.0.1", 0), name="console") as server:
            print(server.url)

    `start` returns when the server answers. `name` is the server's name in errors and log lines; `option` is the command-line
    option that has its address.
    """

    def __init__(self, app: Any, address: WebAddress, *, name: str, option: str = "--listen", tls: TlsFiles | None = None) -> None:
        self._app = app
        self._wanted = address
        self._name = name
        self._option = option
        self._tls = tls
        self._server: _SignalFreeServer | None = None
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._answers = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._serving: asyncio.Task[None] | None = None
        self._has_given_up = False

    @property
    def address(self) -> WebAddress:
        """Return the address at which the server answers. Raises `RuntimeError` before `start`."""
        if self._socket is None:
            raise RuntimeError(f"The {self._name} does not run: call start() first.")
        return WebAddress(self._wanted.host, self._port)

    @property
    def url(self) -> str:
        """Return the server's URL, without a slash at its end. Raises `RuntimeError` before `start`."""
        return f"{'https' if self._tls else 'http'}://{self.address}"

    def start(self) -> Self:
        """Listen, and return once requests are answered. Raises `CannotServe`."""
        context = None if self._tls is None else self._tls.context()
        self._socket = self._bind()
        self._port: int = self._socket.getsockname()[1]
        config = _SilentConfig(
            self._app,
            http=_BoundedProtocol,
            loop="asyncio",
            ws="none",
            lifespan="on",
            proxy_headers=False,
            server_header=False,
            backlog=BACKLOG,
            timeout_keep_alive=IDLE_S,
            timeout_graceful_shutdown=PATIENCE_S,
        )
        config.load()
        config.ssl = context
        self._server = _SignalFreeServer(config, self._answers)
        self._thread = threading.Thread(target=self._run, name=f"ottla-{self._name.replace(' ', '-')}", daemon=True)
        self._thread.start()
        if not self._answers.wait(START_S):
            self._give_up()
            reason = "its application waits for something, such as a broker that does not answer; see its log, then start it again"
            raise CannotServe(f"The {self._name} did not start within {START_S:g} s: {reason}.")
        if self._failure is not None or not self._server.started:
            self.stop()
            raise CannotServe(f"The {self._name} did not start: {self._failure or 'its application refused'}; its log has more.")
        return self

    def _bind(self) -> socket.socket:
        where = self._wanted
        family = socket.AF_INET6 if ":" in where.host else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((where.host, where.port))
            listening.listen(BACKLOG)
        except (OSError, UnicodeError) as error:
            listening.close()
            code = error.errno if isinstance(error, OSError) else None
            reason = os.strerror(code) if code is not None and code > 0 else str(error)
            in_use = code == errno.EADDRINUSE
            remedy = "stop the process that uses it, or choose another port" if in_use else "choose an address of this machine"
            raise CannotServe(f"The {self._name} cannot listen on {where}: {reason}; {remedy} with {self._option}.") from None
        return listening

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._failure = error
            if not self._has_given_up:
                log.exception("the %s ended", self._name)
        finally:
            self._answers.set()

    async def _serve(self) -> None:
        assert self._server is not None
        self._loop, self._serving = asyncio.get_running_loop(), asyncio.current_task()
        await self._server.serve([self._socket] if self._socket else None)

    def _give_up(self) -> None:
        """End a server that has not started. Its thread ends when its application lets it, without a line in the log."""
        assert self._server is not None
        assert self._thread is not None
        assert self._socket is not None
        self._has_given_up = True
        if self._loop is not None and self._serving is not None:
            self._server.lifespan.logger = _http_log  # it would log the cancellation with its traceback
            with contextlib.suppress(RuntimeError):  # the loop has ended by itself meanwhile
                self._loop.call_soon_threadsafe(self._serving.cancel)
        self._thread.join(PATIENCE_S + 1)
        self._socket.close()

    def stop(self) -> None:
        """Stop listening, end open requests and streams within about a second, and return when the thread has ended."""
        if self._server is not None:
            self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(START_S)
        if self._socket is not None:
            self._socket.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()


class _SilentConfig(UvicornConfig):
    """A configuration that leaves the process's loggers alone: another application of it can use uvicorn, too."""

    def configure_logging(self) -> None:
        pass


class _BoundedProtocol(H11Protocol):
    """A connection that counts against `MOST_CONNECTIONS`, and has `HEAD_S` for its first request."""

    _deadline: asyncio.TimerHandle | None = None

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.access_log = False
        self.logger = _http_log

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn's own, which narrows it
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
            return
        self._deadline = self.loop.call_later(HEAD_S, self._close_if_silent)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def _close_if_silent(self) -> None:
        if self.cycle is None:
            self.transport.abort()


class _SignalFreeServer(UvicornServer):
    """A server that leaves signals to its process, and sets `answers` when it has started, or could not."""

    def __init__(self, config: UvicornConfig, answers: threading.Event) -> None:
        super().__init__(config)
        self._answers = answers

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        finally:
            self._answers.set()
