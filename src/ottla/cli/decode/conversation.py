"""The frames of Kafka clients and brokers on captured connections, each response with its request.

Frames are recognised by their sizes and by the first bytes of requests. A capture can begin within a frame, or lack packets. Then
reading continues at the next segment that begins with a frame.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from struct import Struct
from typing import NamedTuple

from ottla.cli.decode.capture import Packet, segment_of
from ottla.cli.decode.tcp_streams import ByteRun, CapturedConnection, connections
from ottla.wire.apis import API, FALLBACK_VERSIONS, Api

_REQUEST_HEAD = Struct(">ihhih")
_RESPONSE_HEAD = Struct(">ii")
_LARGEST_BYTES = 1 << 28
_TLS = (b"\x16\x03", b"\x15\x03", b"\x17\x03")

Plausible = Callable[[bytearray, int], int]
"""(bytes, position) -> size of the frame that begins at the position, without the size field; -1 if no frame begins there."""


class Exchange(NamedTuple):
    """One request or response frame of a capture. A response has the `api` and `version` of its request.

    `waited_ns` is the time since the request; -1 for a request.
    """

    time_ns: int
    client: str
    server: str
    is_request: bool
    api: Api
    version: int
    data: bytes
    waited_ns: int = -1


class CapturedRequest(NamedTuple):
    time_ns: int
    api: Api
    version: int


class Conversation:
    """All exchanges of a capture, and remarks about other data on its connections."""

    def __init__(self, packets: list[Packet], port: int | None = None) -> None:
        self.exchanges: list[Exchange] = []
        self.remarks: list[str] = []
        self.strangers = 0
        segments = (found for found in map(segment_of, packets) if found is not None)
        for connection in connections(segments):
            if port is None or any(end.endswith(f":{port}") for end in connection.ends):
                self._read(connection, port)
        self.exchanges.sort(key=lambda found: (found.time_ns, not found.is_request))

    def _read(self, connection: CapturedConnection, port: int | None) -> None:
        client, server, runs = _sides(connection, port)
        name = f"{client} to {server}"
        requests, lost = _frames(runs[client], _request_size)
        if not requests:
            self.strangers += 1
            if any(run.data[:2] in _TLS for run in (*runs[client], *runs[server])):
                self.remarks.append(f"{name} is encrypted: capture a PLAINTEXT listener to see what it carries.")
            return
        asked: dict[int, deque[CapturedRequest]] = defaultdict(deque)
        for time_ns, data in requests:
            key, version, correlation_id = Struct(">hhi").unpack_from(data)
            asked[correlation_id].append(CapturedRequest(time_ns, API[key], version))
            self.exchanges.append(Exchange(time_ns, client, server, True, API[key], version, data))
        responses, lost_too = _frames(runs[server], lambda data, at: _response_size(data, at, asked))
        for time_ns, data in responses:
            waiting = asked.get(int.from_bytes(data[:4], "big", signed=True))
            if not waiting:
                lost_too += len(data) + 4
                continue
            then, api, version = waiting.popleft()
            version = version if version in api.versions else FALLBACK_VERSIONS.get(api.key, api.versions.stop - 1)
            self.exchanges.append(Exchange(time_ns, client, server, False, api, version, data, time_ns - then))
        for end, count in ((client, lost), (server, lost_too)):
            if count:
                self.remarks.append(
                    f"{name}: {count} bytes from {end} belong to no whole frame: the capture lacks the rest of them."
                )


def _sides(connection: CapturedConnection, port: int | None) -> tuple[str, str, dict[str, list[ByteRun]]]:
    """Return the client, the server, and the bytes that each sent.

    The client is the end that opened the connection, the end without the broker's port, or the end that sends requests.
    """
    first, second = connection.ends
    runs = {end: connection.directions[end].runs() for end in connection.ends}
    if connection.opener:
        client = connection.opener
    elif port is not None:
        client = second if first.endswith(f":{port}") else first
    else:
        client = max(connection.ends, key=lambda end: len(_frames(runs[end], _request_size)[0]))
    return client, second if client == first else first, runs


def _frames(runs: list[ByteRun], size_at: Plausible) -> tuple[list[tuple[int, bytes]], int]:
    """Return (capture time of its last byte, frame) for each whole frame, and the number of bytes outside of frames."""
    found: list[tuple[int, bytes]] = []
    lost = 0
    for run in runs:
        for start, end, whole in _cut(run, size_at):
            if whole:
                found.append((run.time_ns(end - 1), bytes(run.data[start + 4 : end])))
            else:
                lost += end - start
    return found, lost


def _cut(run: ByteRun, size_at: Plausible) -> Iterator[tuple[int, int, bool]]:
    """Yield the parts of a run of bytes: (start, end, whether the part is a frame)."""
    pos, length = 0, len(run.data)
    while pos < length:
        size = size_at(run.data, pos)
        end = pos + 4 + size
        whole = size >= 0 and end <= length
        if not whole:
            end = run.next_mark(pos)
        yield pos, end, whole
        pos = end


def _request_size(data: bytearray, pos: int) -> int:
    if len(data) - pos < 12:
        return -1
    size, key, version, _, id_size = _REQUEST_HEAD.unpack_from(bytes(data[pos : pos + 14]).ljust(14, b"\xff"))
    api = API.get(key)
    if api is None or not 8 <= size <= _LARGEST_BYTES or not -1 <= id_size <= size:
        return -1
    return size if version in api.versions or (key in FALLBACK_VERSIONS and 0 <= version < 100) else -1


def _response_size(data: bytearray, pos: int, asked: dict[int, deque[CapturedRequest]]) -> int:
    if len(data) - pos < 8:
        return -1
    size, correlation_id = _RESPONSE_HEAD.unpack_from(data, pos)
    return size if 4 <= size <= _LARGEST_BYTES and correlation_id in asked else -1
