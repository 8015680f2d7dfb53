"""The reader of capture files (classic pcap and pcapng), and of the TCP segments in them.

The module parses file formats, link layers, IPv4, IPv6 and TCP headers, but no payloads. It skips IP fragments, because TCP makes
none.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from struct import Struct, unpack_from
from struct import error as StructError
from typing import Final, NamedTuple

PCAP_MAGICS: Final = {
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\x3c\x4d": (">", 1),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
}
"""The first bytes of a classic pcap file -> its byte order, and the nanoseconds in a unit of the timestamps' second field."""
PCAPNG_MAGIC: Final = b"\x0a\x0d\x0d\x0a"
_PCAPNG_ORDERS: Final = {b"\x1a\x2b\x3c\x4d": ">", b"\x4d\x3c\x2b\x1a": "<"}
_INTERFACE, _OLD_PACKET, _SIMPLE_PACKET, _PACKET = 1, 2, 3, 6
_TIME_RESOLUTION: Final = 9
_SECOND_NS: Final = 1_000_000_000

ETHERNET, NULL, LOOP, SLL, SLL2 = 1, 0, 108, 113, 276
RAW: Final = frozenset({12, 14, 101, 228, 229})
_IPV4, _IPV6 = 0x0800, 0x86DD
_VLANS: Final = frozenset({0x8100, 0x88A8, 0x9100})
_TCP: Final = 6
_SKIPPED_HEADERS: Final = frozenset({0, 43, 60})
"""The types of IPv6 extension headers to skip: hop-by-hop options, routing, destination options."""

SYN, ACK = 2, 16


class CaptureError(ValueError):
    """A file cannot be read as a capture. The message is a sentence."""


class Packet(NamedTuple):
    """One captured packet. `link` is the type of its outermost header, by the file formats' numbers."""

    link: int
    time_ns: int
    data: memoryview


class TcpSegment(NamedTuple):
    """A TCP segment. Each end is "address:port". `payload` is incomplete if the capture truncated the packet."""

    time_ns: int
    source: str
    target: str
    sequence: int
    flags: int
    payload: memoryview


def is_capture(data: bytes) -> bool:
    return data[:4] in PCAP_MAGICS or data[:4] == PCAPNG_MAGIC


def read_packets(data: bytes) -> tuple[list[Packet], str]:
    """Return all packets of a file up to a truncation, and a sentence about the truncation, or "". Raises `CaptureError`."""
    if data[:4] in PCAP_MAGICS:
        source = _pcap(data)
    elif data[:4] == PCAPNG_MAGIC:
        source = _pcapng(data)
    else:
        raise CaptureError("The file is neither pcap nor pcapng: write one with `tcpdump -w FILE`.")
    found: list[Packet] = []
    try:
        found.extend(source)  # unlike a comprehension, a loop keeps the packets before an exception
    except StructError:
        return found, f"The capture ends within packet {len(found) + 1}: the packets before it were read."
    return found, ""


def _pcap(data: bytes) -> Iterator[Packet]:
    order, fraction_ns = PCAP_MAGICS[data[:4]]
    link = unpack_from(f"{order}I", data, 20)[0] & 0xFFFF
    head = Struct(f"{order}IIII")
    view, pos = memoryview(data), 24
    while pos < len(data):
        seconds, fraction, size, _ = head.unpack_from(data, pos)
        pos += head.size
        yield Packet(link, seconds * _SECOND_NS + fraction * fraction_ns, _piece(view, pos, size))
        pos += size


def _piece(view: memoryview, pos: int, size: int) -> memoryview:
    if size > len(view) - pos:
        raise StructError("the packet runs past the end of the file")
    return view[pos : pos + size]


def _pcapng(data: bytes) -> Iterator[Packet]:
    view, pos, order = memoryview(data), 0, "<"
    interfaces: list[tuple[int, int]] = []
    while pos < len(data):
        if data[pos : pos + 4] == PCAPNG_MAGIC:
            order = _PCAPNG_ORDERS.get(data[pos + 8 : pos + 12], "")
            if not order:
                raise CaptureError(f"The pcapng section at byte {pos} has no known byte order: the file is damaged.")
            interfaces = []
        kind, size = unpack_from(f"{order}II", data, pos)
        if size < 12 or size % 4:
            raise CaptureError(f"The pcapng block at byte {pos} claims {size} bytes: the file is damaged.")
        block = _piece(view, pos, size)[8:-4]
        if kind == _INTERFACE:
            interfaces.append((unpack_from(f"{order}H", block)[0], _ticks(block[8:], order)))
        elif kind in (_PACKET, _OLD_PACKET, _SIMPLE_PACKET):
            yield _block_packet(kind, block, order, interfaces, pos)
        pos += size


