"""Decisions about topics: create them, delete them, add partitions, place replicas on brokers, change settings.

Every function reads the image, changes nothing, and returns changes of the registry (`Decision`) with Kafka's error codes.
Callers parse requests and fill in defaults. Numbers can still be invalid.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from itertools import zip_longest

from ottla.cluster import layout
from ottla.cluster.decision import Decision
from ottla.cluster.image import NO_TOPIC_ID, ClusterImage, PartitionImage, TopicImage
from ottla.cluster.names import PROHIBITED, collision_key, name_error
from ottla.ports import NEW, Change, Entry
from ottla.values import dataclass
from ottla.wire.errors import (
    INVALID_CONFIG,
    INVALID_PARTITIONS,
    INVALID_REPLICA_ASSIGNMENT,
    INVALID_REPLICATION_FACTOR,
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

Replicas = tuple[tuple[int, ...], ...]
"""The replicas of each partition; the first one leads."""


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
    cordoned: Collection[int] = (),
) -> list[Decision]:
    """Return a decision for each topic, in order. A name that occurs twice is refused. `room` is the most partitions in total.

    `cordoned` brokers get only the replicas that are assigned to them by hand.
    """
    twice = {name for name, times in Counter(topic.name for topic in wanted).items() if times > 1}
    claimed: dict[str, str] = {}
    decisions: list[Decision] = []
    for topic in wanted:
        if topic.name in twice:
            decisions.append(Decision(topic.name, INVALID_REQUEST, TWICE.format(topic.name)))
            continue
        decision = _create_one(image, topic, claimed, room, new_id, config_error, cordoned)
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
    cordoned: Collection[int],
) -> Decision:
    error_code, message = _name_fault(image, topic.name, claimed)
    if not error_code and (sentence := config_error(topic.configs)) is not None:
        error_code, message = INVALID_CONFIG, sentence
    if error_code:
        return Decision(topic.name, error_code, message)
    placed = _place(image, topic, room, cordoned)
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
    other = image.find_collision(name) or claimed.get(collision_key(name))
    if other is not None:
        return (
            INVALID_TOPIC_EXCEPTION,
            f"Topic '{name}' collides with existing topic: {other}; names must differ in more than '.' and '_', for metrics' sake.",
        )
    return NONE, None


def _place(image: ClusterImage, topic: TopicSpec, room: int, cordoned: Collection[int]) -> Replicas | Decision:
    """Return the replicas of each partition of a new topic, or the refusal of the topic.

    The topic may have at most `room` partitions, which is checked first.
    """
    if len(topic.assignments) > MOST_PARTITIONS:
        return Decision(topic.name, POLICY_VIOLATION, _TOO_MANY)
    racks = _racks(image, cordoned)
    if topic.assignments:
        placed: Replicas = tuple(nodes for _, nodes in sorted(topic.assignments))
        error_code, message = _by_hand(topic, placed, sorted(image.brokers))
    else:
        placed = ()
        error_code, message = _by_number(topic, len(racks))
    count = len(placed) or topic.partitions
    if not error_code and count > room:
        error_code, message = POLICY_VIOLATION, _TOO_MANY
    if error_code:
        return Decision(topic.name, error_code, message)
    return placed or spread_over_racks(racks, topic.partitions, topic.replication_factor, len(image.topics))


def _racks(image: ClusterImage, cordoned: Collection[int]) -> dict[int, str | None]:
    """Return the rack of each broker on which replicas are placed."""
    return {node: broker.rack for node, broker in image.brokers.items() if node not in cordoned}


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
    """A topic as parsed from its registry entry, and whether it is being reassigned, which the cluster image does not contain."""

    topic: TopicImage
    is_being_reassigned: bool


def parse_stored(name: str, entry: Entry | None) -> StoredTopic | None:
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
    image: ClusterImage,
    name: str,
    found: TopicImage | StoredTopic | None,
    count: int,
    assignments: Sequence[Sequence[int]] | None,
    cordoned: Collection[int] = (),
) -> Decision:
    """Increase a topic to `count` partitions; refuse this during a reassignment. `assignments` are the new partitions' replicas.

    `cordoned` brokers get only the replicas that are assigned to them by hand.
    """
    topic = found.topic if isinstance(found, StoredTopic) else found
    if topic is None:
        return Decision(
            name, UNKNOWN_TOPIC_OR_PARTITION, f"This server does not host this topic-partition: create topic {name!r} first."
        )
    if isinstance(found, StoredTopic) and found.is_being_reassigned:
        return Decision(name, REASSIGNMENT_IN_PROGRESS, _MOVING.format(name))
    racks = _racks(image, cordoned)
    brokers = sorted(racks if assignments is None else image.brokers)
    error_code, message = _growth_fault(topic, count, assignments, brokers)
    if error_code:
        return Decision(name, error_code, message)
    old = len(topic.partitions)
    size = len(topic.partitions[0].replicas)
    placed = spread_over_racks(racks, count - old, size, old) if assignments is None else tuple(map(tuple, assignments))
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


def spread(brokers: Sequence[int], partitions: int, replication_factor: int, first: int = 0) -> Replicas:
    """Place replicas on `replication_factor` different brokers, with leaders spread evenly from the `first`-th broker on.

    After every `len(brokers)` partitions, followers are shifted by one more broker. The followers of one leader are thus on
    different brokers.
    """
    count = len(brokers)
    if replication_factor == 1:  # a fast path, because one request can create ten thousand partitions
        begin = first % count
        return (tuple((node,) for node in (*brokers[begin:], *brokers[:begin])) * (partitions // count + 1))[:partitions]
    placed = []
    for number in range(first, first + partitions):
        shift = (number // count) % max(count - 1, 1)
        followers = [(number + 1 + (shift + step) % max(count - 1, 1)) % count for step in range(replication_factor - 1)]
        placed.append(tuple(brokers[position] for position in (number % count, *followers)))
    return tuple(placed)


def spread_over_racks(racks: Mapping[int, str | None], partitions: int, replication_factor: int, first: int = 0) -> Replicas:
    """Place replicas evenly as `spread` does, but the replicas of each partition on as many racks as possible.

    Racks are ignored if a broker has none.
    """
    if None in racks.values():
        return spread(sorted(racks), partitions, replication_factor, first)
    brokers = _alternate_racks(racks)
    if replication_factor == 1:
        return spread(brokers, partitions, replication_factor, first)
    count, several = len(brokers), len(set(racks.values()))
    placed = []
    for number in range(first, first + partitions):
        shift = (number // count) % max(count - 1, 1)
        others = [(number + 1 + (shift + step) % max(count - 1, 1)) % count for step in range(count - 1)]
        nodes, used = [brokers[number % count]], {racks[brokers[number % count]]}
        while len(nodes) < replication_factor:
            node = next(
                brokers[other]
                for other in others
                if brokers[other] not in nodes and (racks[brokers[other]] not in used or len(used) == several)
            )
            nodes.append(node)
            used.add(racks[node])
        placed.append(tuple(nodes))
    return tuple(placed)


def _alternate_racks(racks: Mapping[int, str | None]) -> list[int]:
    """Return the brokers in an order in which adjacent brokers are in different racks, if possible."""
    rows: dict[str | None, list[int]] = {}
    for node in sorted(racks):
        rows.setdefault(racks[node], []).append(node)
    columns = zip_longest(*(rows[rack] for rack in sorted(rows, key=str)))
    return [node for column in columns for node in column if node is not None]


def factor_error(replication_factor: int, brokers: int) -> tuple[int, str | None]:
    """Return (error code, message) for an impossible replication factor; (NONE, None) for a possible one."""
    if replication_factor < 1:
        return INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0, or -1 to use the default value."
    if not brokers:
        sentence = f"Unable to replicate the partition {replication_factor} time(s): All brokers are currently fenced, or have all"
        return INVALID_REPLICATION_FACTOR, f"{sentence} their log directories cordoned. Change cordoned.log.dirs."
    if replication_factor > brokers:
        return (
            INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): "
            f"The target replication factor of {replication_factor} cannot be reached "
            f"because only {brokers} broker(s) are registered; request at most {brokers}.",
        )
    return NONE, None


def assignment_error(replicas: Sequence[Sequence[int]], brokers: Sequence[int], size: int | None = None) -> tuple[int, str | None]:
    """Return (error code, message) for an invalid manual assignment, else (NONE, None). `size` is the replication factor."""
    size = len(replicas[0]) if size is None and replicas else size
    sound: set[tuple[int, ...]] = set()
    for index, nodes in enumerate(map(tuple, replicas)):
        if nodes in sound:  # a fast path, because most of thousands of lists are equal
            continue
        sentence = _fault(index, nodes, brokers)
        if sentence is None and len(nodes) != size:
            sentence = f"The assignment gives position {index} {len(nodes)} replicas instead of {size}: give all as many."
        if sentence is not None:
            return INVALID_REPLICA_ASSIGNMENT, sentence
        sound.add(nodes)
    return NONE, None


def _fault(index: int, nodes: Sequence[int], brokers: Sequence[int]) -> str | None:
    if not nodes:
        return f"The manual partition assignment includes an empty replica list: name a broker for position {index}."
    if len(set(nodes)) < len(nodes):
        twice = next(node for node in nodes if list(nodes).count(node) > 1)
        return f"The manual partition assignment includes the broker {twice} more than once: name each once for position {index}."
    strangers = [node for node in nodes if node not in brokers]
    if strangers:
        return f"The manual partition assignment includes broker {strangers[0]}, but no such broker is registered: name another."
    return None
