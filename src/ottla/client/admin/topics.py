"""An admin client's requests about topics, configurations and records. The module sends nothing."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.client.admin.results import outcome
from ottla.client.arguments import check_mapping, each_is, several, short_repr, text, whole
from ottla.client.arguments import names as names_of
from ottla.client.consumer.list_offsets import by_topic
from ottla.client.errors import KafkaError, SettingError, raise_for
from ottla.client.types import TopicPartition
from ottla.wire.api.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from ottla.wire.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.api.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from ottla.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from ottla.wire.api.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from ottla.wire.api.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse

ID_BYTES = 16
BROKER_DEFAULT = -1
ALL_RECORDS = -1
TOPIC_RESOURCE, BROKER_RESOURCE, LOGGERS_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE = 2, 4, 8, 16, 32
KIND_NAMES = {
    TOPIC_RESOURCE: "Settings of topic",
    BROKER_RESOURCE: "Settings of broker",
    LOGGERS_RESOURCE: "Loggers of broker",
    CLIENT_METRICS_RESOURCE: "Client metrics subscription",
    GROUP_RESOURCE: "Settings of group",
}
"""The first words of errors about resources, by Kafka's numbers of their types."""
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
DYNAMIC_TOPIC_SOURCE, DEFAULT_SOURCE = 1, 5
SOURCES = {
    1: "dynamic topic", 2: "dynamic broker", 3: "dynamic default broker", 4: "static broker", 5: "default",
    6: "dynamic broker logger", 7: "dynamic client metrics", 8: "dynamic group",
}  # fmt: skip
"""The sources of settings by Kafka's numbers, in the words of its names, such as DYNAMIC_TOPIC_CONFIG."""

ConfigValue = str | int | float | bool


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. If a count is left out, the broker uses its `num.partitions` or `default.replication.factor`.

    `assignments`, in place of counts, has the node ids of the replicas of each partition, by its number, preferred leaders first.
    """

    name: str
    num_partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    configs: Mapping[str, ConfigValue] = field(default_factory=dict)
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """The new total number of partitions of a topic. `assignments` has the node ids of the replicas of each new partition."""

    total_count: int
    assignments: Sequence[Sequence[int]] | None = None


class CreatedTopic(NamedTuple):
    """A topic that was created, or would be. Counts are -1 and `configs` is empty before Kafka 2.4, the id zero before 2.8."""

    name: str
    topic_id: bytes
    num_partitions: int
    replication_factor: int
    configs: dict[str, ConfigEntry]


class ConfigResource(NamedTuple):
    """A resource with settings, such as a topic, a broker or a group. `kind` is Kafka's number of the resource type."""

    kind: int
    name: str

    @property
    def node_id(self) -> int | None:
        """Return the id of the only broker that can describe these settings, or None for any broker."""
        return int(self.name) if self.kind in (BROKER_RESOURCE, LOGGERS_RESOURCE) and self.name else None

    @classmethod
    def topic(cls, name: str) -> ConfigResource:
        return cls(TOPIC_RESOURCE, name)

    @classmethod
    def broker(cls, node_id: int) -> ConfigResource:
        """Return the resource of one broker. Settings of this resource override the settings of all brokers."""
        return cls(BROKER_RESOURCE, str(whole("node_id", node_id)))

    @classmethod
    def all_brokers(cls) -> ConfigResource:
        """Return the resource of the dynamic settings shared by all brokers (KIP-226)."""
        return cls(BROKER_RESOURCE, "")

    @classmethod
    def group(cls, group_id: str) -> ConfigResource:
        """Return the resource of a group, which need not exist yet (KIP-848)."""
        return cls(GROUP_RESOURCE, group_id)

    @classmethod
    def loggers(cls, node_id: int) -> ConfigResource:
        """Return the resource of a broker's loggers: settings are names of loggers, values are levels (KIP-412)."""
        return cls(LOGGERS_RESOURCE, str(whole("node_id", node_id)))

    @classmethod
    def client_metrics(cls, name: str) -> ConfigResource:
        """Return the resource of a subscription to the metrics of clients, which need not exist yet (KIP-714)."""
        return cls(CLIENT_METRICS_RESOURCE, name)


class ConfigSynonym(NamedTuple):
    """A value that a setting has or falls back to. `name` may differ, such as `log.retention.hours` for `retention.ms`."""

    name: str
    value: str | None
    source: int

    @property
    def source_name(self) -> str:
        return source_name(self.source)


