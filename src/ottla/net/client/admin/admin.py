"""The blocking admin. Written by `tools/blocking.py`: change `async_admin.py` and `*_calls.py`, not this file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Unpack

from ottla.client.admin import topics as admin
from ottla.client.admin.acls import AclRule, AclRuleFilter
from ottla.client.admin.client_metrics import PushingClient
from ottla.client.admin.cluster import ClusterDescription
from ottla.client.admin.features import ClusterFeatures
from ottla.client.admin.groups import GroupDescription, GroupListing, GroupMember, ShareOffset
from ottla.client.admin.otlp import ClientMetric
from ottla.client.admin.quorum import QuorumDescription
from ottla.client.admin.quotas import ClientQuota, QuotaOf
from ottla.client.admin.replicas import LogDir, PartitionReassignment, Replica, ReplicaDirectories, TopicPartitionReplica
from ottla.client.admin.results import CallOptions, ResultList, Results
from ottla.client.admin.tokens import AT_ONCE_MS, BROKER_DEFAULT_MS, TokenDescription
from ottla.client.admin.topics import (
    ConfigAlteration,
    ConfigEntry,
    ConfigResource,
    ConfigValue,
    CreatedTopic,
    NewPartitions,
    NewTopic,
)
from ottla.client.admin.transactions import (
    ANY_DURATION,
    ActiveProducer,
    FencedProducer,
    HangingTransaction,
    TransactionDescription,
    TransactionListing,
)
from ottla.client.admin.users import DEFAULT_ITERATIONS, DEFAULT_MECHANISM
from ottla.client.connection.metadata import TopicInfo
from ottla.client.keywords import AdminKeywords, Servers
from ottla.client.metrics.registry import MetricsSnapshot
from ottla.client.types import OffsetAndMetadata, OffsetAndTimestamp, Place, TopicPartition
from ottla.net.client.admin.async_admin import AsyncAdmin
from ottla.net.client.blocking_base import BlockingClient


class Admin(BlockingClient[AsyncAdmin]):
    """An admin client, which changes and describes a cluster; a context manager.

    Keyword arguments: Kafka's settings with underscores.

        with Admin("localhost:9092") as admin:
            admin.create_topic("flights", 6)

    Every method raises `KafkaError`: `BrokerError`, `NotSupported` for a broker that is too old, `ConnectionFailed`, or `TimedOut`.
    `BrokerError` has Kafka's code for the first topic, group or resource that was refused. Others in the same call may have been
    changed. The constructor raises `SettingError` for a setting that is unknown or has a wrong value.
    """

    def __init__(self, bootstrap_servers: Servers | None = None, **settings: Unpack[AdminKeywords]) -> None:
        made: AsyncAdmin = AsyncAdmin(bootstrap_servers, **settings)
        super().__init__(made, "admin")

    def close(self) -> None:
        """Close all connections. Calls that still wait for an answer raise `ConnectionFailed`."""
        self._end(self._async.close)

    def client_instance_id(self, timeout_ms: int = 30_000) -> str:
        """Return the id by which brokers know this client's metrics, as Kafka prints it (KIP-714).

        Raises `SettingError` without `enable_metrics_push`, `NotSupported` if brokers have no subscriptions to metrics, and
        `TimedOut`.
        """
        return self._background.run(self._async.client_instance_id(timeout_ms))

    def metrics(self) -> MetricsSnapshot:
        """Return the client's metrics, with the names and groups of Kafka's Java client."""
        return self._background.do(self._async.metrics)

    def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False, **options: Unpack[CallOptions]
    ) -> Results[str, CreatedTopic]:
        """Create topics; with `validate_only`, only check whether the broker would create them (KIP-4). Return them by name."""
        return self._background.run(self._async.create_topics(topics, validate_only=validate_only, **options))

    def create_topic(
        self,
        name: str,
        num_partitions: int = admin.BROKER_DEFAULT,
        replication_factor: int = admin.BROKER_DEFAULT,
        configs: Mapping[str, ConfigValue] | None = None,
    ) -> CreatedTopic:
        """Create a topic. If a count is left out, the broker uses its default."""
        return self._background.run(self._async.create_topic(name, num_partitions, replication_factor, configs))

    def create_partitions(
        self, counts: Mapping[str, int | NewPartitions], *, validate_only: bool = False, **options: Unpack[CallOptions]
    ) -> Results[str, None]:
        """Add partitions to topics. `counts` maps each topic to its new total number of partitions (KIP-195)."""
        return self._background.run(self._async.create_partitions(counts, validate_only=validate_only, **options))

    def delete_topics(self, *names: str, **options: Unpack[CallOptions]) -> Results[str, None]:
        """Delete topics with all their records. Raises `UnknownTopic` if one does not exist."""
        return self._background.run(self._async.delete_topics(*names, **options))

    def delete_topics_by_id(self, *topic_ids: bytes | str, **options: Unpack[CallOptions]) -> Results[bytes, None]:
        """Delete topics by their ids, bytes or as Kafka prints them (KIP-516, Kafka 2.8). A recreated topic has a new id."""
        return self._background.run(self._async.delete_topics_by_id(*topic_ids, **options))

    def list_topics(self, *, internal: bool = False) -> list[str]:
        """Return the names of all topics, sorted; internal topics (`__consumer_offsets`) only with `internal`."""
        return self._background.run(self._async.list_topics(internal=internal))

    def list_topic_ids(self, *, internal: bool = False) -> dict[str, bytes]:
        """Return the ids of all topics, sorted by name; internal topics only with `internal`. Ids are zero before Kafka 2.8."""
        return self._background.run(self._async.list_topic_ids(internal=internal))

    def describe_all_topics(self, *, internal: bool = False) -> dict[str, TopicInfo]:
        """Return the partitions, leaders and replicas of all topics, sorted by name, by one request.

        Internal topics only with `internal`. A topic that is just being created can have an `error_code` and no partitions.
        """
        return self._background.run(self._async.describe_all_topics(internal=internal))

    def describe_topics(
        self, *names: str, authorized_operations: bool = False, **options: Unpack[CallOptions]
    ) -> Results[str, TopicInfo]:
        """Return the partitions, leaders and replicas of topics, by name. Raises `UnknownTopic` if one does not exist.

        With `authorized_operations`, return what this client may do (KIP-430, Kafka 2.3).
        """
        return self._background.run(self._async.describe_topics(*names, authorized_operations=authorized_operations, **options))

    def describe_topics_by_id(
        self, *topic_ids: bytes | str, authorized_operations: bool = False, **options: Unpack[CallOptions]
    ) -> Results[bytes, TopicInfo]:
        """Return topics by their ids, bytes or as Kafka prints them (KIP-516, Kafka 3.1)."""
        return self._background.run(
            self._async.describe_topics_by_id(*topic_ids, authorized_operations=authorized_operations, **options)
        )

    def delete_records(self, before: Mapping[tuple[str, int], int], **options: Unpack[CallOptions]) -> Results[TopicPartition, int]:
        """Delete records (KIP-107), and return the new first offsets.

        `before` maps each (topic, partition) to the offset before which all records are deleted; -1 deletes all. Raises
        `OffsetOutOfRange` for an offset beyond the high watermark, and `UnknownTopic`.
        """
        return self._background.run(self._async.delete_records(before, **options))

    def list_offsets(
        self, wanted: Mapping[tuple[str, int], int], *, read_committed: bool = False, **options: Unpack[CallOptions]
    ) -> Results[TopicPartition, OffsetAndTimestamp]:
        """Find offsets by timestamp (KIP-79).

        `wanted` maps each (topic, partition) to a timestamp in ms, or to EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP,
        EARLIEST_LOCAL_TIMESTAMP, LATEST_TIERED_TIMESTAMP or EARLIEST_PENDING_UPLOAD_TIMESTAMP of `ottla.client.types`. The result
        is the first record of that time or later, with offset -1 if there is none; for LATEST_TIMESTAMP the offset of the next
        record, with `read_committed` at most the first offset of an open transaction.

        Raises `UnknownTopic`, and `NotSupported` for values that a broker is too old for, such as MAX_TIMESTAMP before Kafka 3.0.
        """
        return self._background.run(self._async.list_offsets(wanted, read_committed=read_committed, **options))

    def alter_configs(
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

            admin.alter_configs(ConfigResource.topic("flights"), set={"retention.ms": 86_400_000})

        `delete` restores the defaults of settings. `append` and `subtract` change settings that are lists, such as
        `cleanup.policy`. With `validate_only`, nothing changes. Raises `BrokerError` (INVALID_CONFIG) for a value that the broker
        refuses, and `UnknownTopic`.
        """
        self._background.run(
            self._async.alter_configs(
                resource, set=set, delete=delete, append=append, subtract=subtract, validate_only=validate_only
            )
        )

    def alter_configs_of(
        self, changes: Mapping[ConfigResource, ConfigAlteration], *, validate_only: bool = False, **options: Unpack[CallOptions]
    ) -> Results[ConfigResource, None]:
        """Change settings of several resources, as `alter_configs` does. Settings of a broker are changed by this broker."""
        return self._background.run(self._async.alter_configs_of(changes, validate_only=validate_only, **options))

    def describe_configs(
        self, resource: ConfigResource, *, synonyms: bool = False, documentation: bool = False
    ) -> dict[str, ConfigEntry]:
        """Return the settings in force for a topic, broker or group, by name, defaults included (KIP-226).

        With `synonyms`, entries have the values by precedence; with `documentation`, the broker's texts about settings (KIP-569).
        """
        return self._background.run(self._async.describe_configs(resource, synonyms=synonyms, documentation=documentation))

    def describe_configs_of(
        self,
        resources: Iterable[ConfigResource],
        *,
        synonyms: bool = False,
        documentation: bool = False,
        **options: Unpack[CallOptions],
    ) -> Results[ConfigResource, dict[str, ConfigEntry]]:
        """Return the settings of several resources, by resource, as `describe_configs` does."""
        return self._background.run(
            self._async.describe_configs_of(resources, synonyms=synonyms, documentation=documentation, **options)
        )

    def list_config_resources(self, *kinds: int) -> list[ConfigResource]:
        """Return the resources of these kinds that have settings, or of all kinds (KIP-1142), sorted.

        A broker lists no other broker. Raises `NotSupported` before Kafka 4.1, except for client metrics since Kafka 3.7.
        """
        return self._background.run(self._async.list_config_resources(*kinds))

    def describe_topic_configs(self, topic: str) -> dict[str, ConfigEntry]:
        """Return the settings in force for a topic, by name."""
        return self._background.run(self._async.describe_topic_configs(topic))

    def describe_broker_configs(self, node_id: int) -> dict[str, ConfigEntry]:
        """Return the settings in force for a broker, by name."""
        return self._background.run(self._async.describe_broker_configs(node_id))

    def list_groups(
        self,
        *,
        states: Iterable[str] = (),
        types: Iterable[str] = (),
        protocol_types: Iterable[str] = (),
        **options: Unpack[CallOptions],
    ) -> ResultList[GroupListing]:
        """Return the groups of all brokers, sorted by id. Without filters, return all of them.

        `states` are Kafka's names: Stable, Empty … (KIP-518). `types` are classic, consumer, share and streams (KIP-848).
        `protocol_types` are consumer, connect, share … The `errors` are those of brokers, by node id.
        """
        return self._background.run(self._async.list_groups(states=states, types=types, protocol_types=protocol_types, **options))

    def describe_group(self, group_id: str) -> GroupDescription:
        """Return the state and the members of a group of any kind. A group that does not exist has the state Dead."""
        return self._background.run(self._async.describe_group(group_id))

    def describe_groups(
        self, *group_ids: str, authorized_operations: bool = False, **options: Unpack[CallOptions]
    ) -> Results[str, GroupDescription]:
        """Return the states and the members of groups by id: classic, consumer (KIP-848), share and streams groups.

        A group that does not exist has the state Dead. With `authorized_operations`, return what this client may do (KIP-430).
        """
        return self._background.run(self._async.describe_groups(*group_ids, authorized_operations=authorized_operations, **options))

    def list_group_offsets(
        self, group_id: str, partitions: Iterable[tuple[str, int]] | None = None, *, require_stable: bool = True
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets that a group has committed, in `partitions` or in all.

        With `require_stable`, wait for transactions that are committing offsets (KIP-447).
        """
        return self._background.run(self._async.list_group_offsets(group_id, partitions, require_stable=require_stable))

    def list_offsets_of_groups(
        self,
        *group_ids: str,
        partitions: Iterable[tuple[str, int]] | None = None,
        require_stable: bool = True,
        **options: Unpack[CallOptions],
    ) -> Results[str, dict[TopicPartition, OffsetAndMetadata]]:
        """Return the offsets that classic, consumer and streams groups have committed, by group id.

        `partitions` and `require_stable` are those of `list_group_offsets`.
        """
        return self._background.run(
            self._async.list_offsets_of_groups(*group_ids, partitions=partitions, require_stable=require_stable, **options)
        )

    def list_share_group_offsets(
        self, *group_ids: str, partitions: Iterable[tuple[str, int]] | None = None, **options: Unpack[CallOptions]
    ) -> Results[str, dict[TopicPartition, ShareOffset]]:
        """Return the positions of share groups by group id and partition, with their lag (KIP-932; the lag since Kafka 4.2)."""
        return self._background.run(self._async.list_share_group_offsets(*group_ids, partitions=partitions, **options))

    def alter_share_group_offsets(
        self, group_id: str, offsets: Mapping[Place, int], **options: Unpack[CallOptions]
    ) -> Results[TopicPartition, None]:
        """Set the start offsets of a share group without members, by (topic, partition) (KIP-932)."""
        return self._background.run(self._async.alter_share_group_offsets(group_id, offsets, **options))

    def delete_share_group_offsets(self, group_id: str, *topics: str, **options: Unpack[CallOptions]) -> Results[str, None]:
        """Delete the start offsets of a share group without members in topics (KIP-932)."""
        return self._background.run(self._async.delete_share_group_offsets(group_id, *topics, **options))

    def alter_group_offsets(
        self, group_id: str, offsets: Mapping[Place, OffsetAndMetadata | int], **options: Unpack[CallOptions]
    ) -> Results[TopicPartition, None]:
        """Commit offsets, by (topic, partition), for a group without members, whose consumers then continue from them.

        Raises `BrokerError` (UNKNOWN_MEMBER_ID) for a group that has members, and `UnknownTopic` before anything is committed.
        With `check=False`, the offsets of all partitions that exist are committed.
        """
        return self._background.run(self._async.alter_group_offsets(group_id, offsets, **options))

    def delete_groups(self, *group_ids: str, **options: Unpack[CallOptions]) -> Results[str, None]:
        """Delete groups of any kind that have no members, with their committed offsets (KIP-229).

        Raises `BrokerError`, such as NON_EMPTY_GROUP for a group that has members.
        """
        return self._background.run(self._async.delete_groups(*group_ids, **options))

    def delete_group_offsets(
        self, group_id: str, partitions: Iterable[tuple[str, int]], **options: Unpack[CallOptions]
    ) -> Results[TopicPartition, None]:
        """Delete committed offsets of a group that does not subscribe to their topics (KIP-496, Kafka 2.4).

        Raises `BrokerError`, such as GROUP_SUBSCRIBED_TO_TOPIC or GROUP_ID_NOT_FOUND.
        """
        return self._background.run(self._async.delete_group_offsets(group_id, partitions, **options))

    def remove_members(
        self, group_id: str, members: Iterable[str] | None, *, reason: str | None = None, **options: Unpack[CallOptions]
    ) -> ResultList[GroupMember]:
        """Remove members from a classic or consumer group by member ids or instance ids (None: all). Return these members.

        A consumer that still runs joins again. Raises `BrokerError` (UNKNOWN_MEMBER_ID) before any is removed. The `errors` are
        those of members that were not removed, by member id.
        """
        return self._background.run(self._async.remove_members(group_id, members, reason=reason, **options))

    def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        min_duration_ms: int = ANY_DURATION,
        transactional_id_pattern: str | None = None,
        **options: Unpack[CallOptions],
    ) -> ResultList[TransactionListing]:
        """Return the transactional ids of all brokers, sorted. Without filters, return all of them (KIP-664).

        `states` are Kafka's names: Ongoing, Empty … `min_duration_ms` selects transactions that have been open for longer
        (KIP-994). `transactional_id_pattern` is a regular expression that matches whole ids (KIP-1152). The `errors` are those of
        brokers, by node id.
        """
        return self._background.run(
            self._async.list_transactions(
                states=states,
                producer_ids=producer_ids,
                min_duration_ms=min_duration_ms,
                transactional_id_pattern=transactional_id_pattern,
                **options,
            )
        )

    def describe_transactions(
        self, *transactional_ids: str, **options: Unpack[CallOptions]
    ) -> Results[str, TransactionDescription]:
        """Return the state, producer and partitions of each transactional id.

        Raises `BrokerError`, such as TRANSACTIONAL_ID_NOT_FOUND for an unknown id.
        """
        return self._background.run(self._async.describe_transactions(*transactional_ids, **options))

    def describe_producers(
        self, partitions: Iterable[tuple[str, int]], **options: Unpack[CallOptions]
    ) -> Results[TopicPartition, list[ActiveProducer]]:
        """Return the active producers of partitions, by (topic, partition), with their open transactions (KIP-664).

        Raises `UnknownTopic` if a partition does not exist.
        """
        return self._background.run(self._async.describe_producers(partitions, **options))

    def find_hanging_transactions(
        self, topics: Iterable[str] | None = None, *, min_open_ms: int = 900_000
    ) -> list[HangingTransaction]:
        """Return hanging transactions: no coordinator will end them, so readers of committed records cannot continue after them.

        `topics` None means all topics. Only transactions to which nothing was written for `min_open_ms` are returned, because the
        coordinator of a newer one may not have recorded it yet. Each is checked twice, because a transaction can end meanwhile.
        """
        return self._background.run(self._async.find_hanging_transactions(topics, min_open_ms=min_open_ms))

    def abort_transaction(
        self, topic: str, partition: int, producer_id: int, producer_epoch: int, coordinator_epoch: int | None = None
    ) -> None:
        """Abort a hanging transaction in one partition (KIP-664). `describe_producers` returns the producer's id and epochs."""
        self._background.run(self._async.abort_transaction(topic, partition, producer_id, producer_epoch, coordinator_epoch))

    def fence_producers(self, *transactional_ids: str, **options: Unpack[CallOptions]) -> Results[str, FencedProducer]:
        """Fence the producers that use these transactional ids, and abort their open transactions."""
        return self._background.run(self._async.fence_producers(*transactional_ids, **options))

    def terminate_transaction(self, transactional_id: str) -> FencedProducer:
        """Abort the open transaction of an id, also a prepared one of a two-phase commit, and fence its producer (KIP-939)."""
        return self._background.run(self._async.terminate_transaction(transactional_id))

    def alter_partition_reassignments(
        self,
        targets: Mapping[Place, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
        **options: Unpack[CallOptions],
    ) -> Results[TopicPartition, None]:
        """Move partitions, by (topic, partition), to other replicas (KIP-455).

        Replicas are node ids, the preferred leader first. None cancels a move. The move continues after the return, and
        `list_partition_reassignments` shows it until its end. `allow_replication_factor_change` False refuses another number of
        replicas (KIP-860, Kafka 4.1). Raises `UnknownTopic` and `BrokerError`, such as INVALID_REPLICA_ASSIGNMENT or
        NO_REASSIGNMENT_IN_PROGRESS.
        """
        return self._background.run(
            self._async.alter_partition_reassignments(
                targets, allow_replication_factor_change=allow_replication_factor_change, **options
            )
        )

    def list_partition_reassignments(
        self, partitions: Iterable[tuple[str, int]] | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Return the partitions that are being reassigned, among the given (topic, partition) pairs or all (KIP-455)."""
        return self._background.run(self._async.list_partition_reassignments(partitions))

    def elect_leaders(
        self, partitions: Iterable[tuple[str, int]] | None = None, *, unclean: bool = False, **options: Unpack[CallOptions]
    ) -> ResultList[TopicPartition]:
        """Elect the preferred leaders of partitions (None: of all). Return the partitions whose leader changed (KIP-183).

        An `unclean` election is for partitions without a leader. It can make a replica leader that is not in sync, and all records
        that this replica lacks are lost (KIP-460). Raises `BrokerError`, such as PREFERRED_LEADER_NOT_AVAILABLE or
        ELIGIBLE_LEADERS_NOT_AVAILABLE.
        """
        return self._background.run(self._async.elect_leaders(partitions, unclean=unclean, **options))

    def describe_log_dirs(
        self,
        node_ids: Iterable[int] | None = None,
        partitions: Iterable[tuple[str, int]] | None = None,
        **options: Unpack[CallOptions],
    ) -> Results[int, list[LogDir]]:
        """Return the log directories of brokers, by node id, with their replicas (KIP-113). None means all live brokers."""
        return self._background.run(self._async.describe_log_dirs(node_ids, partitions, **options))

    def describe_replica_log_dirs(
        self, wanted: Iterable[tuple[str, int, int]], **options: Unpack[CallOptions]
    ) -> Results[TopicPartitionReplica, ReplicaDirectories]:
        """Return the log directories of replicas, by (topic, partition, node id), and those to which they move (KIP-113).

        Raises `BrokerError` (REPLICA_NOT_AVAILABLE) for a broker without the replica.
        """
        return self._background.run(self._async.describe_replica_log_dirs(wanted, **options))

    def alter_replica_log_dirs(
        self, node_id: int, directories: Mapping[Place, str], **options: Unpack[CallOptions]
    ) -> Results[TopicPartitionReplica, None]:
        """Move replicas on a broker, by (topic, partition), to other log directories of that broker (KIP-113).

        The moves continue after the return: `describe_log_dirs` shows them as future replicas until they are complete. The
        directory in which a replica already is ends its move. Raises `BrokerError`, such as LOG_DIR_NOT_FOUND; the moves of
        other replicas can have begun.
        """
        return self._background.run(self._async.alter_replica_log_dirs(node_id, directories, **options))

    def alter_log_dirs_of_replicas(
        self, directories: Mapping[Replica, str], **options: Unpack[CallOptions]
    ) -> Results[TopicPartitionReplica, None]:
        """Move replicas on several brokers, by (topic, partition, node id), as `alter_replica_log_dirs` does."""
        return self._background.run(self._async.alter_log_dirs_of_replicas(directories, **options))

    def describe_cluster(self, *, authorized_operations: bool = False, include_fenced: bool = False) -> ClusterDescription:
        """Return the cluster's id, its controller and its brokers.

        With `authorized_operations`, return what this client may do (KIP-700, Kafka 2.8); with `include_fenced`, also brokers that
        are registered but not active (KIP-1073, Kafka 4.0).
        """
        return self._background.run(
            self._async.describe_cluster(authorized_operations=authorized_operations, include_fenced=include_fenced)
        )

    def supports_api(self, api_key: int) -> bool:
        """Return whether a broker and this client share a version of an API. All brokers of a cluster should be of one release."""
        return self._background.run(self._async.supports_api(api_key))

    def describe_api_versions(
        self, node_ids: Iterable[int] | None = None, **options: Unpack[CallOptions]
    ) -> Results[int, dict[int, int]]:
        """Return the highest version of each API that brokers serve, by API key and by node id. None means all live brokers."""
        return self._background.run(self._async.describe_api_versions(node_ids, **options))

    def describe_client_metrics(self) -> list[PushingClient]:
        """Return the clients that ask brokers for subscriptions to metrics (KIP-714). Raises `NotSupported` for Apache Kafka."""
        return self._background.run(self._async.describe_client_metrics())

    def read_client_metrics(self, client: PushingClient) -> list[ClientMetric]:
        """Return the metrics that a client pushed last. Raises `KafkaError` if they are not kept or cannot be read."""
        return self._background.run(self._async.read_client_metrics(client))

    def describe_quorum(self) -> QuorumDescription:
        """Return the metadata quorum of a KRaft cluster (KIP-595). Raises `NotSupported` for a cluster without one."""
        return self._background.run(self._async.describe_quorum())

    def add_raft_voter(self, node_id: int, directory_id: bytes | str, endpoints: Mapping[str, str]) -> None:
        """Add a controller to the voters of a KRaft cluster (KIP-853, Kafka 3.9).

        `directory_id` is the id of its metadata directory, and `endpoints` maps names of listeners to host:port. Raises
        `BrokerError`, such as DUPLICATE_VOTER.
        """
        self._background.run(self._async.add_raft_voter(node_id, directory_id, endpoints))

    def remove_raft_voter(self, node_id: int, directory_id: bytes | str) -> None:
        """Remove a controller from the voters of a KRaft cluster (KIP-853, Kafka 3.9). Raises `BrokerError` (VOTER_NOT_FOUND)."""
        self._background.run(self._async.remove_raft_voter(node_id, directory_id))

    def unregister_controller(self, node_id: int) -> None:
        """Remove a controller that was stopped permanently from the registrations of a KRaft cluster (Kafka 4.4)."""
        self._background.run(self._async.unregister_controller(node_id))

    def unregister_broker(self, node_id: int) -> None:
        """Remove a broker that was stopped permanently from the metadata of a KRaft cluster (KIP-631).

        Raises `BrokerError`, such as BROKER_ID_NOT_REGISTERED.
        """
        self._background.run(self._async.unregister_broker(node_id))

    def describe_features(self) -> ClusterFeatures:
        """Return the features of the cluster and their levels (KIP-584)."""
        return self._background.run(self._async.describe_features())

    def update_features(
        self, levels: Mapping[str, int], *, downgrade: bool = False, unsafe: bool = False, validate_only: bool = False
    ) -> None:
        """Set features to levels, either all of them or none (KIP-584).

        `downgrade` permits lower levels; level 0 disables a feature. An `unsafe` downgrade can lose metadata that the lower level
        cannot express. With `validate_only`, nothing changes. Raises `BrokerError` (INVALID_UPDATE_VERSION) for a level that the
        broker refuses.
        """
        self._background.run(self._async.update_features(levels, downgrade=downgrade, unsafe=unsafe, validate_only=validate_only))

    def describe_quotas(
        self,
        user: str | None = None,
        client_id: str | None = None,
        ip: str | None = None,
        *,
        any_of: Iterable[str] = (),
        strict: bool = False,
    ) -> list[ClientQuota]:
        """Return client quotas (KIP-546): all of them, or those of a user, client id or address. "" is the default entity.

        `any_of` are types of entities ("user", "client-id", "ip") with any name. With `strict`, entities of further types are
        left out: `user="alice"` does not return `alice` together with a client id.
        """
        return self._background.run(self._async.describe_quotas(user, client_id, ip, any_of=any_of, strict=strict))

    def alter_quotas(
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
        self._background.run(self._async.alter_quotas(quotas, user, client_id, ip, validate_only=validate_only))

    def alter_quotas_of(
        self,
        changes: Mapping[QuotaOf, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        **options: Unpack[CallOptions],
    ) -> Results[QuotaOf, None]:
        """Set quotas of several entities, as `alter_quotas` does."""
        return self._background.run(self._async.alter_quotas_of(changes, validate_only=validate_only, **options))

    def list_users(self, *names: str, check: bool = True) -> Results[str, Mapping[str, int]]:
        """Return the SCRAM iterations of users, by name and mechanism (KIP-554). Without `names`, return all users."""
        return self._background.run(self._async.list_users(*names, check=check))

    def set_user_password(
        self, name: str, password: str, *, mechanism: str = DEFAULT_MECHANISM, iterations: int = DEFAULT_ITERATIONS
    ) -> None:
        """Set a user's SCRAM password (KIP-554). The broker receives a salted hash, never the password.

        Raises `SettingError` for a name or password that clients encode differently and for more than a million iterations, and
        `BrokerError` for other iterations outside 4096 to 16384.
        """
        self._background.run(self._async.set_user_password(name, password, mechanism=mechanism, iterations=iterations))

    def set_user_passwords(
        self,
        passwords: Mapping[str, str],
        *,
        mechanism: str = DEFAULT_MECHANISM,
        iterations: int = DEFAULT_ITERATIONS,
        **options: Unpack[CallOptions],
    ) -> Results[str, None]:
        """Set the SCRAM passwords of several users, by name, as `set_user_password` does."""
        return self._background.run(
            self._async.set_user_passwords(passwords, mechanism=mechanism, iterations=iterations, **options)
        )

    def remove_user(self, name: str, *, mechanism: str = DEFAULT_MECHANISM) -> None:
        """Remove a user's credential for a SCRAM mechanism. Raises `BrokerError` (RESOURCE_NOT_FOUND)."""
        self._background.run(self._async.remove_user(name, mechanism=mechanism))

    def remove_users(self, *names: str, mechanism: str = DEFAULT_MECHANISM, **options: Unpack[CallOptions]) -> Results[str, None]:
        """Remove the credentials of several users for a SCRAM mechanism, as `remove_user` does."""
        return self._background.run(self._async.remove_users(*names, mechanism=mechanism, **options))

    def list_acls(
        self,
        principal: str | None = None,
        resource: str | None = None,
        name: str | None = None,
        *,
        pattern: str | None = None,
        host: str | None = None,
        operation: str | None = None,
        permission: str | None = None,
    ) -> list[AclRule]:
        """Return ACLs (KIP-140): all of them, or those with all the given attributes of `AclRule`.

        `pattern` "match" selects the ACLs that apply to the resource `name`, by wildcards and prefixes, too (KIP-290).
        """
        return self._background.run(
            self._async.list_acls(principal, resource, name, pattern=pattern, host=host, operation=operation, permission=permission)
        )

    def create_acls(self, rules: Iterable[AclRule], **options: Unpack[CallOptions]) -> Results[AclRule, None]:
        """Create ACLs. Raises `SettingError` for words that Kafka does not have, and `BrokerError` for an invalid ACL."""
        return self._background.run(self._async.create_acls(rules, **options))

    def delete_acls(self, rules: Iterable[AclRule], **options: Unpack[CallOptions]) -> ResultList[AclRule]:
        """Delete exactly these ACLs. Return the ACLs that existed and are deleted. The `errors` are by ACL."""
        return self._background.run(self._async.delete_acls(rules, **options))

    def delete_matching_acls(
        self, *filters: AclRuleFilter, **options: Unpack[CallOptions]
    ) -> Results[AclRuleFilter, list[AclRule]]:
        """Delete all ACLs that match one of the filters. Return the deleted ACLs by filter."""
        return self._background.run(self._async.delete_matching_acls(*filters, **options))

    def create_delegation_token(
        self, *, owner: str | None = None, renewers: Iterable[str] = (), max_lifetime_ms: int = BROKER_DEFAULT_MS
    ) -> TokenDescription:
        """Create a delegation token (KIP-48), for this client's user or for another `owner`, such as "User:alice" (KIP-373).

        `renewers` are principals that may renew it. Raises `BrokerError`, such as DELEGATION_TOKEN_REQUEST_NOT_ALLOWED for a client
        that has not authenticated, or has with a token.
        """
        return self._background.run(
            self._async.create_delegation_token(owner=owner, renewers=renewers, max_lifetime_ms=max_lifetime_ms)
        )

    def describe_delegation_tokens(self, *owners: str) -> list[TokenDescription]:
        """Return the delegation tokens of `owners`, or all, among the tokens that this client's user may describe (KIP-48)."""
        return self._background.run(self._async.describe_delegation_tokens(*owners))

    def renew_delegation_token(self, hmac: bytes, period_ms: int = BROKER_DEFAULT_MS) -> int:
        """Let a token expire `period_ms` from now, at most at its maximum lifetime. Return the time in ms since 1970."""
        return self._background.run(self._async.renew_delegation_token(hmac, period_ms))

    def expire_delegation_token(self, hmac: bytes, period_ms: int = AT_ONCE_MS) -> int:
        """End a token `period_ms` from now, by default at once. Return the time in ms since 1970."""
        return self._background.run(self._async.expire_delegation_token(hmac, period_ms))
