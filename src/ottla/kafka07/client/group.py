"""A member of a Kafka 0.7 group as a state machine: each member takes its own share in ZooKeeper and releases the rest.

The owner of a partition is the member that created its owner entry. ZooKeeper removes the entry at the end of the session. A member
therefore regards itself as owner only while its session certainly lasts (`lapsed`). Every write is conditional on the member's own
registration, so a request of one session has no effect in the next. Reads can be stale; every claim is a write. The machine never
blocks.

Each consumer of a group computes the assignment from the same input, with the same result.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from ottla.client.types import Node, TopicPartition
from ottla.kafka07.client import directory
from ottla.kafka07.client.directory import Directory07, number_in
from ottla.kafka07.client.partitions import BrokerPartition
from ottla.ports import (
    NEW,
    Change,
    Condition,
    Done,
    DuplicateEntry,
    NoEntry,
    RegistryAway,
    SessionEvent,
    SharedRegistry,
    Steps,
    VersionConflict,
)

GiveUp = Callable[[list[TopicPartition], Done], None]

STREAM: Final = 0
"""The number of the only stream with which this consumer reads each topic."""

WHITE, BLACK = "*", "!"


class Subscription(NamedTuple):
    """A consumer's subscription: stream counts by topic, or `streams` for each topic selected by `pattern`, a Java pattern.

    `is_white`: the pattern selects topics whose whole name matches. Otherwise it selects topics whose name does not match.
    """

    topics: Mapping[str, int]
    pattern: str | None = None
    streams: int = 1
    is_white: bool = True

    def text(self) -> str:
        """Return the subscription's text in ZooKeeper, such as { "t": 1 } or *1*pattern."""
        if self.pattern is not None:
            mark = WHITE if self.is_white else BLACK
            return f"{mark}{self.streams}{mark}{self.pattern}"
        return "{ " + ",".join(f"{json.dumps(topic)}: {streams}" for topic, streams in self.topics.items()) + " }"

    @classmethod
    def parse(cls, text: str) -> Subscription | None:
        """Parse a subscription's text; return None for a text that no Kafka 0.7 consumer writes."""
        if text[:1] in (WHITE, BLACK):
            streams, mark, pattern = text[1:].partition(text[0])
            return cls({}, pattern, int(streams), text[0] == WHITE) if mark and streams.isdecimal() else None
        try:
            topics = json.loads(text)
        except ValueError:
            return None
        is_sound = isinstance(topics, dict) and all(type(streams) is int and streams >= 0 for streams in topics.values())
        return cls(topics) if is_sound else None

    def streams_of(self, topic: str) -> int:
        """Return the number of this consumer's streams of a topic."""
        if self.pattern is None:
            return self.topics.get(topic, 0)
        return self.streams if self._matches(topic) == self.is_white else 0

    def _matches(self, topic: str) -> bool:
        # 0.7 accepts a list of patterns separated by commas, in quotes.
        wanted = (self.pattern or "").strip().replace(",", "|").replace(" ", "").strip("\"'")
        try:
            return re.fullmatch(wanted, topic) is not None
        except re.error:
            return False

    def of(self, known: Collection[str]) -> list[str]:
        """Return the subscribed topics; `known` are all existing topics."""
        if self.pattern is None:
            return sorted(topic for topic, streams in self.topics.items() if streams)
        return sorted(topic for topic in known if self.streams_of(topic))


def _threads(consumers: Mapping[str, Subscription], topic: str) -> list[str]:
    """Return the names of all consumers' streams of a topic, in the order in which partitions are assigned."""
    return sorted(f"{consumer}-{number}" for consumer, reads in consumers.items() for number in range(reads.streams_of(topic)))


def share(readers: Sequence[str], partitions: Collection[str], own: str) -> list[str]:
    """Return the partitions for the stream `own` among the streams `readers`: adjacent partitions, sorted as text ("0-10" before
    "0-2").

    If the division leaves a remainder, the first streams get one partition more.
    """
    if own not in readers:
        return []
    dealt = sorted(partitions)
    each, more = divmod(len(dealt), len(readers))
    index = readers.index(own)
    start = index * each + min(index, more)
    return dealt[start : start + each + (index < more)]


class Round07(NamedTuple):
    """The result of a rebalance: partitions `taken` by this member, and partitions `awaited` from their present owners.

    `brokers` are the registered brokers, `counts` the numbers of partitions by topic and broker id.
    """

    taken: list[TopicPartition]
    awaited: list[TopicPartition]
    brokers: list[Node]
    counts: Mapping[str, Mapping[int, int]]


