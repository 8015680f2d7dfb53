"""Decisions about topics: make them, delete them, give them more partitions or other settings.

Every function reads the image, changes nothing, and says what the registry must become (`Outcome`), with Kafka's error codes.
Knows no requests and no defaults: numbers come in resolved, except that they may be wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ottla.cluster import layout
from ottla.cluster.image import ClusterImage, TopicImage
from ottla.cluster.names import PROHIBITED, collision_key, name_error
from ottla.cluster.outcome import Outcome
from ottla.cluster.placement import Replicas, assignment_error, factor_error, spread
from ottla.ports import NEW, Change
from ottla.wire.errors import (
    INVALID_CONFIG,
    INVALID_PARTITIONS,
    INVALID_REPLICA_ASSIGNMENT,
    INVALID_REQUEST,
    INVALID_TOPIC_EXCEPTION,
    NONE,
    POLICY_VIOLATION,
    TOPIC_ALREADY_EXISTS,
    UNKNOWN_TOPIC_OR_PARTITION,
)

MOST_PARTITIONS = 10_000
"""Partitions that one request may make, as in Kafka."""

_TOO_MANY = f"Excessively large number of partitions per request: make {MOST_PARTITIONS} at most at a time."
_NOT_BOTH = "A manual partition assignment was specified, but {} was not set to -1: leave it out."

ConfigError = Callable[[Mapping[str, str | None]], str | None]
"""Says why settings can't be a topic's, or None."""

Fault = tuple[int, str | None]


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be made. With `assignments` (partition index -> replicas) both numbers are -1."""

    name: str
    partitions: int = 1
    replication_factor: int = 1
    assignments: tuple[tuple[int, tuple[int, ...]], ...] = ()
    configs: Mapping[str, str | None] = field(default_factory=dict)


def create(
    image: ClusterImage, wanted: Sequence[NewTopic], new_id: Callable[[], bytes], config_error: ConfigError
) -> list[Outcome]:
    """Decide each of these topics, in order; those that a request names twice are all refused."""
    twice = {name for name, times in Counter(topic.name for topic in wanted).items() if times > 1}
    claimed: dict[str, str] = {}
    room = MOST_PARTITIONS
    outcomes: list[Outcome] = []
    for topic in wanted:
        if topic.name in twice:
            outcomes.append(
                Outcome(topic.name, INVALID_REQUEST, f"Duplicate topic name: the request names {topic.name} more than once.")
            )
            continue
        outcome = _create_one(image, topic, claimed, room, new_id, config_error)
        if not outcome.error_code:
            claimed[collision_key(topic.name)] = topic.name
            room -= len(outcome.replicas)
        outcomes.append(outcome)
    return outcomes


def _create_one(
    image: ClusterImage,
    topic: NewTopic,
    claimed: Mapping[str, str],
    room: int,
    new_id: Callable[[], bytes],
    config_error: ConfigError,
) -> Outcome:
    error_code, message = _name_fault(image, topic.name, claimed)
    if not error_code and (sentence := config_error(topic.configs)) is not None:
        error_code, message = INVALID_CONFIG, sentence
    if error_code:
        return Outcome(topic.name, error_code, message)
    placed = _placed(image, topic, room)
    if isinstance(placed, Outcome):
        return placed
    topic_id = new_id()
    configs = {name: text.strip() for name, text in topic.configs.items() if text is not None}
    changes = (
        Change(layout.topic_path(topic.name), layout.topic_json(topic_id, dict(enumerate(placed))), NEW),
        *_states(image, topic.name, 0, placed),
        Change(layout.topic_config_path(topic.name), layout.config_json(configs)),
    )
    return Outcome(topic.name, NONE, None, changes, topic_id, placed)


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


def _placed(image: ClusterImage, topic: NewTopic, room: int) -> Replicas | Outcome:
    """Where the replicas go, or why they can't."""
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
        return Outcome(topic.name, error_code, message)
    return placed or spread(brokers, topic.partitions, topic.replication_factor, len(image.topics))


def _by_hand(topic: NewTopic, placed: Replicas, brokers: Sequence[int]) -> Fault:
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


def _by_number(topic: NewTopic, brokers: int) -> Fault:
    if topic.replication_factor < 1:
        return factor_error(topic.replication_factor, brokers)
    if topic.partitions < 1:
        return (
            INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value: ask for 1 or more, or -1 for the default.",
        )
    return factor_error(topic.replication_factor, brokers)


def _states(image: ClusterImage, name: str, first: int, placed: Replicas) -> tuple[Change, ...]:
    return tuple(
        Change(layout.state_path(name, index), layout.state_json(image.controller_epoch, nodes[0], 0, nodes), NEW)
        for index, nodes in enumerate(placed, first)
    )


def delete(topic: TopicImage) -> Outcome:
    """The topic, its partitions' states and its settings go."""
    changes = (Change(layout.topic_path(topic.name), None), Change(layout.topic_config_path(topic.name), None))
    return Outcome(topic.name, NONE, None, changes, topic.topic_id)


def add_partitions(image: ClusterImage, name: str, count: int, assignments: Sequence[Sequence[int]] | None = None) -> Outcome:
    """Let the topic have `count` partitions; `assignments` are the replicas of those that are new."""
    topic = image.topics.get(name)
    if topic is None:
        return Outcome(
            name, UNKNOWN_TOPIC_OR_PARTITION, f"This server does not host this topic-partition: create topic {name!r} first."
        )
    brokers = sorted(image.brokers)
    error_code, message = _growth_fault(topic, count, assignments, brokers)
    if error_code:
        return Outcome(name, error_code, message)
    old = len(topic.partitions)
    size = len(topic.partitions[0].replicas)
    placed = spread(brokers, count - old, size, old) if assignments is None else tuple(map(tuple, assignments))
    replicas = {partition.index: partition.replicas for partition in topic.partitions} | dict(enumerate(placed, old))
    changes = (Change(layout.topic_path(name), layout.topic_json(topic.topic_id, replicas)), *_states(image, name, old, placed))
    return Outcome(name, NONE, None, changes, topic.topic_id, placed)


def _growth_fault(topic: TopicImage, count: int, assignments: Sequence[Sequence[int]] | None, brokers: Sequence[int]) -> Fault:
    old = len(topic.partitions)
    if count <= old:
        if count == old:
            return INVALID_PARTITIONS, f"Topic already has {old} partition(s): ask for more."
        now = f"The topic {topic.name} currently has {old} partition(s)"
        return INVALID_PARTITIONS, f"{now}; {count} would not be an increase: ask for more."
    if count - old > MOST_PARTITIONS:
        return POLICY_VIOLATION, _TOO_MANY
    size = len(topic.partitions[0].replicas)
    if assignments is None:
        return factor_error(size, len(brokers))
    if len(assignments) != count - old:
        return (
            INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {count - old} additional partition(s), but only {len(assignments)} assignment(s) were specified: "
            "place each of the new ones, and no other.",
        )
    return assignment_error(assignments, brokers, size)


def set_configs(topic: TopicImage, configs: Mapping[str, str | None], config_error: ConfigError) -> Outcome:
    """Let these be all the settings that the topic has of its own."""
    sentence = config_error(configs)
    if sentence is not None:
        return Outcome(topic.name, INVALID_CONFIG, sentence)
    texts = {name: text.strip() for name, text in configs.items() if text is not None}
    return Outcome(topic.name, NONE, None, (Change(layout.topic_config_path(topic.name), layout.config_json(texts)),))
