"""The protocol decoder: a pasted frame as a tree, as `ottla decode` prints it. It asks no broker."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.console.cluster_session import ClusterSession
from ottla.console.declarations import PageRefused
from ottla.inspection import frames
from ottla.inspection.api_names import NoSuchName, check_version, find_api
from ottla.inspection.bytes_fields import PayloadOpener
from ottla.inspection.pasted_text import NotBytes, bytes_of
from ottla.inspection.tree import Lines
from ottla.wire.apis import API
from ottla.wire.inspection.tree import STRUCT, ValueNode

MOST_FRAME_BYTES = 256 << 10
"""The bytes of all pasted frames. More are for `ottla decode --file`."""
MOST_LINES = 5_000
SHOWN_RECORDS = 20


@dataclass(frozen=True, slots=True)
class DecodedFrame:
    """A frame: its title, its tree as lines, and sentences about parts that could not be read."""

    title: str
    lines: list[str]
    faults: list[str]
    more_lines: int


@dataclass(frozen=True, slots=True)
class DecoderPage:
    """The pasted text and what it means. `problem` is the sentence about a text that has no frame."""

    frame: str
    response: str
    version: int | None
    frames: list[DecodedFrame]
    problem: str
    apis: list[str]


async def decoder(cluster: ClusterSession, frame: str = "", response: str = "", version: int | None = None) -> DecoderPage:
    """Return pasted frames as trees: hex, a dump or a bytes literal. `response` is the API of a response with this `version`."""
    found: list[DecodedFrame] = []
    problem = ""
    if frame.strip():
        try:
            found = decode(frame, response.strip(), version)
        except (NotBytes, NoSuchName, PageRefused) as error:
            problem = str(error)
    return DecoderPage(frame, response, version, found, problem, sorted(api.name for api in API.values()))


def decode(text: str, response: str, version: int | None) -> list[DecodedFrame]:
    """Return the frames in a text. Raises `NotBytes`, `NoSuchName` and `PageRefused`."""
    data = bytes_of(text)
    if len(data) > MOST_FRAME_BYTES:
        raise PageRefused(413, f"The frames have {len(data)} bytes, more than {MOST_FRAME_BYTES}: use `ottla decode --file FILE`.")
    missing = frames.missing_bytes(data)
    pieces = [data[4:]] if missing else list(frames.split(data, whole=False))
    found = [_decode_one(piece, response, version) for piece in pieces]
    if missing:
        found[0].faults.insert(0, f"The frame is cut off: {missing} bytes of its size are missing.")
    return found


def _decode_one(data: bytes, response: str, version: int | None) -> DecodedFrame:
    opener = PayloadOpener(most=SHOWN_RECORDS)
    if response:
        api = find_api(response)
        if version is None:
            raise NoSuchName(f"The version of {api.name} is missing: give the one of its request.")
        check_version(api.name, api.versions, version)
        frame = frames.response(api, version, data, opener)
    else:
        frame = frames.request(data, opener)
    root = ValueNode("", STRUCT, children=[])
    for name, part in (("header", frame.header), ("body", frame.body)):
        if part is not None and part.below:
            part.name = name
            root.add(part)
    lines = list(Lines().of(root))
    return DecodedFrame(frame.title(), lines[:MOST_LINES], list(frame.faults), max(len(lines) - MOST_LINES, 0))
