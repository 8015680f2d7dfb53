"""The broker services for group coordinators: settings, topics, ids, assignors, and notifications of deleted topics.

Contains no rules of groups: `ottla.coord.group_machine` decides, and `coordinators` routes requests to it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.coordination.coordinators import CoordinatorKind, CoordinatorRooms, Coordinators
from ottla.broker.coordination.replay import stored_records
from ottla.broker.partitions.partition import Partition
from ottla.broker.releases.interbroker_versions import Switch
from ottla.broker.scheduler import Waits
from ottla.broker.security.rights import Rights
from ottla.broker.settings import SettingsInForce
from ottla.broker.settings.group import in_force
from ottla.cluster.image import ClusterImage, TopicImage
from ottla.cluster.names import OFFSETS_TOPIC
from ottla.coord.memory import GroupMemory
from ottla.coord.runtime.shard import Shard
from ottla.ports import Now, Steps

if TYPE_CHECKING:
    from ottla.coord.consumer.assign import Assignor
    from ottla.coord.consumer.topics import KnownTopic, KnownTopics
    from ottla.coord.group_machine import GroupMachine
    from ottla.coord.offset_reader import Replayed
    from ottla.coord.outcome import TopicsChanged, TopicsForgotten
    from ottla.coord.settings import GroupSettings

log = logging.getLogger("ottla.broker")

MOST_WAIT_MS: Final = 500
"""Longest wait of a deletion for the removal of a topic's offsets, in ms."""


class GroupTopics:
    """The topics known to group coordinators. Changes are recorded one by one, and passed on to coordinators in batches."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._topics: KnownTopics | None = None
        self._noted: set[str] = set()
        self._are_new = False

    def note(self, names: Collection[str]) -> None:
        """Record that topics were created, changed or deleted."""
        if self._topics is None:
            return
        images = {name: self._image.topics.get(name) for name in names}
        present = [self._topic_of(image) for image in images.values() if image is not None]
        self._are_new = self._are_new or any(self._topics.with_id(topic.topic_id) is None for topic in present)
        self._topics = self._topics.with_changes(present, [name for name, image in images.items() if image is None])
        self._noted.update(names)

    def present_topics(self) -> KnownTopics:
        from ottla.coord.consumer.topics import KnownTopics

        if self._topics is None:
            self._topics = KnownTopics(self._topic_of(image) for image in self._image.topics.values())
        return self._topics

    def pop_changes(self) -> TopicsChanged | None:
        """Return the changes since the last call, for the coordinators. Return None if there are none."""
        if not self._noted or self._topics is None:
            return None
        from ottla.coord.outcome import TopicsChanged

        names, self._noted = frozenset(self._noted), set()
        are_new, self._are_new = self._are_new, False
        return TopicsChanged(self._topics, names, are_new)

    def _topic_of(self, image: TopicImage) -> KnownTopic:
        from ottla.coord.consumer.assign import TopicShape
        from ottla.coord.consumer.topics import KnownTopic

        return KnownTopic(image.name, image.topic_id, TopicShape(len(image.partitions), self._racks(image)))

    def _racks(self, image: TopicImage) -> tuple[frozenset[str], ...]:
        """Return the racks of each partition's replicas; empty if no broker has a rack."""
        racks = {node_id: broker.rack for node_id, broker in self._image.brokers.items() if broker.rack}
        if not racks:
            return ()
        return tuple(frozenset(racks[node] for node in partition.replicas if node in racks) for partition in image.partitions)


class GroupShards(Coordinators["GroupMachine"]):
    """The group coordinators of this broker."""


