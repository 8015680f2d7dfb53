"""Copies one topic into another exactly once: records and the offsets of the group are committed by one transaction."""

from __future__ import annotations

import sys

import ottla


def shout(record: ottla.ConsumerRecord[str, str]) -> str | None:
    """Return the new value of a record. A tombstone stays one."""
    return record.value.upper() if record.value is not None else None


def copy(source: str, target: str, consumer: ottla.Consumer[str, str], producer: ottla.Producer[str, str]) -> int:
    copied = 0
    while records := consumer.poll(timeout_ms=2_000, max_records=500):
        try:
            with producer.transaction():
                for record in records:
                    producer.send(target, shout(record), key=record.key, headers=record.headers, timestamp_ms=record.timestamp)
                producer.send_offsets(consumer.positions(), consumer)
        except ottla.TransactionAbortable:
            consumer.seek_to_committed()
            continue
        copied += len(records)
    return copied


def main(address: str, source: str = "copy-source", target: str = "copy-target") -> int:
    with ottla.Producer(address, value_serializer="str") as filling:
        for number in range(10):
            filling.send(source, f"flight {number}", key=b"%d" % number)
    with (
        ottla.Consumer(
            source,
            bootstrap_servers=address,
            group_id="copies",
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            enable_auto_commit=False,
            key_deserializer="str",
            value_deserializer="str",
        ) as consumer,
        ottla.Producer(address, transactional_id="copies", key_serializer="str", value_serializer="str") as producer,
    ):
        return copy(source, target, consumer, producer)


if __name__ == "__main__":
    print(main(sys.argv[1]))
