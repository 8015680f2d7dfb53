"""The blocking admin client: a thin face of the asynchronous one, which runs on a thread of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Self, Unpack

from ottla.client.admin import BROKER_DEFAULT, ConfigEntry, GroupDescription, GroupListing, NewTopic
from ottla.client.keywords import AdminKeywords
from ottla.client.metadata import TopicInfo
from ottla.client.types import OffsetAndMetadata, TopicPartition
from ottla.net.client.async_admin import AsyncAdmin, ClusterDescription
from ottla.net.client.background import BackgroundLoop


class Admin:
    """Creates, changes and describes. A context manager; keyword arguments are Kafka's admin settings with underscores.

    Every method raises `KafkaError`: the first that any topic or group asked about met.
    """

    def __init__(self, bootstrap_servers: str | Iterable[str] | None = None, **settings: Unpack[AdminKeywords]) -> None:
        self._async = AsyncAdmin(bootstrap_servers, **settings)
        self._background = BackgroundLoop.begin("ottla-admin", self._async.start)
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        if not self._closed:
            self._closed = True
            try:
                self._background.run(self._async.close())
            finally:
                self._background.stop()

    def create_topics(self, topics: Iterable[NewTopic], *, validate_only: bool = False) -> None:
        """Create topics; with `validate_only`, only see whether that would work."""
        self._background.run(self._async.create_topics(topics, validate_only=validate_only))

    def create_topic(
        self,
        name: str,
        num_partitions: int = BROKER_DEFAULT,
        replication_factor: int = BROKER_DEFAULT,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Create one topic; counts left out are the broker's defaults."""
        self._background.run(self._async.create_topic(name, num_partitions, replication_factor, configs))

    def create_partitions(self, counts: Mapping[str, int]) -> None:
        """Give topics more partitions: `counts` says how many each is to have."""
        self._background.run(self._async.create_partitions(counts))

    def delete_topics(self, *names: str) -> None:
        """Delete topics with all their records."""
        self._background.run(self._async.delete_topics(*names))

    def list_topics(self, *, internal: bool = False) -> list[str]:
        """The names of all topics, sorted."""
        return self._background.run(self._async.list_topics(internal=internal))

    def describe_topics(self, *names: str) -> dict[str, TopicInfo]:
        """Partitions and leaders of topics, by name. Raises `UnknownTopic`."""
        return self._background.run(self._async.describe_topics(*names))

    def describe_cluster(self) -> ClusterDescription:
        """The cluster's id, its controller and its brokers."""
        return self._background.run(self._async.describe_cluster())

    def describe_topic_configs(self, topic: str) -> dict[str, ConfigEntry]:
        """All settings of a topic, by name."""
        return self._background.run(self._async.describe_topic_configs(topic))

    def describe_broker_configs(self, node_id: int) -> dict[str, ConfigEntry]:
        """All settings of a broker, by name."""
        return self._background.run(self._async.describe_broker_configs(node_id))

    def list_groups(self) -> list[GroupListing]:
        """The groups of all brokers."""
        return self._background.run(self._async.list_groups())

    def describe_group(self, group_id: str) -> GroupDescription:
        """State and members of a group; one that does not exist is described as Dead."""
        return self._background.run(self._async.describe_group(group_id))

    def list_group_offsets(self, group_id: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """Everything that a group has committed."""
        return self._background.run(self._async.list_group_offsets(group_id))

    def delete_groups(self, *group_ids: str) -> None:
        """Delete groups without members, and what they have committed."""
        self._background.run(self._async.delete_groups(*group_ids))
