"""Members of share groups that tests play against a `Machine`: ShareFetch and ShareAcknowledge with the epochs of their session."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ottla.broker.serving.purgatory import DelayedReply
from ottla.coord.share_state.inputs import InitializeState, StateResult
from ottla.records.batches.columns import open_batches
from ottla.wire.api.share_acknowledge import ShareAcknowledgeRequest
from ottla.wire.api.share_fetch import ShareFetchRequest, ShareFetchResponse
from tests.support.machine import Machine

SHARE_FETCH, SHARE_ACKNOWLEDGE = 78, 79
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
RECORD_LIMIT = 1
VERSION = 2

Batch = ShareFetchRequest.AcknowledgementBatch
Acked = tuple[str, int, Sequence[tuple[int, int, Sequence[int]]]]
"""(topic, partition, ranges of (first offset, last offset, types))"""


class Got(NamedTuple):
    """What a response has of one partition."""

    error_code: int
    acquired: list[tuple[int, int, int]]
    """(first offset, last offset, delivery count)"""
    values: list[bytes]
    """The values of all records in the response, acquired or not."""
    acknowledge_error_code: int


class PlayedMember:
    """A member with its share session. Partitions are (topic, index)."""

    def __init__(self, machine: Machine, member_id: str = "m1", group_id: str = "g", *places: tuple[str, int]) -> None:
        self.machine = machine
        self.member_id = member_id
        self.group_id = group_id
        self.places = list(places or [("t", 0)])
        self.epoch = 0

    def topic_id(self, topic: str) -> bytes:
        return self.machine.broker.image.topics[topic].topic_id

    def fetch_request(self, acks: Iterable[Acked] = (), epoch: int | None = None, **fields: Any) -> ShareFetchRequest:
        """The next request of the session; the first one names all partitions."""
        epoch = self.epoch if epoch is None else epoch
        topics: dict[bytes, ShareFetchRequest.FetchTopic] = {}
        places: dict[tuple[str, int], Sequence[tuple[int, int, Sequence[int]]]] = {}
        places.update(dict.fromkeys(self.places if epoch == 0 else (), ()))
        places.update({(topic, index): ranges for topic, index, ranges in acks})
        for (topic, index), ranges in places.items():
            topic_id = self.topic_id(topic)
            part = ShareFetchRequest.FetchPartition(partition_index=index, acknowledgement_batches=batches(ranges))
            topics.setdefault(topic_id, ShareFetchRequest.FetchTopic(topic_id=topic_id, partitions=[])).partitions.append(part)
        given: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "max_records": 500, "batch_size": 500}
        return ShareFetchRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            share_session_epoch=epoch,
            topics=list(topics.values()),
            **(given | fields),
        )

    def begin(self, acks: Iterable[Acked] = (), **fields: Any) -> Any:
        """Send a fetch; if it waits, the `DelayedReply`."""
        answer = self.machine.begin(SHARE_FETCH, VERSION, self.fetch_request(acks, **fields))
        self.epoch += 1
        return answer

    def end(self, pending: DelayedReply) -> dict[tuple[str, int], Got]:
        """What a fetch that waited has got."""
        return self.got(self.machine.finish(SHARE_FETCH, VERSION, pending))

    def fetch(self, acks: Iterable[Acked] = (), **fields: Any) -> dict[tuple[str, int], Got]:
        """Fetch and return what was got by partition; the whole must succeed."""
        answer = self.machine.ask(SHARE_FETCH, VERSION, self.fetch_request(acks, **fields))
        self.epoch += 1
        return self.got(answer)

    def got(self, answer: ShareFetchResponse) -> dict[tuple[str, int], Got]:
        assert answer.error_code == 0, answer
        names = {self.machine.broker.image.topics[name].topic_id: name for name in self.machine.broker.image.topics}
        return {
            (names.get(bytes(topic.topic_id), "?"), part.partition_index): Got(
                part.error_code,
                [(each.first_offset, each.last_offset, each.delivery_count) for each in part.acquired_records],
                values(part.records),
                part.acknowledge_error_code,
            )
            for topic in answer.responses
            for part in topic.partitions
        }

    def acknowledge_request(self, acks: Iterable[Acked], epoch: int | None = None, **fields: Any) -> ShareAcknowledgeRequest:
        topics: dict[bytes, ShareAcknowledgeRequest.AcknowledgeTopic] = {}
        for topic, index, ranges in acks:
            topic_id = self.topic_id(topic)
            part = ShareAcknowledgeRequest.AcknowledgePartition(partition_index=index, acknowledgement_batches=batches(ranges))
            made = topics.setdefault(topic_id, ShareAcknowledgeRequest.AcknowledgeTopic(topic_id=topic_id, partitions=[]))
            made.partitions.append(part)
        return ShareAcknowledgeRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            share_session_epoch=self.epoch if epoch is None else epoch,
            topics=list(topics.values()),
            **fields,
        )

    def begin_acknowledge(self, *acks: Acked, **fields: Any) -> Any:
        answer = self.machine.begin(SHARE_ACKNOWLEDGE, VERSION, self.acknowledge_request(acks, **fields))
        self.epoch += 1
        return answer

    def acknowledge(self, *acks: Acked, **fields: Any) -> dict[tuple[str, int], int]:
        """Acknowledge, and return the error codes by partition; the whole must succeed."""
        answer = self.machine.ask(SHARE_ACKNOWLEDGE, VERSION, self.acknowledge_request(acks, **fields))
        self.epoch += 1
        assert answer.error_code == 0, answer
        names = {self.machine.broker.image.topics[name].topic_id: name for name in self.machine.broker.image.topics}
        return {
            (names.get(bytes(topic.topic_id), "?"), part.partition_index): part.error_code
            for topic in answer.responses
            for part in topic.partitions
        }


def initialize(machine: Machine, topic: str = "t", group_id: str = "g", **configs: str) -> None:
    """Have the states of a topic's partitions begun, as the group's coordinator does, and let the group read from the start."""
    texts = {"share.auto.offset.reset": "earliest"} | {name.replace("_", "."): value for name, value in configs.items()}
    machine.broker.image.group_configs[group_id] = texts
    known, results = machine.broker.image.topics[topic], list[Sequence[StateResult]]()
    places = [InitializeState(known.topic_id, index, 0, -1) for index in range(len(known.partitions))]
    machine.broker.share_states.persister.initialize(group_id, places, results.append)
    for _ in range(100):
        machine.pass_time(10)
        if results:
            break
    assert {result.error_code for result in results[0]} == {0}


def batches(ranges: Iterable[tuple[int, int, Sequence[int]]]) -> list[Batch]:
    return [Batch(first_offset=first, last_offset=last, acknowledge_types=list(types)) for first, last, types in ranges]


def values(records: Any) -> list[bytes]:
    if not records:
        return []
    return [record.value or b"" for record in open_batches(memoryview(bytes(records))).records()]
