"""kafka-python 0.9.5 at work: ADDRESS COUNT GROUP MINE=CODEC … THEIRS …; prints what happened as one line of JSON.

Writes COUNT messages to each topic of the first kind; reads COUNT of each topic of either kind as a simple consumer, which commits
by OffsetCommit 0.
"""

from __future__ import annotations

import json
import sys

import kafka_python_shims  # type: ignore[import-not-found]  # noqa: F401  # lies beside this program; makes the next import possible
from kafka import KafkaClient, SimpleConsumer
from kafka.common import OffsetFetchRequest, OffsetRequest, ProduceRequest
from kafka.protocol import CODEC_GZIP, CODEC_NONE, CODEC_SNAPPY, create_message_set

CODECS = {"none": CODEC_NONE, "gzip": CODEC_GZIP, "snappy": CODEC_SNAPPY}


def main(address: str, count: int, group: str, topics: list[str]) -> dict[str, object]:
    client = KafkaClient(address)
    found: dict[str, object] = {}
    for name, _, codec in (asked.partition("=") for asked in topics):
        topic = name.encode()
        client.ensure_topic_exists(topic)
        if codec:
            write(client, topic, CODECS[codec], count)
        consumer = SimpleConsumer(client, group.encode(), topic, auto_commit=False, iter_timeout=10)
        messages = [(each.offset, each.message) for each in consumer.get_messages(count, timeout=20)]
        consumer.commit()
        consumer.stop()
        stored = client.send_offset_fetch_request(group.encode(), [OffsetFetchRequest(topic, 0)])
        last = client.send_offset_request([OffsetRequest(topic, 0, -1, 1)])
        read = [(offset, message.key.decode(), message.value.decode()) for offset, message in messages]
        found[name] = {"read": read, "committed": stored[0].offset, "last": last[0].offsets[0]}
    client.close()
    return found


def write(client: KafkaClient, topic: bytes, codec: int, count: int) -> None:
    pairs = [(f"v{i}".encode(), f"k{i}".encode()) for i in range(count)]
    answers = client.send_produce_request([ProduceRequest(topic, 0, create_message_set(pairs, codec))])
    assert [(answer.error, answer.offset) for answer in answers] == [(0, 0)], answers


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:])))
