"""Frames: a request or a response with its header.

On the network four bytes with the size precede a frame. `buf` and `frame` arguments do not contain the size; encoded requests and
responses begin with it. Records fields stay separate pieces. The header's version depends on the API's version (`apis`).
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from ottla.wire.apis import API, REQUEST_HEADERS, Api
from ottla.wire.codec.blocks import MOST_WITHIN
from ottla.wire.codec.messages import DECODING, Buffer, M, Part, decode, decode_first, join_between, new_codec, write_parts
from ottla.wire.codec.primitives import Stop, varint
from ottla.wire.faults import Malformed
from ottla.wire.schema import Message

_HEADER: Final = Struct(">hhi")
BOUNDED_BYTES: Final = 64 * 1024
"""The frame size in bytes above which a limit applies to the items in a request's arrays. Smaller requests cannot have many."""
MOST_TAGS: Final = 1000
"""The most tagged fields in a header. No client sends more than one."""
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_REQUEST: Final = Struct(">ihhih")
_REQUEST_0: Final = Struct(">ihhi")
_RESPONSE_0: Final = Struct(">ii")
_RESPONSE_1: Final = Struct(">iib")


class FrameHeader(NamedTuple):
    """The header of a request. Tagged fields of header version 2 are skipped, because Kafka defines none."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None = None


class Unsupported(Malformed):
    """Raised for a request with an unknown API or version. `header` is the part of its header that was read."""

    def __init__(self, header: FrameHeader) -> None:
        super().__init__("RequestHeader", 1, "api_key" if header.api_key not in API else "api_version", 0, "unknown API or version")
        self.header = header


def decode_request_header(buf: Buffer) -> tuple[FrameHeader, int]:
    """Return the header of a request frame and the position where the body begins. Raises `Malformed`.

    The position is meaningless if the API or version is unknown. Unknown newer versions are read with a flexible header, so that
    the broker can answer an ApiVersions request that is too new.
    """
    try:
        key, version, correlation_id = _HEADER.unpack_from(buf)
    except StructError as e:
        raise Malformed("RequestHeader", 1, "", 0, "runs past the end") from e
    api = API.get(key)
    header_version = REQUEST_HEADERS.get((key, version), 2 if api and version in api.flexible else 1)
    client_id, position = decode_client_id(buf, header_version)
    return FrameHeader(key, version, correlation_id, client_id), position


def decode_client_id(buf: Buffer, header_version: int) -> tuple[str | None, int]:
    """Return the client id of a request frame and the position where the body begins. Raises `Malformed`."""
    if header_version == 0:
        return None, _HEADER.size
    position, client_id = _HEADER.size, None
    try:
        (length,) = _INT16.unpack_from(buf, position)
        position = 10
        if length >= 0:
            position = 10 + length
            client_id = str(buf[10:position], "utf-8")
        if header_version == 2:
            position = position + 1 if buf[position] == 0 else _skip_tags(buf, position)
    except (StructError, IndexError, UnicodeDecodeError, Stop) as e:
        reason = "is not UTF-8" if isinstance(e, UnicodeDecodeError) else str(e) if isinstance(e, Stop) else "runs past the end"
        raise Malformed("RequestHeader", 1, "client_id", min(position, len(buf)), reason or "a varint is too long") from e
    if position > len(buf):
        raise Malformed("RequestHeader", 1, "client_id", 10, "runs past the end of the frame")
    return client_id, position


def decode_request(frame: Buffer) -> tuple[FrameHeader, Message]:
    """Decode the header and the body of a request frame. Bytes after the last field are ignored.

    Raises `Malformed`, or its subclass `Unsupported` for an unknown API or version.
    """
    header, position = decode_request_header(frame)
    api = API.get(header.api_key)
    if api is None or header.api_version not in api.versions:
        raise Unsupported(header)
    return header, decode_body(api.request, header.api_version, frame, position)


def decode_body(cls: type[M], version: int, frame: Buffer, position: int) -> M:
    """Decode the body of a request frame; `position` is the end of its header. Bytes after the last field are ignored.

    Raises `Malformed`.
    """
    if len(frame) > BOUNDED_BYTES:
        return decode_first(cls, version, frame, position, MOST_WITHIN)
    read = cls.WIRE.readers.get(version)
    if read is None:
        new_codec(cls, version)  # only for the first message of this class and version
        return decode_body(cls, version, frame, position)
    try:
        return read(frame, position)  # type: ignore[no-any-return]  # readers are kept untyped
    except DECODING:
        # Kafka's brokers ignore bytes after the last field, so clients that send such bytes must work here too.
        return decode_first(cls, version, frame, position)


def decode_response(api_key: int, version: int, frame: Buffer) -> tuple[int, Message]:
    """Decode the response frame to a request of this API and version: return correlation id and body. Raises `Malformed`."""
    api = API[api_key]
    try:
        (correlation_id,) = _INT32.unpack_from(frame)
        position = _skip_tags(frame, 4) if api.response_headers[version] else 4
    except (StructError, IndexError, Stop) as e:
        raise Malformed("ResponseHeader", api.response_headers[version], "", 0, "the frame ends within the header") from e
    return correlation_id, decode(api.response, version, frame, position)


def encode_request(header: FrameHeader, body: Message) -> list[Part]:
    """Encode a whole request in pieces, which begin with its size. Raises `Unencodable`."""
    parts: list[Part] = [b""]
    cuts: list[int] = []
    write_parts(body, header.api_version, parts, cuts)
    parts[0] = _request_header(API[header.api_key], header, sum(map(len, parts)))
    return join_between(parts, cuts)


def frame_request(header: FrameHeader, body: Sequence[Part]) -> list[Part]:
    """Return a whole request in pieces, which begin with its size, from an encoded body."""
    return [_request_header(API[header.api_key], header, sum(map(len, body))), *body]


def _request_header(api: Api, header: FrameHeader, body_size: int) -> bytes:
    key, version, correlation_id, client_id = header
    kind = api.request_headers[version]
    if kind == 0:
        return _REQUEST_0.pack(8 + body_size, key, version, correlation_id)
    tags = b"\0" if kind == 2 else b""
    name = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(name)
    return _REQUEST.pack(10 + len(name) + len(tags) + body_size, key, version, correlation_id, length) + name + tags


def encode_response(correlation_id: int, api_key: int, version: int, body: Message) -> list[Part]:
    """Encode a whole response in pieces, which begin with its size. Raises `Unencodable`."""
    parts: list[Part] = [b""]
    cuts: list[int] = []
    write_parts(body, version, parts, cuts)
    tagged = API[api_key].response_headers[version]
    if not cuts:
        joined = b"".join(parts)
        size = len(joined)
        head = _RESPONSE_1.pack(size + 5, correlation_id, 0) if tagged else _RESPONSE_0.pack(size + 4, correlation_id)
        return [head + joined]
    size = sum(map(len, parts))
    parts[0] = _RESPONSE_1.pack(size + 5, correlation_id, 0) if tagged else _RESPONSE_0.pack(size + 4, correlation_id)
    return join_between(parts, cuts)


def frame_response(correlation_id: int, api_key: int, version: int, body: Sequence[Part]) -> list[Part]:
    """Return a whole response in pieces, which begin with its size, from an encoded body."""
    size = sum(map(len, body))
    tagged = API[api_key].response_headers[version]
    return [_RESPONSE_1.pack(size + 5, correlation_id, 0) if tagged else _RESPONSE_0.pack(size + 4, correlation_id), *body]


def _skip_tags(buf: Buffer, position: int) -> int:
    """Return the position after a tag section. Raises `Stop` or IndexError."""
    count, position = varint(buf, position)
    if count > MOST_TAGS:
        raise Stop(f"more than {MOST_TAGS} tagged fields")
    for _ in range(count):
        _, position = varint(buf, position)
        size, position = varint(buf, position)
        position += size
        if position > len(buf):
            raise Stop("a tagged field runs past the end")
    return position
