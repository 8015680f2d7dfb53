"""The topics of the cluster, as a group coordinator uses them: names, ids, partitions and racks. An immutable value."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from struct import pack
from typing import Final, NamedTuple
from weakref import ref

from xxhash import xxh3_64_intdigest

from ottla.coord.consumer.assign import TopicShape, finish
from ottla.coord.consumer.names import in_order
from ottla.coord.consumer.spread import Spread
from ottla.ports import Pauses
from ottla.wire.schema import Uuid

_HASH_VERSION = b"\0"
_SIGN, _RANGE = 1 << 63, 1 << 64
NAMES_BETWEEN_PAUSES: Final = 2_000
TOPICS_BETWEEN_PAUSES: Final = 100
MOST_KEPT: Final = 16
"""The most metadata hashes that are cached."""


class KnownTopic(NamedTuple):
    """One existing topic."""

    name: str
    topic_id: Uuid
    shape: TopicShape


class KnownTopics:
    """All topics, by name and by id, as an immutable value. `with_changes` returns a new value with a higher `version`."""

    __slots__ = ("_by_id", "_by_name", "_hashes", "_metadata_hashes", "_names", "version")

    def __init__(self, topics: Iterable[KnownTopic] = (), version: int = 0) -> None:
        self.version = version
        by_name = {topic.name: topic for topic in topics}
        self._by_name = Spread(by_name)
        self._by_id = Spread({topic.topic_id: topic for topic in by_name.values()})
        self._hashes: dict[str, tuple[KnownTopic, int]] = {}
        """The hash of each topic, with the topic from which it was computed. All versions of the value share this dictionary."""
        self._metadata_hashes: dict[frozenset[ref[frozenset[str]]], int] = {}
        self._names: tuple[str, ...] | None = None

    def with_changes(self, topics: Iterable[KnownTopic], gone: Collection[str] = ()) -> KnownTopics:
        """Return a new value with `topics` added or replaced, and `gone` removed. The time depends on the number of changes."""
        news = {topic.name: topic for topic in topics}
        former = [known for name in (*gone, *news) if (known := self._by_name.get(name)) is not None]
        after = KnownTopics.__new__(KnownTopics)
        after.version = self.version + 1
        after._by_name = self._by_name.with_changes(news, gone)
        ids = {topic.topic_id: topic for topic in news.values()}
        after._by_id = self._by_id.with_changes(ids, [topic.topic_id for topic in former])
        after._hashes = self._hashes
        for topic in former:
            self._hashes.pop(topic.name, None)
        after._metadata_hashes = {}
        after._names = None
        return after

    @property
    def names(self) -> tuple[str, ...]:
        """Return all names, in no particular order."""
        if self._names is None:
            self._names = tuple(self._by_name)
        return self._names

    def topic(self, name: str) -> KnownTopic | None:
        return self._by_name.get(name)

    def with_id(self, topic_id: Uuid) -> KnownTopic | None:
        return self._by_id.get(topic_id)

    def shapes_of(self, names: AbstractSet[str]) -> dict[Uuid, TopicShape]:
        """Return the shapes of the topics in `names` that exist, by topic id."""
        return {topic.topic_id: topic.shape for topic in self._by_name.among(names)}

    def by_id(self, partitions: Mapping[str, Iterable[int]]) -> dict[Uuid, frozenset[int]]:
        """Return partitions by topic id instead of topic name. Unknown topics are left out."""
        found = ((self._by_name.get(name), indexes) for name, indexes in partitions.items())
        return {topic.topic_id: frozenset(indexes) for topic, indexes in found if topic is not None}

    def hash_of(self, *subscriptions: frozenset[str]) -> int:
        """Return the metadata hash of a group's subscribed topics as in Kafka (KIP-1101), a signed number; 0 without topics."""
        known = self._metadata_hashes.get(frozenset(map(ref, subscriptions)))
        return finish(self.hash_slowly(*subscriptions)) if known is None else known

    def hash_slowly(self, *subscriptions: frozenset[str]) -> Pauses[int]:
        """Return the value of `hash_of`, computed with pauses. It is cached while the subscriptions exist."""
        names: set[str] = set()
        ordered: list[str] = []
        for subscription in subscriptions:
            wanted = self._perhaps_wanted(subscription)
            for at in range(0, len(wanted), NAMES_BETWEEN_PAUSES):
                found = {topic.name for topic in self._by_name.among(frozenset(wanted[at : at + NAMES_BETWEEN_PAUSES]))} - names
                names |= found
                ordered += sorted(found)
                yield None
        ordered.sort()
        yield None
        packed: list[bytes] = []
        for at in range(0, len(ordered), TOPICS_BETWEEN_PAUSES):
            hashes = [self._hash(name) for name in ordered[at : at + TOPICS_BETWEEN_PAUSES]]
            packed.append(pack(f"<{len(hashes)}Q", *hashes))
            yield None
        hashed = xxh3_64_intdigest(b"".join(packed)) if packed else 0
        hashed = hashed - _RANGE if hashed & _SIGN else hashed
        if len(self._metadata_hashes) >= MOST_KEPT:
            del self._metadata_hashes[next(iter(self._metadata_hashes))]
        self._metadata_hashes[frozenset(map(ref, subscriptions))] = hashed
        return hashed

    def _perhaps_wanted(self, subscription: frozenset[str]) -> list[str]:
        """Return the topic names in `subscription`. Names of topics that do not exist can be left out."""
        if len(subscription) <= len(self._by_name):
            return in_order(subscription)
        return [name for name in self._by_name if name in subscription]

    def _hash(self, name: str) -> int:
        topic = self._by_name.get(name)
        assert topic is not None, "only topics that exist are hashed"
        known = self._hashes.get(name)
        if known is None or known[0] is not topic:
            if len(self._hashes) > 2 * len(self._by_name):  # slow work on an older version adds hashes of deleted topics again
                self._hashes.clear()
            known = self._hashes[name] = (topic, xxh3_64_intdigest(_hash_input(topic)))
        return known[1]


def _hash_input(topic: KnownTopic) -> bytes:
    """Return the bytes of a topic that are hashed: numbers in little-endian, text in UTF-16 followed by its length."""
    racks = topic.shape.racks
    parts = [_HASH_VERSION, topic.topic_id[7::-1], topic.topic_id[:7:-1], _text(topic.name), pack("<i", topic.shape.partitions)]
    for index in range(topic.shape.partitions):
        parts.append(pack("<i", index))
        for rack in sorted(racks[index] if index < len(racks) else ()):
            parts += [pack("<i", len(rack)), _text(rack)]
    return b"".join(parts)


def _text(text: str) -> bytes:
    units = text.encode("utf-16-le", "surrogatepass")
    return units + pack("<i", len(units) // 2)