def _block_packet(kind: int, block: memoryview, order: str, interfaces: list[tuple[int, int]], pos: int) -> Packet:
    if kind == _SIMPLE_PACKET:
        index, ticks, start, size = 0, 0, 4, min(unpack_from(f"{order}I", block)[0], len(block) - 4)
    else:
        index = unpack_from(f"{order}I" if kind == _PACKET else f"{order}H", block)[0]
        high, low, size = unpack_from(f"{order}III", block, 4)
        ticks, start = high << 32 | low, 20
    if index >= len(interfaces):
        raise CaptureError(f"The pcapng packet at byte {pos} is of interface {index}, which is not described: the file is damaged.")
    link, per_second = interfaces[index]
    return Packet(link, ticks * _SECOND_NS // per_second, _piece(block, start, size))


def _ticks(options: memoryview, order: str) -> int:
    """Return an interface's ticks per second: a million, unless an option sets another power of 10 or 2."""
    pos = 0
    while pos + 4 <= len(options):
        code, size = unpack_from(f"{order}HH", options, pos)
        if code == _TIME_RESOLUTION and size and pos + 4 < len(options):
            power: int = options[pos + 4]
            return 1 << (power & 0x7F) if power & 0x80 else 10 ** min(power, 18)
        if code == 0:
            break
        pos += 4 + (size + 3) // 4 * 4
    return 1_000_000


# --------------------------------------------------------------------- segments


def segment_of(packet: Packet) -> TcpSegment | None:
    """Return the TCP segment in a packet. Return None if there is none, or its headers are incomplete."""
    try:
        found = _network_layer(packet.link, packet.data)
        return _ip(packet.time_ns, found) if found is not None else None
    except (StructError, IndexError):
        return None


def _network_layer(link: int, data: memoryview) -> memoryview | None:
    """Return the IP packet in a frame of the link layer, or None."""
    if link in RAW or link in (NULL, LOOP):
        return data if link in RAW else data[4:]
    if link == ETHERNET:
        at = 12
        while unpack_from(">H", data, at)[0] in _VLANS:
            at += 4
        kind, at = unpack_from(">H", data, at)[0], at + 2
    elif link in (SLL, SLL2):
        kind, at = (unpack_from(">H", data, 14)[0], 16) if link == SLL else (unpack_from(">H", data)[0], 20)
    else:
        raise CaptureError(f"The capture is of link type {link}, which is not supported: capture on Ethernet, loopback or `any`.")
    return data[at:] if kind in (_IPV4, _IPV6) else None


def _ip(time_ns: int, data: memoryview) -> TcpSegment | None:
    if data[0] >> 4 == 4:
        return _ipv4(time_ns, data)
    return _ipv6(time_ns, data) if data[0] >> 4 == 6 else None


def _ipv4(time_ns: int, data: memoryview) -> TcpSegment | None:
    total, fragment = unpack_from(">H", data, 2)[0], unpack_from(">H", data, 6)[0] & 0x3FFF
    if data[9] != _TCP or fragment:
        return None
    end = total or len(data)  # the size is 0 if the network card divides the packet and sets the size
    return _tcp(time_ns, bytes(data[12:16]), bytes(data[16:20]), data[(data[0] & 0x0F) * 4 : end])


def _ipv6(time_ns: int, data: memoryview) -> TcpSegment | None:
    size, kind, at = unpack_from(">H", data, 4)[0], data[6], 40
    end = 40 + size if size else len(data)
    while kind in _SKIPPED_HEADERS:
        kind, at = data[at], at + 8 + data[at + 1] * 8
    return _tcp(time_ns, bytes(data[8:24]), bytes(data[24:40]), data[at:end]) if kind == _TCP else None


def _tcp(time_ns: int, source: bytes, target: bytes, data: memoryview) -> TcpSegment:
    source_port, target_port, sequence, _, offset, flags = unpack_from(">HHIIBB", data)
    payload = data[(offset >> 4) * 4 :]
    return TcpSegment(time_ns, _end(source, source_port), _end(target, target_port), sequence, flags, payload)


def _end(address: bytes, port: int) -> str:
    text = str(ip_address(address))
    return f"[{text}]:{port}" if ":" in text else f"{text}:{port}"
