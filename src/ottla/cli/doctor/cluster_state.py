"""The checks of a cluster that answers: its brokers, its controller, this user's rights, its partitions, and its disks.

All requests leave the cluster unchanged. Metadata is requested without topic names, so that no broker creates a topic.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from ottla.cli.command.output import size
from ottla.cli.doctor.connections import reach
from ottla.cli.doctor.findings import FAIL, OK, WARN, HealthFinding
from ottla.client.admin.topics import NewTopic
from ottla.client.connection.metadata import Metadata, metadata_request
from ottla.client.connection.older_administration import DEFAULTS_FROM_CREATE_TOPICS
from ottla.client.connection.versions import (
    CREATE_TOPICS,
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS,
    DESCRIBE_LOG_DIRS,
    DESCRIBE_QUORUM,
    LIST_GROUPS,
)
from ottla.client.errors import KafkaError
from ottla.wire.api.describe_cluster import DescribeClusterRequest

if TYPE_CHECKING:
    from ottla.client.admin.quorum import QuorumDescription
    from ottla.client.admin.replicas import LogDir
    from ottla.client.settings.clients import AdminSettings
    from ottla.client.types import Node
    from ottla.net.client.admin.async_admin import AsyncAdmin
    from ottla.net.client.link import Link
    from ottla.net.client.security import Security

NAMED = 5
"""The number of partitions that a finding names; of others it gives the number."""
LOW, FULL = 0.15, 0.05
"""The free parts of a disk below which a check warns and fails."""
SKEW_S = 2
"""The difference of clocks, in seconds, from which on the check warns."""
DESCRIBE = 8
"""Kafka's number of the operation Describe."""
CHECKS_ONLY = 1
"""The version of CreateTopics from which on a broker can check a topic without creating it."""


class ClusterState:
    """The checks of a cluster. They use an open link, and `admin` for requests that other brokers must answer."""

    def __init__(self, link: Link, highest: Mapping[int, int], settings: AdminSettings, security: Security | None) -> None:
        self._link, self._highest = link, highest
        self._settings, self._security = settings, security

    async def findings(self, admin: AsyncAdmin) -> AsyncIterator[HealthFinding]:
        """Yield the findings of all checks of the cluster."""
        found = Metadata()
        try:
            request = metadata_request(None, allow_auto_topic_creation=False)
            found.update(await self._link.request(request, self._settings.request_timeout_ms), whole=True)
        except KafkaError as error:
            yield HealthFinding(FAIL, "brokers", str(error))
            return
        is_complete = True
        for finding in await asyncio.gather(*map(self._reach, sorted(found.nodes.values()))):
            is_complete = is_complete and finding.status == OK
            yield finding
        yield _controller(found)
        if is_complete:
            async for finding in self._rights(admin, found):
                yield finding
        else:
            yield HealthFinding(WARN, "rights", "not checked, since not every broker is reachable: mend that first.")
        for finding in check_partitions(found):
            yield finding
        if DESCRIBE_QUORUM in self._highest:
            yield await self._clock(admin)
        if is_complete and DESCRIBE_LOG_DIRS in self._highest:
            async for finding in self._disks(admin):
                yield finding

    async def _reach(self, node: Node) -> HealthFinding:
        where = f"broker {node.node_id} is at {node.host}:{node.port}"
        try:
            elapsed = await reach(node.host, node.port, self._settings, self._security)
        except KafkaError as error:
            advice = "Its advertised.listeners must name an address that this machine reaches."
            return HealthFinding(FAIL, "brokers", f"{where}, which does not work here. {error} {advice}")
        return HealthFinding(OK, "brokers", f"{where}, and answers after {elapsed}.")

    async def _rights(self, admin: AsyncAdmin, found: Metadata) -> AsyncIterator[HealthFinding]:
        """Yield findings on whether the user has the rights that commands often need."""
        if DESCRIBE_CONFIGS in self._highest and found.nodes:
            yield await _right("describe settings of brokers", admin.describe_broker_configs(min(found.nodes)))
        if self._highest.get(CREATE_TOPICS, 0) >= CHECKS_ONLY:
            counts = () if self._highest[CREATE_TOPICS] >= DEFAULTS_FROM_CREATE_TOPICS else (1, 1)
            topic = NewTopic(f"ottla-doctor-{secrets.token_hex(4)}", *counts)
            yield await _right("create topics", admin.create_topics([topic], validate_only=True))
        if LIST_GROUPS in self._highest:
            yield await self._groups(admin)

    async def _groups(self, admin: AsyncAdmin) -> HealthFinding:
        """Return the finding about lists of groups. Brokers leave out groups that the user may not describe, without an error."""
        right = await _right("list groups", admin.list_groups())
        if right.status != OK:
            return right
        if DESCRIBE_CLUSTER not in self._highest:
            return HealthFinding(OK, "rights", "this user may list groups; those that it may not describe are left out.")
        request = DescribeClusterRequest(include_cluster_authorized_operations=True)
        try:
            answer = await self._link.request(request, self._settings.request_timeout_ms)
        except KafkaError as error:
            return HealthFinding(WARN, "rights", f"not checked whether this user may list all groups: {error}")
        if answer.cluster_authorized_operations & 1 << DESCRIBE:
            return HealthFinding(OK, "rights", "this user may list all groups.")
        advice = "`ottla acl add` grants it describe on the cluster, if it needs all."
        return HealthFinding(WARN, "rights", f"this user lists only groups that it may describe by ACLs of their own: {advice}")

    async def _clock(self, admin: AsyncAdmin) -> HealthFinding:
        """Return the finding about the controller's clock, whose time is in the description of the quorum."""
        began = time.time()
        try:
            found = await admin.describe_quorum()
        except KafkaError as error:
            return HealthFinding(WARN, "clock", f"not checked: {error}")
        return check_clock(found, began, time.time())

    async def _disks(self, admin: AsyncAdmin) -> AsyncIterator[HealthFinding]:
        try:
            found = await admin.describe_log_dirs()
        except KafkaError as error:
            yield HealthFinding(WARN, "disks", f"not checked: {error}")
            return
        for node_id, directories in sorted(found.items()):
            for each in sorted(directories):
                yield check_directory(node_id, each)


