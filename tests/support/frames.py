"""Kafka's protocol by hand: a few requests in old, simple versions, and batches of records that may be wrong on purpose.

Deliberately rests on nothing of Ottla, so that the broker is not judged by its own idea of the protocol.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass, replace
from typing import Self

import crc32c

PRODUCE, FETCH, LIST_OFFSETS, METADATA, FIND_COORDINATOR, API_VERSIONS, CREATE_TOPICS = 0, 1, 2, 3, 10, 18, 19


def string(text: str | None) -> bytes:
    if text is None:
        return b"\xff\xff"
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def blob(data: bytes | None) -> bytes:
    return b"\xff\xff\xff\xff" if data is None else struct.pack(">i", len(data)) + data


def array(*items: bytes) -> bytes:
    return struct.pack(">i", len(items)) + b"".join(items)


def request(key: int, version: int, correlation_id: int, body: bytes = b"", client_id: str = "raw") -> bytes:
    """One frame with its size, with a header of version 1."""
    frame = struct.pack(">hhi", key, version, correlation_id) + string(client_id) + body
    return struct.pack(">i", len(frame)) + frame


def produce_v7(topic: str, partition: int, records: bytes | None, *, acks: int = -1, timeout_ms: int = 10_000) -> bytes:
    parts = array(struct.pack(">i", partition) + blob(records))
    return string(None) + struct.pack(">hi", acks, timeout_ms) + array(string(topic) + parts)


def fetch_v4(
    topic: str, partition: int, offset: int, *, max_bytes: int = 1 << 20, max_wait_ms: int = 0, min_bytes: int = 1
) -> bytes:
    parts = array(struct.pack(">iqi", partition, offset, max_bytes))
    return struct.pack(">iiiib", -1, max_wait_ms, min_bytes, max_bytes, 0) + array(string(topic) + parts)


def metadata_v1(*topics: str) -> bytes:
    return array(*(string(topic) for topic in topics))


def list_offsets_v1(topic: str, partition: int, timestamp: int) -> bytes:
    return struct.pack(">i", -1) + array(string(topic) + array(struct.pack(">iq", partition, timestamp)))


def create_topics_v2(topic: str, partitions: int, configs: dict[str, str] | None = None) -> bytes:
    settings = array(*(string(name) + string(value) for name, value in (configs or {}).items()))
    return array(string(topic) + struct.pack(">ih", partitions, 1) + array() + settings) + struct.pack(">ib", 10_000, 0)


def varint(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def record(delta: int, value: bytes | None, key: bytes | None = None) -> bytes:
    """One record of a v2 batch, without headers."""

    def sized(data: bytes | None) -> bytes:
        return varint(-1) if data is None else varint(len(data)) + data

    body = b"\x00" + varint(0) + varint(delta) + sized(key) + sized(value) + varint(0)
    return varint(len(body)) + body


@dataclass(frozen=True)
class Batch:
    """A v2 batch whose header can lie: each field that is not None replaces the true value."""

    values: tuple[bytes, ...] = (b"value",)
    timestamp: int = 1_700_000_000_000
    max_timestamp: int | None = None
    attributes: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    magic: int = 2
    length: int | None = None
    crc: int | None = None
    count: int | None = None
    last_offset_delta: int | None = None
    cut: int = 0
    body: bytes | None = None

    def lying(self, **fields: object) -> Batch:
        return replace(self, **fields)  # type: ignore[arg-type]  # names and types are those of the fields

    def encode(self) -> bytes:
        body = self.body if self.body is not None else b"".join(record(i, value) for i, value in enumerate(self.values))
        count = len(self.values) if self.count is None else self.count
        delta = len(self.values) - 1 if self.last_offset_delta is None else self.last_offset_delta
        times = (self.timestamp, self.timestamp if self.max_timestamp is None else self.max_timestamp)
        producer = (self.producer_id, self.producer_epoch, self.base_sequence)
        covered = struct.pack(">hiqqqhii", self.attributes, delta, *times, *producer, count) + body
        crc = crc32c.crc32c(covered) if self.crc is None else self.crc
        length = len(covered) + 9 if self.length is None else self.length
        whole = struct.pack(">qiibI", 0, length, -1, self.magic, crc) + covered
        return whole[: len(whole) - self.cut]


class Cursor:
    """Reads a reply from front to back."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def next_records(self, layout: str) -> tuple[int, ...]:
        values = struct.unpack_from(">" + layout, self.data, self.at)
        self.at += struct.calcsize(">" + layout)
        return values

    def number(self, layout: str) -> int:
        return self.next_records(layout)[0]

    def string(self) -> str | None:
        size = self.number("h")
        return None if size < 0 else self.raw(size).decode()

    def blob(self) -> bytes:
        return self.raw(max(0, self.number("i")))

    def raw(self, size: int) -> bytes:
        self.at += size
        return self.data[self.at - size : self.at]


