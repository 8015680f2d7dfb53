"""The expiry of committed offsets, and of groups with them (KIP-211). The module only reads state and returns tombstones.

Groups can have a million offsets. Therefore the search is divided into slices, with pauses between them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from ottla.coord.consumer.topics import KnownTopics
from ottla.coord.groups import Group
from ottla.coord.offsets import ByTopic, Committed, Offsets
from ottla.coord.outcome import ExpiryKey, TopicsKey
from ottla.coord.records import NO_TIMESTAMP, OffsetForgotten, Stored

MOST_LOOKED_AT = 2_000
"""The groups and offsets that one slice checks, in one to three milliseconds. It ends only between two topics of a group."""

TOMBSTONE = 5
"""The cost of storing and applying one tombstone, counted in checks of an offset."""

MOST_FORGOTTEN = MOST_LOOKED_AT // TOMBSTONE
"""The most tombstones of one slice, which cost as much as all its checks."""

PAUSE_MS = 2
"""The pause between two slices, in milliseconds, in which other work runs."""


class ExpiryRules(NamedTuple):
    """The present wall time, and how long offsets are retained, both in milliseconds."""

    wall_ms: int
    retention_ms: int


class Looked(NamedTuple):
    """The result of one step of the search for expired offsets.

    It has the tombstones, and the key of the next step, or None after the last step.
    """

    records: list[Stored]
    following: ExpiryKey | None


def search(groups: Mapping[str, Group], offsets: Offsets, rules: ExpiryRules, key: ExpiryKey) -> Looked:
    """Run one step of the search for expired offsets, starting at `key`, and return their tombstones.

    An empty group is deleted with its last offset.
    """
    names = key.groups or tuple(groups)
    records: list[Stored] = []
    looked_at = 0
    for at in range(key.at, len(names)):
        group = groups.get(names[at])
        if group is not None:
            part = _Part(group, offsets, rules)
            kept = part.search(key.kept if at == key.at else 0, MOST_LOOKED_AT - looked_at)
            records += part.records
            looked_at += part.looked_at
            if kept is not None:
                return Looked(records, ExpiryKey(names, at, kept))
        looked_at += 1
        if looked_at >= MOST_LOOKED_AT and at + 1 < len(names):
            return Looked(records, ExpiryKey(names, at + 1))
    return Looked(records, None)


class _Part:
    """The search for expired offsets of one group, within one step. `looked_at` is the number of offsets checked so far."""

    def __init__(self, group: Group, offsets: Offsets, rules: ExpiryRules) -> None:
        self.records: list[Stored] = []
        self.looked_at = 0
        self._group = group
        self._offsets = offsets
        self._rules = rules

    def search(self, skip: int, most: int) -> int | None:
        """Check the group's topics after the first `skip`, until the work exceeds `most`.

        Return the number of topics that the next slice must skip; None if the group is complete. Topics that lose all their offsets
        are not counted, because they do not exist in the next slice.
        """
        topics = self._offsets.of(self._group.group_id)
        since_ms = self._group.expires_from_ms()
        if since_ms is not None:
            for topic, partitions in islice(topics.items(), skip, None):
                if self.looked_at >= most:
                    return skip
                gone = self._find_expired(topic, partitions, since_ms)
                self.records += gone
                self.looked_at += len(partitions) + TOMBSTONE * len(gone)
                if len(gone) == MOST_FORGOTTEN:  # the topic can have more expired offsets
                    return skip
                skip += len(gone) < len(partitions)
        self._forget_group(topics)
        return None

    def _find_expired(self, topic: str, partitions: dict[int, Committed], since_ms: int) -> list[OffsetForgotten]:
        group = self._group
        if group.members and group.is_subscribed(topic):
            return []
        pending = self._offsets.pending
        gone = (
            OffsetForgotten(group.group_id, topic, index)
            for index, committed in partitions.items()
            if _is_expired(committed, since_ms, self._rules) and not (pending and (group.group_id, topic, index) in pending)
        )
        return list(islice(gone, MOST_FORGOTTEN))

    def _forget_group(self, topics: ByTopic) -> None:
        group = self._group
        lost_all = len(topics) <= len(self.records) == sum(map(len, topics.values()))
        if lost_all and group.is_deserted and not self._offsets.pending.places(group.group_id):
            self.records += group.tombstones()


def forget_topics(offsets: Offsets, key: TopicsKey, topics: KnownTopics) -> tuple[list[OffsetForgotten], TopicsKey | None]:
    """Return tombstones of offsets in deleted topics, for one step that starts at `key`, and the key of the next step or None.

    New topics of the same names keep their offsets, which have other topic ids.
    """
    present = {name: topic.topic_id for name in key.names if (topic := topics.topic(name)) is not None}
    records: list[OffsetForgotten] = []
    for at in range(key.at, len(key.groups)):
        if at - key.at + TOMBSTONE * len(records) >= MOST_LOOKED_AT:
            return records, replace(key, at=at)
        group_id = key.groups[at]
        held = offsets.of(group_id)
        for name in key.names.intersection(held):
            gone = (
                OffsetForgotten(group_id, name, index)
                for index, committed in held[name].items()
                if committed.topic_id != present.get(name)
            )
            before = len(records)
            records += islice(gone, MOST_FORGOTTEN)
            if len(records) - before == MOST_FORGOTTEN:  # the group can have more such offsets
                return records, replace(key, at=at)
    return records, None


def _is_expired(committed: Committed, since_ms: int, rules: ExpiryRules) -> bool:
    if committed.expire_timestamp_ms != NO_TIMESTAMP:
        return rules.wall_ms >= committed.expire_timestamp_ms
    began_ms = committed.commit_timestamp_ms if since_ms == NO_TIMESTAMP else since_ms
    return rules.wall_ms - began_ms >= rules.retention_ms
