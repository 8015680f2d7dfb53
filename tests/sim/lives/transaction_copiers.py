"""Simulated programs that copy each committed record of some partitions once: on their own, or in a group (KIP-447)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ottla.client.types import TopicPartition
from ottla.sim.world import World
from ottla.wire import errors as codes
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from ottla.wire.api.fetch import FetchRequest
from ottla.wire.api.offset_fetch import OffsetFetchRequest
from tests.sim.lives.transaction_clients import GROUP, LEADER, Rest, Script, SimRequest
from tests.sim.lives.transaction_ledger import SeenRecord, TransactionLedger, committed_records, source_name, valued
from tests.sim.lives.transaction_producer import ABORTS, MOST_RECORDS, ProducerWish, SimProducerProcess

FETCH, OFFSET_FETCH, HEARTBEAT = 1, 9, 68
FETCH_VERSION, OFFSET_FETCH_VERSION, HEARTBEAT_VERSION = 11, 7, 1
READ_COMMITTED = 1
REBALANCE_MS = 5_000
BEAT_MS = 500


class CopyTask(NamedTuple):
    """What a copier reads, under which group, and where it writes."""

    group_id: str
    sources: tuple[TopicPartition, ...]
    targets: tuple[TopicPartition, ...]


class SimCopier(SimProducerProcess):
    """One that writes each committed record of its sources once, and the offsets with it."""

    def __init__(self, world: World, connect: Any, ledger: TransactionLedger, wish: ProducerWish, task: CopyTask) -> None:
        self._task = task
        super().__init__(world, connect, ledger, wish)

    def script(self) -> Script:
        yield from self.initialise()
        chance = self.world.random
        positions: dict[TopicPartition, int] = {}
        while True:
            yield from self.take_up(positions)
            records, ends = yield from self._read(positions)
            if not records:
                positions.update(ends)
                yield Rest(300)
                continue
            transaction = self.begin()
            parts: dict[TopicPartition, list[str]] = {}
            for source, record in records:
                parts.setdefault(chance.choice(self._task.targets), []).append(valued(transaction, source_name(source, record)))
            is_whole = yield from self.write(transaction, parts)
            yield from self.dawdle()
            if is_whole:
                is_whole = yield from self.commit_offsets(transaction, self._task.group_id, ends)
            yield from self.dawdle()
            if (yield from self.end(transaction, commits=is_whole and not chance.random() < ABORTS)):
                positions.update(ends)

    def take_up(self, positions: dict[TopicPartition, int]) -> Script:
        """Let `positions` hold the partitions to read and where to go on."""
        if not positions:
            positions.update((yield from self.left_off(self._task.sources)))

    def left_off(self, places: Iterable[TopicPartition]) -> Script:
        """Where its group has left off, once no transaction is about to say otherwise (KIP-447)."""
        topics = [
            OffsetFetchRequest.OffsetFetchRequestTopic(name=each.topic, partition_indexes=[each.partition]) for each in places
        ]
        body = OffsetFetchRequest(group_id=self._task.group_id, topics=topics, require_stable=True)
        response = yield from self.insist(SimRequest(GROUP, OFFSET_FETCH, OFFSET_FETCH_VERSION, body), fetched_code)
        return {place: max(0, offset) for place, offset in fetched_offsets(response).items()}

    def _read(self, positions: Mapping[TopicPartition, int]) -> Script:
        """Some of the next records with their partitions, and the offsets behind them."""
        found: list[tuple[TopicPartition, SeenRecord]] = []
        ends: dict[TopicPartition, int] = {}
        if not positions:
            return found, ends
        (response,) = yield [SimRequest(LEADER, FETCH, FETCH_VERSION, fetch_request(positions))]
        if response is None:
            return found, ends
        for place, data in fetched(response):
            records, next_offset = committed_records(data)
            records = [record for record in records if record.offset >= positions[place]]
            some = records[: self.world.random.randrange(1, MOST_RECORDS + 1)]
            found += [(place, record) for record in some]
            if next_offset is not None:
                ends[place] = some[-1].offset + 1 if len(some) < len(records) else next_offset
        return found, ends


class SimMemberCopier(SimCopier):
    """One that shares its sources with others of its group, whose coordinator says who reads what (KIP-848).

    It changes what it reads between transactions only, and commits offsets as the member that it is.
    """

    def __init__(
        self, world: World, connect: Any, ledger: TransactionLedger, wish: ProducerWish, task: CopyTask, topic_id: bytes
    ) -> None:
        self._topic_id = topic_id
        self._member_id = f"{world.random.getrandbits(64):016x}"
        self._epoch = 0
        self._assigned: frozenset[TopicPartition] = frozenset()
        self._beat_at_ms = 0
        super().__init__(world, connect, ledger, wish, task)

    def seat(self) -> dict[str, Any]:
        return {"generation_id_or_member_epoch": self._epoch, "member_id": self._member_id}

    def take_up(self, positions: dict[TopicPartition, int]) -> Script:
        """Hear from the coordinator now and then; give up at once what is no more to be read, and say so."""
        if self.world.now_ms < self._beat_at_ms:
            return
        self._beat_at_ms = self.world.now_ms + BEAT_MS
        for _ in range(2):
            (response,) = yield [SimRequest(GROUP, HEARTBEAT, HEARTBEAT_VERSION, self._heartbeat(positions))]
            if response is None or not self._heard(response):
                break
            for place in [place for place in positions if place not in self._assigned]:
                del positions[place]
            new = [place for place in self._assigned if place not in positions]
            if new:
                positions.update((yield from self.left_off(new)))
        if not self._epoch:
            positions.clear()

    def _heard(self, response: ConsumerGroupHeartbeatResponse) -> bool:
        """Whether there is an assignment. One that is no member any more has to join again."""
        if response.error_code in (codes.UNKNOWN_MEMBER_ID, codes.FENCED_MEMBER_EPOCH, codes.GROUP_ID_NOT_FOUND):
            self._epoch, self._assigned = 0, frozenset()
        if response.error_code:
            return False
        self._epoch = response.member_epoch
        if response.assignment is None:
            return False
        topic = self._task.sources[0].topic
        self._assigned = frozenset(
            TopicPartition(topic, index) for part in response.assignment.topic_partitions for index in part.partitions
        )
        return True

    def _heartbeat(self, owned: Iterable[TopicPartition]) -> ConsumerGroupHeartbeatRequest:
        """All that a coordinator can want to know, each time: it may have forgotten it."""
        indexes = sorted(place.partition for place in owned) if self._epoch else []
        topic = ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=self._topic_id, partitions=indexes)
        return ConsumerGroupHeartbeatRequest(
            group_id=self._task.group_id,
            member_id=self._member_id,
            member_epoch=self._epoch,
            rebalance_timeout_ms=REBALANCE_MS,
            subscribed_topic_names=[self._task.sources[0].topic],
            topic_partitions=[topic] if indexes else [],
        )


def fetch_request(positions: Mapping[TopicPartition, int]) -> FetchRequest:
    """Ask for committed records from these offsets on."""
    topics = [
        FetchRequest.FetchTopic(
            topic=place.topic,
            partitions=[FetchRequest.FetchPartition(partition=place.partition, fetch_offset=offset, partition_max_bytes=1 << 16)],
        )
        for place, offset in positions.items()
    ]
    return FetchRequest(max_wait_ms=200, min_bytes=1, isolation_level=READ_COMMITTED, topics=topics)


def fetched(response: Any) -> list[tuple[TopicPartition, Any]]:
    """The partitions of a FetchResponse."""
    return [(TopicPartition(topic.topic, data.partition_index), data) for topic in response.responses for data in topic.partitions]


def fetched_code(response: Any) -> int:
    """The first error of an OffsetFetchResponse."""
    found = [response.error_code, *(part.error_code for topic in response.topics for part in topic.partitions)]
    return next((code for code in found if code), codes.NONE)


def fetched_offsets(response: Any) -> dict[TopicPartition, int]:
    """The offsets in an OffsetFetchResponse."""
    return {
        TopicPartition(topic.name, part.partition_index): part.committed_offset
        for topic in response.topics
        for part in topic.partitions
        if not part.error_code
    }