class ConfigEntry(NamedTuple):
    """A setting in force. `value` is None if it has none or is secret. `source` is Kafka's number of the source (KIP-226).

    `synonyms` are the values by precedence, the one in force first; `documentation` is a text of the broker (KIP-569). Both are
    empty unless they were requested.
    """

    name: str
    value: str | None
    read_only: bool
    is_sensitive: bool
    source: int
    synonyms: tuple[ConfigSynonym, ...] = ()
    documentation: str = ""

    @property
    def source_name(self) -> str:
        """Return the source in the words of Kafka's name, such as "dynamic topic" for DYNAMIC_TOPIC_CONFIG."""
        return source_name(self.source)

    @property
    def is_default(self) -> bool:
        """Return whether the value is the default, so that neither the resource nor its broker sets another one."""
        return self.source == DEFAULT_SOURCE


def source_name(source: int) -> str:
    return SOURCES.get(source, "unknown")


def topics_by_name(topics: Iterable[NewTopic]) -> dict[str, NewTopic]:
    """Return new topics by name. Raises `TypeError`, and `SettingError` for a name that occurs twice."""
    found: dict[str, NewTopic] = {}
    for topic in each_is(NewTopic, "topics", topics):
        if found.setdefault(topic.name, topic) is not topic:
            raise SettingError(f"Topic {topic.name} is given twice: give each topic once.")
    return found


def create_topics_request(topics: Iterable[NewTopic], timeout_ms: int, *, validate_only: bool) -> CreateTopicsRequest:
    config, assignment = CreateTopicsRequest.CreatableTopicConfig, CreateTopicsRequest.CreatableReplicaAssignment
    return CreateTopicsRequest(
        topics=[
            CreateTopicsRequest.CreatableTopic(
                name=text("A topic's name", topic.name),
                num_partitions=whole("num_partitions", topic.num_partitions, BROKER_DEFAULT),
                replication_factor=whole("replication_factor", topic.replication_factor, BROKER_DEFAULT),
                assignments=[
                    assignment(partition_index=index, broker_ids=list(replicas))
                    for index, replicas in check_mapping("assignments", topic.assignments).items()
                ],
                configs=[config(name=name, value=_text(value)) for name, value in check_mapping("configs", topic.configs).items()],
            )
            for topic in topics
        ],
        timeout_ms=timeout_ms,
        validate_only=validate_only,
    )


def read_created(answer: CreateTopicsResponse) -> Iterator[tuple[str, CreatedTopic | KafkaError]]:
    """Yield (topic, its description or error) for each topic in the answer."""
    for topic in answer.topics:
        configs = {
            each.name: ConfigEntry(each.name, each.value, each.read_only, each.is_sensitive, each.config_source)
            for each in topic.configs or ()
        }
        made = CreatedTopic(topic.name, topic.topic_id, topic.num_partitions, topic.replication_factor, configs)
        yield topic.name, outcome(topic.error_code, made, f"Topic {topic.name}", topic.error_message)


def check_topics(answer: CreateTopicsResponse) -> None:
    """Raise an exception for the first topic that was not created."""
    for _, created in read_created(answer):
        if isinstance(created, KafkaError):
            raise created


def read_grown(answer: CreatePartitionsResponse) -> Iterator[tuple[str, KafkaError | None]]:
    """Yield (topic, its error or None) for each topic in the answer."""
    for result in answer.results:
        yield result.name, outcome(result.error_code, None, f"Topic {result.name}", result.error_message)


def read_deleted(answer: DeleteTopicsResponse) -> Iterator[tuple[str, KafkaError | None]]:
    """Yield (topic, its error or None) for each topic in the answer to a request with names."""
    for topic in answer.responses:
        yield topic.name or "", outcome(topic.error_code, None, f"Topic {topic.name}", topic.error_message)


def read_deleted_ids(answer: DeleteTopicsResponse) -> Iterator[tuple[bytes, KafkaError | None]]:
    """Yield (topic id, the topic's error or None) for each topic in the answer to a request with ids."""
    for topic in answer.responses:
        context = f"Topic {id_text(topic.topic_id)}"
        yield bytes(topic.topic_id), outcome(topic.error_code, None, context, topic.error_message)


def id_text(topic_id: bytes) -> str:
    """Return a topic id as Kafka prints it."""
    return urlsafe_b64encode(topic_id).decode().rstrip("=")


