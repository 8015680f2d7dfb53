"""The admin client on asyncio: topics, settings, groups."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, Self, Unpack

from ottla.client import admin
from ottla.client.admin import ConfigEntry, GroupDescription, GroupListing, NewTopic
from ottla.client.errors import UNKNOWN_SERVER_ERROR, broker_error, raise_for
from ottla.client.keywords import AdminKeywords
from ottla.client.metadata import TopicInfo
from ottla.client.offsets import fetch_offsets_request, read_fetch_offsets
from ottla.client.settings import AdminSettings, parse
from ottla.client.types import Node, OffsetAndMetadata, TopicPartition
from ottla.client.versions import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_GROUPS,
    DELETE_TOPICS,
    DESCRIBE_CONFIGS,
    DESCRIBE_GROUPS,
    FIND_COORDINATOR,
    LIST_GROUPS,
    OFFSET_FETCH,
)
from ottla.net.client.cluster import Cluster
from ottla.wire.api.delete_groups import DeleteGroupsRequest
from ottla.wire.api.describe_groups import DescribeGroupsRequest
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.list_groups import ListGroupsRequest
from ottla.wire.schema import Message


class ClusterDescription(NamedTuple):
    """The brokers that there are; `controller_id` is the id of one of them, or -1."""

    cluster_id: str | None
    controller_id: int
    nodes: list[Node]


class AsyncAdmin:
    """Creates, changes and describes. A context manager; keyword arguments are Kafka's admin settings with underscores.

    Every method raises `KafkaError`: the first that any topic or group asked about met.
    """

    def __init__(self, bootstrap_servers: str | Iterable[str] | None = None, **settings: Unpack[AdminKeywords]) -> None:
        servers = {} if bootstrap_servers is None else {"bootstrap_servers": bootstrap_servers}
        self.settings = parse(AdminSettings, {**settings, **servers})

    async def start(self) -> Self:
        """Begin, without a `with` statement; nothing is sent before something is asked for."""
        self._cluster = Cluster(self.settings)
        return self

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections; what was not answered yet ends with `ConnectionFailed`."""
        await self._cluster.close()

    async def _change(self, api_key: int, body: Message, check: Callable[[Any], None]) -> None:
        """Changes of the cluster go to its controller. They are not repeated: one whose answer was lost may have happened."""

        async def controller() -> int:
            await self._cluster.refresh([])
            return self._cluster.metadata.controller_id

        node_id = await self._cluster.retried(controller)
        answer = await self._cluster.ask(node_id, api_key, body) if node_id >= 0 else await self._cluster.ask_any(api_key, body)
        check(answer)

    async def create_topics(self, topics: Iterable[NewTopic], *, validate_only: bool = False) -> None:
        """Create topics; with `validate_only`, only see whether that would work."""
        request = admin.create_topics_request(list(topics), self.settings.request_timeout_ms, validate_only=validate_only)
        await self._change(CREATE_TOPICS, request, admin.check_topics)

    async def create_topic(
        self,
        name: str,
        num_partitions: int = admin.BROKER_DEFAULT,
        replication_factor: int = admin.BROKER_DEFAULT,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Create one topic; counts left out are the broker's defaults."""
        await self.create_topics([NewTopic(name, num_partitions, replication_factor, configs or {})])

    async def create_partitions(self, counts: Mapping[str, int]) -> None:
        """Give topics more partitions: `counts` says how many each is to have."""
        request = admin.create_partitions_request(counts, self.settings.request_timeout_ms)
        await self._change(CREATE_PARTITIONS, request, admin.check_partitions)

    async def delete_topics(self, *names: str) -> None:
        """Delete topics with all their records."""
        await self._change(DELETE_TOPICS, admin.delete_topics_request(names, self.settings.request_timeout_ms), admin.check_deleted)

    async def list_topics(self, *, internal: bool = False) -> list[str]:
        """The names of all topics, sorted."""
        await self._cluster.retried(lambda: self._cluster.refresh(None))
        return sorted(topic.name for topic in self._cluster.metadata.topics.values() if internal or not topic.is_internal)

    async def describe_topics(self, *names: str) -> dict[str, TopicInfo]:
        """Partitions and leaders of topics, by name. Raises `UnknownTopic`."""
        await self._cluster.retried(lambda: self._cluster.refresh(names))
        self._cluster.metadata.check(names)
        known = self._cluster.metadata.topics
        return {name: known[name] for name in names}

    async def describe_cluster(self) -> ClusterDescription:
        """The cluster's id, its controller and its brokers."""
        await self._cluster.retried(lambda: self._cluster.refresh([]))
        found = self._cluster.metadata
        return ClusterDescription(found.cluster_id, found.controller_id, sorted(found.nodes.values()))

    async def describe_topic_configs(self, topic: str) -> dict[str, ConfigEntry]:
        """All settings of a topic, by name."""
        request = admin.describe_configs_request(admin.TOPIC_RESOURCE, topic)
        return admin.read_configs(await self._cluster.retried(lambda: self._cluster.ask_any(DESCRIBE_CONFIGS, request)))

    async def describe_broker_configs(self, node_id: int) -> dict[str, ConfigEntry]:
        """All settings of a broker, by name."""
        await self.describe_cluster()
        request = admin.describe_configs_request(admin.BROKER_RESOURCE, str(node_id))
        return admin.read_configs(await self._cluster.retried(lambda: self._cluster.ask(node_id, DESCRIBE_CONFIGS, request)))

    async def list_groups(self) -> list[GroupListing]:
        """The groups of all brokers."""

        async def ask() -> list[GroupListing]:
            nodes = (await self.describe_cluster()).nodes
            answers = await asyncio.gather(*(self._cluster.ask(node.node_id, LIST_GROUPS, ListGroupsRequest()) for node in nodes))
            return sorted(group for answer in answers for group in admin.read_groups(answer))

        return await self._cluster.retried(ask)

    async def _ask_coordinator(self, group_id: str, api_key: int, body: Message) -> Any:
        await self.describe_cluster()
        answer = await self._cluster.ask_any(FIND_COORDINATOR, FindCoordinatorRequest(key=group_id, key_type=0))
        raise_for(answer.error_code, f"Group {group_id}", answer.error_message)
        return await self._cluster.ask(answer.node_id, api_key, body)

    async def describe_group(self, group_id: str) -> GroupDescription:
        """State and members of a group; one that does not exist is described as Dead."""
        request = DescribeGroupsRequest(groups=[group_id])

        async def ask() -> GroupDescription:
            for described in admin.read_descriptions(await self._ask_coordinator(group_id, DESCRIBE_GROUPS, request)):
                return described
            raise broker_error(UNKNOWN_SERVER_ERROR, f"Group {group_id}", "The broker's answer leaves it out.")

        return await self._cluster.retried(ask)

    async def list_group_offsets(self, group_id: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """Everything that a group has committed."""

        async def ask() -> dict[TopicPartition, OffsetAndMetadata]:
            answer = await self._ask_coordinator(group_id, OFFSET_FETCH, fetch_offsets_request(group_id, None))
            raise_for(answer.error_code, f"Group {group_id}")
            found = {}
            for where, code, offset in read_fetch_offsets(answer):
                raise_for(code, f"Committed offset of {where.topic}-{where.partition}")
                found[where] = offset
            return found

        return await self._cluster.retried(ask)

    async def delete_groups(self, *group_ids: str) -> None:
        """Delete groups without members, and what they have committed."""
        for group_id in group_ids:
            await self._cluster.retried(partial(self._delete_group, group_id))

    async def _delete_group(self, group_id: str) -> None:
        request = DeleteGroupsRequest(groups_names=[group_id])
        admin.check_groups(await self._ask_coordinator(group_id, DELETE_GROUPS, request))
