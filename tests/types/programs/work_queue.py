"""Workers on threads of their own take jobs from a queue, and acknowledge each: what fails is tried again, and then given up."""

from __future__ import annotations

import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import ottla

Outcome = Literal["accept", "release", "reject"]


def work(record: ottla.ConsumerRecord) -> Outcome:
    """Do a job: one kind fails at first, another always."""
    if record.value == b"broken":
        return "reject"
    if record.value == b"shaky" and record.delivery_count == 1:
        return "release"
    return "accept"


def main(address: str, topic: str = "jobs", group: str = "workers") -> Counter[Outcome]:
    with ottla.Admin(address) as admin, ottla.Producer(address) as producer:
        admin.create_topic(topic, 1)
        admin.alter_configs(ottla.ConfigResource.group(group), set={"share.auto.offset.reset": "earliest"})
        for value in (b"plain", b"shaky", b"broken"):
            producer.send(topic, value)
    done: Counter[Outcome] = Counter()
    failures: list[ottla.KafkaError] = []

    def on_acknowledged(where: ottla.TopicPartition, offsets: list[int], error: ottla.KafkaError | None) -> None:
        if error is not None:
            failures.append(error)

    with (
        ThreadPoolExecutor(4) as pool,
        ottla.ShareConsumer(
            topic,
            bootstrap_servers=address,
            group_id=group,
            share_acknowledgement_mode="explicit",
            on_acknowledged=on_acknowledged,
        ) as consumer,
    ):
        while done.total() < 4:
            records = consumer.poll(1_000)
            for record, outcome in zip(records, pool.map(work, records), strict=True):
                consumer.acknowledge(record, outcome)
                done[outcome] += 1
        consumer.commit()
    assert not failures
    return done


if __name__ == "__main__":
    print(main(sys.argv[1]))