async def _right(effect: str, trial: Awaitable[object]) -> HealthFinding:
    """Return the finding about whether the request `trial` is allowed. If it is not, warn only: not every user needs the right."""
    try:
        await trial
    except KafkaError as error:
        return HealthFinding(WARN, "rights", f"this user cannot {effect}: {error} `ottla acl` shows and grants rights.")
    return HealthFinding(OK, "rights", f"this user may {effect}.")


def _controller(found: Metadata) -> HealthFinding:
    node_id = found.controller_id
    if node_id in found.nodes:
        return HealthFinding(OK, "controller", f"broker {node_id} takes requests to the controller.")
    if node_id < 0:
        sentence = "brokers know no controller: no topic can be changed and no leader elected; check the controllers' logs."
    else:
        sentence = f"the controller, {node_id}, is none of the brokers: start it, or wait until another takes over."
    return HealthFinding(FAIL, "controller", sentence)


def check_partitions(found: Metadata) -> Iterator[HealthFinding]:
    """Yield findings on whether every partition has a leader, and all its replicas are in sync."""
    partitions = [(topic.name, each) for topic in found.topics.values() for each in topic.partitions.values()]
    leaderless = [f"{topic}-{each.partition}" for topic, each in partitions if each.leader < 0]
    behind = [f"{topic}-{each.partition}" for topic, each in partitions if each.leader >= 0 and len(each.isr) < len(each.replicas)]
    if leaderless:
        yield HealthFinding(FAIL, "partitions", f"without a leader: {_names(leaderless)}. Start the brokers of their replicas.")
    if behind:
        yield HealthFinding(
            WARN, "partitions", f"under-replicated: {_names(behind)}. Start the missing brokers, or wait until they catch up."
        )
    if not leaderless and not behind:
        counted = f"{len(partitions)} partitions of {len(found.topics)} topics"
        yield HealthFinding(
            OK, "partitions", f"all {counted} have a leader and all their replicas in sync." if partitions else "none yet."
        )


def check_clock(found: QuorumDescription, began: float, ended: float) -> HealthFinding:
    """Return the finding about the clock of the controller, which has answered between two times of this machine, in seconds."""
    then_ms = next((each.last_caught_up_ms for each in found.voters if each.node_id == found.leader_id), -1)
    if then_ms < 0:
        return HealthFinding(OK, "clock", "not checked: brokers before Kafka 3.3 do not tell their time.")
    ahead = then_ms / 1000 - ended if then_ms / 1000 > ended else min(0.0, then_ms / 1000 - began)
    where = f"the clock of controller {found.leader_id}"
    if abs(ahead) < SKEW_S:
        return HealthFinding(OK, "clock", f"{where} agrees with this machine's, within {SKEW_S} s.")
    words = f"{where} is {abs(ahead):,.0f} s {'ahead of' if ahead > 0 else 'behind'} this machine's"
    return HealthFinding(WARN, "clock", f"{words}: let NTP set both, since timestamps, retention, tokens and certificates need it.")


def _names(partitions: Iterable[str]) -> str:
    named = sorted(partitions)
    more = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
    return f"{', '.join(named[:NAMED])}{more}"


def check_directory(node_id: int, directory: LogDir) -> HealthFinding:
    """Return the finding on whether a log directory is online and has free space."""
    where = f"{directory.path} of broker {node_id}"
    if directory.error_code:
        return HealthFinding(FAIL, "disks", f"{where} is offline: check the disk, and restart the broker.")
    used = sum(replica.size_bytes for replica in directory.replicas.values())
    if directory.total_bytes <= 0 or directory.usable_bytes < 0:
        return HealthFinding(OK, "disks", f"{where} has {size(used)} of records; this release does not say what is free.")
    part = directory.usable_bytes / directory.total_bytes
    words = f"{where}: {size(directory.usable_bytes)} of {size(directory.total_bytes)} are free, {size(used)} are records"
    if part < LOW:
        status = FAIL if part < FULL else WARN
        return HealthFinding(status, "disks", f"{words}: free some, lower retention, or move replicas to other brokers.")
    return HealthFinding(OK, "disks", f"{words}.")
