"""A producer that waits for the result of each record: where it was written, or why it was not."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import ottla


def publish(producer: ottla.Producer, topic: str, lines: Iterable[bytes]) -> dict[int, int]:
    """Send lines, and return the last offset of each partition."""
    deliveries = [producer.send(topic, line, key=line[:3], headers=[("source", b"tower")]) for line in lines]
    last: dict[int, int] = {}
    for delivery in deliveries:
        try:
            written = delivery.result(timeout=30)
        except ottla.TimedOut:
            print(f"{delivery.topic}-{delivery.partition} has not answered yet", file=sys.stderr)
            raise
        last[written.partition] = max(written.offset, last.get(written.partition, -1))
    return last


def main(address: str, topic: str = "futures") -> dict[int, int]:
    with ottla.Producer(address, acks="all", compression_type="gzip", linger_ms=20) as producer:
        return publish(producer, topic, [b"JFK 12", b"LGA 0", b"EWR 47"])


if __name__ == "__main__":
    print(main(sys.argv[1]))
