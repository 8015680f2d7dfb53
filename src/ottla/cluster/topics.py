"""Decisions about topics: create them, delete them, add partitions, change settings.

Every function reads the image, changes nothing, and returns changes of the registry (`Decision`) with Kafka's error codes.
Callers parse requests and fill in defaults. Numbers can still be invalid.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ottla.cluster import layout
from ottla.cluster.decision import Decision
from ottla.cluster.image import NO_TOPIC_ID, ClusterImage, PartitionImage, TopicImage
from ottla.cluster.names import PROHIBITED, collision_key, name_error
from ottla.cluster.placement import Replicas, assignment_error, factor_error, spread_over_racks
from ottla.ports import NEW, Change, Entry
from ottla.wire.errors import (
    INVALID_CONFIG,
    INVALID_PARTITIONS,
    INVALID_REPLICA_ASSIGNMENT,
    INVALID_REQUEST,
    INVALID_TOPIC_EXCEPTION,
    NONE,
    POLICY_VIOLATION,
    REASSIGNMENT_IN_PROGRESS,
    TOPIC_ALREADY_EXISTS,
    UNKNOWN_TOPIC_OR_PARTITION,
)

MOST_PARTITIONS = 10_000
"""The most partitions that one request is allowed to create, as in Kafka."""

TWICE = "Duplicate topic name: the request names {} more than once."
_TOO_MANY = f"Excessively large number of partitions per request: create at most {MOST_PARTITIONS} at a time."
_MOVING = "A partition reassignment is in progress for the topic '{}'. Wait until it ends, or cancel it."
_NOT_BOTH = "A manual partition assignment was specified, but {} was not set to -1: leave it out."

ConfigError = Callable[[Mapping[str, str | None]], str | None]
"""A function that returns a message that says why a topic's settings are invalid; None if they are valid."""

