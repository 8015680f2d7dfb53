"""Calls of an admin client about settings of topics, brokers, groups, loggers and client metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Unpack

from ottla.client import arguments
from ottla.client.admin import topics as admin
from ottla.client.admin.results import CallOptions, Results
from ottla.client.admin.topics import ConfigAlteration, ConfigEntry, ConfigResource, ConfigValue
from ottla.client.arguments import topic_name
from ottla.net.client.admin.bulk import Locate, Outcomes, on_any, on_controller, on_nodes, send
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
        change = ConfigAlteration(set or {}, delete, append or {}, subtract or {})
        await self.alter_configs_of({admin.checked_resource(resource): change}, validate_only=validate_only)

    async def alter_configs_of(
        self, changes: Mapping[ConfigResource, ConfigAlteration], *, validate_only: bool = False, **options: Unpack[CallOptions]
    ) -> Results[ConfigResource, None]:
        """Change settings of several resources, as `alter_configs` does. Settings of a broker are changed by this broker."""
        cluster = self._cluster
        given = arguments.check_mapping("changes", changes).items()
        wanted = {admin.checked_resource(each): admin.checked_change(change) for each, change in given}

        async def query(node_id: int, some: list[ConfigResource]) -> Outcomes[ConfigResource, None]:
            request = admin.alter_configs_request({each: wanted[each] for each in some}, validate_only=validate_only)
            return admin.read_altered(await send(cluster, node_id, request))

        locate: Locate[ConfigResource] = on_nodes(cluster, lambda resource: resource.node_id, on_controller(cluster))
        return await self._query_items(wanted, locate, query, options, is_change=True)

    async def describe_configs(
        self, resource: ConfigResource, *, synonyms: bool = False, documentation: bool = False
    ) -> dict[str, ConfigEntry]:
        """Return the settings in force for a topic, broker or group, by name, defaults included (KIP-226).

        With `synonyms`, entries have the values by precedence; with `documentation`, the broker's texts about settings (KIP-569).
        """
        resource = admin.checked_resource(resource)
        return (await self.describe_configs_of([resource], synonyms=synonyms, documentation=documentation))[resource]

    async def describe_configs_of(
        self,
        resources: Iterable[ConfigResource],
        *,
        synonyms: bool = False,
        documentation: bool = False,
        **options: Unpack[CallOptions],
    ) -> Results[ConfigResource, dict[str, ConfigEntry]]:
        """Return the settings of several resources, by resource, as `describe_configs` does."""
        cluster = self._cluster
        wanted = arguments.each_is(ConfigResource, "resources", resources)

        async def query(node_id: int, some: list[ConfigResource]) -> Outcomes[ConfigResource, dict[str, ConfigEntry]]:
            request = admin.describe_configs_request(*some, synonyms=synonyms, documentation=documentation)
            return admin.read_resource_configs(await send(cluster, node_id, request))

        locate: Locate[ConfigResource] = on_nodes(cluster, lambda resource: resource.node_id, on_any(cluster))
        return await self._query_items(wanted, locate, query, options)

    async def list_config_resources(self, *kinds: int) -> list[ConfigResource]:
        """Return the resources of these kinds that have settings, or of all kinds (KIP-1142), sorted.

        A broker lists no other broker. Raises `NotSupported` before Kafka 4.1, except for client metrics since Kafka 3.7.
        """
        return await self._request_any(admin.list_resources_request(kinds), admin.read_resources)

    async def describe_topic_configs(self, topic: str) -> dict[str, ConfigEntry]:
        """Return the settings in force for a topic, by name."""
        return await self.describe_configs(ConfigResource.topic(topic_name(topic)))

    async def describe_broker_configs(self, node_id: int) -> dict[str, ConfigEntry]:
        """Return the settings in force for a broker, by name."""
        return await self.describe_configs(ConfigResource.broker(node_id))
