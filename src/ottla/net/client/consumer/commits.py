"""The commits of one consumer: blocking, in the background and at intervals, in the order of the calls."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from ottla.client.consumer.cursor import Progress
from ottla.client.consumer.rebalance_listeners import CommitCallback
from ottla.client.errors import KafkaError
from ottla.client.settings.clients import ConsumerSettings
from ottla.client.types import OffsetAndMetadata, TopicPartition
from ottla.net.client.consumer.assignment import CLOSING_COMMIT_MS, AssignmentDriver
from ottla.net.client.consumer.listeners import call_listener
from ottla.net.client.tasks import Tasks

if TYPE_CHECKING:
    from ottla.net.client.of_release import GroupMember

log = logging.getLogger("ottla.client")


class CommitDriver:
    """The commits of one consumer to its group. Use it only on the consumer's event loop."""

    def __init__(self, consumer: object, settings: ConsumerSettings, tasks: Tasks) -> None:
        self._consumer = consumer
        self._settings = settings
        self._tasks = tasks
        self._pending: asyncio.Task[None] | None = None
        """The last commit that was begun in the background. It waits for the ones before it."""
        self._calls: set[asyncio.Task[None]] = set()
        """The running calls of `on_commit`."""

    async def commit(self, member: GroupMember, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit offsets once earlier background commits have ended. Raises `KafkaError`."""
        if self._pending is not None:
            await asyncio.wait([self._pending])  # an older commit must not follow this one
        await member.commit(offsets)

    def begin(
        self, member: GroupMember, offsets: dict[TopicPartition, OffsetAndMetadata], on_commit: CommitCallback | None
    ) -> None:
        """Commit offsets in the background, and then call `on_commit`. Without `on_commit`, log a failure."""
        self._pending = self._tasks.spawn(self._commit_after(self._pending, member, offsets, on_commit))

    async def _commit_after(
        self,
        before: asyncio.Task[None] | None,
        member: GroupMember,
        offsets: dict[TopicPartition, OffsetAndMetadata],
        on_commit: CommitCallback | None,
    ) -> None:
        if before is not None:
            await asyncio.wait([before])
        error: KafkaError | None = None
        try:
            await member.commit(offsets)
        except KafkaError as failed:
            error = failed
        if on_commit is not None:
            call = self._tasks.spawn(call_listener(self._consumer, on_commit, offsets, error))
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)
        elif error is not None:
            self._log_failure(error)

    def _log_failure(self, error: KafkaError) -> None:
        log.warning("group %s: offsets were not committed: %s", self._settings.group_id, error)

    async def finish(self) -> None:
        """Wait for background commits and their callbacks, at most `CLOSING_COMMIT_MS`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_COMMIT_MS / 1000):
                if self._pending is not None:
                    await asyncio.wait([self._pending])
                if self._calls:
                    await asyncio.wait(self._calls)

    async def commit_at_intervals(self, assignment: AssignmentDriver, progress: Progress) -> None:
        """Commit the processed records every `auto_commit_interval_ms`, unless nothing has changed."""
        last: Mapping[TopicPartition, OffsetAndMetadata] = {}
        while assignment.member is not None:
            await asyncio.sleep(self._settings.auto_commit_interval_ms / 1000)
            done = progress.processed_offsets()
            if done == last:
                continue
            try:
                await assignment.member.commit(done)
                last = done
            except KafkaError as error:
                # The next periodic commit, or the revocation, commits these offsets.
                self._log_failure(error)
