"""pykafka 2.8.0: `ADDRESS BROKER_VERSION COUNT TOPIC=CODEC …` writes to each topic and reads it back; what it read, as JSON."""

from __future__ import annotations

import json
import sys
from itertools import islice

from pykafka import KafkaClient
from pykafka.common import CompressionType, OffsetType

CODECS = {"none": CompressionType.NONE, "gzip": CompressionType.GZIP}


def main(address: str, broker_version: str, count: int, topics: list[str]) -> None:
    client = KafkaClient(hosts=address, broker_version=broker_version)
    found = {}
    for name, codec in (topic.split("=") for topic in topics):
        topic = client.topics[name.encode()]
        with topic.get_producer(compression=CODECS[codec], linger_ms=100, min_queued_messages=count) as producer:
            for number in range(count):
                producer.produce(b"v%d" % number, partition_key=b"k%d" % number)
        consumer = topic.get_simple_consumer(auto_offset_reset=OffsetType.EARLIEST, consumer_timeout_ms=10_000)
        found[name] = [[message.partition_key.decode(), message.value.decode()] for message in islice(consumer, count)]
        consumer.stop()
    print(json.dumps(found))


main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:])
