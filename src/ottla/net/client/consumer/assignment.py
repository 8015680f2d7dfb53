"""The partitions that one consumer reads: their first positions, and the calls of rebalance listeners when they change."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ottla.client import arguments
from ottla.client.consumer.cursor import Progress
from ottla.client.consumer.rebalance_listeners import Listener
from ottla.client.errors import KafkaError
from ottla.client.interceptors import ConsumerInterceptors
from ottla.client.metrics.consumer import GroupMetrics
from ottla.client.settings.clients import ConsumerSettings
from ottla.client.types import OffsetAndMetadata, TopicPartition
from ottla.net.client.cluster import ClusterLinks, now_ms
from ottla.net.client.consumer.fetch_driver import RESETS, FetchDriver
from ottla.net.client.consumer.listeners import call_listener
from ottla.net.client.of_release import group_member
from ottla.net.client.tasks import Tasks

if TYPE_CHECKING:
    from ottla.net.client.of_release import GroupMember

CLOSING_COMMIT_MS = 5_000
"""The time limit, in ms, of the commit before partitions are given up."""

log = logging.getLogger("ottla.client")


class Listeners(NamedTuple):
    """The rebalance listeners of a consumer. Without `on_lost`, lost partitions are passed to `on_revoked`, as in Java's client."""

    on_assigned: Listener | None
    on_revoked: Listener | None
    on_lost: Listener | None


