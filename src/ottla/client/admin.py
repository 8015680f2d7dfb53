"""What an admin client asks for: topics, configurations, groups. Requests made and answers read; nothing is sent here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.client.errors import raise_for
from ottla.wire.api.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from ottla.wire.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.api.delete_groups import DeleteGroupsResponse
from ottla.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from ottla.wire.api.describe_groups import DescribeGroupsResponse
from ottla.wire.api.list_groups import ListGroupsResponse

BROKER_DEFAULT = -1
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. Without counts, the broker's `num.partitions` and `default.replication.factor` hold."""

    name: str
    num_partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    configs: Mapping[str, str] = field(default_factory=dict)


class GroupListing(NamedTuple):
    """A group as the list of all groups names it. `state` is spelled as Kafka does: Stable, Empty, PreparingRebalance …"""

    group_id: str
    protocol_type: str
    state: str


class GroupMember(NamedTuple):
    """A member of a group. `group_instance_id`: of a static one; `member_assignment`: what its protocol made of it."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    member_assignment: bytes


class GroupDescription(NamedTuple):
    """A group with its members. `protocol` is the assignor that they agreed on, empty while there is none."""

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    members: list[GroupMember]


class ConfigEntry(NamedTuple):
    """A setting in force. `value`: None for a secret, and where none is set. `source`: Kafka's number (KIP-226)."""

    name: str
    value: str | None
    read_only: bool
    is_sensitive: bool
    source: int


def create_topics_request(topics: Sequence[NewTopic], timeout_ms: int, *, validate_only: bool) -> CreateTopicsRequest:
    config = CreateTopicsRequest.CreatableTopicConfig
    return CreateTopicsRequest(
        topics=[
            CreateTopicsRequest.CreatableTopic(
                name=topic.name,
                num_partitions=topic.num_partitions,
                replication_factor=topic.replication_factor,
                configs=[config(name=name, value=value) for name, value in topic.configs.items()],
            )
            for topic in topics
        ],
        timeout_ms=timeout_ms,
        validate_only=validate_only,
    )


def check_topics(answer: CreateTopicsResponse) -> None:
    """Raise the first topic's error, if one has any."""
    for topic in answer.topics:
        raise_for(topic.error_code, f"Topic {topic.name}", topic.error_message)


def check_partitions(answer: CreatePartitionsResponse) -> None:
    """Raise the first topic's error, if one has any."""
    for result in answer.results:
        raise_for(result.error_code, f"Topic {result.name}", result.error_message)


def check_deleted(answer: DeleteTopicsResponse) -> None:
    """Raise the first topic's error, if one has any."""
    for topic in answer.responses:
        raise_for(topic.error_code, f"Topic {topic.name}", topic.error_message)


def check_groups(answer: DeleteGroupsResponse) -> None:
    """Raise the first group's error, if one has any."""
    for result in answer.results:
        raise_for(result.error_code, f"Group {result.group_id}")


def create_partitions_request(counts: Mapping[str, int], timeout_ms: int) -> CreatePartitionsRequest:
    """`counts`: topic -> how many partitions it is to have."""
    topic = CreatePartitionsRequest.CreatePartitionsTopic
    return CreatePartitionsRequest(
        topics=[topic(name=name, count=count, assignments=None) for name, count in counts.items()], timeout_ms=timeout_ms
    )


def delete_topics_request(names: Iterable[str], timeout_ms: int) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topic_names=list(names), timeout_ms=timeout_ms)


def describe_configs_request(kind: int, name: str) -> DescribeConfigsRequest:
    """`kind`: TOPIC_RESOURCE or BROKER_RESOURCE."""
    resource = DescribeConfigsRequest.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    return DescribeConfigsRequest(resources=[resource])


def read_configs(answer: DescribeConfigsResponse) -> dict[str, ConfigEntry]:
    """The settings of the one resource asked about, by name. Raises `BrokerError`."""
    entries: dict[str, ConfigEntry] = {}
    for result in answer.results:
        raise_for(result.error_code, f"Settings of {result.resource_name}", result.error_message)
        for entry in result.configs:
            found = ConfigEntry(entry.name, entry.value, entry.read_only, entry.is_sensitive, entry.config_source)
            entries[entry.name] = found
    return entries


def read_groups(answer: ListGroupsResponse) -> list[GroupListing]:
    """The groups of one broker. Raises `BrokerError`."""
    raise_for(answer.error_code, "Listing groups")
    return [GroupListing(group.group_id, group.protocol_type, group.group_state) for group in answer.groups]


def read_descriptions(answer: DescribeGroupsResponse) -> list[GroupDescription]:
    """Raises `BrokerError` for the first group that has an error."""
    found = []
    for group in answer.groups:
        raise_for(group.error_code, f"Group {group.group_id}")
        members = [
            GroupMember(
                member.member_id, member.group_instance_id, member.client_id, member.client_host, bytes(member.member_assignment)
            )
            for member in group.members
        ]
        found.append(GroupDescription(group.group_id, group.group_state, group.protocol_type, group.protocol_data, members))
    return found
