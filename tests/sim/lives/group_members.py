"""A simulated consumer of a group, whatever protocol it speaks: what both kinds do, and what each must say of itself.

A member reads its assigned partitions from the committed offset on and commits now and then. It may be slow, stand still, die
without a word, or go on committing after it was told that it is no member. It reaches the broker through its `RequestLink` alone.
How one becomes a member is for `classic_member` and `consumer_member` to know.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from ottla.client.connection.versions import OFFSET_COMMIT, OFFSET_FETCH, SPOKEN
from ottla.client.consumer.committed_offsets import commit_request, fetch_offsets_request, read_commit, read_fetch_offsets
from ottla.client.types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from ottla.sim.network import RequestLink
from ottla.sim.world import World
from tests.sim.lives.group_ledger import GroupLedger, Seat

OFFSET_FETCH_VERSION = 7
REQUEST_TIMEOUT_MS = 2_000
RETRY_MS = 100
WORK_MS = 1_000
SLOWEST_GIVING_MS = 4_000
SLOW_GIVING, DEAF = 0.1, 0.3
"""How often a member gives partitions up slowly, and how often one goes on committing after its membership ended."""


class TopicView(Protocol):
    """What a member knows of the topics."""

    def counts(self) -> Mapping[str, int]:
        """Topic -> number of partitions."""
        ...

    def names(self) -> Mapping[bytes, str]:
        """Topic id -> topic."""
        ...


class SimMember(ABC):
    """What both kinds of members do: read, commit, stand still, die."""

    def __init__(self, world: World, link: RequestLink, ledger: GroupLedger, cluster: TopicView, group_id: str, name: str) -> None:
        self.world, self.link, self.ledger, self.cluster = world, link, ledger, cluster
        self.group_id = group_id
        self.name = name
        self.alive = True
        self.positions: dict[TopicPartition, int | None] = {}
        self.seat: Seat | None = None
        self._still_until_ms = 0
        self._tick()

    @property
    @abstractmethod
    def member_id(self) -> str:
        """The id the coordinator knows it by; empty while it has none."""

    @property
    @abstractmethod
    def instance_id(self) -> str | None:
        """Its group.instance.id if it is a static member."""

    @property
    @abstractmethod
    def generation(self) -> int | None:
        """The generation in the classic protocol; None in the consumer protocol."""

    @property
    @abstractmethod
    def epoch(self) -> int:
        """The generation or member epoch that it commits with; below 0 while it has none."""

    @property
    @abstractmethod
    def is_settled(self) -> bool:
        """Whether it has what it should have, as far as it knows."""

    @abstractmethod
    def topics(self) -> list[str]:
        """The topics it subscribes to, of those that exist."""

    @abstractmethod
    def leave(self) -> None:
        """Leave the group in order."""

    @abstractmethod
    def refused(self, code: int, seat: Seat) -> None:
        """Handle a refused commit."""

    def die(self) -> None:
        """Die at once."""
        self.alive = False
        self.ledger.give(self, list(self.positions))

    def stand_still(self, ms: int) -> None:
        """Do nothing for a while, as if suspended."""
        self._still_until_ms = self.world.now_ms + ms

    def soon(self, ms: int, call: Callable[[], None]) -> None:
        """Call something later, if it is still alive then; while it stands still, once it no longer does."""

        def due() -> None:
            if not self.alive:
                return
            wait_ms = self._still_until_ms - self.world.now_ms
            if wait_ms > 0:
                self.world.after(min(wait_ms, WORK_MS), due)
            else:
                call()

        self.world.after(ms, due)

    def ask(self, key: int, version: int, body: Any, answered: Callable[[Any], None], timeout_ms: int) -> None:
        """Send a request; `answered` gets the response, or None after the timeout, unless it is dead by then."""
        watch = self.ledger.sending(self) if key == OFFSET_COMMIT else None
        self.link.request(key, version, body, lambda response: self.soon(0, lambda: answered(response)), timeout_ms, watch)

    def take(self, partitions: Iterable[TopicPartition]) -> None:
        """Begin to read these, from their committed offsets."""
        new = [where for where in partitions if where not in self.positions]
        if new:
            self.positions.update(dict.fromkeys(new))
            self.ledger.take(self, new)
            self._fetch(new)

    def give(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop reading these."""
        for where in partitions:
            self.positions.pop(where, None)
            self.ledger.give(self, [where])

    def commit(self, then: Callable[[], None] = lambda: None) -> None:
        """Commit all known positions; `then` is called once there is an answer, or none in time."""
        if self.epoch < 0:
            then()
            return
        self.seat = Seat(self.group_id, self.member_id, self.epoch)
        self._commit(self.seat, 0, then)

    def _commit(self, seat: Seat, ahead: int, then: Callable[[], None]) -> None:
        offsets = {where: OffsetAndMetadata(offset + ahead) for where, offset in self.positions.items() if offset is not None}
        if not offsets:
            then()
            return
        member = ConsumerGroupMetadata(self.group_id, seat.generation, seat.member_id, self.instance_id)
        body = commit_request(member, offsets)

        def answered(response: Any) -> None:
            for _, code in read_commit(response) if response is not None else ():
                if code:
                    self.refused(code, seat)
            then()

        self.ask(OFFSET_COMMIT, SPOKEN[OFFSET_COMMIT][1], body, answered, REQUEST_TIMEOUT_MS)

    def commit_all_the_same(self) -> None:
        """Commit without having heard that the membership ended; the ledger checks that it is refused."""
        if self.seat is not None:
            if self.generation is None:
                self.ledger.told_gone(self.seat, lasting=True)
            if self.world.chance(DEAF):
                self._commit(self.seat, 1000, lambda: None)

    def _fetch(self, partitions: list[TopicPartition]) -> None:
        def answered(response: Any) -> None:
            if response is None or response.error_code:
                still = [where for where in partitions if where in self.positions and self.positions[where] is None]
                if still:
                    self.soon(RETRY_MS, lambda: self._fetch(still))
                return
            for where, code, found in read_fetch_offsets(response):
                if not code and where in self.positions and self.positions[where] is None:
                    self.positions[where] = max(0, found.offset)

        body = fetch_offsets_request(self.group_id, partitions, require_stable=False)
        self.ask(OFFSET_FETCH, OFFSET_FETCH_VERSION, body, answered, REQUEST_TIMEOUT_MS)

    def _tick(self) -> None:
        """Read a little, and commit."""

        def work() -> None:
            for where, offset in self.positions.items():
                if offset is not None:
                    self.positions[where] = offset + self.world.random.randrange(4)
            self.commit()
            self._tick()

        self.soon(WORK_MS + self.world.random.randrange(WORK_MS), work)