class Raw:
    """One TCP connection that speaks in frames."""

    def __init__(self, address: str, *, timeout_s: float = 15.0, receive_buffer: int | None = None) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(timeout_s)
        self.socket.connect((host, int(port)))
        self._correlation_id = 0

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def read(self, size: int) -> bytes:
        """Exactly `size` bytes. Raises EOFError when the peer closes before."""
        out = bytearray()
        while len(out) < size:
            try:
                chunk = self.socket.recv(size - len(out))
            except ConnectionResetError:
                chunk = b""
            if not chunk:
                raise EOFError(f"closed after {len(out)} of {size} bytes")
            out += chunk
        return bytes(out)

    def frame(self) -> bytes:
        (size,) = struct.unpack(">i", self.read(4))
        return self.read(size)

    def is_closed(self, timeout_s: float = 5.0) -> bool:
        """Whether the peer closes within `timeout_s`, having sent nothing more."""
        self.socket.settimeout(timeout_s)
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False

    def ask(self, key: int, version: int, body: bytes = b"") -> Cursor:
        """One request, one reply, checked to carry the request's correlation id."""
        self._correlation_id += 1
        self.send(request(key, version, self._correlation_id, body))
        reply = Cursor(self.frame())
        assert reply.number("i") == self._correlation_id
        return reply

    def is_served(self) -> bool:
        """Whether the connection still gets a good answer."""
        return self.ask(API_VERSIONS, 0).number("h") == 0

    def create_topic(self, topic: str, partitions: int = 1, configs: dict[str, str] | None = None) -> int:
        reply = self.ask(CREATE_TOPICS, 2, create_topics_v2(topic, partitions, configs))
        assert reply.next_records("ii")[1] == 1
        reply.string()
        return reply.number("h")

    def produce(self, topic: str, records: bytes | None, *, partition: int = 0, acks: int = -1) -> tuple[int, int]:
        """(error code, base offset)"""
        return produce_outcome(self.ask(PRODUCE, 7, produce_v7(topic, partition, records, acks=acks)))

    def fetch(self, topic: str, offset: int, *, partition: int = 0, max_bytes: int = 1 << 20) -> tuple[int, int, bytes]:
        """(error code, high watermark, records)"""
        reply = self.ask(FETCH, 4, fetch_v4(topic, partition, offset, max_bytes=max_bytes))
        reply.next_records("ii")
        reply.string()
        _, _, code, high_watermark, _ = reply.next_records("iihqq")
        assert reply.number("i") <= 0, "no aborted transactions"
        return code, high_watermark, reply.blob()

    def latest_offset(self, topic: str, partition: int = 0) -> int:
        reply = self.ask(LIST_OFFSETS, 1, list_offsets_v1(topic, partition, -1))
        reply.number("i")
        reply.string()
        _, _, code, _, offset = reply.next_records("iihqq")
        assert code == 0, f"ListOffsets answered {code}"
        return offset

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def produce_outcome(reply: Cursor) -> tuple[int, int]:
    reply.number("i")
    reply.string()
    _, _, code, base_offset = reply.next_records("iihq")
    return code, base_offset
