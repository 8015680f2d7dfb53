"""`ottla decode`: a frame, or a whole network capture, as a readable tree."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from ottla.cli.command.parser import Example

if TYPE_CHECKING:
    from ottla.cli.command.parser import Parser
    from ottla.cli.decode.conversation import Exchange
    from ottla.inspection.bytes_fields import PayloadOpener
    from ottla.inspection.frames import Frame

SHOWN_RECORDS = 20
"""The number of a batch's records that are shown, unless all are requested."""

DESCRIPTION = """Print a frame of Kafka's protocol as a tree, each value with the byte where it stands, counted from the first
byte after the frame's size. Frames come as hex (also as xxd, hexdump or Wireshark print it, or as a bytes literal of Python), as
an argument, on standard input or in a file; from a file of raw bytes; or from a capture of a network (pcap, pcapng). A request
has its API and version; a response does not, except in a capture that has its request. Exit code 1: a part could not be read;
the rest is printed."""
EXAMPLES = (
    Example(
        "decode 00000019000300010000000700026d65000000010007666c6967687473", "One frame: a request for the metadata of a topic."
    ),
    Example("decode --file kafka.pcap --port 9092", "The requests and responses in a capture of a network."),
    Example("decode --json < frame.hex", "Frames from standard input, as JSON."),
)


def build(command: Parser) -> None:
    command.description = DESCRIPTION
    command.examples = EXAMPLES
    command.add_argument(
        "hex", nargs="*", metavar="HEX", help="a frame, with or without the four bytes of its size (default: standard input)"
    )
    command.add_argument(
        "--file",
        metavar="FILE",
        help="frames with their sizes as raw bytes, one frame without, either as hex, or a pcap or pcapng capture",
    )
    what = command.add_mutually_exclusive_group()
    what.add_argument("--request", metavar="API", help="the input is the body of a request, without its header; needs --version")
    what.add_argument("--response", metavar="API", help="the input is a response to this API; needs --version")
    command.add_argument("--version", type=int, metavar="N", help="the API's version")
    command.add_argument(
        "--release",
        choices=["0.7"],
        help="frames of Kafka 0.7, which have no versions: requests, or with --response Fetch, MultiFetch or Offsets",
    )
    command.add_argument("--body", action="store_true", help="with --response: the input has no header")
    command.add_argument(
        "--port", type=int, metavar="PORT", help="in a capture, only connections of this port, which is the broker's"
    )
    command.add_argument(
        "--stored",
        metavar="TOPIC",
        default="",
        help="read records as those of __consumer_offsets, __transaction_state or __share_group_state",
    )
    command.add_argument("--all", action="store_true", help="print long values and all records of a batch")
    command.add_argument("--json", action="store_true", help="print a JSON value for each frame, each on a line of its own")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from ottla.cli.command.exits import MISUSED, fail
    from ottla.cli.decode.capture import CaptureError, is_capture
    from ottla.inspection.api_names import NoSuchName

    try:
        data = _input(options)
    except OSError as error:
        return fail(f"Cannot read {options.file}: {error.strerror}; name a readable file with --file.", MISUSED)
    except ValueError as error:
        return fail(str(error), MISUSED)
    try:
        if is_capture(data) and options.release:
            raise NoSuchName("Frames of Kafka 0.7 are not found in captures: give one frame as hex, or leave out --release.")
        faults = _capture(options, data) if is_capture(data) else _frames(options, data)
    except NoSuchName as error:
        return fail(str(error), MISUSED)
    except CaptureError as error:
        return fail(str(error))
    except BrokenPipeError:
        sys.stderr.close()  # the reader, such as head, has closed the pipe
        return 0
    return 1 if faults else 0


def _input(options: argparse.Namespace) -> bytes:
    """Return the input as bytes. Raises `OSError`, and `ValueError` with a sentence if pasted text does not show bytes."""
    from ottla.inspection.pasted_text import bytes_of, is_text

    if options.hex:
        return bytes_of("".join(options.hex) if len(options.hex) > 1 else options.hex[0])
    if options.file is None:
        if sys.stdin is None:
            raise ValueError("standard input is closed: give hex digits, or a file with --file.")
        data = sys.stdin.buffer.read()
        return bytes_of(data.decode("ascii")) if is_text(data) or not data else data
    with open(options.file, "rb") as file:
        data = file.read()
    if is_text(data):
        return bytes_of(data.decode("ascii"))
    if _is_log(data):
        raise ValueError(f"{options.file} holds batches as a log does, not frames: `ottla log dump {options.file}` prints them.")
    return data


def _is_log(data: bytes) -> bool:
    """Return whether the data begins like a log segment: with an offset, a plausible length, and a magic byte."""
    if len(data) < 17 or data[0] or data[16] > 2:
        return False
    length = int.from_bytes(data[8:12], "big")
    return 14 <= length <= len(data) - 12 and (length == len(data) - 12 or data[12 + length] == 0)


