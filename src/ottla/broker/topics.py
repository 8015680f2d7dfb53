"""The broker's topics: decisions of `ottla.cluster` committed to the registry, applied to the image, and made real as logs.

Composes cluster, registry and partitions. Knows no wire formats: handlers turn requests into its calls.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.producer_ids import ProducerIds
from ottla.broker.settings import topic_config_error
from ottla.broker.settings.group import group_config_error
from ottla.cluster import groups, layout
from ottla.cluster import topics as decide
from ottla.cluster.image import ClusterImage, RegistryDamaged, TopicImage
from ottla.cluster.names import INTERNAL
from ottla.cluster.outcome import Outcome
from ottla.cluster.topics import NewTopic
from ottla.log.names import DELETING, STRAY, set_aside_name
from ottla.ports import Change, Now, StorageFailed
from ottla.wire.errors import KAFKA_STORAGE_ERROR

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

log = logging.getLogger("ottla.broker")

OFFSETS_TOPIC = "__consumer_offsets"

_PARTITION_DIRECTORY = re.compile(r".+-\d+")
_DELETED_DIRECTORY = re.compile(rf".+-\d+\.[0-9a-f]{{32}}{DELETING}")
_RESERVED_IDS = (bytes(16), bytes(15) + b"\x01")


class Topics:
    """All topics of the cluster (`image`), and the logs of those partitions that this broker holds."""

    def __init__(self, broker: Broker) -> None:
        self.image = ClusterImage()
        self.producer_ids = ProducerIds(broker.registry, broker.node_id)
        self._broker = broker
        self._opened: dict[str, tuple[bytes, int]] = {}

    def load(self, now: Now, *, clean: bool) -> None:
        """Read the registry, say in it that this broker is up, and open every partition's log.

        Directories of partitions that no topic has are set aside under another name; partitions whose directory is missing begin
        empty; both are told. Raises `StorageFailed` and `RegistryDamaged`.
        """
        self.image = ClusterImage.load(self._broker.registry)
        names = self._broker.disk.list("")
        self._check_registry(names)
        self._broker.partitions.checkpoints.load()
        self._announce(now)
        self._take_broker_configs()
        for name in names:
            if _DELETED_DIRECTORY.fullmatch(name):
                self._broker.disk.remove_tree(name)
        present = {name for name in names if _PARTITION_DIRECTORY.fullmatch(name)}
        held = {f"{topic.name}-{index}" for topic in self.image.topics.values() for index in range(len(topic.partitions))}
        for directory in sorted(present - held):
            log.warning("%s belongs to no topic; it is kept as %s", directory, self._set_aside(directory))
        self._tell_missing(sorted(held - present))
        for topic in self.image.topics.values():
            self._open(topic, 0, now, clean=clean)
        checkpoints = self._broker.partitions.checkpoints
        checkpoints.keep_only(
            {(topic.name, index) for topic in self.image.topics.values() for index in range(len(topic.partitions))}
        )
        checkpoints.settle()

    def _check_registry(self, names: Sequence[str]) -> None:
        """Whether the registry is the one of this directory: another one, or none, would have its records set aside."""
        entry = self._broker.registry.get(layout.CLUSTER_ID)
        if entry is not None and layout.read(entry.value)["id"] != self._broker.cluster_id:
            other = layout.read(entry.value)["id"]
            raise RegistryDamaged(f"its registry is of the cluster {other}, not of {self._broker.cluster_id}")
        partitions = [name for name in names if _PARTITION_DIRECTORY.fullmatch(name)]
        if entry is None and partitions:
            remedy = "restore registry.sqlite, or if Apache Kafka wrote them, copy the records through a client"
            raise RegistryDamaged(f"it holds partitions such as {partitions[0]}, and no registry that knows them: {remedy}")

    def _tell_missing(self, directories: Sequence[str]) -> None:
        if directories:
            log.warning(
                "%d partitions have no directory: those that held no records begin empty: %s", len(directories), _some(directories)
            )

    def get(self, name: str) -> TopicImage | None:
        return self.image.topics.get(name)

    def name_of(self, topic_id: bytes) -> str | None:
        return self.image.name_of(topic_id)

    def create(self, wanted: Sequence[NewTopic], now: Now, *, validate_only: bool = False) -> list[Outcome]:
        """Make these topics; each has its own outcome. With `validate_only` nothing is made, but all is decided."""
        outcomes = decide.create(self.image, wanted, self.new_topic_id, topic_config_error)
        return outcomes if validate_only else self._commit(outcomes, now)

    def create_by_default(self, names: Iterable[str], now: Now) -> list[Outcome]:
        """Make topics that nobody described: with the broker's numbers, and internal ones with their own."""
        return self.create([self._by_default(name) for name in names], now)

    def delete(self, names: Iterable[str], now: Now) -> list[Outcome]:
        """Delete topics that are there, with all their records and the offsets that groups committed for them."""
        outcomes = self._commit([decide.delete(self.image.topics[name]) for name in names], now)
        gone = [outcome.name for outcome in outcomes if not outcome.error_code]
        if gone:
            self._broker.coordination.topics_deleted(gone, now)
        return outcomes

    def add_partitions(
        self, name: str, count: int, assignments: Sequence[Sequence[int]] | None, now: Now, *, validate_only: bool = False
    ) -> Outcome:
        """Let a topic have `count` partitions; the new ones begin empty."""
        outcome = decide.add_partitions(self.image, name, count, assignments)
        return outcome if validate_only else self._commit([outcome], now)[0]

    def set_configs(self, name: str, configs: Mapping[str, str | None], now: Now, *, validate_only: bool = False) -> Outcome:
        """Let these be all the settings of a topic that is there; its logs follow at once."""
        outcome = decide.set_configs(self.image.topics[name], configs, topic_config_error)
        return outcome if validate_only else self._commit([outcome], now)[0]

    def set_broker_configs(
        self, node_id: int | None, configs: Mapping[str, str], now: Now, *, validate_only: bool = False
    ) -> Outcome:
        """Let these be all the settings that were set for one broker, or with None for all of them, while they run.

        Raises `SettingError`. Logs follow at once; so does whoever reads `broker.settings` anew.
        """
        ours = self._broker.settings
        if node_id is None:
            ours.changed(configs, ours.of_this_broker)
        else:
            ours.changed(ours.of_all_brokers, configs)
        changes = (Change(layout.broker_config_path(node_id), layout.config_json(configs)),)
        if validate_only:
            return Outcome("")
        outcome = self._commit([Outcome("", changes=changes)], now)[0]
        self._take_broker_configs()
        for topic in self.image.topics.values():
            self._broker.partitions.configure(topic.name, self._broker.settings.log_config(topic.configs))
        return outcome

    def set_group_configs(self, group_id: str, configs: Mapping[str, str], now: Now, *, validate_only: bool = False) -> Outcome:
        """Let these be all the settings of a group; its members hear of them with their next heartbeats."""
        outcome = groups.set_configs(group_id, configs, partial(group_config_error, self._broker.settings))
        if outcome.error_code or validate_only:
            return outcome
        return self._commit([replace(outcome, name="")], now)[0]

    def _take_broker_configs(self) -> None:
        configs = self.image.broker_configs
        if configs:
            self._broker.settings = self._broker.settings.changed(configs.get(None, {}), configs.get(self._broker.node_id, {}))
            self._broker.coordination.settings_changed()

    def new_topic_id(self) -> bytes:
        """16 random bytes as a version 4 UUID, none of those that Kafka reserves."""
        while True:
            raw = bytearray(self._broker.random_bytes(16))
            raw[6] = raw[6] & 0x0F | 0x40
            raw[8] = raw[8] & 0x3F | 0x80
            topic_id = bytes(raw)
            # Tools read an id on their command line, where one that begins with "-" looks like an option.
            if topic_id not in _RESERVED_IDS and not layout.uuid_text(topic_id).startswith("-"):
                return topic_id

    def _by_default(self, name: str) -> NewTopic:
        settings = self._broker.settings
        brokers = len(self.image.brokers)
        if name == OFFSETS_TOPIC:
            configs: dict[str, str | None] = {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(settings.offsets_topic_segment_bytes),
            }
            factor = min(settings.offsets_topic_replication_factor, brokers)
            return NewTopic(name, settings.offsets_topic_num_partitions, factor, configs=configs)
        if name in INTERNAL:
            factor = min(settings.transaction_state_log_replication_factor, brokers)
            return NewTopic(name, settings.transaction_state_log_num_partitions, factor, configs={"cleanup.policy": "compact"})
        return NewTopic(name, settings.num_partitions, settings.default_replication_factor)

    def _announce(self, now: Now) -> None:
        """This broker is up, and the controller: entries that go when its session ends."""
        broker, settings = self._broker, self._broker.settings
        endpoints = [str(listener) for listener in settings.advertised_listeners or ()]
        _, host, port = settings.advertised_listeners[0] if settings.advertised_listeners else ("", "", -1)
        registration = layout.broker_json(host, port, endpoints, settings.broker_rack, now.wall_ms)
        epoch = str(self.image.controller_epoch + 1).encode()
        changes = (
            Change(layout.CLUSTER_ID, layout.cluster_id_json(broker.cluster_id)),
            Change(layout.broker_path(broker.node_id), registration, ephemeral=True),
            Change(layout.CONTROLLER, layout.controller_json(broker.node_id, now.wall_ms), ephemeral=True),
            Change(layout.CONTROLLER_EPOCH, epoch),
        )
        broker.registry.commit(changes)
        self._apply(changes)

    def _commit(self, outcomes: list[Outcome], now: Now) -> list[Outcome]:
        """Make decided changes durable, all in one, then true; a registry that refuses turns them into errors."""
        changes = [change for outcome in outcomes for change in outcome.changes]
        if not changes:
            return outcomes
        try:
            self._broker.registry.commit(changes)
        except StorageFailed as failure:
            log.error("the registry refused a change of topics: %s", failure)
            sentence = "The broker's disk refused the change: look at its log, and try again when there is room."
            return [replace(outcome, error_code=KAFKA_STORAGE_ERROR, message=sentence) for outcome in outcomes]
        self._apply(changes)
        changed = [outcome.name for outcome in outcomes if outcome.changes]
        self._broker.coordination.topics_changed(changed)
        self._make_room(changed)
        for name in changed:
            self._follow(name, now)
        self._broker.partitions.checkpoints.settle()
        return outcomes

    def _apply(self, changes: Iterable[Change]) -> None:
        for change in changes:
            self.image.apply(change.path, change.value)

    def _follow(self, name: str, now: Now) -> None:
        """Let the open logs be those that the image says."""
        topic = self.image.topics.get(name)
        topic_id, count = self._opened.get(name, (b"", 0))
        if count and (topic is None or topic.topic_id != topic_id):
            for index in range(count):
                self._broker.partitions.drop(name, index)
            del self._opened[name]
            count = 0
        if topic is None:
            return
        if count:
            self._broker.partitions.configure(name, self._broker.settings.log_config(topic.configs))
        self._open(topic, count, now)
        self._broker.wake(("topic", name))

    def _open(self, topic: TopicImage, first: int, now: Now, *, clean: bool = True) -> None:
        """Open logs from the `first` partition on."""
        config = self._broker.settings.log_config(topic.configs)
        for index in range(first, len(topic.partitions)):
            self._broker.partitions.open(topic.name, index, topic.topic_id, config, now, clean=clean)
        self._opened[topic.name] = (topic.topic_id, len(topic.partitions))

    def _make_room(self, names: Iterable[str]) -> None:
        """Make the directories of partitions that are new, all for the price of one sync.

        Where that fails, each log tries by itself, and stays offline if it can't be made or finds another topic's files.
        """
        topics = [topic for name in names if (topic := self.image.topics.get(name)) is not None]
        new = [
            f"{topic.name}-{index}"
            for topic in topics
            for index in range(self._opened.get(topic.name, (b"", 0))[1], len(topic.partitions))
        ]
        if not new:
            return
        try:
            for directory in filter(self._broker.disk.exists, new):
                log.warning("%s is there though the partition is new; it is kept as %s", directory, self._set_aside(directory))
            self._broker.disk.make_dirs(new)
        except StorageFailed as failure:
            log.error("directories of new partitions could not be made: %s", failure)

    def _set_aside(self, directory: str) -> str:
        """Rename a directory that belongs to nothing as Kafka does, so that its records are not lost; returns the new name."""
        name = set_aside_name(directory, self._broker.random_bytes(16).hex(), STRAY)
        self._broker.disk.rename(directory, name)
        return name


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