class AssignmentDriver:
    """The assigned partitions of one consumer, which its group or its user changes. Use it only on the consumer's event loop."""

    def __init__(
        self,
        consumer: object,
        settings: ConsumerSettings,
        tasks: Tasks,
        cluster: ClusterLinks,
        reader: FetchDriver,
        progress: Progress,
        listeners: Listeners,
        interceptors: ConsumerInterceptors,
    ) -> None:
        self._consumer = consumer
        self._settings = settings
        self._tasks = tasks
        self._cluster = cluster
        self._reader = reader
        self._progress = progress
        self._listeners = listeners
        self._interceptors = interceptors
        self._settled = asyncio.Event()
        self.waits_for_user = False
        """Whether a revocation waits until the user has processed the records that were handed out."""
        joins = settings.group_protocol != "consumer"
        self._metrics = GroupMetrics(cluster.metrics, lambda: len(self.partitions()), joins=joins) if settings.group_id else None
        self.refused: KafkaError | None = None
        """The error with which the group refused this consumer. Every poll raises it until the consumer subscribes again."""
        self.member: GroupMember | None = self._new_member() if settings.group_id else None
        """The membership of the consumer's group, or None for a consumer without a group."""

    def _new_member(self) -> GroupMember:
        return group_member(
            self._cluster,
            self._settings,
            self._tasks,
            free=self._free,
            revoke=self.revoke,
            lose=self._lose,
            adopt=self.adopt,
            failed=self._refuse,
            handed_out=self._progress.handed_out,
            metrics=self._metrics,
            on_committed=self._on_committed,
        )

    def _on_committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self._progress.confirm(offsets)
        self._interceptors.on_commit(offsets)

    def partitions(self) -> set[TopicPartition]:
        """Return the partitions being read."""
        return set(self._reader.fetcher.partitions)

    async def leave_group(self) -> None:
        """Leave the group. A later subscription joins it as a new member."""
        if self.member is not None:
            await self.member.leave()
            self.member = self._new_member()

    async def replace(self, partitions: list[TopicPartition]) -> None:
        """Read exactly these partitions. Processed records of the others are committed before (with auto-commit)."""
        now, then = self.partitions(), set(partitions)
        if now - then:
            await self.revoke(sorted(now - then))
        if then - now:
            await self.adopt(sorted(then - now))

    async def adopt(self, partitions: list[TopicPartition]) -> None:
        """Begin to read these partitions, at the group's committed offsets or as `auto_offset_reset` says."""
        fetcher = self._reader.fetcher
        # If this raises, nothing is assigned yet, and the caller tries again.
        committed = await self.member.fetch_committed(partitions) if self.member is not None else {}
        self._log_change("reads", partitions)
        fetcher.add(partitions)
        self._progress.drop(partitions)  # an offset of an earlier assignment may have been confirmed after its end
        for where in partitions:
            if where in committed:
                fetcher.seek(where, committed[where].offset)
            else:
                self.begin_uncommitted(where)
        try:
            await self._call("assigned", self._listeners.on_assigned, partitions)
        finally:
            fetcher.start(partitions)
        self._reader.pump()
        self._reader.wake()  # an iteration with ends must include the new partitions

    def begin_uncommitted(self, where: TopicPartition) -> None:
        """Set the position of a partition without a committed offset by `auto_offset_reset`. With "none", the next poll raises."""
        timestamp = RESETS[self._settings.auto_offset_reset]
        if timestamp is not None:
            self._reader.fetcher.reset(where, timestamp)
        else:
            error = KafkaError(
                f"No offset is committed for {where.topic}-{where.partition}, and auto_offset_reset is none: "
                "seek() to an offset, or set auto_offset_reset to earliest or latest."
            )
            self._reader.fetcher.fail(where, error)
            self._reader.wake()

    def settle(self) -> None:
        """Let a waiting revocation continue, because the user has processed all records that were handed out."""
        self._settled.set()

    async def _free(self, partitions: list[TopicPartition], timeout_ms: int) -> bool:
        """Hand out no more records of these partitions, and return whether the user has processed the ones handed out."""
        partitions = [where for where in partitions if where in self._reader.fetcher.partitions]
        self._progress.cut_short(partitions)
        if self._progress.holds(partitions):
            self._settled.clear()
            self.waits_for_user = True
            try:
                with suppress(TimeoutError):
                    async with asyncio.timeout(timeout_ms / 1000):
                        await self._settled.wait()
            finally:
                self.waits_for_user = False
        return not self._progress.holds(partitions)

    async def revoke(self, partitions: list[TopicPartition]) -> None:
        """Commit the processed records of these partitions (with auto-commit), and stop reading them."""
        await self.commit_processed(partitions)
        await self._remove(partitions, "revoked", self._listeners.on_revoked)

    async def commit_processed(self, partitions: list[TopicPartition]) -> None:
        """Commit the processed records of these partitions, with auto-commit. A failure is ignored: the records are read again."""
        if self.member is not None and self._settings.enable_auto_commit:
            with suppress(KafkaError):
                await self.member.commit(self._progress.processed_offsets(partitions), CLOSING_COMMIT_MS)

    async def _lose(self, partitions: list[TopicPartition]) -> None:
        """Stop reading partitions that the group has already given to other members."""
        await self._remove(partitions, "lost", self._listeners.on_lost or self._listeners.on_revoked)

    async def _remove(self, partitions: list[TopicPartition], event: str, listener: Listener | None) -> None:
        partitions = [where for where in partitions if where in self._reader.fetcher.partitions]
        if not partitions:
            return
        self._log_change("no longer reads", partitions)
        try:
            await self._call(event, listener, partitions)
        finally:
            self._progress.remove(partitions)
            self._progress.forget_stored(partitions)
            self._reader.fetcher.remove(partitions)
            self._reader.metrics.remove(partitions)

    def _log_change(self, change: str, partitions: list[TopicPartition]) -> None:
        if partitions:
            group = f"group {self._settings.group_id}" if self._settings.group_id else "a consumer without a group"
            log.info("%s: this consumer %s %s", group, change, arguments.list_partitions(partitions))

    async def _call(self, event: str, listener: Listener | None, partitions: list[TopicPartition]) -> None:
        """Call a rebalance listener, unless the consumer has failed. The exception of a listener ends the consumer."""
        if listener is None or self._tasks.broken:
            return
        began = time.monotonic()
        try:
            await call_listener(self._consumer, listener, partitions)
        finally:
            if self._metrics is not None:
                self._metrics.on_listener(event, (time.monotonic() - began) * 1000, now_ms())

    def _refuse(self, error: KafkaError) -> None:
        log.warning("group %s: this consumer left the group until it subscribes again: %s", self._settings.group_id, error)
        self.refused = error
        self._reader.wake()