def _opener(options: argparse.Namespace) -> PayloadOpener:
    from ottla.inspection.bytes_fields import PayloadOpener

    return PayloadOpener(options.stored, None if options.all or options.json else SHOWN_RECORDS)


def _frames(options: argparse.Namespace, data: bytes) -> list[str]:
    """Print the frames in `data`; return sentences about unreadable parts."""
    from ottla.inspection.frames import missing_bytes, split

    faults: list[str] = []
    missing = 0 if options.release else missing_bytes(data)
    if missing:
        faults.append(f"The frame is cut off: {missing} bytes of its size are missing.")
        data = data[4:]
    for index, piece in enumerate([data] if missing else split(data, whole=bool(options.release))):
        frame = _frame(options, piece)
        if index and not options.json:
            print()
        _print(options, frame)
        faults += frame.faults
    _complain(faults)
    return faults


def _frame(options: argparse.Namespace, data: bytes) -> Frame:
    from ottla.inspection import frames
    from ottla.inspection.api_names import NoSuchName, check_version, find_api

    name = options.request or options.response
    if options.release:
        return _frame07(options, data)
    if name is None:
        return frames.request(data, _opener(options))
    api = find_api(name)
    if options.version is None:
        raise NoSuchName(f"The version of {api.name} is missing: add --version N.")
    check_version(api.name, api.versions, options.version)
    if options.request or options.body:
        return frames.body(api.request if options.request else api.response, api, options.version, data, _opener(options))
    return frames.response(api, options.version, data, _opener(options))


def _frame07(options: argparse.Namespace, data: bytes) -> Frame:
    from ottla.inspection.api_names import NoSuchName
    from ottla.kafka07.cli import frames as frames07

    if options.request or options.version is not None or options.body:
        raise NoSuchName("Frames of Kafka 0.7 have neither headers nor versions: leave out --request, --version and --body.")
    most = _opener(options).most
    return frames07.response(options.response, data, most) if options.response else frames07.request(data, most)


# --------------------------------------------------------------------- captures


def _capture(options: argparse.Namespace, data: bytes) -> list[str]:
    """Print every frame of a capture; return sentences about unreadable parts."""
    from ottla.cli.decode.capture import read_packets
    from ottla.cli.decode.conversation import Conversation

    packets, broken = read_packets(data)
    talk = Conversation(packets, options.port)
    faults: list[str] = []
    for exchange in talk.exchanges:
        frame = _exchanged(options, exchange)
        faults += [f"{exchange.client} to {exchange.server}: {fault}" for fault in frame.faults]
        _print(options, frame, exchange)
        if not options.json:
            print()
    faults += [broken] if broken else []
    if not talk.exchanges:
        faults.append(
            "No connection in the capture carries Kafka's protocol: capture the broker's port from before a client connects."
        )
    _complain(talk.remarks)
    _complain(faults)
    return faults


def _exchanged(options: argparse.Namespace, exchange: Exchange) -> Frame:
    from ottla.inspection import frames

    if exchange.is_request:
        return frames.request(exchange.data, _opener(options))
    return frames.response(exchange.api, exchange.version, exchange.data, _opener(options))


# --------------------------------------------------------------------- printing


def _print(options: argparse.Namespace, frame: Frame, exchange: Exchange | None = None) -> None:
    from ottla.inspection.tree import CUT_AT, Lines
    from ottla.wire.inspection.tree import STRUCT, ValueNode

    if options.json:
        import json

        print(json.dumps(_place(exchange) | frame.as_json(), ensure_ascii=False))
        return
    if exchange is not None:
        print(_place_text(exchange))
    print(frame.title())
    root = ValueNode("", STRUCT, children=[])
    for name, part in (("header", frame.header), ("body", frame.body)):
        if part is not None and part.below:
            part.name = name
            root.add(part)
    for line in Lines(cut_at=None if options.all else CUT_AT).of(root):
        print(line)


def _place(exchange: Exchange | None) -> dict[str, object]:
    if exchange is None:
        return {}
    waited = None if exchange.waited_ns < 0 else exchange.waited_ns / 1e6
    ends = {"client": exchange.client, "server": exchange.server}
    return {"time_ms": exchange.time_ns / 1e6, **ends, "waited_ms": waited}


def _place_text(exchange: Exchange) -> str:
    from ottla.inspection.bytes_fields import moment

    ends = (exchange.client, exchange.server) if exchange.is_request else (exchange.server, exchange.client)
    waited = "" if exchange.waited_ns < 0 else f", {exchange.waited_ns / 1e6:.3f} ms after its request"
    return f"{moment(exchange.time_ns // 1_000_000)}  {ends[0]} to {ends[1]}{waited}"


def _complain(sentences: list[str]) -> None:
    from ottla.cli.command.exits import fail

    sys.stdout.flush()
    for sentence in sentences:
        fail(sentence)
