"""Values with the schemas of a registry, here a directory: what is written needs a schema, what is read brings its own."""

from __future__ import annotations

import sys
import tempfile
from typing import TypedDict

import ottla

SCHEMA = {"type": "record", "name": "Flight", "fields": [{"name": "gate", "type": "int"}, {"name": "to", "type": "string"}]}


class Flight(TypedDict):
    gate: int
    to: str


def main(address: str, topic: str = "registry") -> list[Flight]:
    with tempfile.TemporaryDirectory() as registry:
        flights: list[Flight] = [{"gate": 12, "to": "JFK"}, {"gate": 3, "to": "LGA"}]
        written = ottla.RegistrySerializer(registry, SCHEMA, subject="record")
        with ottla.Producer(address, key_serializer="uuid", value_serializer=written) as producer:
            for flight in flights:
                producer.send(topic, flight)
        with ottla.Consumer(
            topic,
            bootstrap_servers=address,
            auto_offset_reset="earliest",
            value_deserializer=ottla.RegistryDeserializer(registry),
        ) as consumer:
            ends = consumer.end_offsets(consumer.partitions_for(topic))
            return [record.value for record in consumer.records(until=ends) if record.value is not None]


if __name__ == "__main__":
    print(main(sys.argv[1]))
