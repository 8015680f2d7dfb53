"""The check, before a broker registers, that its data directory has the records that the cluster expects.

The directory contains the broker epoch of its last registration, and the registry the newest epoch of each broker. A directory
that is empty, or has an older epoch, may lack records. Its broker registers once the broker is in no ISR, or once an operator has
accepted the loss. Depends on the registry and the disk, and not on logs.

A broker with a lost data directory leaves the ISR of each partition before it registers.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

from ottla.broker.failures import CONFLICTS, MOST_RACES
from ottla.broker.scheduler import Scheduler
from ottla.cluster import layout
from ottla.cluster.controller_rules import entries
from ottla.cluster.controller_rules.context import LeaderAndIsr, TopicPartition
from ottla.cluster.image import NO_LEADER
from ottla.ports import Change, Disk, SharedRegistry, Steps

log = logging.getLogger("ottla.broker")

BROKER_EPOCH: Final = ".broker-epoch"
"""The file with the broker epoch of the last registration. Directories older than this file have none, and are trusted."""

NEW: Final = b"new\n"
"""The file's content until the first registration of a directory that was created empty."""

NO_EPOCH: Final = -1

PATIENCE: Final = 3
"""Session timeouts during which a broker waits for the controller to remove it from the ISR of all partitions."""

LOOK_MS: Final = 500

AT_ONCE = 2000
"""Entries read in one request."""

TOLD_AT_ONCE = 3000
"""Upper limit of partitions in one notification of the controller."""


def in_sync_of(
    registry: SharedRegistry, node_id: int, places: Iterable[TopicPartition] | None = None
) -> Steps[dict[TopicPartition, LeaderAndIsr]]:
    """Return the states whose ISR contains the broker, among `places` or all partitions. Topics under deletion are skipped.

    States that can't be decoded are skipped, because the controller reports them.
    """
    found = dict[TopicPartition, LeaderAndIsr]()
    (leaving,) = yield from registry.list([entries.DELETIONS])
    gone = set(leaving or ())
    if places is None:
        places = yield from _all(registry)
    wanted = [one for one in places if one[0] not in gone]
    for first in range(0, len(wanted), AT_ONCE):
        some = wanted[first : first + AT_ONCE]
        read = yield from registry.read([layout.state_path(*one) for one in some])
        for one, entry in zip(some, read, strict=True):
            if entry is not None:
                with suppress(ValueError):
                    state = entries.state(entry)
                    if node_id in state.isr:
                        found[one] = state
    return found


def _all(registry: SharedRegistry) -> Steps[list[TopicPartition]]:
    (topics,) = yield from registry.list([layout.TOPICS])
    names = topics or []
    indexes = yield from registry.list([layout.partitions_path(name) for name in names])
    return [(name, int(index)) for name, some in zip(names, indexes, strict=True) for index in some or () if index.isdecimal()]


def _leave_in_sync_sets(registry: SharedRegistry, node_id: int, counted: Mapping[TopicPartition, LeaderAndIsr]) -> Steps[bool]:
    """Remove the broker from the ISR of these partitions, and notify the controller.

    The new ISR contains the other in-sync replicas, or all other replicas if none was in sync. Without other replicas, the broker
    stays in the ISR. Return whether any partition had another replica. States that another broker changes meanwhile are kept.
    """
    changed, is_left = list[TopicPartition](), False
    for (name, index), state in counted.items():
        (topic,) = yield from registry.read([layout.topic_path(name)])
        replicas: tuple[int, ...] = ()
        if topic is not None:
            with suppress(ValueError, LookupError):
                replicas = entries.topic(topic).assignments[index].replicas
        others = _others(state.isr, node_id) or _others(replicas, node_id)
        if others:
            is_left = True
            leader = NO_LEADER if state.leader == node_id else state.leader
            value = entries.state_value(state.with_leader(leader, others))
            with suppress(*CONFLICTS):
                yield from registry.commit([Change(layout.state_path(name, index), value, state.partition_epoch)])
                changed.append((name, index))
    for first in range(0, len(changed), TOLD_AT_ONCE):
        value = entries.changed_isrs_value(changed[first : first + TOLD_AT_ONCE])
        yield from registry.commit([Change(f"{entries.ISR_CHANGES}/isr_change_", value, sequential=True)])
    return is_left


def _others(nodes: Iterable[int], node_id: int) -> tuple[int, ...]:
    return tuple(node for node in nodes if node != node_id)


