"""A conversation with a broker that keeps what it answered, in a form in which two brokers can be compared.

An answer is its fields as plain values, or how the broker refused: it closed the connection, or stayed silent and served on. What
differs from run to run (hosts and ports, member ids, times of now) is replaced by names.
"""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.wire import encode
from ottla.wire.apis import API
from ottla.wire.faults import Malformed
from ottla.wire.framing import FrameHeader, decode_response, encode_request
from tests.old.message_sets import read
from tests.support.messages import request

CLOSED, SILENT, STUCK = "closes the connection", "stays silent and serves on", "stays silent and serves nothing more"
CLIENT_ID = "old"
ASKED, BEHIND = 7, 8
PATIENCE_S = 6.0
MEMBER_ID = re.compile(r"^.+-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")
OTHER_SHAPES = {"no version of it", *(f"v{version}" for version in range(20))}
PASSING = frozenset({-1, 3, 5, 6, 14, 15, 16, 38})
"""Errors that go away by themselves while topics and coordinators are being made."""


class Refused(Exception):
    """The broker gave no answer; `how` is `CLOSED`, `SILENT` or `STUCK`."""

    def __init__(self, how: str) -> None:
        super().__init__(how)
        self.how = how


@dataclass
class Talk:
    """One broker, and `heard`: what it answered to each request, by the request's title.

    `served` is the number of versions that it serves, from 0 on, by API key.
    """

    address: str
    served: Mapping[int, int] = field(default_factory=dict)
    heard: dict[str, Any] = field(default_factory=dict)
    _socket: socket.socket | None = None

    def ask(self, title: str, key: int, version: int, /, **values: Any) -> Any:
        """The response message, or None where the broker gave none. Either is kept under `title` and the request's name."""
        name = f"{API[key].name} v{version}: {title}"
        assert name not in self.heard, f"two requests are called {name}"
        answer: Any = None
        try:
            frame = self._send(key, version, values)
            answer, read_as = self._answer(key, version, frame)
        except Refused as refused:
            self.heard[name] = refused.how
        except Malformed:
            self.heard[name] = {"no version of it": frame.hex()}
        else:
            fields = plain(answer, read_as)
            self.heard[name] = fields if read_as == version else {f"v{read_as}": fields}
        return answer

    def until_served(self, key: int, version: int, /, **values: Any) -> Any:
        """Ask again, for 30 s at most, until no error of the passing kind is in the answer; nothing is kept."""
        until = time.monotonic() + 30
        while True:
            answer, _ = self._answer(key, version, self._send(key, version, values))
            if not PASSING & set(error_codes(answer)) or time.monotonic() > until:
                return answer
            time.sleep(0.1)

    def versions(self, key: int) -> range:
        """The versions of an API that the broker answers in their own shape, as far as they are not flexible."""
        return range(self.served.get(key, 0))

    def raw(self, title: str, frame: bytes) -> None:
        """Send bytes as they are, keep how they were taken: answered, closed, or silence."""
        try:
            self._exchange(struct.pack(">i", len(frame)) + frame)
            self.heard[title] = "answers"
        except Refused as refused:
            self.heard[title] = refused.how

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, key: int, version: int, values: dict[str, Any]) -> bytes:
        return self._exchange(
            b"".join(encode_request(FrameHeader(key, version, ASKED, CLIENT_ID), request(key, version, **values)))
        )

    def _exchange(self, frame: bytes) -> bytes:
        """The answer to a frame. Another request goes right behind it, whose answer shows at once that the first has none."""
        self._write(frame + _BEHIND)
        answer = self._read_frame()
        if answer[:4] == struct.pack(">i", BEHIND):
            raise Refused(SILENT)
        with contextlib.suppress(Refused):
            self._read_frame()
        return answer

    def _write(self, data: bytes) -> None:
        if self._socket is None:
            host, port = self.address.rsplit(":", 1)
            self._socket = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        try:
            self._socket.sendall(data)
        except OSError:
            self.close()
            raise Refused(CLOSED) from None

    def _read_frame(self) -> bytes:
        return self._read(int.from_bytes(self._read(4), "big"))

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            try:
                piece = self._socket.recv(size - len(data)) if self._socket else b""
            except OSError as e:
                self.close()
                raise Refused(STUCK if isinstance(e, TimeoutError) else CLOSED) from None
            if not piece:
                self.close()
                raise Refused(CLOSED)
            data += piece
        return data

    def _answer(self, key: int, version: int, frame: bytes) -> tuple[Any, int]:
        """The message in a frame, and the version that it is in: of an old broker not always the one asked for."""
        for read_as in (version, *reversed(range(version))):
            try:
                _, answer = decode_response(key, read_as, frame)
            except Malformed:
                continue
            if len(encode(answer, read_as)) == len(frame) - 4:
                return answer, read_as
        raise Malformed(API[key].response.__name__, version, "", 0, "no version of this message reads these bytes")


_BEHIND = b"".join(encode_request(FrameHeader(3, 0, BEHIND, CLIENT_ID), request(3, 0, topics=[{"name": "here"}])))


def error_codes(value: Any) -> Iterator[int]:
    """Every error code in a message."""
    if isinstance(value, list):
        for each in value:
            yield from error_codes(each)
    elif hasattr(value, "WIRE"):
        for each in value.WIRE.fields:
            if each.name == "error_code":
                yield value.error_code
            else:
                yield from error_codes(getattr(value, each.name))


def plain(value: Any, version: int, name: str = "") -> Any:
    """A message as plain values: only fields of this version, and names in place of what differs from run to run."""
    if isinstance(value, list):
        return [plain(each, version, name) for each in value]
    if hasattr(value, "WIRE"):
        present = [each.name for each in value.WIRE.fields if version in each.present]
        return {each: plain(getattr(value, each), version, each) for each in present}
    if isinstance(value, bytes | bytearray | memoryview):
        return read(bytes(value)) if name == "records" else bytes(value).hex()
    replace = _VARYING.get(name)
    return replace(value) if replace else value


def _time(value: int) -> Any:
    return "now" if abs(value - time.time() * 1000) < 3_600_000 else value


_VARYING: dict[str, Callable[[Any], Any]] = {
    "port": lambda port: "a port" if port > 0 else port,
    "host": lambda host: "a host" if host else host,
    "client_host": lambda host: "a host" if host else host,
    "cluster_id": lambda found: "an id" if found else found,
    "member_id": lambda found: "a member id" if MEMBER_ID.match(found) else found,
    "leader": lambda found: "a member id" if isinstance(found, str) and MEMBER_ID.match(found) else found,
    "timestamp": _time,
    "log_append_time_ms": _time,
    "node_id": lambda found: "a node" if found >= 0 else found,
    "leader_id": lambda found: "a node" if found >= 0 else found,
    "controller_id": lambda found: "a node" if found >= 0 else found,
    "replica_nodes": lambda found: "a node" if found >= 0 else found,
    "isr_nodes": lambda found: "a node" if found >= 0 else found,
}