class GroupCoordinators:
    """The group coordinators of this broker (`coordinators`), and the changes of topics and settings that are passed to them.

    `assignors` are the custom assignors in the settings, or None for the built-in assignors. The modules of machines are imported
    with the first coordinator, because many brokers never have one.
    """

    def __init__(
        self,
        rooms: CoordinatorRooms,
        settings: SettingsInForce,
        random_bytes: Callable[[int], bytes],
        assignors: tuple[Assignor, ...] | None,
        rights: Rights,
    ) -> None:
        kind = CoordinatorKind(
            OFFSETS_TOPIC,
            self._new_machine,
            _read,
            _refuse,
            self._notify_of_topics,
            self._on_load,
            self._stop_removal,
            carry_out=self._execute,
            shown_to=None if rights.is_open else rights.shown_to,
            patience_ms=lambda: settings.value.offsets_commit_timeout_ms,
        )
        self.coordinators = GroupShards(kind, rooms)
        self._image = rooms.image
        self._topics = GroupTopics(rooms.image)
        self._settings = settings
        self._random_bytes = random_bytes
        self._assignors = assignors
        self._memory = GroupMemory(self.coordinators.weight)
        self._scheduler = rooms.scheduler
        self.carry_out: dict[str, Callable[[Shard[GroupMachine], Any], None]] = {}
        """The functions that execute orders of coordinators, by the name of the order's type: no machine is imported for them."""
        self._forgetting: dict[int, set[str]] = {}
        self._forgotten_waits = Waits(rooms.scheduler)
        settings.told.append(self._settings_changed)

    @property
    def machines(self) -> list[GroupMachine]:
        """Return the loaded machines, for reading only."""
        return [shard.machine for shard in self.coordinators.shards]

    def load(self, now: Now, deleted: Iterable[str]) -> None:
        """Replay every partition of `__consumer_offsets`, and continue to remove the offsets of `deleted` topics."""
        self.coordinators.load_at_once()
        self.topics_deleted(deleted, now)

    def topics_changed(self, names: Collection[str]) -> None:
        """Record changes of topics. Coordinators are updated before their next decision."""
        self._topics.note(names)

    def topics_deleted(self, names: Iterable[str], now: Now) -> None:
        """Remove the offsets committed for deleted topics. If `__consumer_offsets` is deleted, remove all groups."""
        gone = frozenset(names)
        if OFFSETS_TOPIC in gone:
            self._forgetting.clear()
            self.coordinators.unload()
        if not gone:
            return
        for index in self.coordinators.indexes:
            self._forgetting.setdefault(index, set()).update(gone)
        self._notify_of_topics(now)
        for index, shard in self.coordinators.present():
            self._remove_offsets(shard, index, gone, now)

    def transaction_ended(self, partition: Partition, producer_id: int, committed: bool, now: Now) -> None:
        """Apply a marker in a partition of `__consumer_offsets`, which commits or aborts the producer's offsets in it."""
        shard = self.coordinators.of(partition)
        if shard is not None:
            from ottla.coord.records import TransactionEnded

            shard.submit(TransactionEnded(producer_id, committed), now)

    def is_forgetting(self, topic: str) -> bool:
        """Return whether a coordinator may still keep offsets of a deleted topic."""
        return any(topic in names for names in self._forgetting.values())

    def awaits_forgotten(self, topics: Collection[str]) -> Steps[None]:
        """Wait until no coordinator keeps offsets of these deleted topics; only briefly, because the controller retries."""
        until_ms = self._scheduler.now().mono_ms + MOST_WAIT_MS
        return self._forgotten_waits.until(lambda: not any(map(self.is_forgetting, topics)), until_ms)

    def _remove_offsets(self, shard: Shard[GroupMachine], index: int, names: frozenset[str], now: Now) -> None:
        from ottla.coord.outcome import TopicsDeleted

        shard.submit(TopicsDeleted(names), now, partial(self._offsets_removed, index))

    def _offsets_removed(self, index: int, answer: TopicsForgotten) -> None:
        """Record the removal of offsets in partition `index`. After an error, the partition's next coordinator continues it."""
        if answer.error_code:
            return
        left = self._forgetting.get(index, set())
        left -= answer.names
        if not left:
            self._forgetting.pop(index, None)
        self._forgotten_waits.notify()

    def _new_machine(self) -> GroupMachine:
        from ottla.coord.consumer.events import TopicsSeen
        from ottla.coord.group_machine import GroupMachine

        settings, assignors = self._group_settings(), self._assignors_in_force()
        machine = GroupMachine(settings, self._new_id, assignors, self._settings_of_group, self._memory)
        machine.apply(TopicsSeen(self._topics.present_topics(), frozenset(), new=False))
        return machine

    def _on_load(self, shard: Shard[GroupMachine], index: int, now: Now) -> None:
        groups, offsets = shard.machine.count, len(shard.machine.offsets)
        if groups:
            log.info("%s: %d groups, %d committed offsets", shard.name, groups, offsets)
        if index in self._forgetting:
            self._remove_offsets(shard, index, frozenset(self._forgetting[index]), now)

    def _execute(self, partition: Partition, shard: Shard[GroupMachine], order: object) -> None:
        """Execute an order of a coordinator whose records are durable, if some part of this broker executes such orders."""
        function = self.carry_out.get(type(order).__name__)
        if function is not None:
            function(shard, order)

    def _stop_removal(self, index: int) -> None:
        """Stop the removal of offsets in this partition: the coordinator's new broker is notified of deleted topics itself."""
        self._forgetting.pop(index, None)

    def _notify_of_topics(self, now: Now) -> None:
        """Pass topic changes on to all loaded coordinators."""
        changed = self._topics.pop_changes()
        if changed is not None:
            for shard in self.coordinators.shards:
                shard.submit(changed, now)

    def _settings_changed(self) -> None:
        """Apply changed group settings from the next decision on."""
        for machine in self.machines:
            machine.configure(self._group_settings())

    def _group_settings(self) -> GroupSettings:
        from ottla.coord.settings import MINUTE_MS, GroupSettings

        settings = self._settings.value
        return self._settings.part(
            GroupSettings,
            offsets_retention_ms=settings.offsets_retention_minutes * MINUTE_MS,
            group_share_initialize_retry_interval_ms=max(
                settings.group_share_initialize_retry_interval_ms, settings.offsets_commit_timeout_ms
            ),
            stores_topic_ids=settings.inter_broker_protocol_version.has(Switch.FLEXIBLE_OFFSETS),
        )

    def _settings_of_group(self, group_id: str) -> Mapping[str, object]:
        texts = self._image.group_configs.get(group_id)
        return in_force(self._settings.value, texts) if texts else {}

    def _assignors_in_force(self) -> tuple[Assignor, ...]:
        if self._assignors is not None:
            return self._assignors
        from ottla.coord.consumer.assign.built_in import BUILT_IN

        by_name = {assignor.name: assignor for assignor in BUILT_IN}
        return tuple(by_name[name] for name in self._settings.value.group_consumer_assignors)

    def _new_id(self) -> str:
        """Return a random UUID (version 4) as a string."""
        raw = bytearray(self._random_bytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        text = raw.hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _read(partition: Partition) -> Iterable[Replayed]:
    from ottla.coord.offset_reader import OffsetReader

    return stored_records(partition, OffsetReader())


def _refuse(body: object, error_code: int) -> object:
    """Return the reply to a request that no coordinator decides."""
    from ottla.coord.refusal import refuse

    return refuse(body, error_code)