def checked_ids(topic_ids: Iterable[object]) -> list[bytes]:
    """Return topic ids of 16 bytes, each given as bytes or as Kafka prints it. Raises `TypeError`, `SettingError`."""
    return [_checked_id(each) for each in topic_ids]


def _checked_id(given: object) -> bytes:
    if isinstance(given, str):
        with suppress(ValueError):
            given = urlsafe_b64decode(given + "=" * (-len(given) % 4))
        if isinstance(given, str):
            raise SettingError(
                f"{given!r} is not a topic's id: ids have 22 characters, as describe_topics() and Kafka's tools show."
            )
    if not isinstance(given, bytes):
        raise TypeError(f"A topic's id is bytes or a string, not {short_repr(given)}.")
    if len(given) != ID_BYTES:
        raise SettingError(f"A topic's id has {ID_BYTES} bytes, not {len(given)}: take topic_id of describe_topics().")
    return given


def create_partitions_request(
    counts: Mapping[str, int | NewPartitions], timeout_ms: int, *, validate_only: bool
) -> CreatePartitionsRequest:
    """Build the request that adds partitions. `counts` maps each topic to its new total number of partitions."""
    topic, assignment = CreatePartitionsRequest.CreatePartitionsTopic, CreatePartitionsRequest.CreatePartitionsAssignment
    wanted = {
        name: count if isinstance(count, NewPartitions) else NewPartitions(whole("The number of partitions", count))
        for name, count in counts.items()
    }
    return CreatePartitionsRequest(
        topics=[
            topic(
                name=name,
                count=new.total_count,
                assignments=None if new.assignments is None else [assignment(broker_ids=list(each)) for each in new.assignments],
            )
            for name, new in wanted.items()
        ],
        timeout_ms=timeout_ms,
        validate_only=validate_only,
    )


def delete_topics_request(names: Iterable[str], timeout_ms: int) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topic_names=names_of("A topic's name", names), timeout_ms=timeout_ms)


def delete_ids_request(topic_ids: Iterable[bytes], timeout_ms: int) -> DeleteTopicsRequest:
    """Build the request that deletes topics by id (KIP-516, Kafka 2.8)."""
    named = DeleteTopicsRequest.DeleteTopicState
    return DeleteTopicsRequest(topics=[named(topic_id=topic_id) for topic_id in topic_ids], timeout_ms=timeout_ms)


@dataclass(frozen=True, slots=True)
class ConfigAlteration:
    """Changes of settings of one resource. Settings that are not named stay as they are (KIP-339).

    `delete` restores defaults; `append` and `subtract` change settings that are lists.
    """

    set: Mapping[str, ConfigValue] = field(default_factory=dict)
    delete: Iterable[str] = ()
    append: Mapping[str, ConfigValue] = field(default_factory=dict)
    subtract: Mapping[str, ConfigValue] = field(default_factory=dict)

    def operations(self) -> dict[int, Mapping[str, ConfigValue | None]]:
        """Return the names and values by Kafka's number of the operation. Raises `TypeError`."""
        deleted = dict.fromkeys(several("delete", self.delete))
        return {SET: self.set, DELETE: deleted, APPEND: self.append, SUBTRACT: self.subtract}


def alter_configs_request(
    changes: Mapping[ConfigResource, ConfigAlteration], *, validate_only: bool
) -> IncrementalAlterConfigsRequest:
    """Build the request that changes settings of resources."""
    config = IncrementalAlterConfigsRequest.AlterableConfig
    altered = [
        IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=resource.kind,
            resource_name=resource.name,
            configs=[
                config(name=name, config_operation=operation, value=_text(value))
                for operation, values in change.operations().items()
                for name, value in check_mapping("A change of settings", values).items()
            ],
        )
        for resource, change in changes.items()
    ]
    return IncrementalAlterConfigsRequest(resources=altered, validate_only=validate_only)


def _text(value: ConfigValue | None) -> str | None:
    if value is not None and not isinstance(value, ConfigValue):
        raise TypeError(f"The value of a setting is a string, a number, True or False, not {short_repr(value)}: lists are 'a,b'.")
    return value if value is None or isinstance(value, str) else str(value).lower()


def _subject(kind: int, name: str) -> str:
    """Return the first words of an error about a resource's settings."""
    if not name:
        return "Settings of all brokers"
    return f"{KIND_NAMES.get(kind, 'Settings of')} {name}"