class DirectoryEpoch:
    """The check of a broker's data directory before the broker registers, to detect a directory that has lost records.

    After each registration, its broker epoch is written to the directory and to the registry.
    """

    def __init__(
        self, node_id: int, disk: Disk, registry: SharedRegistry, scheduler: Scheduler, *, has_registry: bool = False
    ) -> None:
        """Create the check of a data directory. With `has_registry`, it checks nothing: the registry is in the directory itself."""
        self._node_id = node_id
        self.has_registry = has_registry
        self._disk = disk
        self._registry = registry
        self._scheduler = scheduler
        self._may_register = False
        self.newest_epoch = NO_EPOCH
        """The newest epoch of earlier registrations in the registry."""

    def refusal(self) -> Steps[str | None]:
        """Return None if the broker may register, else a message with the reason and the remedy. Raises `StorageFailed`.

        Later registrations of the same process are never refused, because its directory has not changed.
        """
        if not self._may_register and not self.has_registry:
            counted = yield from self._counted_on()
            if counted:
                return self._sentence(counted)
            self._may_register = True
        return None

    def _counted_on(self) -> Steps[dict[TopicPartition, LeaderAndIsr]]:
        """Wait for the controller. Return the partitions whose ISR contains this broker although the broker can lack records."""
        if not (yield from self._is_in_doubt()):
            return {}
        counted = yield from in_sync_of(self._registry, self._node_id)
        if counted and (yield from self._leave_if_accepted(counted)):
            return {}
        if counted and not self._alone(counted):
            log.info("this broker has lost its directory, and waits until %d partitions have it in sync no more", len(counted))
        deadline_ms = self._scheduler.now().mono_ms + PATIENCE * self._registry.timeout_ms
        while counted and not self._alone(counted) and self._scheduler.now().mono_ms < deadline_ms:
            yield self._scheduler.rest(LOOK_MS)
            counted = yield from in_sync_of(self._registry, self._node_id, counted)
        return counted

    def record_registration(self, broker_epoch: int) -> Steps[None]:
        """Write the epoch of a registration, to the directory first. Raises `StorageFailed`."""
        if self.has_registry:
            return
        self._disk.write_file(BROKER_EPOCH, b"%d\n" % broker_epoch)
        yield from self._registry.commit([Change(layout.broker_epoch_path(self._node_id), b"%d" % broker_epoch)])

    def _is_in_doubt(self) -> Steps[bool]:
        if not self._disk.exists(BROKER_EPOCH):
            return False
        noted = self._disk.read_file(BROKER_EPOCH).strip()
        (entry,) = yield from self._registry.read([layout.broker_epoch_path(self._node_id)])
        newest = int(entry.value) if entry is not None and entry.value.isdigit() else NO_EPOCH
        own = int(noted) if noted.isdigit() else NO_EPOCH
        self.newest_epoch = newest  # the directory's own epoch may come from another registry, from which this registry was copied
        return own == NO_EPOCH or own < newest

    def _alone(self, counted: Mapping[TopicPartition, LeaderAndIsr]) -> list[TopicPartition]:
        return [one for one, state in counted.items() if state.isr == (self._node_id,)]

    def _leave_if_accepted(self, counted: Mapping[TopicPartition, LeaderAndIsr]) -> Steps[bool]:
        """Return whether an operator has accepted the loss of records. If so, first leave every ISR with another replica."""
        path = layout.accepted_loss_path(self._node_id)
        (accepted,) = yield from self._registry.read([path])
        if accepted is None:
            return False
        log.warning("an operator has accepted the loss of what broker %d had of %d partitions", self._node_id, len(counted))
        for _ in range(MOST_RACES):
            if not (yield from _leave_in_sync_sets(self._registry, self._node_id, counted)):
                break
            counted = yield from in_sync_of(self._registry, self._node_id, counted)
        with suppress(*CONFLICTS):
            yield from self._registry.commit([Change(path, None, accepted.version)])
        return True

    def _sentence(self, counted: Mapping[TopicPartition, LeaderAndIsr]) -> str:
        alone, node_id = self._alone(counted), self._node_id
        some = alone or list(counted)
        first = f"{some[0][0]}-{some[0][1]}"
        which = f"{len(some)} partitions, such as {first}" if len(some) > 1 else f"partition {first}"
        why = f"broker {node_id} alone has all records of {which}" if alone else f"broker {node_id} is in sync of {which}"
        remedy = (
            "give it back its data directory" if alone else "restore its data directory, or start the other in-sync replicas first"
        )
        return (
            f"The data directory of broker {node_id} is empty or older than the one it registered with last, but {why}: {remedy}, "
            f"or accept the loss of its records with `ottla registry accept-loss ADDRESS --node-id {node_id}`."
        )
