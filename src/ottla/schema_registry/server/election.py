"""The membership of one instance in the group that elects the registry's leader."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ottla.client.errors import KafkaError
from ottla.client.settings.clients import AdminSettings, parse
from ottla.net.client.cluster import ClusterLinks
from ottla.net.client.coordinator import GROUP, Coordinator
from ottla.schema_registry.leadership import PROTOCOL, PROTOCOL_TYPE, InstanceIdentity, assign, decode_assignment, encode_identity
from ottla.schema_registry.server.store import log_unexpected_end
from ottla.wire import errors as codes
from ottla.wire.api.heartbeat import HeartbeatRequest
from ottla.wire.api.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.api.leave_group import LeaveGroupRequest
from ottla.wire.api.sync_group import SyncGroupRequest

log = logging.getLogger("ottla.schema_registry")

SESSION_MS, HEARTBEAT_S, REBALANCE_MS = 10_000, 1.0, 60_000
SLACK_MS = 5_000
RETRY_S = 0.5
_FRESH = frozenset({codes.UNKNOWN_MEMBER_ID, codes.FENCED_INSTANCE_ID})
_AGAIN = frozenset({codes.REBALANCE_IN_PROGRESS, codes.ILLEGAL_GENERATION})


class GenerationEnded(Exception):
    """The group has another generation, or does not know this member."""


class Election:
    """Takes part in elections until it is closed. `leader` is the leader as long as this member's session is alive."""

    def __init__(
        self, settings: Mapping[str, Any], group: str, identity: InstanceIdentity, on_elected: Callable[[], Awaitable[None]]
    ) -> None:
        self._settings, self._group, self._identity = dict(settings), group, identity
        self._on_elected = on_elected
        self._leader: InstanceIdentity | None = None
        self._alive_until = 0.0
        self._member_id, self._generation = "", -1
        self._changed = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None
        self._last_reason = ""

    @property
    def leader(self) -> InstanceIdentity | None:
        """Return the leader, or None while none is known."""
        return self._leader if asyncio.get_running_loop().time() < self._alive_until else None

    @property
    def leads(self) -> bool:
        """Return whether this instance is the leader."""
        leader = self.leader
        return leader is not None and leader.url == self._identity.url

    def start(self) -> None:
        """Begin to take part."""
        self._cluster = ClusterLinks(parse(AdminSettings, self._settings))
        self._coordinator = Coordinator(self._cluster, self._group, GROUP)
        self._task = asyncio.create_task(self._run())
        self._task.add_done_callback(log_unexpected_end)

    async def close(self) -> None:
        """Leave the group, so that another instance leads at once."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.wait([self._task])
        if self._member_id:
            leaving = [LeaveGroupRequest.MemberIdentity(member_id=self._member_id)]
            with suppress(KafkaError, TimeoutError):
                async with asyncio.timeout(1):
                    request = LeaveGroupRequest(group_id=self._group, members=leaving)
                    await self._coordinator.request(request)
        await self._cluster.close()

    async def wait_for_leader(self, timeout_s: float) -> InstanceIdentity | None:
        """Return the leader; None if none is known after the timeout."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s), self._changed:
                await self._changed.wait_for(lambda: self.leader is not None)
        return self.leader

    async def _run(self) -> None:
        while True:
            try:
                await self._join()
                await self._beat()
            except GenerationEnded:
                pass
            except (KafkaError, ValueError) as error:
                if str(error) != self._last_reason:
                    self._last_reason = str(error)
                    log.warning("the election of a leader waits: %s", error)
                await asyncio.sleep(RETRY_S)

    async def _join(self) -> None:
        offered = JoinGroupRequest.JoinGroupRequestProtocol(name=PROTOCOL, metadata=encode_identity(self._own_identity()))
        began = asyncio.get_running_loop().time()
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self._member_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[offered],
        )
        joined = await self._coordinator.request(request, timeout_ms=REBALANCE_MS + SLACK_MS)
        if joined.error_code == codes.MEMBER_ID_REQUIRED:
            self._member_id = joined.member_id
            raise GenerationEnded
        self._check(joined.error_code, "join")
        self._member_id, self._generation = joined.member_id, joined.generation_id
        synced = await self._coordinator.request(self._sync_request(joined), timeout_ms=SESSION_MS + SLACK_MS)
        self._check(synced.error_code, "sync")
        assignment = decode_assignment(bytes(synced.assignment))
        if assignment.error:
            raise ValueError(f"two instances answer at {self._identity.url}: give each its own address with --advertise")
        if asyncio.get_running_loop().time() - began < REBALANCE_MS / 1000:
            await self._accept(assignment.leader)

    def _own_identity(self) -> InstanceIdentity:
        return replace(self._identity, leader=self.leads)

    def _sync_request(self, joined: Any) -> SyncGroupRequest:
        assignments = []
        if joined.leader == joined.member_id:
            members: list[JoinGroupResponse.JoinGroupResponseMember] = joined.members
            shared = assign({each.member_id: bytes(each.metadata) for each in members})
            made = SyncGroupRequest.SyncGroupRequestAssignment
            assignments = [made(member_id=each.member_id, assignment=shared) for each in members]
        return SyncGroupRequest(
            group_id=self._group,
            generation_id=self._generation,
            member_id=self._member_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=PROTOCOL,
            assignments=assignments,
        )

    async def _accept(self, leader: InstanceIdentity | None) -> None:
        led = self.leads
        self._last_reason = ""
        self._leader = leader
        self._extend()
        log.info("the leader of the schema registry is %s", leader.url if leader else "unknown")
        if self.leads and not led:
            await self._on_elected()
        async with self._changed:
            self._changed.notify_all()

    def _extend(self, *, since: float | None = None) -> None:
        now = asyncio.get_running_loop().time() if since is None else since
        self._alive_until = now + SESSION_MS / 1000

    async def _beat(self) -> None:
        """Send heartbeats until the group has another generation."""
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            sent = asyncio.get_running_loop().time()
            request = HeartbeatRequest(group_id=self._group, generation_id=self._generation, member_id=self._member_id)
            answer = await self._coordinator.request(request, timeout_ms=SESSION_MS)
            self._check(answer.error_code, "heartbeat")
            self._extend(since=sent)

    def _check(self, code: int, what: str) -> None:
        if code in _FRESH:
            self._member_id = ""
        if code in _FRESH or code in _AGAIN:
            raise GenerationEnded
        self._coordinator.check(code, f"{what} of group {self._group}")
