"""Frames that are announced and never come, come byte by byte, say odd things of themselves, or are no frames at all."""

from __future__ import annotations

import random
import struct

from ottla.wire.api.api_versions import ApiVersionsRequest
from tests.siege.attack import attack
from tests.siege.making import metadata
from tests.siege.site import Site, churn, framed, hold, press

ANNOUNCED_BYTES = 95_000_000
TLS_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(189)
HTTP_REQUEST = b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n"
API_VERSIONS = 18


def tagged(count: int) -> bytes:
    """ApiVersions with so many tagged fields of nothing in its header."""
    tags = b"".join(varint(number) + b"\x00" for number in range(count))
    body = struct.pack(">hhih", API_VERSIONS, 3, 1, -1) + varint(count) + tags + b"\x02a\x02b\x00"
    return struct.pack(">i", len(body)) + body


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


@attack("20 connections announce 95 MB each, send most of it and never the end")
def announced_and_never_finished(site: Site) -> None:
    announced = struct.pack(">ihhih", ANNOUNCED_BYTES, 0, 7, 1, -1) + bytes(ANNOUNCED_BYTES - 64)
    press(site, announced, lines=20, most=20)


@attack("500 connections announce 95 MB each and send 64 KB of it", minor=True)
def announced_and_hardly_begun(site: Site) -> None:
    hold(site, 500, first=struct.pack(">ihhih", ANNOUNCED_BYTES, 0, 7, 1, -1) + bytes(64 * 1024))


@attack("4 connections send whole frames of 95 MB that are no request", minor=True)
def giant_frames_of_nothing(site: Site) -> None:
    press(site, struct.pack(">ihhih", ANNOUNCED_BYTES, 3, 4, 1, -1) + bytes(ANNOUNCED_BYTES - 10), lines=4)


@attack("2 000 connections send half a frame, and one byte more each second")
def half_frames(site: Site) -> None:
    hold(site, 2000, first=struct.pack(">ihhih", 1000, 3, 1, 1, -1), drip=b"\x00")


@attack("300 connections send half a frame of 900 KB, and one byte more each second")
def large_half_frames(site: Site) -> None:
    hold(site, 300, first=struct.pack(">ihhih", 900_000, 0, 7, 1, -1) + bytes(450_000), drip=b"\x00")


@attack("one connection sends ordinary requests one byte at a time")
def byte_by_byte(site: Site) -> None:
    frame = metadata([], version=4)
    press(site, lambda number: frame[number % len(frame) : number % len(frame) + 1], lines=1, in_flight=1 << 30)


@attack("random bytes on connections that come and go", minor=True)
def random_bytes(site: Site) -> None:
    churn(site, random.Random(1).randbytes(4096), reads=True)


@attack("a TLS hello on connections that come and go", minor=True)
def tls_hello(site: Site) -> None:
    churn(site, TLS_HELLO, reads=True)


@attack("HTTP requests on connections that come and go", minor=True)
def http(site: Site) -> None:
    churn(site, HTTP_REQUEST, reads=True)


@attack("connections come and announce two gigabytes, or less than nothing", minor=True)
def impossible_sizes(site: Site) -> None:
    churn(site, b"\x7f\xff\xff\xff" if random.random() < 0.5 else b"\xff\xff\xff\xff", reads=True)


@attack("connections come and ask for an API that there is not", minor=True)
def unknown_apis(site: Site) -> None:
    churn(site, struct.pack(">ihhih", 10, 999, 0, 1, -1), reads=True)


@attack("connections come and ask for a version that there is not", minor=True)
def unknown_versions(site: Site) -> None:
    churn(site, struct.pack(">ihhih", 10, 3, 99, 1, -1), reads=True)


@attack("8 connections pipeline ApiVersions without end", minor=True)
def api_versions(site: Site) -> None:
    press(site, framed(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3), lines=8, in_flight=1000)


@attack("8 connections pipeline ApiVersions without end and never read", minor=True)
def api_versions_unread(site: Site) -> None:
    frame = framed(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)
    press(site, frame, lines=8, in_flight=1 << 30, reads=False, receive_buffer_bytes=4096)


@attack("8 connections pipeline requests with a client id of 32 KB", minor=True)
def giant_client_ids(site: Site) -> None:
    press(site, metadata([], client_id="c" * 32_000), lines=8, in_flight=50)


@attack("4 connections send requests with 500 000 tagged fields that nobody knows")
def many_tagged_fields(site: Site) -> None:
    press(site, tagged(500_000), lines=4)


@attack("8 connections pipeline frames of no bytes", minor=True)
def empty_frames(site: Site) -> None:
    press(site, bytes(4), lines=8, in_flight=1 << 30)


@attack("4 connections send Metadata requests of 8 000 000 empty names")
def arrays_of_empty_names(site: Site) -> None:
    count = 8_000_000
    body = struct.pack(">hhihi", 3, 4, 1, -1, count) + bytes(2 * count) + b"\x00"
    press(site, struct.pack(">i", len(body)) + body, lines=4)


@attack("8 connections announce arrays of two billion items in small frames", minor=True)
def arrays_that_are_not_there(site: Site) -> None:
    body = struct.pack(">hhihi", 3, 4, 1, -1, (1 << 31) - 1)
    press(site, struct.pack(">i", len(body)) + body, lines=8)
