"""The driver of a Kafka 0.7 group member over ZooKeeper: rebalances, offsets, and the consumer's callbacks."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from types import MappingProxyType

from ottla.client.errors import CommitFailed, ConnectionFailed, KafkaError, NotSupported
from ottla.client.settings.clients import ConsumerSettings
from ottla.client.types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from ottla.kafka07.client.group import Group07, Round07, Subscription
from ottla.kafka07.net.client.links import ClusterLinks07
from ottla.kafka07.net.client.zookeeper import finish_steps
from ottla.net.client.cluster import now_ms
from ottla.net.client.tasks import Tasks
from ottla.ports import Done, DuplicateEntry, NoEntry, SharedRegistry, VersionConflict

LEAVE_TIMEOUT_S = 5

log = logging.getLogger("ottla.client")

Handed = Callable[[list[TopicPartition]], Awaitable[None]]


class MembershipDriver07:
    """The driver of one member. It calls `adopt` with new partitions, `revoke` with released ones and `lose` with lost ones.

    `free(partitions, timeout_ms)` must wait until the user has processed their records. `failed` is called with an error that ends
    the membership.
    """

    assigned_counts: Mapping[str, int] = MappingProxyType({})
    """No counts: members of 0.7 have no leader that assigns partitions."""

    def __init__(
        self,
        cluster: ClusterLinks07,
        settings: ConsumerSettings,
        tasks: Tasks,
        *,
        free: Callable[[list[TopicPartition], int], Awaitable[bool]],
        revoke: Handed,
        lose: Handed,
        adopt: Handed,
        failed: Callable[[KafkaError], None],
        on_committed: Callable[[Mapping[TopicPartition, OffsetAndMetadata]], None],
    ) -> None:
        self.group_id = settings.group_id or ""
        self._cluster = cluster
        self._settings = settings
        self._tasks = tasks
        self._free, self._revoke, self._lose, self._adopt, self._failed = free, revoke, lose, adopt, failed
        self._on_committed = on_committed
        self._group: Group07 | None = None
        self._registry: SharedRegistry | None = None
        self._subscription: Subscription | None = None
        self._registered: Subscription | None = None
        self._adopted: set[TopicPartition] = set()
        self._task: asyncio.Task[None] | None = None
        self._again = asyncio.Event()

    def subscribe(self, topics: list[str], pattern: str | None = None) -> None:
        """Subscribe to these topics, or to all topics that match `pattern`. The first call starts the membership."""
        self._subscription = Subscription({}, pattern) if pattern is not None else Subscription(dict.fromkeys(topics, 1))
        if self._task is None or self._task.done():
            self._task = self._tasks.spawn(self._run())
        self._again.set()

    def rejoin(self) -> None:
        """Request a rebalance, because the partitions have changed."""
        self._again.set()

    def user_is_busy(self, busy: bool) -> None:
        """Do nothing: a 0.7 member stays in the group while its session lives, even if the user polls late."""

    async def drop_if_expired(self) -> None:
        """Drop all partitions if ZooKeeper possibly ended the session, because other members can own them then.

        Called before records are returned to the user.
        """
        if self._group is not None:
            self._group.drop_if_expired(now_ms())
            await self._drop_lost(self._group)

    async def _ready(self) -> Group07:
        if self._group is None:
            self._registry = await self._cluster.registry()
            if self._group is None:
                self._group = Group07(
                    self._registry, self.group_id, new_id=self._new_id, give_up=self._release, changed=self._again.set
                )
        return self._group

    def _new_id(self) -> str:
        return f"{self.group_id}_{socket.gethostname()}-{time.time_ns() // 1_000_000}-{secrets.token_hex(4)}"

    # --- rebalances

    async def _run(self) -> None:
        try:
            group = await self._cluster.retry(self._ready)
            while True:
                self._again.clear()
                pause_ms = await self._round(group)
                await self._wait(group, pause_ms)
        except KafkaError as error:
            self._failed(error)

    async def _round(self, group: Group07) -> int | None:
        """Rebalance once. Return the ms until the next rebalance, or None if only a change requires one."""
        await self._drop_lost(group)
        backoff_ms = self._settings.rebalance_backoff_ms
        try:
            if self._subscription != self._registered and self._subscription is not None:
                await self._begin_anew(group, self._subscription)
            found: Round07 = await finish_steps(group.rebalance())
            self._cluster.update_metadata(found.brokers, found.counts)
            await self._adopt_what_is_new(group)
        except (DuplicateEntry, NoEntry, VersionConflict) as race:
            log.info("group %s: rebalancing again, because %s changed", self.group_id, race)
            return backoff_ms
        except ConnectionFailed as error:
            log.warning("group %s: rebalancing again: %s", self.group_id, error)
            return backoff_ms
        if found.awaited:
            log.info("group %s: waiting for %d partitions that other members own", self.group_id, len(found.awaited))
        return backoff_ms if found.awaited else None

    async def _begin_anew(self, group: Group07, subscription: Subscription) -> None:
        """Leave the group, and set a new subscription for a new registration.

        The registration cannot be updated, because other members read each registration only once, when it appears.
        """
        if self._registered is not None:
            await self._stop_reading(sorted(self._adopted))
            await finish_steps(group.leave())
        group.subscribe(subscription)
        self._registered = subscription

    async def _wait(self, group: Group07, pause_ms: int | None) -> None:
        """Wait for a change or the end of the pause. Meanwhile, drop all partitions if the session possibly ended."""
        deadline_ms = None if pause_ms is None else now_ms() + pause_ms
        while not self._again.is_set() and (deadline_ms is None or now_ms() < deadline_ms):
            times = [self._registry.session_end_ms()] if self._registry is not None and group.owned else []
            times += [] if deadline_ms is None else [deadline_ms]
            with suppress(TimeoutError):
                async with asyncio.timeout(max(1, min(times) - now_ms()) / 1000 if times else None):
                    await self._again.wait()
            await self.drop_if_expired()

    async def _drop_lost(self, group: Group07) -> None:
        gone = sorted(self._adopted - group.owned)
        self._adopted.difference_update(gone)
        if gone:
            log.warning("group %s: the session with ZooKeeper expired, which revokes %d partitions", self.group_id, len(gone))
            await self._lose(gone)

    async def _adopt_what_is_new(self, group: Group07) -> None:
        new = sorted(group.owned - self._adopted)
        if not new:
            return
        self._adopted.update(new)
        try:
            await self._adopt(new)
        except KafkaError:
            self._adopted.difference_update(new)  # the next round tries again
            raise

    def _release(self, partitions: list[TopicPartition], done: Done) -> None:
        async def release() -> None:
            await self._stop_reading(partitions)
            done(None)

        self._tasks.spawn(release())

    async def _stop_reading(self, partitions: list[TopicPartition]) -> None:
        """Wait, for a limited time, until the user has processed the records of these partitions, then revoke them."""
        read = [where for where in partitions if where in self._adopted]
        if read:
            await self._free(read, self._settings.rebalance_backoff_ms)
            read = [where for where in read if where in self._adopted]  # the others were lost meanwhile
            self._adopted.difference_update(read)
            await self._revoke(read)

    # --- offsets

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_ms: int | None = None) -> None:
        """Store offsets for the group in ZooKeeper.

        Raises `CommitFailed` if other members own the partitions, or another `KafkaError`.
        """
        if not offsets:
            return
        places = {where: offset.offset for where, offset in offsets.items()}
        is_kept = await self._cluster.retry(lambda: self._commit(places), timeout_ms=timeout_ms)
        if not is_kept:
            raise CommitFailed(
                f"Group {self.group_id} has assigned these partitions to other members: records since the last commit are "
                "read again."
            )
        self._on_committed(offsets)

    async def _commit(self, places: Mapping[TopicPartition, int]) -> bool:
        group = await self._ready()
        return await finish_steps(group.commit(places, as_member=self._task is not None))

    async def fetch_committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the group's committed offsets. Omit partitions without one."""
        wanted = list(partitions)
        return await self._cluster.retry(lambda: self._fetch_committed(wanted)) if wanted else {}

    async def _fetch_committed(self, partitions: list[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        group = await self._ready()
        found = await finish_steps(group.fetch_committed(partitions))
        return {where: OffsetAndMetadata(offset) for where, offset in found.items()}

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Raise `NotSupported`, because the offsets of 0.7 groups cannot be part of a transaction."""
        raise NotSupported("Kafka 0.7 keeps the offsets of groups in ZooKeeper, outside of transactions: call commit().")

    async def leave(self, leave_group: bool | None = None) -> None:
        """Stop, and release the partitions for the other members at once."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        try:
            await self._lose_or_revoke()
        finally:
            self._task = None
            if self._group is not None:
                with suppress(KafkaError, DuplicateEntry, NoEntry, VersionConflict, TimeoutError):
                    async with asyncio.timeout(LEAVE_TIMEOUT_S):
                        await finish_steps(self._group.leave())

    async def _lose_or_revoke(self) -> None:
        await self.drop_if_expired()
        owned, self._adopted = sorted(self._adopted), set()
        if owned:
            await self._revoke(owned)
