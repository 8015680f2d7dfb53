"""Calls of an admin client about settings of topics, brokers, groups, loggers and client metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.client import arguments
from ottla.client.admin import topics as admin
from ottla.client.admin.topics import ConfigEntry, ConfigResource, ConfigValue
from ottla.client.arguments import topic_name
from ottla.net.client.admin.calls import AdminCalls


class ConfigCalls(AdminCalls):
    """The methods of `AsyncAdmin` about settings of topics, brokers, groups, loggers and client metrics."""

    async def alter_configs(
        self,
        resource: ConfigResource,
        *,
        set: Mapping[str, ConfigValue] | None = None,
        delete: Iterable[str] = (),
        append: Mapping[str, ConfigValue] | None = None,
        subtract: Mapping[str, ConfigValue] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Change some settings of a resource, such as a topic or a broker, and leave its other settings unchanged (KIP-339).

            await admin.alter_configs(ConfigResource.topic("flights"), set={"retention.ms": 86_400_000})

        `delete` restores the defaults of settings. `append` and `subtract` change settings that are lists, such as
        `cleanup.policy`. With `validate_only`, nothing changes. Raises `BrokerError` (INVALID_CONFIG) for a value that the broker
        refuses, and `UnknownTopic`.
        """
        changes: dict[int, Mapping[str, ConfigValue | None]] = {
            admin.SET: set or {},
            admin.DELETE: dict.fromkeys(arguments.several("delete", delete)),
            admin.APPEND: append or {},
            admin.SUBTRACT: subtract or {},
        }
        request = admin.alter_configs_request(resource, changes, validate_only=validate_only)
        if resource.node_id is None:
            await self._change(request, admin.check_altered)
        else:
            await self._refresh()
            admin.check_altered(await self._cluster.request(resource.node_id, request))

    async def describe_configs(
        self, resource: ConfigResource, *, synonyms: bool = False, documentation: bool = False
    ) -> dict[str, ConfigEntry]:
        """Return the settings in force for a topic, broker or group, by name, defaults included (KIP-226).

        With `synonyms`, entries have the values by precedence; with `documentation`, the broker's texts about settings (KIP-569).
        """
        request = admin.describe_configs_request(resource, synonyms=synonyms, documentation=documentation)
        await self._refresh()
        return await self._request_any(request, admin.read_configs, resource.node_id)

    async def list_config_resources(self, *kinds: int) -> list[ConfigResource]:
        """Return the resources of these kinds that have settings, or of all kinds (KIP-1142), sorted.

        A broker lists itself alone. Raises `NotSupported` before Kafka 4.1, except for client metrics since Kafka 3.7.
        """
        return await self._request_any(admin.list_resources_request(kinds), admin.read_resources)

    async def describe_topic_configs(self, topic: str) -> dict[str, ConfigEntry]:
        """Return the settings in force for a topic, by name."""
        return await self.describe_configs(ConfigResource.topic(topic_name(topic)))

    async def describe_broker_configs(self, node_id: int) -> dict[str, ConfigEntry]:
        """Return the settings in force for a broker, by name."""
        return await self.describe_configs(ConfigResource.broker(node_id))
