"""Restoration of topics whose directories exist but whose entries are missing in the registry. Decides, and commits nothing.

A directory reveals the topic's name and id and the partition's index, but not the topic's configs. An adopted topic keeps all
records until an operator restores its configs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ottla.broker.settings import BrokerSettings
from ottla.broker.topics.by_name import default_topic
from ottla.cluster import layout
from ottla.cluster.image import ClusterImage, TopicImage
from ottla.cluster.names import INTERNAL, name_error
from ottla.log.names import PARTITION_METADATA
from ottla.ports import Change, Disk

KEEP_ALL = {"retention.ms": "-1", "retention.bytes": "-1"}

MOST_MISSING = 1000
"""Upper limit of partitions without a directory in an adopted topic. A name that ends with a date, such as t-20200101, is no
partition."""


class Adoption(NamedTuple):
    """The decision whether to restore one topic from directories of partitions that the registry lacks.

    It has the changes to commit, or none if the topic is refused, and a message.
    """

    topic: str
    changes: tuple[Change, ...]
    sentence: str


def adopt(
    image: ClusterImage,
    disk: Disk,
    strangers: Sequence[str],
    node_id: int,
    new_id: Callable[[], bytes],
) -> list[Adoption]:
    """Decide for each topic with these directories whether to restore it, sorted by name. Raises `StorageFailed`."""
    found: dict[str, dict[int, bytes | None]] = defaultdict(dict)
    for directory in strangers:
        name, _, index = directory.rpartition("-")
        if index == str(int(index)):
            found[name][int(index)] = _topic_id(disk, directory)
    return [_adopt_one(image, name, parts, node_id, new_id) for name, parts in sorted(found.items())]


def _adopt_one(
    image: ClusterImage, name: str, parts: dict[int, bytes | None], node_id: int, new_id: Callable[[], bytes]
) -> Adoption:
    known = image.topics.get(name)
    ids = {topic_id for topic_id in parts.values() if topic_id is not None} | ({known.topic_id} if known else set())
    twin = image.find_collision(name)
    sentence = name_error(name)
    if twin is not None:
        sentence = f"Topic '{name}' collides with the topic {twin}: move its directories elsewhere."
    first = len(known.partitions) if known else 0
    count = max(parts) + 1
    if count - first > MOST_MISSING + len(parts):
        sentence = f"The directories of {name} go up to {name}-{count - 1}, and those below are missing: move them elsewhere."
    if len(ids) > 1:
        sentence = f"The directories of {name} are of several topics of that name: move those that do not belong elsewhere."
    if sentence is not None:
        return Adoption(name, (), sentence)
    kept = {one.index: one.replicas for one in known.partitions} if known else {}
    placed: dict[int, tuple[int, ...]] = dict.fromkeys(range(first, count), (node_id,))
    topic_id = ids.pop() if ids else new_id()
    changes = [
        Change(layout.topic_path(name), layout.topic_json(topic_id, kept | placed)),
        *(
            Change(layout.state_path(name, index), layout.state_json(image.controller_epoch, node_id, 0, nodes))
            for index, nodes in placed.items()
        ),
    ]
    if known is None:
        changes.append(Change(layout.topic_config_path(name), layout.config_json(_configs(name))))
    return Adoption(name, tuple(changes), _explain(name, known, count, sorted(set(placed) - set(parts))))


def _configs(name: str) -> dict[str, str]:
    if name not in INTERNAL:
        return KEEP_ALL
    configs = default_topic(name, BrokerSettings.parse({}), 1).configs
    return {key: text for key, text in configs.items() if text is not None}


def _explain(name: str, known: TopicImage | None, count: int, missing: list[int]) -> str:
    parts = f"{count} partition" + ("s" if count > 1 else "")
    sentence = f"{name} has {parts} now" if known else f"{name} is a topic of {parts} again"
    if missing:
        sentence += f"; there is no directory of {', '.join(map(str, missing))}, which begin empty"
    if known is None and name not in INTERNAL:
        sentence += "; its settings are lost: it keeps all records (retention.ms=-1) until you set what it had"
    return sentence + "."


def _topic_id(disk: Disk, directory: str) -> bytes | None:
    path = f"{directory}/{PARTITION_METADATA}"
    if not disk.exists(path):
        return None
    for line in disk.read_file(path).decode(errors="replace").splitlines():
        key, _, text = line.partition(": ")
        if key == "topic_id":
            try:
                return layout.uuid_bytes(text.strip())
            except ValueError:
                return None
    return None
