"""Readers of committed records, and of committed offsets, while transactions go on. They tell the ledger what they see."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ottla.client.types import TopicPartition
from ottla.sim.network import RequestLink
from ottla.sim.world import World
from ottla.wire import errors as codes
from ottla.wire.api.fetch import FetchRequest, FetchResponse
from ottla.wire.api.offset_fetch import OffsetFetchRequest
from tests.sim.lives.transaction_clients import ASKED_AGAIN, GROUP, LEADER, Rest, Script, SimClient, SimRequest
from tests.sim.lives.transaction_copiers import (
    FETCH,
    FETCH_VERSION,
    OFFSET_FETCH,
    OFFSET_FETCH_VERSION,
    fetch_request,
    fetched,
    fetched_code,
    fetched_offsets,
)
from tests.sim.lives.transaction_ledger import SeenRecord, TransactionLedger, committed_records
from tests.sim.seeds import Violation

ANSWER_MS = 10_000


class SimReader(SimClient):
    """It reads a partition from its start on, and goes on where it is."""

    def __init__(
        self,
        world: World,
        connect: Callable[[], RequestLink],
        ledger: TransactionLedger,
        place: TopicPartition,
        has_read: Callable[[], None],
    ) -> None:
        """`has_read()` is called whenever it has got anything new."""
        self.ledger = ledger
        self._has_read = has_read
        self.place = place
        self.position = 0
        self.records: list[SeenRecord] = []
        super().__init__(world, f"the reader of {place.topic}-{place.partition}", connect)

    def script(self) -> Script:
        def watch(body: Any) -> Any:
            return self._told

        while True:
            (response,) = yield [SimRequest(LEADER, FETCH, FETCH_VERSION, fetch_request({self.place: self.position}), watch)]
            for _, data in fetched(response) if response is not None else ():
                self._take(data)
            yield Rest(self.world.random.choice((0, 100, 1_000)))

    def _told(self, response: FetchResponse | None) -> None:
        for place, data in fetched(response) if response is not None else ():
            if not data.error_code:
                self.ledger.stable(place, data.last_stable_offset)

    def _take(self, data: Any) -> None:
        if data.error_code and data.error_code not in ASKED_AGAIN:
            raise Violation(f"what is read stays: {self.name} at {self.position} got {codes.error_name(data.error_code)}")
        if not data.error_code:
            records, next_offset = committed_records(data)
            records = [record for record in records if record.offset >= self.position]
            self.ledger.seen(self.place, records)
            self.records += records
            if next_offset is not None and next_offset > self.position:
                self.position = next_offset
                self._has_read()


class SimLateReader(SimReader):
    """One of a topic that may be deleted and made anew, and that loses records: it goes on where there are some."""

    def _told(self, response: FetchResponse | None) -> None:
        """Nothing is stable there."""

    def _take(self, data: Any) -> None:
        if data.error_code in (codes.OFFSET_OUT_OF_RANGE, codes.UNKNOWN_TOPIC_OR_PARTITION):
            self.position = max(0, data.log_start_offset)
        else:
            super()._take(data)


class OffsetWatcher(SimClient):
    """It asks for a group's committed offsets, whether or not a transaction is about to change them."""

    def __init__(
        self,
        world: World,
        connect: Callable[[], RequestLink],
        ledger: TransactionLedger,
        group_id: str,
        places: Iterable[TopicPartition],
    ) -> None:
        self.ledger = ledger
        self.group_id = group_id
        self.places = tuple(places)
        self.offsets: dict[TopicPartition, int] = {}
        super().__init__(world, f"the watcher of {group_id}", connect)

    def script(self) -> Script:
        topics = [
            OffsetFetchRequest.OffsetFetchRequestTopic(name=each.topic, partition_indexes=[each.partition]) for each in self.places
        ]
        body = OffsetFetchRequest(group_id=self.group_id, topics=topics)

        def watch(body: Any) -> Any:
            return self._told

        while True:
            response = yield from self.insist(SimRequest(GROUP, OFFSET_FETCH, OFFSET_FETCH_VERSION, body, watch), fetched_code)
            self.offsets = fetched_offsets(response)
            yield Rest(self.world.random.choice((50, 500)))

    def _told(self, response: Any) -> None:
        if response is not None and not fetched_code(response):
            for place, offset in fetched_offsets(response).items():
                self.ledger.offset_seen(self.group_id, place, offset)


def read_all(world: World, link: RequestLink, place: TopicPartition) -> list[SeenRecord]:
    """All committed records of a partition, over a good connection to a broker that lives."""
    found: list[SeenRecord] = []
    position = 0
    while True:
        ((_, data),) = fetched(_asked(world, link, fetch_request({place: position})))
        records, next_offset = committed_records(data)
        found += [record for record in records if record.offset >= position]
        if next_offset is None:
            return found
        position = next_offset


def _asked(world: World, link: RequestLink, body: FetchRequest) -> Any:
    answers: list[Any] = []
    link.request(FETCH, FETCH_VERSION, body, answers.append, ANSWER_MS)
    world.run(ANSWER_MS, lambda: bool(answers))
    return answers[0]
