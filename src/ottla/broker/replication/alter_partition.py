"""ISR changes by a leader: requests to the controller (AlterPartition, KIP-497), or writes to the registry before 2.7.

Depends on the channels to brokers and the shared registry, and does not decide who is in sync. One request is in flight at a time,
and later changes wait for the next request. Failures are retried with growing pauses until the partition has newer state.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import Final

from ottla.broker.failures import CONFLICTS
from ottla.broker.interbroker.channels import Channels
from ottla.broker.releases.interbroker_versions import Switch
from ottla.broker.replication.replica import IsrUpdates, Replica
from ottla.broker.retries import Repeats
from ottla.broker.scheduler import Scheduler
from ottla.broker.settings import SettingsInForce
from ottla.cluster import layout
from ottla.cluster.image import NO_LEADER, NO_TOPIC_ID, ClusterImage
from ottla.cluster.replicas.leader import LeaderState, LeaderTerms
from ottla.cluster.replicas.partition_state import IsrChange
from ottla.ports import Change, Now, RegistryAway, SharedRegistry, Steps
from ottla.wire.api.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from ottla.wire.errors import (
    FENCED_LEADER_EPOCH,
    INELIGIBLE_REPLICA,
    INVALID_REQUEST,
    INVALID_UPDATE_VERSION,
    NEW_LEADER_ELECTED,
    NONE,
    OPERATION_NOT_ATTEMPTED,
    STALE_BROKER_EPOCH,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    error_name,
)

log = logging.getLogger("ottla.broker")

AGAIN_MS, MOST_AGAIN_MS = 50, 500
OUT_OF_DATE_AGAIN_MS, MOST_OUT_OF_DATE_MS = 1_000, 10_000
"""First and longest pause, in ms, before a change refused as out of date is retried: the newer state may never arrive."""
WRITTEN_AGAIN_MS, MOST_WRITTEN_AGAIN_MS = 500, 5_000
REFUSED: Final = "the controller did not change in-sync sets (%s); it is retried"
AT_ONCE = 500
"""Upper limit of changes in one request."""
EPOCHS_FROM, TOPIC_IDS_FROM = 3, 2
"""The first versions of AlterPartition with broker epochs, and with topic ids only."""

TIMEOUT_MS = 30_000
LOOK_MS, LINGER_MS, MOST_DELAY_MS = 2_500, 5_000, 60_000
"""Timing of notifications about ISR changes that leaders wrote to the registry, in ms.

