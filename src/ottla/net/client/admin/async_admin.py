"""The admin client on asyncio. Its methods are divided by what they are about: topics, settings, groups and so on."""

from __future__ import annotations

from types import TracebackType
from typing import Self, Unpack

from ottla.client.arguments import whole
from ottla.client.keywords import AdminKeywords, Servers
from ottla.client.metrics.registry import MetricsSnapshot
from ottla.client.other_names import ClientType
from ottla.client.settings.clients import AdminSettings, parse
from ottla.net.client.admin.access_calls import AccessCalls
from ottla.net.client.admin.cluster_calls import ClusterCalls
from ottla.net.client.admin.config_calls import ConfigCalls
from ottla.net.client.admin.group_calls import GroupCalls
from ottla.net.client.admin.replica_calls import ReplicaCalls
from ottla.net.client.admin.topic_calls import TopicCalls
from ottla.net.client.admin.transaction_calls import TransactionCalls
from ottla.net.client.cluster import ClusterLinks
from ottla.net.client.lifetime import OfOneProcess, made_by_start
from ottla.net.client.telemetry_driver import TelemetryDriver


class AsyncAdmin(
    OfOneProcess,
    TopicCalls,
    ConfigCalls,
    GroupCalls,
    TransactionCalls,
    ReplicaCalls,
    ClusterCalls,
    AccessCalls,
    metaclass=ClientType,
):
    """An admin client, which changes and describes a cluster; a context manager.

    Keyword arguments: Kafka's settings with underscores.

        async with AsyncAdmin("localhost:9092") as admin:
            await admin.create_topic("flights", 6)

    Every method raises `KafkaError`: `BrokerError`, `NotSupported` for a broker that is too old, `ConnectionFailed`, or `TimedOut`.
    `BrokerError` has Kafka's code for the first topic, group or resource that was refused. Others in the same call may have been
    changed. The constructor raises `SettingError` for a setting that is unknown or has a wrong value.
    """

    def __init__(self, bootstrap_servers: Servers | None = None, **settings: Unpack[AdminKeywords]) -> None:
        servers = {} if bootstrap_servers is None else {"bootstrap_servers": bootstrap_servers}
        self._settings = parse(AdminSettings, {**settings, **servers})
        self._started = False

    @property
    def _statistics(self) -> None:
        """Return None: an admin client has no statistics callback, because it has no call that waits for something."""

    async def start(self) -> Self:
        """Start the client without a `with` statement. It connects at the first call."""
        if self._started:
            return self
        self._cluster = ClusterLinks(self._settings)
        self._telemetry = TelemetryDriver(self._cluster, self._settings)
        self._telemetry.begin()
        self._started = True
        return self

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections. Calls that still wait for an answer raise `ConnectionFailed`."""
        if not self._started:
            return
        await self._telemetry.close()
        await self._cluster.close()

    async def client_instance_id(self, timeout_ms: int = 30_000) -> str:
        """Return the id by which brokers know this client's metrics, as Kafka prints it (KIP-714).

        Raises `SettingError` without `enable_metrics_push`, `NotSupported` if brokers have no subscriptions to metrics, and
        `TimedOut`.
        """
        return await self._telemetry.instance_id(whole("timeout_ms", timeout_ms))

    def metrics(self) -> MetricsSnapshot:
        """Return the client's metrics, with the names and groups of Kafka's Java client."""
        return self._cluster.snapshot()


made_by_start(AsyncAdmin, "_cluster", "_telemetry")