def read_altered(answer: IncrementalAlterConfigsResponse) -> Iterator[tuple[ConfigResource, KafkaError | None]]:
    """Yield (resource, its error or None) for each resource in the answer."""
    for result in answer.responses:
        subject = _subject(result.resource_type, result.resource_name)
        resource = ConfigResource(result.resource_type, result.resource_name)
        yield resource, outcome(result.error_code, None, subject, result.error_message)


def checked_offset(given: object) -> int:
    """Return `given` if it is an offset before which records can be deleted, or -1 for all. Raises `TypeError`, `SettingError`."""
    return whole("An offset", given, ALL_RECORDS)


def delete_records_request(before: Mapping[TopicPartition, int], timeout_ms: int) -> DeleteRecordsRequest:
    """Build the request that deletes records. `before` maps each partition to its new first offset; -1 deletes all records."""
    partition = DeleteRecordsRequest.DeleteRecordsPartition
    topics = [
        DeleteRecordsRequest.DeleteRecordsTopic(
            name=topic, partitions=[partition(partition_index=where.partition, offset=before[where]) for where in group]
        )
        for topic, group in by_topic(before)
    ]
    return DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms)


def read_deleted_records(answer: DeleteRecordsResponse) -> Iterator[tuple[TopicPartition, int, int]]:
    """Yield (partition, error code, low watermark) for each partition in the answer."""
    for topic in answer.topics:
        for found in topic.partitions:
            yield TopicPartition(topic.name, found.partition_index), found.error_code, found.low_watermark


def checked_resource(given: object) -> ConfigResource:
    """Return `given` if it is a `ConfigResource`, otherwise raise `TypeError`."""
    if not isinstance(given, ConfigResource) or not isinstance(given.name, str):
        raise TypeError(f"A resource is a ConfigResource, such as ConfigResource.topic('flights'), not {short_repr(given)}.")
    return given


def checked_change(given: object) -> ConfigAlteration:
    """Return `given` if it is a `ConfigAlteration`, otherwise raise `TypeError`."""
    if not isinstance(given, ConfigAlteration):
        raise TypeError(f"A change is a ConfigAlteration, as ConfigAlteration(set={{'retention.ms': 1}}), not {short_repr(given)}.")
    return given


def describe_configs_request(
    *resources: ConfigResource, synonyms: bool = False, documentation: bool = False
) -> DescribeConfigsRequest:
    wanted = [
        DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=resource.kind, resource_name=resource.name, configuration_keys=None
        )
        for resource in map(checked_resource, resources)
    ]
    return DescribeConfigsRequest(resources=wanted, include_synonyms=synonyms, include_documentation=documentation)


def list_resources_request(kinds: Iterable[int]) -> ListConfigResourcesRequest:
    return ListConfigResourcesRequest(resource_types=[whole("kind", kind) for kind in kinds])


def read_resources(answer: ListConfigResourcesResponse) -> list[ConfigResource]:
    """Return the resources, sorted by kind and name. Raises `BrokerError`."""
    raise_for(answer.error_code, "Listing resources with settings")
    return sorted(ConfigResource(each.resource_type, each.resource_name) for each in answer.config_resources)


def read_configs(answer: DescribeConfigsResponse) -> dict[str, ConfigEntry]:
    """Return the settings of the one requested resource, by name. Raises `BrokerError`."""
    for _, found in read_resource_configs(answer):
        if isinstance(found, KafkaError):
            raise found
        return found
    return {}


def read_resource_configs(answer: DescribeConfigsResponse) -> Iterator[tuple[ConfigResource, dict[str, ConfigEntry] | KafkaError]]:
    """Yield (resource, its settings by name, or its error) for each resource in the answer."""
    for result in answer.results:
        entries = {entry.name: _entry(entry) for entry in result.configs}
        subject = _subject(result.resource_type, result.resource_name)
        resource = ConfigResource(result.resource_type, result.resource_name)
        yield resource, outcome(result.error_code, entries, subject, result.error_message)


def _entry(entry: DescribeConfigsResponse.DescribeConfigsResourceResult) -> ConfigEntry:
    source = DEFAULT_SOURCE if entry.is_default else entry.config_source
    synonyms = tuple(ConfigSynonym(each.name, each.value, each.source) for each in entry.synonyms)
    about = (entry.read_only, entry.is_sensitive, source)
    return ConfigEntry(entry.name, entry.value, *about, synonyms, entry.documentation or "")
