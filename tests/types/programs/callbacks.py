"""A producer that learns of written and lost records by callbacks, which run while it polls and flushes."""

from __future__ import annotations

import sys
from collections import Counter

import ottla


class Tally:
    """The records of each topic that were written or lost."""

    def __init__(self) -> None:
        self.written: Counter[str] = Counter()
        self.lost: list[ottla.KafkaError] = []

    def on_delivery(self, delivery: ottla.Delivery) -> None:
        try:
            record: ottla.RecordMetadata = delivery.result(timeout=0)
        except ottla.KafkaError as error:
            self.lost.append(error)
        else:
            self.written[record.topic] += 1


def main(address: str, topic: str = "callbacks", count: int = 100) -> Tally:
    tally = Tally()
    producer = ottla.Producer(address, key_serializer="int64", value_serializer="str", max_in_flight_requests_per_connection=1)
    try:
        for number in range(count):
            producer.send(topic, f"flight {number}", key=number, on_delivery=tally.on_delivery)
            calls: int = producer.poll()
            assert calls <= count
        try:
            producer.flush(timeout_ms=30_000)
        except ottla.FlushTimedOut as late:
            print(f"not written yet: {late}", file=sys.stderr)
    finally:
        producer.close(timeout_ms=5_000)
    return tally


if __name__ == "__main__":
    print(main(sys.argv[1]).written)
