"""One frame as a tree: header and body of a request or a response, as far as its bytes can be read.

Positions count from the first byte after a frame's size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ottla.inspection.bytes_fields import PayloadOpener
from ottla.inspection.tree import as_json, size_text
from ottla.wire.apis import API, FALLBACK_VERSIONS, Api
from ottla.wire.errors import UNSUPPORTED_VERSION
from ottla.wire.faults import Malformed
from ottla.wire.framing import decode_request_header
from ottla.wire.headers import RequestHeader, ResponseHeader
from ottla.wire.inspection.tree import ValueNode, tree_of
from ottla.wire.schema import Message

SMALLEST_FRAME_BYTES = 2
"""The size of the smallest response, an empty one of Kafka 0.7. Responses of other releases have at least four bytes."""


@dataclass(slots=True)
class Frame:
    """The readable contents of one frame.

    `faults` are sentences about unreadable parts and their positions. `release` is set for frames from before protocol versions.
    """

    kind: str
    api: str
    version: int
    size: int
    correlation_id: int | None = None
    header: ValueNode | None = None
    body: ValueNode | None = None
    faults: list[str] = field(default_factory=list)
    release: str = ""

    def title(self) -> str:
        what = f"{self.api} {self.kind}, version {self.version}" if self.api else self.kind
        if self.release:
            what = f"{self.api} {self.kind} of Kafka {self.release}".lstrip()
        id_text = "" if self.correlation_id is None else f", correlation id {self.correlation_id}"
        return f"{what}{id_text}, {size_text(self.size)}"

    def as_json(self) -> dict[str, object]:
        return {
            "kind": self.kind,
            "api": self.api or None,
            "version": self.version if self.api and not self.release else None,
            "correlation_id": self.correlation_id,
            "bytes": self.size,
            "header": as_json(self.header) if self.header else None,
            "body": as_json(self.body) if self.body else None,
            "faults": self.faults,
        } | ({"release": self.release} if self.release else {})


def request(data: bytes, opener: PayloadOpener) -> Frame:
    """Decode a whole request frame. Its header contains the API and version."""
    try:
        header, position = decode_request_header(data)
    except Malformed as fault:
        return _unreadable(data, str(fault))
    api = API.get(header.api_key)
    if api is None or header.api_version not in api.versions:
        return _unreadable(data, "")
    node, _ = tree_of(RequestHeader, api.request_headers[header.api_version], data, whole=False)
    frame = Frame("request", api.name, header.api_version, len(data), header.correlation_id, node)
    return _with_body(frame, api.request, data, position, opener)


def response(api: Api, version: int, data: bytes, opener: PayloadOpener) -> Frame:
    """Decode a whole response frame. `api` and `version` are the ones of its request."""
    node, fault = tree_of(ResponseHeader, api.response_headers[version], data, whole=False)
    frame = Frame("response", api.name, version, len(data), header=node)
    if fault:
        frame.faults.append(fault)
        return frame
    frame.correlation_id = node.below[0].value
    fallback = FALLBACK_VERSIONS.get(api.key)
    if fallback is not None and version != fallback and data[node.end : node.end + 2] == UNSUPPORTED_VERSION.to_bytes(2, "big"):
        frame.version = fallback
    return _with_body(frame, api.response, data, node.end, opener)


def body(cls: type[Message], api: Api, version: int, data: bytes, opener: PayloadOpener) -> Frame:
    """Decode the body of a request or response, without a header."""
    kind = "request" if cls is api.request else "response"
    return _with_body(Frame(f"{kind} body", api.name, version, len(data)), cls, data, 0, opener)


def _with_body(frame: Frame, cls: type[Message], data: bytes, position: int, opener: PayloadOpener) -> Frame:
    frame.body, fault = tree_of(cls, frame.version, data, position)
    opener.faults = frame.faults
    opener.open_all(cls.__name__, frame.version, frame.body)
    if fault:
        frame.faults.append(fault)
    return frame


def _unreadable(data: bytes, fault: str) -> Frame:
    """Decode the part of a request's header that all versions have. `fault` says why the rest cannot be decoded."""
    node, _ = tree_of(RequestHeader, 1, data, whole=False)
    values = [child.value for child in node.below]
    unknown = _unknown(*values[:2]) if len(values) > 1 else ""
    return Frame("request", "", -1, len(data), values[2] if len(values) > 2 else None, node, faults=[unknown or fault])


def _unknown(key: int, version: int) -> str:
    """Return a sentence about an unknown API or version; empty if both are known."""
    api = API.get(key)
    if api is None:
        return f"RequestHeader v1, api_key at byte 0: there is no API {key}; add --response API --version N if this is a response."
    if version in api.versions:
        return ""
    low, high = api.versions.start, api.versions.stop - 1
    return f"RequestHeader v1, api_version at byte 2: {api.name} has no version {version}, only {low} to {high}."


def split(data: bytes, *, whole: bool) -> Iterator[bytes]:
    """Return the frames in `data` if each begins with its size; otherwise return `data` as one frame.

    With `whole`, the last frame must be complete.
    """
    pieces, pos = [], 0
    while len(data) - pos >= 4:
        size = int.from_bytes(data[pos : pos + 4], "big", signed=True)
        if not SMALLEST_FRAME_BYTES <= size <= len(data) - pos - 4:
            break
        pieces.append(data[pos + 4 : pos + 4 + size])
        pos += 4 + size
    if not pieces or (whole and pos < len(data)):
        pieces = [data]
    elif pos < len(data):
        pieces.append(data[pos + 4 :])
    return iter(pieces)


def missing_bytes(data: bytes) -> int:
    """Return the number of bytes that are missing from a single request, according to its size; 0 for any other data."""
    if len(data) < 12 or _names_a_request(data, 0) or not _names_a_request(data, 4):
        return 0
    return max(4 + int.from_bytes(data[:4], "big", signed=True) - len(data), 0)


def _names_a_request(data: bytes, at: int) -> bool:
    key, version = (int.from_bytes(data[start : start + 2], "big") for start in (at, at + 2))
    return key in API and version in API[key].versions
