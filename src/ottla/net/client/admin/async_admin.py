"""The admin client on asyncio: topics, settings, records, groups, transactions, features, quotas, users, ACLs, tokens."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import NamedTuple, Self, TypeVar, Unpack

from ottla.client import arguments
from ottla.client.admin import acls, client_metrics, quorum, replicas, tokens, users
from ottla.client.admin import groups as group_requests
from ottla.client.admin import topics as admin
from ottla.client.admin.acls import AclRule
from ottla.client.admin.client_metrics import PushingClient
from ottla.client.admin.features import (
    SAFE_DOWNGRADE,
    UNSAFE_DOWNGRADE,
    UPGRADE,
    ClusterFeatures,
    check_updated,
    features_request,
    read_features,
    update_features_request,
)
from ottla.client.admin.groups import GroupDescription, GroupListing, GroupMember, ShareOffset
from ottla.client.admin.otlp import ClientMetric
from ottla.client.admin.quorum import QuorumDescription
from ottla.client.admin.quotas import ClientQuota, QuotaOf, alter_quotas_request, check_quotas, describe_quotas_request, read_quotas
from ottla.client.admin.replicas import LogDir, PartitionReassignment
from ottla.client.admin.tokens import AT_ONCE_MS, BROKER_DEFAULT_MS, TokenDescription
from ottla.client.admin.topics import ConfigEntry, ConfigResource, ConfigValue, NewTopic
from ottla.client.admin.transactions import (
    ANY_DURATION,
    ActiveProducer,
    FencedProducer,
    HangingTransaction,
    TransactionDescription,
    TransactionListing,
)
from ottla.client.admin.users import DEFAULT_ITERATIONS, DEFAULT_MECHANISM
from ottla.client.arguments import places, topic_name
from ottla.client.connection.metadata import TopicInfo
from ottla.client.consumer.committed_offsets import commit_request, committable, read_commit
from ottla.client.consumer.list_offsets import checked_timestamp, list_offsets_request, read_list_offsets
from ottla.client.errors import BrokerError, KafkaError, raise_for
from ottla.client.keywords import AdminKeywords
from ottla.client.settings.clients import AdminSettings, parse
from ottla.client.types import ConsumerGroupMetadata, Node, OffsetAndMetadata, OffsetAndTimestamp, Place, TopicPartition
from ottla.net.client.admin import groups, transactions
from ottla.net.client.admin.replicas import alter_log_dirs, log_dirs, reassignments
from ottla.net.client.cluster import ClusterLinks
from ottla.net.client.coordinator import GROUP, find_coordinator
from ottla.net.client.leaders import request_leaders
from ottla.wire.api.delete_groups import DeleteGroupsRequest
from ottla.wire.api.offset_commit import OffsetCommitResponse
from ottla.wire.errors import NOT_CONTROLLER, UNKNOWN_TOPIC_OR_PARTITION
from ottla.wire.schema import Message

Response = TypeVar("Response", bound=Message)
Result = TypeVar("Result")


class ClusterDescription(NamedTuple):
    """The brokers of a cluster. `controller_id` is the id that brokers report as the controller's, or -1 while they report none."""

    cluster_id: str | None
    controller_id: int
    nodes: list[Node]


