"""The HTTP server on a thread of its own, and its guard, with real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import logging
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import trustme
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from ottla.web import guard as guard_module
from ottla.web import server as server_module
from ottla.web.address import WebAddress
from ottla.web.guard import RequestGuard, hosts_of
from ottla.web.server import CannotServe, TlsFiles, WebServer
from tests.support.http_answers import request

HERE = WebAddress("127.0.0.1", 0)


async def thread(request: Request) -> Response:
    return PlainTextResponse(threading.current_thread().name)


async def echo(request: Request) -> Response:
    return PlainTextResponse(str(len(await request.body())))


async def fail(request: Request) -> Response:
    raise LookupError("a bug")


async def stream(request: Request) -> Response:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"data: x\n\n"
            await asyncio.sleep(0.05)

    return StreamingResponse(endless(), media_type="text/event-stream")


def make_app(most_body: int = 1000) -> RequestGuard:
    routes = [
        Route("/thread", thread),
        Route("/echo", echo, methods=["POST"]),
        Route("/fail", fail),
        Route("/stream", stream),
    ]
    return RequestGuard(Starlette(routes=routes), hosts=hosts_of(HERE), most_body=most_body)


@pytest.fixture
def running() -> Iterator[WebServer]:
    with WebServer(make_app(), HERE, name="test server") as server:
        yield server


def ask(
    server: WebServer, path: str, *, method: str = "GET", body: bytes = b"", headers: dict[str, str] | None = None
) -> tuple[int, str]:
    answer = request(server.url, path, method=method, body=body or None, headers=headers)
    return answer.status, answer.text


def received(connection: socket.socket) -> bytes:
    """Return the next bytes, or nothing if the connection was closed or reset."""
    try:
        return connection.recv(100)
    except ConnectionResetError:
        return b""


def test_requests_are_answered_on_a_thread_of_its_own(running: WebServer) -> None:
    assert ask(running, "/thread") == (200, "ottla-test-server")
    assert running.url == f"http://127.0.0.1:{running.address.port}"


def test_a_port_in_use_is_refused_in_one_sentence(running: WebServer) -> None:
    with pytest.raises(
        CannotServe, match=r"The console cannot listen on .*: Address already in use; stop the process that uses it"
    ):
        WebServer(make_app(), running.address, name="console", option="--console").start()
    assert ask(running, "/thread")[0] == 200


def test_an_address_of_another_machine_is_refused_in_one_sentence() -> None:
    with pytest.raises(
        CannotServe, match=r"cannot listen on 192\.0\.2\.1:0: .*; choose an address of this machine with --listen\."
    ):
        WebServer(make_app(), WebAddress("192.0.2.1", 0), name="console").start()


def test_two_servers_in_a_process_answer_side_by_side(running: WebServer) -> None:
    with WebServer(make_app(), HERE, name="other server") as other:
        assert ask(other, "/thread") == (200, "ottla-other-server")
        assert ask(running, "/thread") == (200, "ottla-test-server")


def test_a_server_stops_although_a_stream_is_open(running: WebServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", running.address.port, timeout=10)
    connection.request("GET", "/stream")
    assert connection.getresponse().read(7) == b"data: x"
    running.stop()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", running.address.port), timeout=5)
    connection.close()


def test_a_further_connection_is_closed_at_once(running: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MOST_CONNECTIONS", 2)
    held = [socket.create_connection(("127.0.0.1", running.address.port), timeout=5) for _ in range(2)]
    for each in held:
        each.sendall(b"GET /thread HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert each.recv(12) == b"HTTP/1.1 200"
    with socket.create_connection(("127.0.0.1", running.address.port), timeout=5) as further:
        further.settimeout(5)
        assert received(further) == b""
    for each in held:
        each.close()


def test_a_connection_without_a_request_is_closed(running: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "HEAD_S", 0.1)
    with socket.create_connection(("127.0.0.1", running.address.port), timeout=10) as silent:
        silent.sendall(b"GET /thread HTT")
        assert received(silent) == b""


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", ""])
def test_a_foreign_host_name_is_refused(running: WebServer, host: str) -> None:
    status, text = ask(running, "/thread", headers={"Host": host})
    assert status == 421
    assert "--allow-host" in json.loads(text)["error"]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:80", "[::1]:80", "192.0.2.7"])
def test_a_local_name_and_an_ip_address_are_answered(running: WebServer, host: str) -> None:
    assert ask(running, "/thread", headers={"Host": host})[0] == 200


def test_a_large_body_is_refused_by_its_length_and_by_its_bytes(running: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard_module, "DRAIN_S", 60)  # a body that was read to its end leaves nothing to wait for
    assert ask(running, "/echo", method="POST", body=b"x" * 1000) == (200, "1000")
    status, text = ask(running, "/echo", method="POST", body=b"x" * 1001)
    assert (status, json.loads(text)) == (413, {"error": "The request is too large: send at most 1000 bytes."})
    with socket.create_connection(("127.0.0.1", running.address.port), timeout=10) as chunked:
        chunked.sendall(
            b"POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
            + b"400\r\n"
            + b"x" * 1024
            + b"\r\n0\r\n\r\n"
        )
        assert chunked.recv(12) == b"HTTP/1.1 413"


def test_a_client_that_sends_all_of_a_large_body_first_reads_the_refusal(running: WebServer) -> None:
    status, text = ask(running, "/echo", method="POST", body=b"x" * 5_000_000)
    assert (status, json.loads(text)) == (413, {"error": "The request is too large: send at most 1000 bytes."})


@pytest.mark.parametrize("rest", [b"ZZZ\r\n", b"5\r\nabc"])
def test_a_broken_body_is_no_error_in_the_log(running: WebServer, rest: bytes, caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_connection(("127.0.0.1", running.address.port), timeout=10) as broken:
        broken.sendall(b"POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + rest)
        broken.shutdown(socket.SHUT_WR)
        received(broken)
    assert ask(running, "/thread")[0] == 200
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.expects_errors("a request failed unexpectedly: GET '/fail'")
def test_an_unexpected_exception_costs_its_request_alone(running: WebServer, caplog: pytest.LogCaptureFixture) -> None:
    status, text = ask(running, "/fail", headers={"Accept": "text/html"})
    assert (status, text) == (500, "Something went wrong here: the server's log has the error.\n")
    assert ask(running, "/thread")[0] == 200
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == [
        "a request failed unexpectedly: GET '/fail'"
    ]


def test_each_response_forbids_inline_scripts_frames_and_caches(running: WebServer) -> None:
    for path in ("/thread", "/nothing-here"):
        headers = request(running.url, path).headers
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers


def test_bytes_that_are_not_http_are_refused_without_a_line_in_the_log(
    running: WebServer, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_connection(("127.0.0.1", running.address.port), timeout=10) as other:
        other.sendall(b"\x00\x00\x00\x19\x00\x03\x00\x01" + b"\xff" * 64 + b"\r\n\r\n")
        assert other.recv(12) == b"HTTP/1.1 400"
    assert not [record for record in caplog.records if record.name.startswith("ottla.web")]


def test_tls_is_spoken_with_the_given_certificate(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "server.pem"))
    trusted = ssl.create_default_context()
    authority.configure_trust(trusted)
    with WebServer(make_app(), HERE, name="console", tls=TlsFiles(str(tmp_path / "server.pem"))) as server:
        assert request(server.url, "/thread", trust=trusted).text == "ottla-console"
        assert server.url.startswith("https://")


def test_a_certificate_that_cannot_be_used_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("")
    for name in ("empty.pem", "missing.pem"):
        with pytest.raises(CannotServe, match=r"^No TLS: the certificate .* cannot be used \(.*\); give a PEM file"):
            WebServer(make_app(), HERE, name="console", tls=TlsFiles(str(tmp_path / name))).start()


@pytest.mark.parametrize("is_blocked", [False, True])
def test_an_application_that_does_not_start_in_time_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_blocked: bool
) -> None:
    """An application waits on its event loop, or keeps the loop from running, as a slow call does."""
    monkeypatch.setattr(server_module, "START_S", 0.2)
    monkeypatch.setattr(server_module, "PATIENCE_S", 0.2)
    released = threading.Event()

    @contextlib.asynccontextmanager
    async def start_slowly(app: Starlette) -> AsyncIterator[None]:
        if is_blocked:
            released.wait(60)
        await asyncio.Event().wait()
        yield

    server = WebServer(Starlette(lifespan=start_slowly), HERE, name="slow server")
    with pytest.raises(CannotServe, match=r"^The slow server did not start within 0\.2 s: "):
        server.start()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", server.address.port), timeout=5)
    released.set()
    for thread in threading.enumerate():
        if thread.name == "ottla-slow-server":
            thread.join(30)
            assert not thread.is_alive()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
