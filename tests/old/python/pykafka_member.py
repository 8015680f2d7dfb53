"""pykafka 2.8.0: `ZOOKEEPER GROUP TOPIC BROKERS` is a member of a balanced group, and prints partition, offset and value of all."""

from __future__ import annotations

import logging
import sys

from pykafka import KafkaClient
from pykafka.common import OffsetType
from pykafka.exceptions import KafkaException

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
ZOOKEEPER, GROUP, TOPIC, BROKERS = sys.argv[1:5]


def main() -> None:
    client = KafkaClient(hosts=BROKERS, broker_version="0.9.0")  # its topics hold it by weak references
    consumer = client.topics[TOPIC.encode()].get_balanced_consumer(
        consumer_group=GROUP.encode(),
        zookeeper_connect=ZOOKEEPER,
        zookeeper_connection_timeout_ms=6000,
        auto_offset_reset=OffsetType.EARLIEST,
        auto_commit_enable=True,
        auto_commit_interval_ms=200,
        consumer_timeout_ms=500,
        rebalance_max_retries=20,
    )
    while True:
        try:
            message = consumer.consume()
        except KafkaException as failure:
            print(repr(failure), file=sys.stderr, flush=True)
            continue
        if message is not None:
            print(message.partition_id, message.offset, message.value.decode(), sep="\t", flush=True)


main()
