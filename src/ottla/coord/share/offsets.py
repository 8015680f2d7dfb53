"""The share partitions of a group for administrators: offsets to alter or delete, and all state before the group's deletion.

The broker reads and changes the state itself, which is elsewhere. A group with members is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ottla.coord.consumer.topics import KnownTopic, KnownTopics
from ottla.coord.share.draft import ShareDraft
from ottla.coord.share.events import AlteringShares, DeletingShares, SharePlaces, StatePlace
from ottla.coord.share.group import ShareGroup
from ottla.coord.share.initialization import begin, with_partitions
from ottla.coord.share.records import NamedPartitions, PartitionsByTopic, ShareStateStored
from ottla.wire.api.alter_share_group_offsets import AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse
from ottla.wire.api.delete_share_group_offsets import DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse
from ottla.wire.errors import ERRORS, NON_EMPTY_GROUP, NONE, UNKNOWN_TOPIC_OR_PARTITION
from ottla.wire.schema import Uuid

Altered = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic
AlteredTopic = AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic
AlteredPartition = AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponsePartition
DeletedTopic = DeleteShareGroupOffsetsResponse.DeleteShareGroupOffsetsResponseTopic

NOTHING_TO_DELETE = "There is no offset information to delete."


def alter_refused(error_code: int, message: str | None = None) -> AlteringShares:
    sentence = ERRORS[error_code].sentence if message is None else message
    return AlteringShares(AlterShareGroupOffsetsResponse(error_code=error_code, error_message=sentence))


def delete_refused(error_code: int, message: str | None = None) -> DeletingShares:
    sentence = ERRORS[error_code].sentence if message is None else message
    response = DeleteShareGroupOffsetsResponse(error_code=error_code, error_message=sentence)
    return DeletingShares(error_code=error_code, response=response)


def alter(draft: ShareDraft, body: AlterShareGroupOffsetsRequest) -> AlteringShares:
    """Begin to initialize the requested partitions again, with their new start offsets."""
    if draft.group.members:
        return alter_refused(NON_EMPTY_GROUP)
    topics, places = draft.context.topics, dict[tuple[Uuid, int], StatePlace]()
    response = AlterShareGroupOffsetsResponse()
    for wanted in body.topics:
        topic = topics.topic(wanted.topic_name)
        if topic is not None:
            places |= {(topic.topic_id, place.partition): place for place in _places_to_alter(topic, wanted)}
        response.responses.append(_altered_topic(topic, wanted))
    if places:
        begin(draft, _by_topic(topics, places.values()))
    return AlteringShares(response, draft.group.epoch, tuple(places.values()))


def _places_to_alter(topic: KnownTopic, wanted: Altered) -> list[StatePlace]:
    return [
        StatePlace(topic.topic_id, part.partition_index, part.start_offset)
        for part in wanted.partitions
        if 0 <= part.partition_index < topic.shape.partitions
    ]


def _altered_topic(topic: KnownTopic | None, wanted: Altered) -> AlteredTopic:
    count = 0 if topic is None else topic.shape.partitions
    answered = AlteredTopic(topic_name=wanted.topic_name)
    if topic is not None:
        answered.topic_id = topic.topic_id
    for part in wanted.partitions:
        error_code = NONE if 0 <= part.partition_index < count else UNKNOWN_TOPIC_OR_PARTITION
        sentence = ERRORS[error_code].sentence if error_code else None
        answered.partitions.append(
            AlteredPartition(partition_index=part.partition_index, error_code=error_code, error_message=sentence)
        )
    return answered


def _by_topic(topics: KnownTopics, places: Iterable[StatePlace]) -> PartitionsByTopic:
    numbers: dict[Uuid, set[int]] = {}
    for place in places:
        numbers.setdefault(place.topic_id, set()).add(place.partition)
    return {topic_id: NamedPartitions(_name(topics, topic_id), frozenset(held)) for topic_id, held in numbers.items()}


def _name(topics: KnownTopics, topic_id: Uuid) -> str:
    topic = topics.with_id(topic_id)
    return "" if topic is None else topic.name


def delete(draft: ShareDraft, body: DeleteShareGroupOffsetsRequest) -> DeletingShares:
    """Begin to delete the state of the requested topics' share partitions."""
    group, topics = draft.group, draft.context.topics
    if group.members:
        return delete_refused(NON_EMPTY_GROUP)
    response = DeleteShareGroupOffsetsResponse()
    if not group.has_state:
        return DeletingShares(response=response)
    initialized, deleting, places = dict(group.initialized), dict(group.deleting), list[StatePlace]()
    for name in dict.fromkeys(wanted.topic_name for wanted in body.topics):
        topic = topics.topic(name)
        if topic is None:
            response.responses.append(_unknown(name, ERRORS[UNKNOWN_TOPIC_OR_PARTITION].sentence))
        elif topic.topic_id in initialized:
            places += _places(topic.topic_id, initialized.pop(topic.topic_id).partitions)
            deleting[topic.topic_id] = name
        elif topic.topic_id in deleting:
            places += _places(topic.topic_id, range(topic.shape.partitions))
        else:
            response.responses.append(_unknown(name, NOTHING_TO_DELETE))
    initializing = {topic_id: held for topic_id, held in group.initializing.items() if topic_id not in deleting}
    _store_state(draft, initializing, initialized, deleting)
    return DeletingShares(tuple(places), response=response)


def _unknown(name: str, message: str) -> DeletedTopic:
    return DeletedTopic(topic_name=name, error_code=UNKNOWN_TOPIC_OR_PARTITION, error_message=message)


def _places(topic_id: Uuid, numbers: Iterable[int]) -> list[StatePlace]:
    return [StatePlace(topic_id, number) for number in sorted(numbers)]


def delete_all(draft: ShareDraft) -> DeletingShares:
    """Begin to delete all state of a group that is to be deleted, also state whose deletion has failed before."""
    group, topics = draft.group, draft.context.topics
    if group.members:
        return DeletingShares(error_code=NON_EMPTY_GROUP)
    candidates = with_partitions(group.initialized, group.initializing)
    for topic_id, name in group.deleting.items():
        topic = topics.with_id(topic_id)
        if topic is not None:  # the state of a deleted topic is deleted with the topic
            every = frozenset(range(topic.shape.partitions))
            candidates = with_partitions(candidates, {topic_id: NamedPartitions(name, every)})
    _store_state(draft, {}, {}, {topic_id: held.name for topic_id, held in candidates.items()})
    return DeletingShares(tuple(place for topic_id, held in candidates.items() for place in _places(topic_id, held.partitions)))


def forget(draft: ShareDraft, topic_ids: Collection[Uuid]) -> None:
    """Store that the state of these topics is deleted."""
    group = draft.group
    left = {topic_id: name for topic_id, name in group.deleting.items() if topic_id not in topic_ids}
    _store_state(draft, group.initializing, group.initialized, left)


def _store_state(
    draft: ShareDraft, initializing: PartitionsByTopic, initialized: PartitionsByTopic, deleting: dict[Uuid, str]
) -> None:
    group = draft.group
    if (initializing, initialized, deleting) != (group.initializing, group.initialized, group.deleting):
        draft.store(ShareStateStored(group.group_id, initializing, initialized, deleting))


def initialized_places(group: ShareGroup) -> SharePlaces:
    """Return all share partitions of a group that have state."""
    held = group.initialized.items()
    return SharePlaces(tuple(place for topic_id, topic in held for place in _places(topic_id, topic.partitions)))
