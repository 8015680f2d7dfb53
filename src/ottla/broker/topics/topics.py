"""The broker's topics: decisions of `ottla.cluster` committed to the registry, applied to the image, and made real as logs.

Composes cluster, registry and partitions. Knows no wire formats: handlers turn requests into its calls.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.failures import CONFLICTS, MOST_RACES
from ottla.broker.releases.traits import UNSEEN_MS
from ottla.broker.settings import topic_config_error
from ottla.broker.settings.group import group_config_error
from ottla.broker.topics.deletions import Deletions, note
from ottla.broker.topics.logs import TopicLogs
from ottla.broker.topics.producer_ids import ProducerIds
from ottla.cluster import groups, layout
from ottla.cluster import topics as decide
from ottla.cluster.image import NO_LEADER, ClusterImage, RegistryDamaged, TopicImage
from ottla.cluster.names import INTERNAL
from ottla.cluster.outcome import Outcome
from ottla.cluster.topics import NewTopic
from ottla.log.names import DELETING
from ottla.ports import Change, Now, StorageFailed
from ottla.wire.errors import KAFKA_STORAGE_ERROR, UNKNOWN_SERVER_ERROR, UNKNOWN_TOPIC_OR_PARTITION

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

log = logging.getLogger("ottla.broker")

OFFSETS_TOPIC = "__consumer_offsets"

_PARTITION_DIRECTORY = re.compile(r"(.+)-\d+")
_DELETED_DIRECTORY = re.compile(rf".+-\d+\.[0-9a-f]{{32}}{DELETING}")
_RESERVED_IDS = (bytes(16), bytes(15) + b"\x01")


class Topics:
    """All topics of the cluster (`image`), and the logs of those partitions that this broker holds (`logs`).

    What is decided here is in the registry and in the image at once, and when a method returns the logs are as the image says. With
    `at_once=False` they are not: whoever asks so goes through `logs.follow` himself, for thousands of them take long.
    """

    def __init__(self, broker: Broker) -> None:
        self.image = ClusterImage()
        self.producer_ids = ProducerIds(broker.registry, broker.node_id)
        self.logs = TopicLogs(broker)
        self._broker = broker
        self.made_by_default: dict[str, int] = {}
        """When each topic was made that nobody described, of late (ms, monotonic)."""
        self.deletions = Deletions(broker)

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
        self._lead_all()
        self._take_broker_configs()
        for name in names:
            if _DELETED_DIRECTORY.fullmatch(name):
                self._broker.disk.remove_tree(name)
        present = {name for name in names if _PARTITION_DIRECTORY.fullmatch(name)}
        held = {f"{topic.name}-{index}" for topic in self.image.topics.values() for index in range(len(topic.partitions))}
        self.deletions.load()
        for directory in sorted(present - held):
            self._clear_away(directory)
        self.deletions.all_renamed()
        self._tell_missing(sorted(held - present))
        for topic in self.image.topics.values():
            self.logs.open_all(topic, now, clean=clean)
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

    def _clear_away(self, directory: str) -> None:
        """A directory that is no partition's: it goes if its topic was deleted, and gets another name if nobody knows it."""
        known = _PARTITION_DIRECTORY.fullmatch(directory)
        if known is None or known[1] not in self.deletions.names:
            log.warning("%s belongs to no topic; it is kept as %s", directory, self.logs.set_aside(directory))
        else:
            self.logs.delete(directory)

    def _tell_missing(self, directories: Sequence[str]) -> None:
        if directories:
            log.warning(
                "%d partitions have no directory: those that held no records begin empty: %s", len(directories), _some(directories)
            )

    def get(self, name: str) -> TopicImage | None:
        return self.image.topics.get(name)

    def name_of(self, topic_id: bytes) -> str | None:
        return self.image.name_of(topic_id)

    def create(self, wanted: Sequence[NewTopic], now: Now, *, validate_only: bool = False, at_once: bool = True) -> list[Outcome]:
        """Make these topics; each has its own outcome. With `validate_only` nothing is made, but all is decided."""

        def decided() -> list[Outcome]:
            return decide.create(self.image, wanted, self.new_topic_id, topic_config_error)

        outcomes = decided()
        if validate_only:
            return outcomes
        made = [outcome.name for outcome in outcomes if not outcome.error_code]
        self._follow([name for name in made if not self.logs.is_gone(name)], now)  # a topic of that name is still going
        self._broker.partitions.checkpoints.settle(made)
        try:
            for name in made:
                self.logs.clear_away(name)
            self.deletions.sync(made)  # or a power cut could put a directory of the former topic in the place of the new one's
        except StorageFailed as failure:
            return [one if one.error_code else _refused(one, failure) for one in outcomes]
        return self._commit(decided, now, outcomes, at_once=at_once)

    def create_by_default(self, names: Iterable[str], now: Now) -> list[Outcome]:
        """Make topics that nobody described: with the broker's numbers, and internal ones with their own."""
        outcomes = self.create([self._by_default(name) for name in names], now)
        lately = {name: at_ms for name, at_ms in self.made_by_default.items() if now.mono_ms - at_ms < UNSEEN_MS}
        made = (outcome.name for outcome in outcomes if not outcome.error_code)
        self.made_by_default = lately | dict.fromkeys(made, now.mono_ms)
        return outcomes

    def delete(self, names: Iterable[str], now: Now, *, at_once: bool = True) -> list[Outcome]:
        """Delete topics that are there, with all their records and the offsets that groups committed for them."""
        wanted = list(names)
        outcomes = self._commit(lambda: [self._deletion(name) for name in wanted], now, at_once=False)
        gone = [outcome.name for outcome in outcomes if not outcome.error_code]
        if gone:
            self.deletions.begin(gone)
            self._broker.coordination.topics_deleted(gone, now)
        if at_once:
            self._follow(gone, now)
        return outcomes

    def _deletion(self, name: str) -> Outcome:
        topic = self.get(name)
        if topic is None:
            return Outcome(name, UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {name!r} any more: somebody else deleted it.")
        decided = decide.delete(topic)
        return replace(decided, changes=(*decided.changes, note(name)))

    def add_partitions(
        self,
        name: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None,
        now: Now,
        *,
        validate_only: bool = False,
        at_once: bool = True,
    ) -> Outcome:
        """Let a topic have `count` partitions; the new ones begin empty."""

        def decided() -> list[Outcome]:
            return [decide.add_partitions(self.image, name, count, assignments)]

        return decided()[0] if validate_only else self._commit(decided, now, at_once=at_once)[0]

    def set_configs(self, name: str, configs: Mapping[str, str | None], now: Now, *, validate_only: bool = False) -> Outcome:
        """Let these be all the settings of a topic that is there; its logs follow at once."""
        outcome = decide.set_configs(self.image.topics[name], configs, topic_config_error)
        if validate_only or outcome.error_code:
            return outcome
        outcome = self._commit(lambda: [outcome], now, at_once=False)[0]
        self._broker.partitions.configure(name, self._broker.settings.log_config(self.image.topics[name].configs), now)
        return outcome

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
        outcome = self._commit(lambda: [Outcome("", changes=changes)], now)[0]
        self._take_broker_configs()
        for topic in self.image.topics.values():
            self._broker.partitions.configure(topic.name, self._broker.settings.log_config(topic.configs), now)
        return outcome

    def set_group_configs(self, group_id: str, configs: Mapping[str, str], now: Now, *, validate_only: bool = False) -> Outcome:
        """Let these be all the settings of a group; its members hear of them with their next heartbeats."""
        outcome = groups.set_configs(group_id, configs, partial(group_config_error, self._broker.settings))
        if outcome.error_code or validate_only:
            return outcome
        return self._commit(lambda: [replace(outcome, name="")], now)[0]

    def _take_broker_configs(self) -> None:
        configs = self.image.broker_configs
        if configs:
            self._broker.settings_in_force.change(configs.get(None, {}), configs.get(self._broker.node_id, {}))

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

    def _lead_all(self) -> None:
        """A broker that ended while it made a topic has left partitions whose leader is not known."""
        epoch = self.image.controller_epoch
        changes = [
            Change(layout.state_path(topic.name, one.index), layout.state_json(epoch, one.replicas[0], 0, one.replicas))
            for topic in self.image.topics.values()
            for one in topic.partitions
            if one.leader == NO_LEADER and not one.isr
        ]
        self._broker.registry.commit(changes)
        self._apply(changes)

    def _commit(
        self, decided: Callable[[], list[Outcome]], now: Now, outcomes: list[Outcome] | None = None, *, at_once: bool = True
    ) -> list[Outcome]:
        """Make what is `decided` durable, all in one, then true; a registry that refuses turns it into errors.

        Where another broker was quicker it is decided again, for what that one did. `outcomes`, if given, were decided just now.
        """
        for _ in range(MOST_RACES):
            outcomes = decided() if outcomes is None else outcomes
            if not any(outcome.changes for outcome in outcomes):
                return outcomes
            changes = [change for outcome in outcomes for change in outcome.changes if not _is_state(outcome, change)]
            self._broker.changes.made = True
            try:
                self._broker.registry.commit(changes)
            except CONFLICTS as conflict:
                log.info("another broker was quicker to change %s", conflict)
                self._look_again(changes)
                outcomes = None
            except StorageFailed as failure:
                return [_refused(outcome, failure) for outcome in outcomes]
            else:
                self._committed(outcomes, changes, now, at_once=at_once)
                return outcomes
        sentence = "Other brokers change the same things all the time: try again."
        return [replace(outcome, error_code=UNKNOWN_SERVER_ERROR, message=sentence) for outcome in decided()]

    def _look_again(self, changes: Iterable[Change]) -> None:
        """Let the image say what the registry does of all that these changes would have touched."""
        for change in changes:
            entry = self._broker.registry.get(change.path)
            self.image.apply(change.path, None if entry is None else entry.value)

    def _committed(self, outcomes: list[Outcome], changes: list[Change], now: Now, *, at_once: bool) -> None:
        """Let what the registry took become true.

        Who leads a new partition is not among it: that comes with its log, and the next start gives it to what has no log yet.
        """
        self._apply(changes)
        for outcome in outcomes:
            self.logs.lead_later(outcome.topic_id, [change for change in outcome.changes if _is_state(outcome, change)])
        changed = [outcome.name for outcome in outcomes if outcome.changes]
        self._broker.coordination.topics_changed(changed)
        if at_once:
            self._follow(changed, now)

    def _follow(self, names: Sequence[str], now: Now) -> None:
        for _ in self.logs.follow(names, now):
            pass

    def _apply(self, changes: Iterable[Change]) -> None:
        for change in changes:
            self.image.apply(change.path, change.value)


def _refused(outcome: Outcome, failure: StorageFailed) -> Outcome:
    log.error("a change of topics was refused: %s", failure)
    sentence = "The broker's disk refused the change: look at its log, and try again when there is room."
    return replace(outcome, error_code=KAFKA_STORAGE_ERROR, message=sentence)


def _is_state(outcome: Outcome, change: Change) -> bool:
    """Whether a change says who leads a partition."""
    return change.path.startswith(layout.partitions_path(outcome.name))


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