Fault = tuple[int, str | None]


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic to create. With `assignments`, (partition, replicas) pairs, partition count and replication factor are -1."""

    name: str
    partitions: int = 1
    replication_factor: int = 1
    assignments: tuple[tuple[int, tuple[int, ...]], ...] = ()
    configs: Mapping[str, str | None] = field(default_factory=dict)


def create(
    image: ClusterImage,
    wanted: Sequence[TopicSpec],
    new_id: Callable[[], bytes],
    config_error: ConfigError,
    room: int = MOST_PARTITIONS,
) -> list[Decision]:
    """Return a decision for each topic, in order. A name that occurs twice is refused. `room` is the most partitions in total."""
    twice = {name for name, times in Counter(topic.name for topic in wanted).items() if times > 1}
    claimed: dict[str, str] = {}
    decisions: list[Decision] = []
    for topic in wanted:
        if topic.name in twice:
            decisions.append(Decision(topic.name, INVALID_REQUEST, TWICE.format(topic.name)))
            continue
        decision = _create_one(image, topic, claimed, room, new_id, config_error)
        if not decision.error_code:
            claimed[collision_key(topic.name)] = topic.name
            room -= len(decision.replicas)
        decisions.append(decision)
    return decisions


def _create_one(
    image: ClusterImage,
    topic: TopicSpec,
    claimed: Mapping[str, str],
    room: int,
    new_id: Callable[[], bytes],
    config_error: ConfigError,
) -> Decision:
    error_code, message = _name_fault(image, topic.name, claimed)
    if not error_code and (sentence := config_error(topic.configs)) is not None:
        error_code, message = INVALID_CONFIG, sentence
    if error_code:
        return Decision(topic.name, error_code, message)
    placed = _placed(image, topic, room)
    if isinstance(placed, Decision):
        return placed
    topic_id = new_id()
    configs = {name: text.strip() for name, text in topic.configs.items() if text is not None}
    changes = (
        Change(layout.topic_path(topic.name), layout.topic_json(topic_id, dict(enumerate(placed))), NEW),
        Change(layout.topic_config_path(topic.name), layout.config_json(configs)),
    )
    return Decision(topic.name, NONE, None, changes, topic_id, placed)


def _name_fault(image: ClusterImage, name: str, claimed: Mapping[str, str]) -> Fault:
    if name in PROHIBITED:
        return INVALID_REQUEST, f"Creation of internal topic {name} is prohibited: choose another name."
    sentence = name_error(name)
    if sentence is not None:
        return INVALID_TOPIC_EXCEPTION, sentence
    if name in image.topics:
        return TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists: delete it first, or choose another name."
    other = image.colliding(name) or claimed.get(collision_key(name))
    if other is not None:
        return (
            INVALID_TOPIC_EXCEPTION,
            f"Topic '{name}' collides with existing topic: {other}; names must differ in more than '.' and '_', for metrics' sake.",
        )
    return NONE, None


def _placed(image: ClusterImage, topic: TopicSpec, room: int) -> Replicas | Decision:
    """Return the replicas of each partition, or a refusal. `room` is the most partitions, and is checked first."""
    if len(topic.assignments) > MOST_PARTITIONS:
        return Decision(topic.name, POLICY_VIOLATION, _TOO_MANY)
    brokers = sorted(image.brokers)
    if topic.assignments:
        placed: Replicas = tuple(nodes for _, nodes in sorted(topic.assignments))
        error_code, message = _by_hand(topic, placed, brokers)
    else:
        placed = ()
        error_code, message = _by_number(topic, len(brokers))
    count = len(placed) or topic.partitions
    if not error_code and count > room:
        error_code, message = POLICY_VIOLATION, _TOO_MANY
    if error_code:
        return Decision(topic.name, error_code, message)
    return placed or spread_over_racks(_racks(image), topic.partitions, topic.replication_factor, len(image.topics))


def _racks(image: ClusterImage) -> dict[int, str | None]:
    return {node: broker.rack for node, broker in image.brokers.items()}


def _by_hand(topic: TopicSpec, placed: Replicas, brokers: Sequence[int]) -> Fault:
    if topic.partitions != -1 or topic.replication_factor != -1:
        return INVALID_REQUEST, _NOT_BOTH.format("replication factor" if topic.replication_factor != -1 else "numPartitions")
    if sorted(index for index, _ in topic.assignments) != list(range(len(placed))):
        indexes = Counter(index for index, _ in topic.assignments)
        twice = min((index for index, times in indexes.items() if times > 1), default=None)
        if twice is not None:
            return (
                INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {twice}: give one of each.",
            )
        return INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence: name each one from 0 up."
    return assignment_error(placed, brokers)


def _by_number(topic: TopicSpec, brokers: int) -> Fault:
    if topic.replication_factor < 1:
        return factor_error(topic.replication_factor, brokers)
    if topic.partitions < 1:
        return (
            INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value: request 1 or more, or -1 for the default.",
        )
    return factor_error(topic.replication_factor, brokers)


@dataclass(frozen=True, slots=True)
class StoredTopic:
    """A topic from its entry, and whether it is being reassigned, which the image does not contain."""

    topic: TopicImage
    is_being_reassigned: bool


def stored(name: str, entry: Entry | None) -> StoredTopic | None:
    """Parse the entry of a topic, which contains no leaders; None if there is no entry. Raises `ValueError`."""
    if entry is None:
        return None
    read = layout.read(entry.value)
    try:
        topic_id = layout.uuid_bytes(read["topic_id"]) if "topic_id" in read else NO_TOPIC_ID
        placed = [layout.nodes(read["partitions"][str(index)]) for index in range(len(read["partitions"]))]
    except layout.NOT_UNDERSTOOD as error:
        raise ValueError(layout.why(error)) from error
    if not placed:
        raise ValueError("it has no partitions")
    partitions = [PartitionImage(index, replicas=nodes) for index, nodes in enumerate(placed)]
    return StoredTopic(TopicImage(name, topic_id, partitions), bool(read.get("adding_replicas") or read.get("removing_replicas")))


def add_partitions(
    image: ClusterImage, name: str, found: TopicImage | StoredTopic | None, count: int, assignments: Sequence[Sequence[int]] | None
) -> Decision:
    """Increase a topic to `count` partitions; refuse this during a reassignment. `assignments` are the new partitions' replicas."""
    topic = found.topic if isinstance(found, StoredTopic) else found
    if topic is None:
        return Decision(
            name, UNKNOWN_TOPIC_OR_PARTITION, f"This server does not host this topic-partition: create topic {name!r} first."
        )
    if isinstance(found, StoredTopic) and found.is_being_reassigned:
        return Decision(name, REASSIGNMENT_IN_PROGRESS, _MOVING.format(name))
    brokers = sorted(image.brokers)
    error_code, message = _growth_fault(topic, count, assignments, brokers)
    if error_code:
        return Decision(name, error_code, message)
    old = len(topic.partitions)
    size = len(topic.partitions[0].replicas)
    placed = spread_over_racks(_racks(image), count - old, size, old) if assignments is None else tuple(map(tuple, assignments))
    replicas = {partition.index: partition.replicas for partition in topic.partitions} | dict(enumerate(placed, old))
    changes = (Change(layout.topic_path(name), layout.topic_json(topic.topic_id, replicas)),)
    return Decision(name, NONE, None, changes, topic.topic_id, placed)


def _growth_fault(topic: TopicImage, count: int, assignments: Sequence[Sequence[int]] | None, brokers: Sequence[int]) -> Fault:
    old = len(topic.partitions)
    if count <= old:
        if count == old:
            return INVALID_PARTITIONS, f"Topic already has {old} partition(s): request more."
        now = f"The topic {topic.name} currently has {old} partition(s)"
        return INVALID_PARTITIONS, f"{now}; {count} would not be an increase: request more."
    if count - old > MOST_PARTITIONS:
        return POLICY_VIOLATION, _TOO_MANY
    size = len(topic.partitions[0].replicas)
    if assignments is None:
        return factor_error(size, len(brokers))
    if len(assignments) != count - old:
        return (
            INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {count - old} additional partition(s), but only {len(assignments)} assignment(s) were specified: "
            "assign exactly the new ones.",
        )
    return assignment_error(assignments, brokers, size)


def set_configs(topic: TopicImage, configs: Mapping[str, str | None], config_error: ConfigError) -> Decision:
    sentence = config_error(configs)
    if sentence is not None:
        return Decision(topic.name, INVALID_CONFIG, sentence)
    texts = {name: text.strip() for name, text in configs.items() if text is not None}
    return Decision(topic.name, NONE, None, (Change(layout.topic_config_path(topic.name), layout.config_json(texts)),))
