"""A static member that commits in the background, pauses partitions, and keeps its place in the group when it restarts."""

from __future__ import annotations

import sys

import ottla


class Worker:
    """One run of a member, which a supervisor starts again."""

    def __init__(self, address: str, topic: str) -> None:
        self.committed: dict[ottla.TopicPartition, int] = {}
        self.errors: list[ottla.KafkaError] = []
        self._consumer = ottla.Consumer(
            topic,
            bootstrap_servers=address,
            group_id="static",
            group_instance_id="worker-1",
            session_timeout_ms=10_000,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            value_deserializer="str",
            on_assigned=self._assigned,
        )

    def _assigned(self, partitions: list[ottla.TopicPartition]) -> None:
        assert partitions

    def _on_commit(self, offsets: dict[ottla.TopicPartition, ottla.OffsetAndMetadata], error: ottla.KafkaError | None) -> None:
        if error is not None:
            self.errors.append(error)
        else:
            self.committed.update({where: offset.offset for where, offset in offsets.items()})

    def run(self, count: int) -> list[str]:
        values: list[str] = []
        while len(values) < count:
            values += [record.value or "" for record in self._consumer.poll(timeout_ms=500, max_records=count - len(values))]
            self._consumer.commit_soon(on_commit=self._on_commit)
        busy = [where for where, lag in self._consumer.lag().items() if lag is not None and lag > 100]
        self._consumer.pause(*busy)
        self._consumer.resume(*self._consumer.paused())
        member: ottla.ConsumerGroupMetadata = self._consumer.group_metadata()
        assert member.group_instance_id == "worker-1"
        self._consumer.close(leave_group=False)
        return values


def main(address: str, topic: str = "static") -> list[str]:
    with ottla.Producer(address, value_serializer="str") as producer:
        for number in range(6):
            producer.send(topic, f"job {number}", partition=0)
    first, second = Worker(address, topic).run(3), Worker(address, topic).run(3)
    return first + second


if __name__ == "__main__":
    print(main(sys.argv[1]))
