"""A client of its own for single requests: frames made once, sent over one socket, the same on every broker.

Knows just enough of Kafka's protocol for a produce request of version 7 with one batch. Its own cost is a few microseconds a
request, so that the broker's shows.
"""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Sequence

import crc32c

PRODUCE_V7 = (0, 7)
OF_PARTITION = 30
"""Bytes of the answer for each partition: index, error code, base offset, time of the append, start of the log."""


def batch(value: bytes, count: int = 1) -> bytes:
    """A v2 batch of `count` records with the same value."""
    now = int(time.time() * 1000)
    records = b"".join(record(number, value) for number in range(count))
    covered = struct.pack(">hiqqqhii", 0, count - 1, now, now, -1, -1, -1, count) + records
    return struct.pack(">qiibI", 0, len(covered) + 9, -1, 2, crc32c.crc32c(covered)) + covered


def record(delta: int, value: bytes) -> bytes:
    body = b"\x00\x00" + zigzag(delta) + b"\x01" + zigzag(len(value)) + value + b"\x00"
    return zigzag(len(body)) + body


def zigzag(value: int) -> bytes:
    value <<= 1
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    return bytes([*out, value])


def produce_request(topic: str, records: bytes, *, acks: int, index: int = 0) -> bytes:
    """A whole frame for one partition, with a correlation id that is always the same."""
    return produce_to_many(topic, records, [index], acks=acks)


def produce_to_many(topic: str, records: bytes, indexes: Sequence[int], *, acks: int) -> bytes:
    """The same with the same records for each of these partitions."""
    name = topic.encode()
    header = struct.pack(">hhih", *PRODUCE_V7, 1, 5) + b"bench"
    body = struct.pack(">hhii", -1, acks, 30_000, 1) + struct.pack(">h", len(name)) + name
    body += struct.pack(">i", len(indexes)) + b"".join(struct.pack(">ii", index, len(records)) + records for index in indexes)
    frame = header + body
    return struct.pack(">i", len(frame)) + frame


def connect(address: str, tls: ssl.SSLContext | None = None) -> socket.socket:
    host, _, port = address.rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=30)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection if tls is None else tls.wrap_socket(connection, server_hostname=host)


def reply(connection: socket.socket) -> bytes:
    """One whole frame without its size."""
    data = connection.recv(65536)
    while len(data) < 4 or len(data) < 4 + struct.unpack_from(">i", data)[0]:
        more = connection.recv(65536)
        if not more:
            raise EOFError("the broker closed the connection")
        data += more
    return data[4:]


def check(answer: bytes, topic: str) -> None:
    """Raise unless the broker took the record, that of each partition."""
    first = 4 + 4 + 2 + len(topic.encode()) + 4
    (count,) = struct.unpack_from(">i", answer, first - 4)
    for number in range(count):
        (code,) = struct.unpack_from(">h", answer, first + number * OF_PARTITION + 4)
        if code:
            raise RuntimeError(f"the broker answered error {code}")


def pipelined(
    address: str,
    topic: str,
    count: int,
    in_flight: int,
    records: int = 1,
    *,
    size: int = 100,
    tls: ssl.SSLContext | None = None,
    acks: int = 1,
    index: int = 0,
) -> float:
    """Seconds for `count` requests of `records` records of `size` bytes, with `in_flight` unanswered at any time."""
    request = produce_request(topic, batch(bytes(size), records), acks=acks, index=index)
    with connect(address, tls) as connection:
        connection.sendall(request)
        each = 4 + len(answer := reply(connection))
        check(answer, topic)
        began = time.perf_counter()
        connection.sendall(request * in_flight)
        sent, received, rest = in_flight, 0, 0
        while received < count:
            rest += len(data := connection.recv(1 << 18))
            if not data:
                raise EOFError("the broker closed the connection")
            done, rest = divmod(rest, each)
            received += done
            more = min(done, count - sent)
            if more > 0:
                connection.sendall(request * more)
                sent += more
        return time.perf_counter() - began


def one_at_a_time(address: str, topic: str, count: int, *, acks: int) -> list[float]:
    """Seconds of each of `count` produce requests, each sent when the one before is answered."""
    request, took = produce_request(topic, batch(bytes(100)), acks=acks), []
    with connect(address) as connection:
        for _ in range(count):
            began = time.perf_counter()
            connection.sendall(request)
            answer = reply(connection)
            took.append(time.perf_counter() - began)
            check(answer, topic)
    return took