A check runs every `LOOK_MS`. It notifies the controller if no change was written for `LINGER_MS`, or if the first written change
has waited for `MOST_DELAY_MS`.
"""

ISR_CHANGE = "/isr_change_notification/isr_change_"

CERTAINLY_NOT_MADE = {OPERATION_NOT_ATTEMPTED, INELIGIBLE_REPLICA}
OUT_OF_DATE = {
    UNKNOWN_TOPIC_OR_PARTITION,
    UNKNOWN_TOPIC_ID,
    FENCED_LEADER_EPOCH,
    INVALID_UPDATE_VERSION,
    INVALID_REQUEST,
    NEW_LEADER_ELECTED,
}
"""Errors of a controller that has newer state, and normally sends it soon. A controller without the topic may never send it."""


class _Wanted:
    """The ISR changes that leaders of this broker have requested and that have no result yet, one for each partition."""

    def __init__(self) -> None:
        self._changes: dict[Replica, IsrChange] = {}

    def add(self, replica: Replica, change: IsrChange) -> None:
        self._changes[replica] = change

    def current(self, most: int) -> dict[Replica, IsrChange]:
        """Return at most `most` pending changes. The next call begins with other changes, because these can fail repeatedly."""
        current: dict[Replica, IsrChange] = {}
        for replica, change in list(islice(self._changes.items(), most)):
            del self._changes[replica]
            if is_pending(replica, change):
                current[replica] = change
        self._changes |= current
        return current

    @property
    def is_left(self) -> bool:
        return bool(self._changes)

    def _finish(self, replica: Replica, change: IsrChange) -> None:
        if self._changes.get(replica) is change:
            del self._changes[replica]


def is_pending(replica: Replica, change: IsrChange) -> bool:
    """Return whether a leader still waits for the result of a change."""
    leader = replica.replicas
    return isinstance(leader, LeaderState) and leader.pending is change and replica.offline is None


class IsrsByController:
    """The sender of AlterPartition requests, by which leaders of this broker change their ISRs."""

    def __init__(
        self,
        node_id: int,
        terms: LeaderTerms,
        image: ClusterImage,
        settings: SettingsInForce,
        scheduler: Scheduler,
        channels: Channels,
        stale: Callable[[], None],
    ) -> None:
        """Create the sender of ISR changes. `stale` is called if the controller does not accept this broker's epoch."""
        self._stale = stale
        self._repeats = Repeats(AGAIN_MS, MOST_AGAIN_MS)
        self._late = Repeats(OUT_OF_DATE_AGAIN_MS, MOST_OUT_OF_DATE_MS)
        self._out_of_date: dict[Replica, IsrChange] = {}
        self._node_id = node_id
        self._terms = terms
        self._image = image
        self._settings = settings
        self._scheduler = scheduler
        self._channels = channels
        self._wanted = _Wanted()
        self._is_under_way = False

    def request(self, replica: Replica, change: IsrChange) -> None:
        """Request the ISR change `change` of a leader with the next AlterPartition request."""
        self._wanted.add(replica, change)
        self._send()

    def _send(self) -> None:
        if self._is_under_way:
            return
        changes = self._wanted.current(AT_ONCE)
        if not changes:
            if self._wanted.is_left:
                self._again()
            return
        controller_id = self._image.controller_id
        if controller_id == NO_LEADER:
            self._again()
            return
        self._is_under_way = True
        version = self._settings.value.inter_broker_protocol_version.version(AlterPartitionRequest)
        if any(replica.topic_id == NO_TOPIC_ID for replica in changes):
            version = min(version, TOPIC_IDS_FROM - 1)

        def on_answer(response: AlterPartitionResponse | None) -> None:
            self._is_under_way = False
            self._on_response(changes, response)

        message = self._message(changes, version)
        self._channels.request(controller_id, message, version, on_answer, lane="isr", timeout_ms=TIMEOUT_MS)

    def _message(self, changes: dict[Replica, IsrChange], version: int) -> AlterPartitionRequest:
        topics: dict[tuple[str, bytes], AlterPartitionRequest.TopicData] = {}
        for replica, change in changes.items():
            key = replica.topic, replica.topic_id
            topic = topics.setdefault(key, AlterPartitionRequest.TopicData(topic_name=replica.topic, topic_id=replica.topic_id))
            part = AlterPartitionRequest.PartitionData(
                partition_index=replica.index, leader_epoch=change.leader_epoch, partition_epoch=change.partition_epoch
            )
            if version >= EPOCHS_FROM:
                part.new_isr_with_epochs = [
                    AlterPartitionRequest.BrokerState(broker_id=node_id, broker_epoch=epoch)
                    for node_id, epoch in zip(change.isr, change.broker_epochs, strict=True)
                ]
            else:
                part.new_isr = list(change.isr)
            topic.partitions.append(part)
        epoch = self._terms.broker_epoch
        return AlterPartitionRequest(broker_id=self._node_id, broker_epoch=epoch, topics=list(topics.values()))

    def _on_response(self, changes: dict[Replica, IsrChange], response: AlterPartitionResponse | None) -> None:
        if response is None or response.error_code:
            if response is not None:
                self._repeats.log_once(log, logging.INFO, REFUSED, error_name(response.error_code))
                if response.error_code == STALE_BROKER_EPOCH:
                    self._stale()
            self._again()
            return
        parts = {
            (topic.topic_id if topic.topic_id != NO_TOPIC_ID else topic.topic_name, part.partition_index): part
            for topic in response.topics
            for part in topic.partitions
        }
        is_left = False
        for replica, change in changes.items():
            part = parts.get((replica.topic_id, replica.index)) or parts.get((replica.topic, replica.index))
            if part is None or not self._apply_result(replica, change, part):
                is_left = True
            else:
                self._wanted._finish(replica, change)
        if is_left:
            self._again()
        else:
            self._repeats.over()
            self._send()

    def _apply_result(self, replica: Replica, change: IsrChange, part: AlterPartitionResponse.PartitionData) -> bool:
        """Apply the result of a leader's change. Return False if the change must be retried soon."""
        if part.error_code == NONE:
            now = self._scheduler.now()
            replica.isr_changed(change, tuple(part.isr), part.leader_epoch, part.partition_epoch, now)
        elif part.error_code in CERTAINLY_NOT_MADE:
            replica.isr_refused(change, part.error_code, self._scheduler.now())
        elif part.error_code not in OUT_OF_DATE:
            sentence = "%s: its in-sync set could not be changed (%s); it is retried"
            self._repeats.log_once(log, logging.WARNING, sentence, replica, error_name(part.error_code))
            return False
        else:
            self._request_overdue(replica, change)
        return True

    def _request_overdue(self, replica: Replica, change: IsrChange) -> None:
        """Retry a change later if no newer state arrives. Until then, the leader's high watermark can't advance."""
        if not self._out_of_date:
            self._scheduler.at(self._late, self._scheduler.now().mono_ms + self._late.pause_ms(), self._retry_outdated)
        self._out_of_date[replica] = change

    def _retry_outdated(self, now: Now) -> None:
        changes, self._out_of_date = self._out_of_date, {}
        left = {replica: change for replica, change in changes.items() if is_pending(replica, change)}
        for replica, change in left.items():
            sentence = "%s: the controller does not change its in-sync set, and has no newer one; it is retried"
            self._late.log_once(log, logging.INFO, sentence, replica)
            self._wanted.add(replica, change)
        if left:
            self._send()
        else:
            self._late.over()

    def _again(self) -> None:
        self._scheduler.at(self, self._scheduler.now().mono_ms + self._repeats.pause_ms(), lambda now: self._send())