class AsyncAdmin:
    """An admin client, which changes and describes a cluster; a context manager.

    Keyword arguments: Kafka's settings with underscores.

        async with AsyncAdmin("localhost:9092") as admin:
            await admin.create_topic("flights", 6)

    Every method raises `KafkaError`: `BrokerError`, `NotSupported` for a broker that is too old, `ConnectionFailed`, or `TimedOut`.
    `BrokerError` has Kafka's code for the first topic, group or resource that was refused. Others in the same call may have been
    changed. The constructor raises `SettingError` for a setting that is unknown or has a wrong value.
    """

    def __init__(self, bootstrap_servers: str | Iterable[str] | None = None, **settings: Unpack[AdminKeywords]) -> None:
        servers = {} if bootstrap_servers is None else {"bootstrap_servers": bootstrap_servers}
        self._settings = parse(AdminSettings, {**settings, **servers})

    async def start(self) -> Self:
        """Start the client without a `with` statement. It connects at the first call."""
        self._cluster = ClusterLinks(self._settings)
        return self

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections. Calls that still wait for an answer raise `ConnectionFailed`."""
        await self._cluster.close()

    async def _change(self, body: Message, read: Callable[[Response], Result]) -> Result:
        """Send a change to the controller, and after NOT_CONTROLLER to the next controller, for up to `default_api_timeout_ms`.

        Return the result of `read` for the answer. A change whose answer was lost is not repeated: it may have been applied.
        """

        async def change() -> Result | KafkaError:
            link = await self._cluster.controller()
            try:
                return read(await link.request(body, self._settings.request_timeout_ms))
            except KafkaError as error:
                if isinstance(error, BrokerError) and error.code == NOT_CONTROLLER:
                    raise
                return error

        done = await self._cluster.retry(change)
        if isinstance(done, KafkaError):
            raise done
        return done

    async def _request_any(self, body: Message, read: Callable[[Response], Result], node_id: int | None = None) -> Result:
        """Return the result of `read` for the answer of a broker (None: of any), with retries."""

        async def attempt() -> Result:
            answer = await (self._cluster.request_any(body) if node_id is None else self._cluster.request(node_id, body))
            return read(answer)

        return await self._cluster.retry(attempt)

    async def create_topics(self, topics: Iterable[NewTopic], *, validate_only: bool = False) -> None:
        """Create topics; with `validate_only`, only check whether the broker would create them (KIP-4)."""
        request = admin.create_topics_request(topics, self._settings.request_timeout_ms, validate_only=validate_only)
        await self._change(request, admin.check_topics)

    async def create_topic(
        self,
        name: str,
        num_partitions: int = admin.BROKER_DEFAULT,
        replication_factor: int = admin.BROKER_DEFAULT,
        configs: Mapping[str, ConfigValue] | None = None,
    ) -> None:
        """Create a topic. If a count is left out, the broker uses its default."""
        await self.create_topics([NewTopic(topic_name(name), num_partitions, replication_factor, configs or {})])

    async def create_partitions(self, counts: Mapping[str, int]) -> None:
        """Add partitions to topics. `counts` maps each topic to its new total number of partitions (KIP-195)."""
        request = admin.create_partitions_request(counts, self._settings.request_timeout_ms)
        await self._change(request, admin.check_partitions)

    async def delete_topics(self, *names: str) -> None:
        """Delete topics with all their records. Raises `UnknownTopic` if one does not exist."""
        await self._change(admin.delete_topics_request(names, self._settings.request_timeout_ms), admin.check_deleted)

    async def list_topics(self, *, internal: bool = False) -> list[str]:
        """Return the names of all topics, sorted; internal topics (`__consumer_offsets`) only with `internal`."""
        await self._cluster.retry(lambda: self._cluster.refresh(None))
        return sorted(topic.name for topic in self._cluster.metadata.topics.values() if internal or not topic.is_internal)

    async def describe_topics(self, *names: str) -> dict[str, TopicInfo]:
        """Return the partitions, leaders and replicas of topics, by name. Raises `UnknownTopic` if one does not exist."""
        arguments.names("A topic's name", names)
        await self._cluster.retry(lambda: self._cluster.refresh(names))
        self._cluster.metadata.check(names)
        known = self._cluster.metadata.topics
        return {name: known[name] for name in names}

    async def describe_cluster(self) -> ClusterDescription:
        """Return the cluster's id, its controller and its brokers."""
        await self._cluster.retry(lambda: self._cluster.refresh([]))
        found = self._cluster.metadata
        return ClusterDescription(found.cluster_id, found.controller_id, sorted(found.nodes.values()))

    async def supports_api(self, api_key: int) -> bool:
        """Return whether a broker and this client share a version of an API. All brokers of a cluster should be of one release."""
        link = await self._cluster.retry(self._cluster.any_link)
        return link.version(api_key) >= 0

    async def delete_records(self, before: Mapping[tuple[str, int], int]) -> dict[TopicPartition, int]:
        """Delete records (KIP-107), and return the new first offsets.

        `before` maps each (topic, partition) to the offset before which all records are deleted; -1 deletes all. Raises
        `OffsetOutOfRange` for an offset beyond the high watermark, and `UnknownTopic`.
        """
        wanted = arguments.by_place("before", before, admin.checked_offset)
        request = partial(admin.delete_records_request, timeout_ms=self._settings.request_timeout_ms)
        return await request_leaders(self._cluster, wanted, request, admin.read_deleted_records, "Deleting records of")

    async def list_offsets(
        self, wanted: Mapping[tuple[str, int], int], *, read_committed: bool = False
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Find offsets by timestamp (KIP-79).

        `wanted` maps each (topic, partition) to a timestamp in ms, or to EARLIEST_TIMESTAMP, LATEST_TIMESTAMP or MAX_TIMESTAMP of
        `ottla.client.types`. The result is the first record of that time or later, with offset -1 if there is none; for
        LATEST_TIMESTAMP the offset of the next record, with `read_committed` at most the first offset of an open transaction.

        Raises `UnknownTopic`, and `NotSupported` for MAX_TIMESTAMP before Kafka 3.0.
        """
        timestamps = arguments.by_place("wanted", wanted, checked_timestamp)
        request = partial(list_offsets_request, read_committed=read_committed, timeout_ms=self._settings.request_timeout_ms)
        return await request_leaders(self._cluster, timestamps, request, read_list_offsets, "Offsets of")

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
            await self.describe_cluster()
            admin.check_altered(await self._cluster.request(resource.node_id, request))

    async def describe_configs(
        self, resource: ConfigResource, *, synonyms: bool = False, documentation: bool = False
    ) -> dict[str, ConfigEntry]:
        """Return the settings in force for a topic, broker or group, by name, defaults included (KIP-226).

        With `synonyms`, entries have the values by precedence; with `documentation`, the broker's texts about settings (KIP-569).
        """
        request = admin.describe_configs_request(resource, synonyms=synonyms, documentation=documentation)
        await self.describe_cluster()
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

    async def list_groups(self, *, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[GroupListing]:
        """Return the groups of all brokers, sorted by id. Without filters, return all of them.

        `states` are Kafka's names: Stable, Empty … (KIP-518). `types` are classic, consumer, share and streams (KIP-848).
        """
        return await groups.list_groups(self._cluster, arguments.several("states", states), arguments.several("types", types))

    async def _request_coordinator(self, group_id: str, body: Message, read: Callable[[Response], Result]) -> Result:
        """Return the result of `read` for the coordinator's answer. Retry while the request or `read` raises a retriable error."""
        arguments.text("A group's id", group_id)

        async def attempt() -> Result:
            await self.describe_cluster()
            node_id = await find_coordinator(self._cluster, group_id, GROUP)
            return read(await self._cluster.request(node_id, body))

        return await self._cluster.retry(attempt)

    async def describe_group(self, group_id: str) -> GroupDescription:
        """Return the state and the members of a group of any kind. A group that does not exist has the state Dead."""
        return (await self.describe_groups(group_id))[group_id]

    async def describe_groups(self, *group_ids: str) -> dict[str, GroupDescription]:
        """Return the states and the members of groups by id: classic, consumer (KIP-848), share and streams groups.

        A group that does not exist has the state Dead.
        """
        return await groups.describe_groups(self._cluster, arguments.names("A group's id", group_ids))

    async def list_group_offsets(self, group_id: str, *, require_stable: bool = True) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets that a group has committed.

        With `require_stable`, wait for transactions that are committing offsets (KIP-447).
        """
        return (await self.list_offsets_of_groups(group_id, require_stable=require_stable))[group_id]

    async def list_offsets_of_groups(
        self, *group_ids: str, require_stable: bool = True
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        """Return the offsets that groups have committed, by group id. `require_stable` is that of `list_group_offsets`."""
        names = arguments.names("A group's id", group_ids)
        return await groups.fetch_offsets(self._cluster, names, require_stable=require_stable)

    async def list_share_group_offsets(self, *group_ids: str) -> dict[str, dict[TopicPartition, ShareOffset]]:
        """Return the positions of share groups by group id and partition, with their lag (KIP-932; the lag since Kafka 4.2)."""
        return await groups.share_offsets(self._cluster, arguments.names("A group's id", group_ids))

    async def alter_group_offsets(self, group_id: str, offsets: Mapping[Place, OffsetAndMetadata | int]) -> None:
        """Commit offsets, by (topic, partition), for a group without members, whose consumers then continue from them.

        Raises `BrokerError` (UNKNOWN_MEMBER_ID) for a group that has members, and `UnknownTopic` before anything is committed.
        """
        wanted = committable(offsets)

        def check(answer: OffsetCommitResponse) -> None:
            for where, code in read_commit(answer):
                raise_for(code, f"Committing {where.topic}-{where.partition} for group {group_id}")

        arguments.text("A group's id", group_id)
        await self._cluster.confirm(sorted({where.topic for where in wanted}))
        for where in wanted:
            if not self._cluster.metadata.has(*where):
                raise_for(UNKNOWN_TOPIC_OR_PARTITION, f"Committing {where.topic}-{where.partition} for group {group_id}")
        await self._request_coordinator(group_id, commit_request(ConsumerGroupMetadata(group_id), wanted), check)

    async def delete_groups(self, *group_ids: str) -> None:
        """Delete groups that have no members, with their committed offsets (KIP-229).

        Raises `BrokerError`, such as NON_EMPTY_GROUP for a group that has members.
        """
        for group_id in arguments.names("A group's id", group_ids):
            await self._request_coordinator(group_id, DeleteGroupsRequest(groups_names=[group_id]), group_requests.check_groups)

    async def delete_group_offsets(self, group_id: str, partitions: Iterable[tuple[str, int]]) -> None:
        """Delete committed offsets of a group that does not subscribe to their topics (KIP-496, Kafka 2.4).

        Raises `BrokerError`, such as GROUP_SUBSCRIBED_TO_TOPIC or GROUP_ID_NOT_FOUND.
        """
        request = group_requests.delete_offsets_request(group_id, places(partitions))
        await self._request_coordinator(group_id, request, partial(group_requests.check_deleted_offsets, group_id=group_id))

    async def remove_members(self, group_id: str, members: Iterable[str] | None, *, reason: str | None = None) -> list[GroupMember]:
        """Remove members from a classic or consumer group by member ids or instance ids (None: all). Return these members.

        A consumer that still runs joins again. Raises `BrokerError` (UNKNOWN_MEMBER_ID) before any is removed.
        """
        names = None if members is None else arguments.names("A member's id", arguments.several("members", members))
        arguments.text("A group's id", group_id)
        return await self._cluster.retry(lambda: groups.remove_members(self._cluster, group_id, names, reason))

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        min_duration_ms: int = ANY_DURATION,
        transactional_id_pattern: str | None = None,
    ) -> list[TransactionListing]:
        """Return the transactional ids of all brokers, sorted. Without filters, return all of them (KIP-664).

        `states` are Kafka's names: Ongoing, Empty … `min_duration_ms` selects transactions that have been open for longer
        (KIP-994). `transactional_id_pattern` is a regular expression that matches whole ids (KIP-1152).
        """
        states, producer_ids = arguments.several("states", states), arguments.several("producer_ids", producer_ids)
        return await transactions.list_transactions(self._cluster, states, producer_ids, min_duration_ms, transactional_id_pattern)

    async def describe_transactions(self, *transactional_ids: str) -> dict[str, TransactionDescription]:
        """Return the state, producer and partitions of each transactional id.

        Raises `BrokerError`, such as TRANSACTIONAL_ID_NOT_FOUND for an unknown id.
        """
        names = arguments.names("A transactional id", transactional_ids)
        return await transactions.describe_transactions(self._cluster, names)

    async def describe_producers(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, list[ActiveProducer]]:
        """Return the active producers of partitions, by (topic, partition), with their open transactions (KIP-664).

        Raises `UnknownTopic` if a partition does not exist.
        """
        return await transactions.producers(self._cluster, places(partitions))

    async def find_hanging_transactions(
        self, topics: Iterable[str] | None = None, *, min_open_ms: int = 900_000
    ) -> list[HangingTransaction]:
        """Return hanging transactions: no coordinator will end them, so readers of committed records cannot continue after them.

        `topics` None means all topics. Only transactions to which nothing was written for `min_open_ms` are returned, because the
        coordinator of a newer one may not have recorded it yet.
        """
        names = None if topics is None else arguments.several("topics", topics)
        return await transactions.find_hanging(self._cluster, names, min_open_ms)

    async def abort_transaction(
        self, topic: str, partition: int, producer_id: int, producer_epoch: int, coordinator_epoch: int | None = None
    ) -> None:
        """Abort a hanging transaction in one partition (KIP-664). `describe_producers` returns the producer's id and epochs."""
        where = arguments.check_partition((topic, partition))
        await transactions.abort_transaction(self._cluster, where, producer_id, producer_epoch, coordinator_epoch)

    async def fence_producers(self, *transactional_ids: str) -> dict[str, FencedProducer]:
        """Fence the producers that use these transactional ids, and abort their open transactions."""
        return {
            name: await transactions.fence_producer(self._cluster, name)
            for name in arguments.names("A transactional id", transactional_ids)
        }

    async def alter_partition_reassignments(self, targets: Mapping[Place, Sequence[int] | None]) -> None:
        """Move partitions, by (topic, partition), to other replicas (KIP-455).

        Replicas are node ids, the preferred leader first. None cancels a move. The move continues after the return, and
        `list_partition_reassignments` shows it until its end. Raises `UnknownTopic` and `BrokerError`, such as
        INVALID_REPLICA_ASSIGNMENT or NO_REASSIGNMENT_IN_PROGRESS.
        """
        wanted = arguments.by_place("targets", targets, replicas.checked_replicas)
        request = replicas.reassignments_request(wanted, self._settings.request_timeout_ms)
        await self._change(request, replicas.check_reassigned)

    async def list_partition_reassignments(
        self, partitions: Iterable[tuple[str, int]] | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Return the partitions that are being reassigned, among the given (topic, partition) pairs or all (KIP-455)."""
        wanted = None if partitions is None else places(partitions)
        return await reassignments(self._cluster, wanted)

    async def elect_leaders(
        self, partitions: Iterable[tuple[str, int]] | None = None, *, unclean: bool = False
    ) -> list[TopicPartition]:
        """Elect the preferred leaders of partitions (None: of all). Return the partitions whose leader changed (KIP-183).

        An `unclean` election is for partitions without a leader. It can make a replica leader that is not in sync, and all records
        that this replica lacks are lost (KIP-460). Raises `BrokerError`, such as PREFERRED_LEADER_NOT_AVAILABLE or
        ELIGIBLE_LEADERS_NOT_AVAILABLE.
        """
        wanted = None if partitions is None else places(partitions)
        request = replicas.elect_request(wanted, self._settings.request_timeout_ms, unclean=unclean)
        return await self._change(request, replicas.read_elected)

    async def describe_log_dirs(
        self, node_ids: Iterable[int] | None = None, partitions: Iterable[tuple[str, int]] | None = None
    ) -> dict[int, list[LogDir]]:
        """Return the log directories of brokers, by node id, with their replicas (KIP-113). None means all live brokers."""
        wanted = None if partitions is None else places(partitions)
        nodes = None if node_ids is None else arguments.several("node_ids", node_ids)
        return await log_dirs(self._cluster, nodes, wanted)

    async def alter_replica_log_dirs(self, node_id: int, directories: Mapping[Place, str]) -> None:
        """Move replicas on a broker, by (topic, partition), to other log directories of that broker (KIP-113).

        The moves continue after the return: `describe_log_dirs` shows them as future replicas until they are complete. The
        directory in which a replica already is ends its move. Raises `BrokerError`, such as LOG_DIR_NOT_FOUND; other replicas may
        then move.
        """
        wanted = arguments.by_place("directories", directories, partial(arguments.text, "directories"))
        await alter_log_dirs(self._cluster, arguments.whole("node_id", node_id), wanted)

    async def describe_client_metrics(self) -> list[PushingClient]:
        """Return the clients that ask brokers for subscriptions to metrics (KIP-714). Raises `NotSupported` for Apache Kafka."""
        request = client_metrics.pushed_request()

        async def attempt() -> list[PushingClient]:
            answers = await self._cluster.request_each(request)
            return [client for node_id, answer in answers.items() for client in client_metrics.read_clients(answer, node_id)]

        return await self._cluster.retry(attempt)

    async def read_client_metrics(self, client: PushingClient) -> list[ClientMetric]:
        """Return the metrics that a client pushed last. Raises `KafkaError` if they are not kept or cannot be read."""
        request = client_metrics.pushed_request(client.instance_id)
        return await self._request_any(request, partial(client_metrics.read_pushed, client), client.node_id)

    async def describe_quorum(self) -> QuorumDescription:
        """Return the metadata quorum of a KRaft cluster (KIP-595). Raises `NotSupported` for a cluster without one."""
        return await self._request_any(quorum.quorum_request(), quorum.read_quorum)

    async def unregister_broker(self, node_id: int) -> None:
        """Remove a broker that was stopped for ever from the metadata of a KRaft cluster (KIP-631).

        Raises `BrokerError`, such as BROKER_ID_NOT_REGISTERED.
        """
        request = quorum.unregister_request(arguments.whole("node_id", node_id))
        await self._change(request, quorum.check_unregistered)

    async def describe_features(self) -> ClusterFeatures:
        """Return the features of the cluster and their levels (KIP-584)."""
        return await self._request_any(features_request(), read_features)

    async def describe_quotas(
        self, user: str | None = None, client_id: str | None = None, ip: str | None = None
    ) -> list[ClientQuota]:
        """Return client quotas (KIP-546): all of them, or those of a user, client id or address. "" is the default entity."""
        return await self._request_any(describe_quotas_request(QuotaOf(user, client_id, ip)), read_quotas)

    async def alter_quotas(
        self,
        quotas: Mapping[str, float | None],
        user: str | None = None,
        client_id: str | None = None,
        ip: str | None = None,
        *,
        validate_only: bool = False,
    ) -> None:
        """Set quotas of a user, a client id, both together, or an address.

        `quotas` maps Kafka's names to values; None removes a quota. "" is the default entity. Raises `BrokerError`
        (INVALID_REQUEST) for an invalid quota.
        """
        request = alter_quotas_request(QuotaOf(user, client_id, ip), quotas, validate_only=validate_only)
        await self._change(request, check_quotas)

    async def update_features(
        self, levels: Mapping[str, int], *, downgrade: bool = False, unsafe: bool = False, validate_only: bool = False
    ) -> None:
        """Set features to levels, either all of them or none (KIP-584).

        `downgrade` permits lower levels; level 0 disables a feature. An `unsafe` downgrade can lose metadata that the lower level
        cannot express. With `validate_only`, nothing changes. Raises `BrokerError` (INVALID_UPDATE_VERSION) for a level that the
        broker refuses.
        """
        kind = UPGRADE if not downgrade else UNSAFE_DOWNGRADE if unsafe else SAFE_DOWNGRADE
        request = update_features_request(levels, kind, self._settings.request_timeout_ms, validate_only=validate_only)
        await self._change(request, check_updated)

    async def list_users(self, *names: str) -> users.Users:
        """Return the SCRAM iterations of users, by name and mechanism (KIP-554). Without `names`, return all users."""
        return await self._request_any(users.describe_request(arguments.names("A user's name", names)), users.read_users)

    async def set_user_password(
        self, name: str, password: str, *, mechanism: str = DEFAULT_MECHANISM, iterations: int = DEFAULT_ITERATIONS
    ) -> None:
        """Set a user's SCRAM password (KIP-554). The broker receives a salted hash, never the password.

        Raises `SettingError` for a name or password that clients encode differently, and `BrokerError` for iterations outside 4096
        to 16384.
        """
        algorithm = users.algorithm_of(mechanism)
        request = await asyncio.to_thread(users.set_password_request, name, password, algorithm, iterations, os.urandom)
        await self._change(request, users.check_altered)

    async def remove_user(self, name: str, *, mechanism: str = DEFAULT_MECHANISM) -> None:
        """Remove a user's credential for a SCRAM mechanism. Raises `BrokerError` (RESOURCE_NOT_FOUND)."""
        await self._change(users.remove_request(name, mechanism), users.check_altered)

    async def list_acls(self, principal: str | None = None, resource: str | None = None, name: str | None = None) -> list[AclRule]:
        """Return ACLs (KIP-140): all of them, or the ACLs of a principal ("User:alice"), a resource type or a resource name."""
        return await self._request_any(acls.describe_request(principal, resource, name), acls.read_rules)

    async def create_acls(self, rules: Iterable[AclRule]) -> None:
        """Create ACLs. Raises `SettingError` for words that Kafka does not have, and `BrokerError` for an invalid ACL."""
        await self._change(acls.create_request(rules), acls.check_created)

    async def delete_acls(self, rules: Iterable[AclRule]) -> list[AclRule]:
        """Delete exactly these ACLs. Return the ACLs that existed and are deleted."""
        return await self._change(acls.delete_request(rules), acls.read_deleted)

    async def create_delegation_token(
        self, *, owner: str | None = None, renewers: Iterable[str] = (), max_lifetime_ms: int = BROKER_DEFAULT_MS
    ) -> TokenDescription:
        """Create a delegation token (KIP-48), for this client's user or for another `owner`, such as "User:alice" (KIP-373).

        `renewers` are principals that may renew it. Raises `BrokerError`, such as DELEGATION_TOKEN_REQUEST_NOT_ALLOWED for a client
        that is not authenticated, or is by a token.
        """
        wanted = arguments.several("renewers", renewers)
        request = tokens.create_token_request(owner, wanted, max_lifetime_ms)
        return await self._change(request, partial(tokens.read_created, renewers=wanted))

    async def describe_delegation_tokens(self, *owners: str) -> list[TokenDescription]:
        """Return the delegation tokens of `owners`, or all, among the tokens that this client's user may describe (KIP-48)."""
        return await self._request_any(tokens.describe_tokens_request(owners), tokens.read_tokens)

    async def renew_delegation_token(self, hmac: bytes, period_ms: int = BROKER_DEFAULT_MS) -> int:
        """Let a token expire `period_ms` from now, at most at its maximum lifetime. Return the time in ms since 1970."""
        return await self._change(tokens.renew_token_request(hmac, period_ms), tokens.read_expiry)

    async def expire_delegation_token(self, hmac: bytes, period_ms: int = AT_ONCE_MS) -> int:
        """End a token `period_ms` from now, by default at once. Return the time in ms since 1970."""
        return await self._change(tokens.expire_token_request(hmac, period_ms), tokens.read_expiry)
