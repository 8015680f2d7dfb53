"""`ottla doctor` on ports where something else answers, or nothing: one FAIL line that says what to do, no traceback."""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

import ottla
from tests.support.mistakes import Commands

Answer = Callable[[socket.socket], object]


@pytest.fixture
def commands(capsys: pytest.CaptureFixture[str]) -> Commands:
    return Commands(capsys)


@contextmanager
def answering(answer: Answer) -> Iterator[int]:
    """Run a server that answers each connection so, and closes it; return its port."""

    def serve() -> None:
        while True:
            try:
                accepted, _ = server.accept()
            except OSError:
                return
            with accepted, suppress(OSError):
                answer(accepted)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
    thread.join()


def sends(data: bytes, *, first: bool = False) -> Answer:
    def answer(accepted: socket.socket) -> None:
        if not first:
            accepted.recv(1000)
        accepted.sendall(data)

    return answer


def resets(accepted: socket.socket) -> None:
    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def is_silent(accepted: socket.socket) -> None:
    accepted.recv(1000)
    time.sleep(0.3)


ANSWERS: dict[str, Answer] = {
    "HTTP": sends(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"),
    "SSH": sends(b"SSH-2.0-OpenSSH_9.2\r\n", first=True),
    "a TLS alert": sends(b"\x15\x03\x01\x00\x02\x02\x28"),
    "zeros": sends(bytes(64)),
    "a frame that is too large": sends(b"\x7f\xff\xff\xff" + bytes(10)),
    "a negative frame": sends(b"\xff\xff\xff\xff"),
    "half a frame": sends(b"\0\0\1\0abc"),
    "another's answer": sends(struct.pack(">iii", 8, 99_999, 0)),
    "an answer that ends early": sends(struct.pack(">ii", 4, 0)),
    "noise": sends(b"\x80" + os.urandom(999)),
    "the end": lambda accepted: None,
    "a reset": resets,
    "silence": is_silent,
}
FAST = "-X request.timeout.ms=150 -X default.api.timeout.ms=150"


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL", "SASL_SSL -X sasl.mechanism=PLAIN -X sasl.username=a -X sasl.password=b"])
@pytest.mark.parametrize("name", ANSWERS)
def test_what_is_no_broker_fails_in_one_line(commands: Commands, name: str, protocol: str) -> None:
    with answering(ANSWERS[name]) as port:
        code, out, err = commands.run(f"doctor --json -b 127.0.0.1:{port} {FAST} -X security.protocol={protocol}")
    failed = [row for row in map(json.loads, out.splitlines()) if row["status"] == "fail"]
    assert (code, err, len(failed)) == (1, "", 1)
    expected = "login" if protocol == "PLAINTEXT" else "TLS"
    assert failed[0]["check"] == expected or (name == "a reset" and failed[0]["check"] == "connection")  # it can come early
    assert f"127.0.0.1:{port}" in failed[0]["finding"]


def test_a_listener_that_wants_a_login_is_told_from_one_that_wants_none(commands: Commands) -> None:
    with ottla.Broker(users={"alice": "a"}) as broker:
        code, out, _ = commands.run(f"doctor --json -b {broker.address}")
        failed = [row for row in map(json.loads, out.splitlines()) if row["status"] == "fail"]
        assert (code, [row["check"] for row in failed]) == (1, ["login"])
        assert "needs security.protocol=SASL_PLAINTEXT or SASL_SSL" in failed[0]["finding"]
        assert "without a password" not in out


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("-b :", "':' is not a host and port"),
        ("-b :9092", "':9092' is not a host and port"),
        ("-b host:", "'host:' is not a host and port"),
        ("-b ,", "bootstrap.servers is empty"),
        ("-b 127.0.0.1:1/", "'127.0.0.1:1/' is not a host and port"),
        ("-b 127.0.0.1:65536", "is not a host and port"),
        ("-b", "expected one argument"),
        ("-b a:1 -X sasl.mechanism=PLAIN", "sasl"),
        ("-b a:1 -X security.protocol=SASL_SSL", "sasl"),
        ("-b a:1 -X security.protocol=SSL -X ssl.truststore.location=/none", "/none"),
        ("-b a:1 -X request.timeout.ms=0", "at least 1, not 0"),
        ("-b a:1 -X request.timeout.ms", "'request.timeout.ms' has no value"),
        ("-b a:1 -X request.timeout.mss=5", "did you mean request.timeout.ms?"),
        ("-b a:1 --command-config /", "Is a directory"),
        ("-b a:1 b:1", "invalid choice: 'b:1'"),
    ],
)
def test_a_mistake_is_one_sentence(commands: Commands, line: str, sentence: str) -> None:
    commands.check_mistake(f"doctor {line}", 2, sentence)
