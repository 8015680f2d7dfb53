"""Captures to test with, made byte by byte: TCP segments in packets of any link, packets in files of both formats."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from ipaddress import ip_address
from typing import NamedTuple

from ottla.cli.decode.capture import ACK, SYN, Packet, TcpSegment

CLIENT = ("10.0.0.1", 50_000)
BROKER = ("10.0.0.2", 9092)
START_NS = 1_700_000_000_000_000_000


class Piece(NamedTuple):
    """A segment to be captured."""

    source: tuple[str, int]
    target: tuple[str, int]
    sequence: int
    payload: bytes
    flags: int = ACK
    time_ns: int = START_NS


def tcp(piece: Piece) -> bytes:
    head = struct.pack(">HHIIBBHHH", piece.source[1], piece.target[1], piece.sequence % (1 << 32), 0, 5 << 4, piece.flags, 9, 0, 0)
    return head + piece.payload


def ip(piece: Piece) -> bytes:
    source, target, body = ip_address(piece.source[0]), ip_address(piece.target[0]), tcp(piece)
    if source.version == 4:
        return struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(body), 0, 0, 64, 6, 0) + source.packed + target.packed + body
    options = bytes((6, 0)) + bytes(6)
    return struct.pack(">IHBB", 6 << 28, len(options) + len(body), 0, 64) + source.packed + target.packed + options + body


def ether_type(piece: Piece) -> bytes:
    return b"\x08\x00" if ip_address(piece.source[0]).version == 4 else b"\x86\xdd"


LINKS: dict[str, tuple[int, Callable[[Piece], bytes]]] = {
    "ethernet": (1, lambda piece: bytes(12) + ether_type(piece) + ip(piece)),
    "vlan": (1, lambda piece: bytes(12) + b"\x81\x00\x00\x07" + ether_type(piece) + ip(piece)),
    "null": (0, lambda piece: b"\x02\0\0\0" + ip(piece)),
    "loop": (108, lambda piece: b"\0\0\0\x02" + ip(piece)),
    "cooked": (113, lambda piece: bytes(14) + ether_type(piece) + ip(piece)),
    "cooked 2": (276, lambda piece: ether_type(piece) + bytes(18) + ip(piece)),
    "raw": (101, ip),
}


def pcap(pieces: Iterable[Piece], link: str = "ethernet", *, order: str = "<", nanoseconds: bool = False) -> bytes:
    number, wrap = LINKS[link]
    out = struct.pack(f"{order}IHHiIII", 0xA1B23C4D if nanoseconds else 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, number)
    for piece in pieces:
        packet = wrap(piece)
        seconds, rest = divmod(piece.time_ns, 1_000_000_000)
        out += struct.pack(f"{order}IIII", seconds, rest if nanoseconds else rest // 1000, len(packet), len(packet)) + packet
    return out


def _block(order: str, kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    return struct.pack(f"{order}II", kind, len(body) + 12) + body + struct.pack(f"{order}I", len(body) + 12)


def pcapng(pieces: Iterable[Piece], link: str = "ethernet", *, order: str = "<", nanoseconds: bool = False, kind: int = 6) -> bytes:
    number, wrap = LINKS[link]
    option = struct.pack(f"{order}HH", 9, 1) + b"\x09\0\0\0" if nanoseconds else b""
    out = _block(order, 0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1))
    out += _block(order, 5, bytes(12))  # statistics, which nobody reads
    out += _block(order, 1, struct.pack(f"{order}HHI", number, 0, 0) + option)
    for piece in pieces:
        packet = wrap(piece)
        ticks = piece.time_ns if nanoseconds else piece.time_ns // 1000
        head = struct.pack(f"{order}IIIII", 0, ticks >> 32, ticks & 0xFFFFFFFF, len(packet), len(packet))
        head = struct.pack(f"{order}HHIIII", 0, 0, *struct.unpack_from(f"{order}IIII", head, 4)) if kind == 2 else head
        out += _block(order, kind, (struct.pack(f"{order}I", len(packet)) if kind == 3 else head) + packet)
    return out


def as_packets(pieces: Iterable[Piece]) -> list[Packet]:
    return [Packet(101, piece.time_ns, memoryview(ip(piece))) for piece in pieces]


def as_segment(piece: Piece) -> TcpSegment:
    source, target = (f"{host}:{port}" for host, port in (piece.source, piece.target))
    return TcpSegment(piece.time_ns, source, target, piece.sequence % (1 << 32), piece.flags, memoryview(piece.payload))


class Talk:
    """Pieces of one connection, in order; sequence numbers count by themselves."""

    def __init__(self, first_sequence: int = 1000, *, opened: bool = True, client: tuple[str, int] = CLIENT) -> None:
        self.client = client
        self.pieces: list[Piece] = []
        self._next = {client: first_sequence, BROKER: first_sequence + 5}
        self._time_ns = START_NS
        if opened:
            self._put(client, b"", SYN)
            self._put(BROKER, b"", SYN | ACK)

    def ask(self, *payloads: bytes) -> None:
        for payload in payloads:
            self._put(self.client, payload)

    def answer(self, *payloads: bytes) -> None:
        for payload in payloads:
            self._put(BROKER, payload)

    def _put(self, source: tuple[str, int], payload: bytes, flags: int = ACK) -> None:
        target = BROKER if source == self.client else self.client
        self.pieces.append(Piece(source, target, self._next[source], payload, flags, self._time_ns))
        self._next[source] += len(payload) + bool(flags & SYN)
        self._time_ns += 1_000_000
