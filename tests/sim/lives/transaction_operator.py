"""A simulated operator: changes the level of transactions, and deletes records and topics into which transactions write.

Knows requests and what may be answered to them. Nothing is made good: the topic is made anew some time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from ottla.broker.partitions.partition import Partition
from ottla.client.types import TopicPartition
from ottla.cluster.features import SAFE_DOWNGRADE, TRANSACTION_VERSION, UPGRADE
from ottla.sim.host import Host
from ottla.sim.network import RequestLink
from ottla.sim.world import World
from ottla.wire import errors as codes
from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.api.delete_records import DeleteRecordsRequest
from ottla.wire.api.delete_topics import DeleteTopicsRequest
from ottla.wire.api.update_features import UpdateFeaturesRequest
from ottla.wire.schema import Message
from tests.sim.seeds import Violation

CREATE_TOPICS, DELETE_TOPICS, DELETE_RECORDS, UPDATE_FEATURES = 19, 20, 21, 57
TIMEOUT_MS = 5_000
LOOK_MS, MOST_LOOKS = 20, 100
ALL: Final = -1
EXPECTED: Final = frozenset(
    (
        codes.NONE,
        codes.INVALID_UPDATE_VERSION,
        codes.KAFKA_STORAGE_ERROR,
        codes.NOT_LEADER_OR_FOLLOWER,
        codes.OFFSET_OUT_OF_RANGE,
        codes.TOPIC_ALREADY_EXISTS,
        codes.UNKNOWN_TOPIC_OR_PARTITION,
    )
)


class SimOperator:
    """Who does what producers don't expect. `place` is the only partition of a topic from which things are deleted."""

    def __init__(
        self, world: World, host: Host, connect: Callable[[], RequestLink], place: TopicPartition, say: Callable[[str], None]
    ) -> None:
        self._world = world
        self._host = host
        self._connect = connect
        self._place = place
        self._say = say

    def change_level(self) -> None:
        """Let transactions have another level."""
        broker = self._host.broker
        if broker is None:
            return
        level = self._world.random.choice((0, 1, 2))
        kind = UPGRADE if level > broker.features.level(TRANSACTION_VERSION) else SAFE_DOWNGRADE
        self._say(f"transaction.version shall be {level}")
        update = UpdateFeaturesRequest.FeatureUpdateKey(
            feature=TRANSACTION_VERSION.name, max_version_level=level, upgrade_type=kind
        )
        body = UpdateFeaturesRequest(feature_updates=[update])
        self._ask(UPDATE_FEATURES, 2, body, lambda response: int(response.error_code))

    def make_topic(self) -> None:
        topic = CreateTopicsRequest.CreatableTopic(name=self._place.topic, num_partitions=1, replication_factor=1)
        body = CreateTopicsRequest(topics=[topic])
        self._ask(CREATE_TOPICS, 7, body, lambda response: int(response.topics[0].error_code))

    def delete_topic(self) -> None:
        """Delete the topic as soon as a transaction is open in it; it is made anew soon."""
        self._when_open(self._delete_topic)

    def delete_records(self) -> None:
        """Delete records as soon as a transaction is open among them."""
        self._when_open(self._delete_records)

    def _when_open(self, act: Callable[[Partition], None], looks: int = MOST_LOOKS) -> None:
        broker = self._host.broker
        held = None if broker is None else broker.partitions.get(*self._place)
        if held is not None and held.log.producers.open_transactions:
            act(held)
        elif looks:
            self._world.after(LOOK_MS, partial(self._when_open, act, looks - 1))

    def _delete_topic(self, held: Partition) -> None:
        self._say(f"{self._place.topic} is deleted")
        body = DeleteTopicsRequest(topic_names=[self._place.topic], timeout_ms=1_000)
        self._ask(DELETE_TOPICS, 5, body, lambda response: int(response.responses[0].error_code))
        self._world.after(self._world.random.choice((10, 500, 3_000)), self.make_topic)

    def _delete_records(self, held: Partition) -> None:
        random = self._world.random
        offset = random.choice((ALL, random.randrange(held.log.log_start_offset, held.log.log_end_offset + 1)))
        self._say(f"records of {held} below {offset} are deleted")
        part = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=self._place.partition, offset=offset)
        topic = DeleteRecordsRequest.DeleteRecordsTopic(name=self._place.topic, partitions=[part])
        body = DeleteRecordsRequest(topics=[topic], timeout_ms=1_000)
        self._ask(DELETE_RECORDS, 2, body, lambda response: int(response.topics[0].partitions[0].error_code))

    def _ask(self, key: int, version: int, body: Message, code_of: Callable[[Any], int]) -> None:
        self._connect().request(key, version, body, partial(_check, type(body).__name__, code_of), TIMEOUT_MS)


def _check(name: str, code_of: Callable[[Any], int], response: Any) -> None:
    code = codes.NONE if response is None else code_of(response)
    if code not in EXPECTED:
        raise Violation(f"no error without a cause: an operator got {codes.error_name(code)} for {name}")
