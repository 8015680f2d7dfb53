"""The cluster's topics: decided here, committed to the registry, and implemented by the controller, which watches the entries.

The image contains a change only after the controller has sent it, so responses wait for it, up to the client's timeout. Depends on
neither logs nor wire formats.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from ottla.broker.releases.interbroker_versions import Switch
from ottla.broker.serving.metadata_waits import MetadataWaits
from ottla.broker.serving.purgatory import Purgatory, Reply
from ottla.broker.settings import SettingsInForce, topic_config_error
from ottla.broker.topics.commits import Commits
from ottla.cluster import layout
from ottla.cluster import topics as cluster_topics
from ottla.cluster.controller_rules.entries import DELETIONS
from ottla.cluster.decision import Decision
from ottla.cluster.image import NO_LEADER, NO_TOPIC_ID, ClusterImage
from ottla.cluster.topics import MOST_PARTITIONS, TopicSpec
from ottla.ports import Change, Entry, Now, Steps
from ottla.wire.errors import (
    INVALID_TOPIC_EXCEPTION,
    REQUEST_TIMED_OUT,
    TOPIC_ALREADY_EXISTS,
    UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from ottla.wire.schema import Message

Incomplete = Callable[[str, int], None]
"""Called with the name of a topic whose change is not complete, and the error code: at the timeout, or the topic was deleted."""

LOOK_AGAIN_MS = 10
"""Pause, in ms, before the creation of a topic is retried because a topic of that name can still be in deletion."""

GOING_MS = 2_000
"""Time to wait for the deletion of a topic whose name is to be reused, in ms."""

MOST_WAIT_MS = 60_000
"""A single broker waits at least this long, in ms, even for a shorter client timeout, because it waits only for itself."""

BEING_DELETED = "The topic is being deleted."

_RESERVED_IDS = (bytes(16), bytes(15) + b"\x01")


class ExpectedTopic(NamedTuple):
    """The state of a topic after a change: its number of partitions with leaders, or 0 if no topic with this id may be left.

    `is_known`: the image had the topic before the change, so that its absence means that it was deleted.
    """

    topic_id: bytes
    partitions: int
    is_known: bool = False


class Topics:
    """The creation, enlargement and deletion of topics in the registry. The controller then has brokers create and delete logs.

    Decisions are in the registry when the steps end. The steps must run to their end.
    """

    def __init__(
        self,
        image: ClusterImage,
        commits: Commits,
        settings: SettingsInForce,
        random_bytes: Callable[[int], bytes],
        purgatory: Purgatory,
        metadata_waits: MetadataWaits,
        holds: Callable[[str], bool],
        cordoned: Callable[[], Collection[int]],
        *,
        is_alone: bool,
    ) -> None:
        """Create the manager of topics. `holds` returns whether this broker has replicas of a topic.

        `is_alone`: no other broker exists.
        """
        self._image = image
        self._commits = commits
        self._settings = settings
        self._random_id: Callable[[], bytes] = partial(new_topic_id, random_bytes)
        self._purgatory = purgatory
        self._metadata_waits = metadata_waits
        self._holds = holds
        self._cordoned = cordoned
        self._is_alone = is_alone

    def create(
        self, wanted: Sequence[TopicSpec], *, validate_only: bool = False, room: int = MOST_PARTITIONS
    ) -> Steps[list[Decision]]:
        """Create topics, and return a decision for each. With `validate_only`, nothing is created.

        The topics together have at most `room` partitions. A name that is in the registry but not in the image can be in deletion,
        so its creation waits for a short time.
        """
        decisions = yield from self._create(wanted, room, validate_only=validate_only)
        until_ms = self._purgatory.now().mono_ms + GOING_MS
        while (going := [one.name for one in decisions if self._is_going(one)]) and self._purgatory.now().mono_ms < until_ms:
            yield self._purgatory.rest(LOOK_AGAIN_MS)
            again = yield from self._create([one for one in wanted if one.name in going], room)
            found = {one.name: one for one in again}
            decisions = [found.get(one.name, one) for one in decisions]
        return decisions

    def _create(self, wanted: Sequence[TopicSpec], room: int, *, validate_only: bool = False) -> Steps[list[Decision]]:
        def decide() -> list[Decision]:
            return cluster_topics.create(self._image, wanted, self._new_id, topic_config_error, room, self._cordoned())

        if validate_only:
            return decide()
        return (yield from self._commits.commit_slowly(decide))

    def _new_id(self) -> bytes:
        """Return the id of a new topic; no id with a protocol version before 2.8, so that older brokers can share the cluster."""
        has_ids = self._settings.value.inter_broker_protocol_version.has(Switch.TOPIC_IDS)
        return self._random_id() if has_ids else NO_TOPIC_ID

    def _is_going(self, decision: Decision) -> bool:
        return decision.error_code == TOPIC_ALREADY_EXISTS and decision.name not in self._image.topics

    def delete(self, names: Iterable[str]) -> Steps[list[Decision]]:
        """Request the deletion of topics, with all records and committed offsets.

        The controller removes a topic's entries when every broker has deleted its replicas.
        """
        wanted = list(names)
        return self._commits.commit_slowly(lambda: [self._deletion(name) for name in wanted])

    def _deletion(self, name: str) -> Decision:
        topic = self._image.topics.get(name)
        if topic is None:
            return Decision(name, UNKNOWN_TOPIC_OR_PARTITION, f"Topic {name!r} no longer exists: it was deleted.")
        return Decision(name, changes=(Change(f"{DELETIONS}/{name}", b"", may_use_spare=True),), topic_id=topic.topic_id)

    def add_partitions(
        self, name: str, count: int, assignments: Sequence[Sequence[int]] | None, *, validate_only: bool = False
    ) -> Steps[Decision]:
        """Increase the partitions of a topic to `count`; the new partitions are empty."""

        path, deletion = layout.topic_path(name), f"{DELETIONS}/{name}"

        def decide(entries: Mapping[str, Entry | None]) -> list[Decision]:
            if entries.get(deletion) is not None:
                return [Decision(name, INVALID_TOPIC_EXCEPTION, BEING_DELETED)]
            try:
                topic = cluster_topics.parse_stored(name, entries[path]) if path in entries else self._image.topics.get(name)
            except ValueError as error:
                sentence = f"The registry's entry {path} cannot be parsed ({error}): repair it with ZooKeeper's own tools."
                return [Decision(name, UNKNOWN_SERVER_ERROR, sentence)]
            decision = cluster_topics.add_partitions(self._image, name, topic, count, assignments, self._cordoned())
            return [replace(decision, changes=()) if validate_only else decision]

        (decision,) = yield from self._commits.commit_read((path, deletion), decide)
        return decision

    def reply(
        self, response: Message, expected: Mapping[str, ExpectedTopic], now: Now, timeout_ms: int, incomplete: Incomplete
    ) -> Steps[Reply]:
        """Return the response once these topics are as expected, or were deleted by another request.

        `incomplete` is called for each topic whose change is not complete after `timeout_ms`, which the controller continues, or
        can't be completed any more. A single broker waits at least `MOST_WAIT_MS`.
        """
        until_ms = now.mono_ms + (max(timeout_ms, MOST_WAIT_MS) if self._is_alone else timeout_ms)
        seen = {name for name, one in expected.items() if one.is_known}
        yield from self._metadata_waits.wait_until(
            lambda: all(self._is_so(*one) or self._is_deleted(*one, seen) for one in expected.items()), until_ms
        )
        for one in expected.items():
            if not self._is_so(*one):
                incomplete(one[0], UNKNOWN_TOPIC_OR_PARTITION if self._is_deleted(*one, seen) else REQUEST_TIMED_OUT)
        return response

    def _is_so(self, name: str, expected: ExpectedTopic) -> bool:
        topic = self._image.topics.get(name)
        if not self._image.is_known(name, expected.topic_id):
            return not expected.partitions and (topic is not None or not self._holds(name))
        assert topic is not None
        return 0 < expected.partitions <= len(topic.partitions) and all(one.leader != NO_LEADER for one in topic.partitions)

    def _is_deleted(self, name: str, expected: ExpectedTopic, seen: set[str]) -> bool:
        """Return whether a topic to create or enlarge was deleted by another request. Add a topic that the image has to `seen`."""
        if self._image.is_known(name, expected.topic_id):
            seen.add(name)
            return False
        return expected.partitions > 0 and name in seen


def new_topic_id(random_bytes: Callable[[int], bytes]) -> bytes:
    """Return 16 random bytes as a version 4 UUID that is not an id reserved by Kafka."""
    while True:
        raw = bytearray(random_bytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        topic_id = bytes(raw)
        # Tools read an id as a command-line argument, where a leading "-" looks like an option.
        if topic_id not in _RESERVED_IDS and not layout.uuid_text(topic_id).startswith("-"):
            return topic_id
