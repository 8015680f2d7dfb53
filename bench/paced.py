"""A producer at a fixed pace over one raw socket, and how long each of its requests took: what background work adds shows here."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from bench.raw import batch, check, connect, produce_request, reply
from ottla.wire.framing import FrameHeader, decode_response, encode_request


class Latency(NamedTuple):
    """Of some requests, in ms."""

    requests: int
    median_ms: float
    p99_ms: float
    worst_ms: float

    def __str__(self) -> str:
        return f"{self.median_ms:.2f} / {self.p99_ms:.2f} / {self.worst_ms:.1f}"


def latency(took_s: list[float]) -> Latency:
    ordered = sorted(took_s)
    median_s, p99_s = (ordered[int(len(ordered) * share)] for share in (0.5, 0.99))
    return Latency(len(ordered), median_s * 1000, p99_s * 1000, ordered[-1] * 1000)


def paced(address: str, topic: str, rate: int, goes_on: Callable[[], bool]) -> list[float]:
    """Seconds of each request of `paced_times`."""
    return [ended - began for began, ended in paced_times(address, topic, rate, goes_on)]


def paced_times(address: str, topic: str, rate: int, goes_on: Callable[[], bool]) -> list[tuple[float, float]]:
    """Begin and end of each request (one record of 100 bytes, acks=1), `rate` of them a second, while `goes_on()`.

    One that could not be sent when it was due, because the one before was not answered, counts from when it was due.
    """
    frame, took, late = produce_request(topic, batch(bytes(100)), acks=1), list[tuple[float, float]](), False
    with connect(address) as connection:
        due = time.perf_counter()
        while goes_on():
            now = time.perf_counter()
            if now < due:
                time.sleep(due - now)
            began = due if late else time.perf_counter()
            connection.sendall(frame)
            answer = reply(connection)
            ended = time.perf_counter()
            took.append((began, ended))
            check(answer, topic)
            due += 1 / rate
            late = ended > due
    return took


def for_s(duration_s: float) -> Callable[[], bool]:
    """True for so long."""
    end = time.monotonic() + duration_s
    return lambda: time.monotonic() < end


def ask(address: str, key: int, version: int, body: Any) -> Any:
    """The decoded response to one request."""
    with connect(address) as connection:
        connection.settimeout(120)
        connection.sendall(b"".join(bytes(part) for part in encode_request(FrameHeader(key, version, 1, "bench"), body)))
        return decode_response(key, version, reply(connection))[1]
