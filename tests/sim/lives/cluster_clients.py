"""Simulated clients of a cluster: producers with acks=all that try again, and readers. They tell the ledger what they see."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ottla.client.types import TopicPartition
from ottla.records.batches.builder import build
from ottla.records.batches.columns import open_batches
from ottla.records.batches.header import batches
from ottla.sim.world import World
from ottla.wire import errors as codes
from ottla.wire.api.fetch import FetchRequest
from ottla.wire.api.init_producer_id import InitProducerIdRequest
from ottla.wire.api.produce import ProduceRequest
from tests.sim.lives.cluster_ledger import ClusterLedger
from tests.sim.lives.cluster_links import RoutedLink
from tests.sim.lives.given_ids import GivenIds
from tests.sim.lives.transaction_clients import ASKED_AGAIN, LEADER, ClientEnded, Rest, Script, SimClient, SimRequest
from tests.sim.seeds import Violation

PRODUCE, FETCH, INIT_PRODUCER_ID = 0, 1, 22
PRODUCE_VERSION, FETCH_VERSION, INIT_VERSION = 9, 11, 4
RETRY_MS = 100
MOST_RECORDS = 4
RESTS_MS = (0, 20, 200)


class SimAppender(SimClient):
    """It writes records that nobody has written before, one batch at a time, each until it is acknowledged.

    After each it rests for one of `rests_ms`, until it is to `hurry`.
    """

    def __init__(
        self,
        world: World,
        name: str,
        connect: Callable[[], RoutedLink],
        ledger: ClusterLedger,
        places: Sequence[TopicPartition],
        ids: GivenIds,
        *,
        most: int,
        is_idempotent: bool,
        rests_ms: Sequence[int] = RESTS_MS,
        gives_up: Callable[[], bool] = lambda: False,
    ) -> None:
        self._gives_up = gives_up
        self._rests_ms = rests_ms
        self._ledger = ledger
        self._places = places
        self._ids = ids
        self._given = 0
        self._most = most
        self._is_idempotent = is_idempotent
        self._counts = defaultdict[TopicPartition, int](int)
        self._producer = (-1, -1)
        super().__init__(world, name, connect)

    def hurry(self) -> None:
        """Write what is left without long rests."""
        self._rests_ms = RESTS_MS

    def script(self) -> Script:
        chance = self.world.random
        if self._is_idempotent:
            yield from self._initialise()
        for _ in range(self._most):
            yield from self._write(chance.choice(self._places), chance.randrange(1, MOST_RECORDS + 1))
            yield Rest(chance.choice(self._rests_ms))

    def _initialise(self) -> Script:
        body = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1)
        while True:
            (response,) = yield [SimRequest(LEADER, INIT_PRODUCER_ID, INIT_VERSION, body, lambda body: self._was_given)]
            if response is not None and not response.error_code:
                self._producer = response.producer_id, response.producer_epoch
                return
            yield Rest(RETRY_MS)

    def _was_given(self, response: Any) -> None:
        if response is not None and not response.error_code:
            self._given += 1
            self._ids.give(response.producer_id, f"{self.name}, the {self._given}. time")

    def _write(self, place: TopicPartition, count: int) -> Script:
        number = self._counts[place]
        self._counts[place] += count
        values = [f"{self.name}/{place.partition}/{number + at}" for at in range(count)]
        self._ledger.sends(place, values, self.name, number, is_idempotent=self._is_idempotent)
        producer_id, producer_epoch = self._producer
        batch = build(
            None,
            [value.encode() for value in values],
            self.world.clock.now().wall_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=number if self._is_idempotent else -1,
        )
        ask = self._produce(place, batch, values)
        while True:
            (response,) = yield [ask]
            code = codes.REQUEST_TIMED_OUT if response is None else _produced(response).error_code
            if code in (codes.NONE, codes.DUPLICATE_SEQUENCE_NUMBER):
                return
            if code in ASKED_AGAIN and self._gives_up():
                raise ClientEnded(f"there is no {place.topic} any more")
            if code not in ASKED_AGAIN:
                raise Violation(f"once and in order: {self.name} got {codes.error_name(code)} for {values} in {place}")
            yield Rest(RETRY_MS)

    def _produce(self, place: TopicPartition, batch: bytearray, values: Sequence[str]) -> SimRequest:
        def watch(body: Any) -> Any:
            return partial(self._answered, place, values)

        data = ProduceRequest.PartitionProduceData(index=place.partition, records=memoryview(batch))
        topic = ProduceRequest.TopicProduceData(name=place.topic, partition_data=[data])
        body = ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[topic])
        return SimRequest(LEADER, PRODUCE, PRODUCE_VERSION, body, watch)

    def _answered(self, place: TopicPartition, values: Sequence[str], response: Any) -> None:
        """A broker has answered, whether or not the answer arrives."""
        if response is not None and not _produced(response).error_code:
            self._ledger.acknowledges(place, _produced(response).base_offset, values)


class SimFollowingReader(SimClient):
    """It reads a partition from its start on, below the high watermark, and goes on where it is.

    Records below `deleted()` may be gone.
    """

    def __init__(
        self, world: World, connect: Callable[[], RoutedLink], place: TopicPartition, deleted: Callable[[], int] = lambda: 0
    ) -> None:
        self.place = place
        self._deleted = deleted
        self.position = 0
        self.read: dict[int, str] = {}
        super().__init__(world, f"the reader of {place.topic}-{place.partition}", connect)

    def script(self) -> Script:
        while True:
            partition = FetchRequest.FetchPartition(
                partition=self.place.partition, fetch_offset=self.position, partition_max_bytes=1 << 16
            )
            topic = FetchRequest.FetchTopic(topic=self.place.topic, partitions=[partition])
            body = FetchRequest(replica_id=-1, max_wait_ms=200, min_bytes=1, max_bytes=1 << 20, topics=[topic])
            (response,) = yield [SimRequest(LEADER, FETCH, FETCH_VERSION, body)]
            if response is not None:
                self._take(response.responses[0].partitions[0])
            yield Rest(self.world.random.choice((0, 100, 1_000)))

    def _take(self, data: Any) -> None:
        if data.error_code == codes.OFFSET_OUT_OF_RANGE and self.position < self._deleted():
            self.position = self._deleted()
        elif data.error_code:
            if data.error_code not in ASKED_AGAIN:
                raise Violation(f"what is read stays: {self.name} at {self.position} got {codes.error_name(data.error_code)}")
        else:
            self._keep(data)

    def _keep(self, data: Any) -> None:
        view = memoryview(data.records or b"")
        for position, header in batches(view):
            if not header.is_control:
                for record in open_batches(view[position : position + header.size]).records():
                    if record.offset >= self.position:
                        self.read[record.offset] = bytes(record.value or b"").decode()
            self.position = max(self.position, header.next_offset)


def _produced(response: Any) -> Any:
    return response.responses[0].partition_responses[0]