class Group07:
    """One member of a group. `new_id` returns a new consumer id; `changed()` is called whenever another `rebalance` is needed.

    `give_up(partitions, done)` is called before partitions are released: it stops reading them, commits, and then calls `done`. The
    end of a session ends all ownership.
    """

    def __init__(
        self,
        registry: SharedRegistry,
        group_id: str,
        *,
        new_id: Callable[[], str],
        give_up: GiveUp,
        changed: Callable[[], None],
    ) -> None:
        self.owned: set[TopicPartition] = set()
        self._registry = registry
        self._group_id = group_id
        self._new_id = new_id
        self._give_up = give_up
        self._changed = changed
        self._directory = Directory07(registry, self._on_change)
        self._subscription: Subscription | None = None
        self._session_id: str | None = None
        """The member's id in this session. `_id` is the same id once the registration is confirmed, and None before."""
        self._id: str | None = None
        self._doubtful: set[TopicPartition] = set()
        """Partitions with an owner entry of this member that it does not own: released, or claimed without an answer."""
        registry.on_session(self._on_session_event)

    def subscribe(self, subscription: Subscription) -> None:
        """Change the subscription from the next `rebalance` on."""
        self._subscription = subscription

    def _on_change(self, path: str) -> None:
        self._changed()

    def _on_session_event(self, event: SessionEvent) -> None:
        if event in (SessionEvent.ENDED, SessionEvent.BEGUN):
            self._begin_anew()
        self._changed()

    def _begin_anew(self) -> None:
        self.owned.clear()
        self._doubtful.clear()
        self._session_id = self._id = None

    def drop_if_expired(self, now_ms: int) -> list[TopicPartition]:
        """Drop and return all owned partitions if ZooKeeper may have ended the session. Otherwise return an empty list."""
        if now_ms < self._registry.session_end_ms():
            return []
        gone = sorted(self.owned)
        if gone:
            self._doubtful |= self.owned
            self.owned.clear()
            self._changed()
        return gone

    # --- one rebalance

    def rebalance(self) -> Steps[Round07]:
        """Release partitions outside of this member's share, and claim the unowned partitions in the share.

        Raises `RegistryAway` if the session is interrupted: call again when it is back or a new one has begun. Released
        partitions stay released.
        """
        own = yield from self._register()
        subscription = self._subscription
        assert subscription is not None, "it has subscribed"
        consumers = yield from self._consumers()
        consumers[own] = subscription
        brokers = yield from self._directory.brokers()
        known = (yield from self._directory.names()) if subscription.pattern is not None else []
        topics = subscription.of(known)
        counts = yield from self._directory.counts(topics)
        wanted = {where for topic in topics for where in self._share(consumers, topic, counts[topic], own)}
        yield from self._stop(self.owned - wanted, own)
        yield from self._release(self._doubtful - wanted, own)
        coming = wanted - self.owned
        taken = yield from self._claim(coming, own)
        return Round07(sorted(taken), sorted(coming - taken), brokers, counts)

    def _share(
        self, consumers: Mapping[str, Subscription], topic: str, counts: Mapping[int, int], own: str
    ) -> Iterable[TopicPartition]:
        named = {str(partition): partition for partition in directory.partitions(counts)}
        for name in share(_threads(consumers, topic), named, f"{own}-{STREAM}"):
            yield TopicPartition(topic, named[name].number)

    def _register(self) -> Steps[str]:
        """Register the member if necessary, and return its id. The id is new in each session, so older entries never match it."""
        if self._id is None:
            own = self._session_id = self._session_id or self._new_id()
            text = self._subscription.text() if self._subscription is not None else ""
            with suppress(DuplicateEntry):  # an attempt without an answer has already created the entry
                yield from self._registry.commit([Change(self._path(own), text.encode(), NEW, ephemeral=True)])
            if self._session_id != own:
                raise RegistryAway(self._path(own), "the session has ended meanwhile")
            self._id = own
        return self._id

    def _path(self, own: str) -> str:
        return f"{directory.ids(self._group_id)}/{own}"

    def _consumers(self) -> Steps[dict[str, Subscription]]:
        ids = directory.ids(self._group_id)
        (names,) = yield from self._registry.list([ids], changed=self._on_change)
        entries = yield from self._registry.read([f"{ids}/{name}" for name in names or ()])
        found = {}
        for name, entry in zip(names or (), entries, strict=True):
            read = Subscription.parse(entry.value.decode(errors="replace")) if entry is not None else None
            if read is not None:
                found[name] = read
        return found

    def _stop(self, going: set[TopicPartition], own: str) -> Steps[None]:
        """Stop reading the partitions `going`, before the removal of their entries lets another member own them."""
        if going:
            failure = yield partial(self._give_up, sorted(going))
            if failure is not None:
                raise failure
            self._check(own)
            self.owned -= going
            self._doubtful |= going

    def _release(self, going: set[TopicPartition], own: str) -> Steps[None]:
        """Remove the owner entries of the partitions `going`, unless they are another member's."""
        order = sorted(going)
        entries = yield from self._registry.read([self._owner(where) for where in order])
        mark = self._mark(own)
        found = [
            Change(self._owner(where), None, entry.version)
            for where, entry in zip(order, entries, strict=True)
            if entry is not None and entry.value == mark
        ]
        yield from self._commit_as_member(found, own)
        self._doubtful -= going

    def _claim(self, coming: set[TopicPartition], own: str) -> Steps[set[TopicPartition]]:
        """Create the owner entries of the partitions `coming` that have none. Return the partitions that this member then owns.

        An entry of this session is written again, to confirm it.
        """
        order = sorted(coming)
        entries = yield from self._registry.read([self._owner(where) for where in order])
        mark = self._mark(own)
        changes: list[Change] = []
        taken: set[TopicPartition] = set()
        for where, entry in zip(order, entries, strict=True):
            if entry is None or entry.value == mark:
                version = NEW if entry is None else entry.version
                changes.append(Change(self._owner(where), mark, version, ephemeral=entry is None))
                taken.add(where)
        self._doubtful |= taken
        try:
            yield from self._commit_as_member(changes, own)
        except (DuplicateEntry, VersionConflict, NoEntry):
            return set()  # other members were quicker
        self._check(own)
        self._doubtful -= taken
        self.owned |= taken
        return taken

    def _commit_as_member(self, changes: list[Change], own: str) -> Steps[None]:
        """Commit changes to ZooKeeper, unless this member's registration `own` no longer exists.

        Without this condition, a session could commit changes for the member of an earlier session.
        """
        if changes:
            yield from self._registry.commit([Condition(self._path(own), 0), *changes])

    def _check(self, own: str) -> None:
        if self._id != own:
            raise RegistryAway(self._path(own), "the session has ended meanwhile")

    def _mark(self, own: str) -> bytes:
        return f"{own}-{STREAM}".encode()

    def _owner(self, where: TopicPartition) -> str:
        return f"{directory.owners(self._group_id, where.topic)}/{BrokerPartition.of(where.partition)}"

    def _offset(self, where: TopicPartition) -> str:
        return f"{directory.offsets(self._group_id, where.topic)}/{BrokerPartition.of(where.partition)}"

    # --- leaving, commits

    def leave(self) -> Steps[None]:
        """Release all partitions and remove the registration. The caller commits before this call."""
        own, gone = self._id, self.owned | self._doubtful
        self.owned.clear()
        if own is not None:
            yield from self._release(gone, own)
            yield from self._registry.commit([Change(self._path(own), None)])
        self._begin_anew()

    def commit(self, places: Mapping[TopicPartition, int], *, as_member: bool) -> Steps[bool]:
        """Store the offsets `places` for the group. With `as_member`, return False if this member does not own all the partitions.

        Raises `RegistryAway` if it is uncertain whether the offsets are stored.
        """
        own = self._id
        if as_member and (own is None or not self.owned.issuperset(places)):
            return False
        changes: list[Change | Condition] = [Change(self._offset(where), str(place).encode()) for where, place in places.items()]
        if as_member and own is not None:
            changes.insert(0, Condition(self._path(own), 0))
        try:
            yield from self._registry.commit(changes)
        except (NoEntry, VersionConflict):
            return False
        return True

    def fetch_committed(self, partitions: Iterable[TopicPartition]) -> Steps[dict[TopicPartition, int]]:
        """Return the group's stored offsets. Partitions without a stored offset are left out."""
        wanted = list(partitions)
        entries = yield from self._registry.read([self._offset(where) for where in wanted])
        found = {where: number_in(entry) for where, entry in zip(wanted, entries, strict=True)}
        return {where: place for where, place in found.items() if place is not None}