class IsrsByRegistry:
    """The writer of ISR changes to the registry, as before 2.7. The controller is notified after each change."""

    def __init__(self, node_id: int, registry: SharedRegistry, scheduler: Scheduler) -> None:
        self._node_id = node_id
        self._registry = registry
        self._scheduler = scheduler
        self._wanted = _Wanted()
        self._repeats = Repeats(WRITTEN_AGAIN_MS, MOST_WRITTEN_AGAIN_MS)
        self._written: dict[tuple[str, int], None] = {}
        self._written_ms = self._told_ms = 0

    def request(self, replica: Replica, change: IsrChange) -> None:
        """Write the ISR change `change` of a leader to the registry, and notify the controller later."""
        self._wanted.add(replica, change)
        self._begin()

    def _begin(self) -> None:
        self._scheduler.begin(self, self._write(), lambda _: self._repeats.over(), self._on_failure)

    def _on_failure(self, failure: Exception) -> None:
        sentence = "in-sync sets could not be written to the registry, and are written again: %s"
        self._repeats.log_once(log, logging.WARNING, sentence, failure)
        self._scheduler.at(self, self._scheduler.now().mono_ms + self._repeats.pause_ms(), lambda now: self._begin())

    def _write(self) -> Steps[None]:
        while self._wanted.is_left:
            changes = self._wanted.current(AT_ONCE)
            for replica, change in changes.items():
                version = yield from self._written_as(replica, change)
                self._wanted._finish(replica, change)
                if version is not None:
                    now = self._scheduler.now()
                    self._note(replica, now)
                    replica.isr_changed(change, change.isr, change.leader_epoch, version, now)

    def _written_as(self, replica: Replica, change: IsrChange) -> Steps[int | None]:
        """Return the version of the written state; None if another broker has written a different state."""
        path = layout.state_path(replica.topic, replica.index)
        value = layout.state_json(change.controller_epoch, self._node_id, change.leader_epoch, change.isr)
        try:
            yield from self._registry.commit([Change(path, value, change.partition_epoch)])
            return change.partition_epoch + 1
        except CONFLICTS:
            (entry,) = yield from self._registry.read([path])
        # An earlier attempt may have succeeded although its response was lost.
        if entry is not None and entry.version == change.partition_epoch + 1 and _is_same_state(entry.value, value):
            return entry.version
        log.info("%s: its in-sync set was not written: the controller has decided something else", replica)
        return None

    def _note(self, replica: Replica, now: Now) -> None:
        if not self._written:
            self._told_ms = now.mono_ms
            self._scheduler.at(self._written_key, now.mono_ms + LOOK_MS, self._notify_if_due)
        self._written[replica.topic, replica.index] = None
        self._written_ms = now.mono_ms

    @property
    def _written_key(self) -> tuple[str, int]:
        return "written in-sync sets", id(self)

    def _notify_if_due(self, now: Now) -> None:
        """Notify the controller of the written changes, if a notification is due."""
        is_due = self._written_ms + LINGER_MS < now.mono_ms or self._told_ms + MOST_DELAY_MS < now.mono_ms
        if is_due:
            self._scheduler.begin(self._written_key, self._notify())
        else:
            self._scheduler.at(self._written_key, now.mono_ms + LOOK_MS, self._notify_if_due)

    def _notify(self) -> Steps[None]:
        written, self._written = self._written, {}
        value = {"version": 1, "partitions": [{"topic": topic, "partition": index} for topic, index in written]}
        change = Change(ISR_CHANGE, layout.json_bytes(value), sequential=True)
        try:
            yield from self._registry.commit([change])
        except RegistryAway:
            self._written = written | self._written
            self._scheduler.at(self._written_key, self._scheduler.now().mono_ms + LOOK_MS, self._notify_if_due)


def isr_updates(
    node_id: int,
    terms: LeaderTerms,
    image: ClusterImage,
    settings: SettingsInForce,
    scheduler: Scheduler,
    channels: Channels,
    registry: SharedRegistry,
    stale: Callable[[], None],
) -> IsrUpdates:
    """Return the object by which leaders of this broker change their ISRs.

    It depends on the inter-broker protocol version: from 2.7 on through the controller, before that through the registry.
    """
    if settings.value.inter_broker_protocol_version.has(Switch.ALTER_PARTITION):
        return IsrsByController(node_id, terms, image, settings, scheduler, channels, stale)
    return IsrsByRegistry(node_id, registry, scheduler)


def _is_same_state(found: bytes, written: bytes) -> bool:
    with suppress(ValueError):
        return layout.read(found) == layout.read(written)
    return False
