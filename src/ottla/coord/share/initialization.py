"""The initialization of share partitions: which ones a group's subscription needs, and the effect of each result (KIP-932).

A partition is in the record's `initializing` while the broker initializes its state, and in `initialized` afterwards. Only then can
it be assigned. An initialization that failed is repeated with the next heartbeat, and one without a result after an interval.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from ottla.coord.share.draft import ShareDraft
from ottla.coord.share.events import (
    DeleteShares,
    InitializationBegun,
    InitializeShares,
    SharesInitialized,
    StatePlace,
)
from ottla.coord.share.records import NamedPartitions, PartitionsByTopic, ShareStateStored
from ottla.wire.errors import error_name
from ottla.wire.schema import Uuid

log = logging.getLogger("ottla.coord")

MOST_BEGUN: Final = 2_000
"""The most partitions that one decision begins to initialize, in about a millisecond. Others wait for the next heartbeat."""


def initialize_subscribed(draft: ShareDraft, epoch: int, subscriptions: Iterable[frozenset[str]]) -> None:
    """Order the initialization of partitions to which the group subscribes and that have no state, with `epoch` as state epoch."""
    missing = _missing(draft, subscriptions)
    if missing:
        begin(draft, missing)
        places = [StatePlace(topic_id, number) for topic_id, held in missing.items() for number in sorted(held.partitions)]
        draft.order(InitializeShares(draft.group_id, epoch, tuple(places)))


def _missing(draft: ShareDraft, subscriptions: Iterable[frozenset[str]]) -> dict[Uuid, NamedPartitions]:
    """Return the partitions without state, at most `MOST_BEGUN`, except those whose initialization is under way."""
    topics, found, left = draft.context.topics, dict[Uuid, NamedPartitions](), MOST_BEGUN
    for topic_id, shape in topics.shapes_of(frozenset().union(*subscriptions)).items():
        present = _present(draft, topic_id)
        if len(present) < shape.partitions and left > 0:
            numbers = [number for number in range(shape.partitions) if number not in present][:left]
            topic = topics.with_id(topic_id)
            assert topic is not None, "only topics that exist have shapes"
            found[topic_id] = NamedPartitions(topic.name, frozenset(numbers))
            left -= len(numbers)
    return found


def _present(draft: ShareDraft, topic_id: Uuid) -> frozenset[int]:
    """Return the partitions of a topic that are initialized, or whose initialization has not taken too long."""
    group = draft.group
    held = group.initialized.get(topic_id)
    present = frozenset[int]() if held is None else held.partitions
    underway = group.initializing.get(topic_id)
    retry_ms = draft.context.settings.group_share_initialize_retry_interval_ms
    if underway is None or draft.now.mono_ms - group.begun_ms.get(topic_id, draft.now.mono_ms) >= retry_ms:
        return present
    return present | underway.partitions


def begin(draft: ShareDraft, places: PartitionsByTopic) -> None:
    """Store that these partitions are being initialized. A topic whose state was to be deleted is used again."""
    group = draft.group
    initializing = with_partitions(group.initializing, places)
    deleting = {topic_id: name for topic_id, name in group.deleting.items() if topic_id not in initializing}
    draft.store(ShareStateStored(group.group_id, initializing, group.initialized, deleting))
    draft.store(InitializationBegun(group.group_id, tuple(places), draft.now.mono_ms))


def end(draft: ShareDraft, done: SharesInitialized) -> None:
    """Store the result of an initialization. The states of deleted groups and topics are deleted again."""
    group = draft.group
    known = {
        (topic_id, number)
        for part in (group.initializing, group.initialized)
        for topic_id, held in part.items()
        for number in held.partitions
    }
    made: dict[Uuid, set[int]] = {}
    failed: dict[Uuid, set[int]] = {}
    useless: list[StatePlace] = []
    for place, error_code in zip(done.places, done.error_codes, strict=True):
        if error_code:
            failed.setdefault(place.topic_id, set()).add(place.partition)
        elif place[:2] in known:
            made.setdefault(place.topic_id, set()).add(place.partition)
        else:
            useless.append(place)
    _report(done)
    if useless:
        draft.order(DeleteShares(group.group_id, tuple(useless)))
    initializing = _without(_without(group.initializing, made), failed)
    named = {topic_id: NamedPartitions(_name(draft, topic_id), frozenset(numbers)) for topic_id, numbers in made.items()}
    initialized = with_partitions(group.initialized, named)
    if (initializing, initialized) != (group.initializing, group.initialized):
        draft.store(ShareStateStored(group.group_id, initializing, initialized, group.deleting))


def _report(done: SharesInitialized) -> None:
    errors = [error_code for error_code in done.error_codes if error_code]
    if errors:
        sentence = "group %s: the state of %d share partitions could not be initialized (%s); the next heartbeat tries again"
        extra = {"cause": "share state", "most": 3}
        log.warning(sentence, done.group_id, len(errors), error_name(errors[0]), extra=extra)


def _name(draft: ShareDraft, topic_id: Uuid) -> str:
    topic = draft.context.topics.with_id(topic_id)
    held = draft.group.initializing.get(topic_id) or draft.group.initialized.get(topic_id)
    if topic is not None:
        return topic.name
    return "" if held is None else held.name


def with_partitions(present: PartitionsByTopic, more: PartitionsByTopic) -> dict[Uuid, NamedPartitions]:
    """Return the partitions of both mappings."""
    after = dict(present)
    for topic_id, (name, partitions) in more.items():
        held = after.get(topic_id)
        after[topic_id] = NamedPartitions(name, partitions if held is None else held.partitions | partitions)
    return after


def _without(present: PartitionsByTopic, gone: Mapping[Uuid, set[int]]) -> dict[Uuid, NamedPartitions]:
    left = {topic_id: held._replace(partitions=held.partitions - gone.get(topic_id, set())) for topic_id, held in present.items()}
    return {topic_id: held for topic_id, held in left.items() if held.partitions}
