"""An assignor of one's own serves other people's consumers of the consumer protocol (KIP-848)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka import Consumer

import ottla
from ottla.coord.consumer.assign import Partitions, Subscriber, TopicShape


class Last:
    """The member with the last id reads everything."""

    name = "last"

    def assign(self, subscribers: Mapping[str, Subscriber], topics: Mapping[bytes, TopicShape]) -> Mapping[str, Partitions]:
        member_id = max(subscribers)
        wanted = subscribers[member_id].topic_ids & topics.keys()
        return {member_id: {topic_id: frozenset(range(topics[topic_id].partitions)) for topic_id in wanted}}


@contextmanager
def consumer(address: str, assignor: str) -> Iterator[Consumer]:
    settings = {
        "bootstrap.servers": address,
        "group.id": "g",
        "group.protocol": "consumer",
        "group.remote.assignor": assignor,
        "auto.offset.reset": "earliest",
    }
    made = Consumer(settings)
    made.subscribe(["t"])
    try:
        yield made
    finally:
        made.close()


def shares(*consumers: Consumer) -> list[int]:
    for each in consumers:
        each.poll(0.2)
    return sorted(len(each.assignment()) for each in consumers)


def test_members_that_ask_for_it_are_served_by_it() -> None:
    with ottla.Broker(assignors=[Last(), "uniform"], num_partitions=6) as broker:
        with ottla.Producer(broker.address) as producer:
            producer.send("t", value=b"v")
        with consumer(broker.address, "last") as one, consumer(broker.address, "last") as other:
            end = time.monotonic() + 30
            while (found := shares(one, other)) != [0, 6] and time.monotonic() < end:
                pass
            assert found == [0, 6]
            for _ in range(10):
                assert shares(one, other) == [0, 6]
