"""The APIs that brokers serve, and the handlers' modules: a broker answers ApiVersions before it has imported any handler.

A line names a module of `ottla.broker.handlers` and the APIs whose handlers it declares by `serves`. The versions of an API are all
versions that a release of Kafka has served (`ottla.wire.releases`), without drafts: version 0 of the share groups' APIs was one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final, NamedTuple

from ottla.wire.releases import HIGHEST, LOWEST, NAMES, RAISED

HANDLERS: Final = """
api_versions ApiVersions
metadata Metadata DescribeCluster
produce Produce
fetch Fetch
share_fetch ShareFetch
share_acknowledge ShareAcknowledge
list_offsets ListOffsets OffsetForLeaderEpoch
topics CreateTopics DeleteTopics CreatePartitions
groups FindCoordinator JoinGroup SyncGroup Heartbeat LeaveGroup DescribeGroups ListGroups DeleteGroups
groups ConsumerGroupHeartbeat ConsumerGroupDescribe
share_groups ShareGroupHeartbeat ShareGroupDescribe
share_group_offsets DescribeShareGroupOffsets AlterShareGroupOffsets DeleteShareGroupOffsets
streams_groups StreamsGroupHeartbeat StreamsGroupDescribe
offsets OffsetCommit OffsetFetch OffsetDelete
transactions InitProducerId AddPartitionsToTxn AddOffsetsToTxn EndTxn WriteTxnMarkers DescribeTransactions ListTransactions
txn_offset_commit TxnOffsetCommit
share_states InitializeShareGroupState ReadShareGroupState WriteShareGroupState DeleteShareGroupState ReadShareGroupStateSummary
sasl SaslHandshake SaslAuthenticate
describe_configs DescribeConfigs
alter_configs AlterConfigs IncrementalAlterConfigs
config_resources ListConfigResources
describe_topic_partitions DescribeTopicPartitions
describe_producers DescribeProducers
delete_records DeleteRecords
log_dirs DescribeLogDirs
alter_log_dirs AlterReplicaLogDirs
features UpdateFeatures
client_quotas DescribeClientQuotas AlterClientQuotas
telemetry GetTelemetrySubscriptions PushTelemetry
acls DescribeAcls CreateAcls DeleteAcls
scram_credentials DescribeUserScramCredentials AlterUserScramCredentials
delegation_tokens CreateDelegationToken RenewDelegationToken ExpireDelegationToken DescribeDelegationToken
quorum DescribeQuorum UnregisterBroker
controller_apis ElectLeaders AlterPartitionReassignments ListPartitionReassignments
controller_apis ControlledShutdown AllocateProducerIds AlterPartition
control_requests LeaderAndIsr StopReplica UpdateMetadata
"""
"""The APIs that clients use most are first."""

CLUSTER_ONLY: Final = frozenset({"LeaderAndIsr", "StopReplica", "UpdateMetadata", "AllocateProducerIds", "AlterPartition"})
"""The APIs that only brokers send."""

LONE_ONLY: Final = frozenset({"DescribeQuorum", "UnregisterBroker"})
"""The APIs that brokers of a cluster over ZooKeeper do not serve, as in Kafka."""

SWITCHED: Final = {"InitProducerId": ("transaction_two_phase_commit_enable", 6)}
"""The APIs whose newest versions are served if a setting is true: the setting, and the highest version then.

InitProducerId 6 (KIP-939) is unstable in every release, and announced if two-phase commit is enabled.
"""


class ListedApi(NamedTuple):
    """One line's module and one of its APIs. If the setting `switch` is true, `switched` are the versions served."""

    key: int
    name: str
    module: str
    versions: range
    switch: str
    switched: range


@cache
def apis(*, for_brokers: bool = False) -> tuple[ListedApi, ...]:
    """Return the APIs that a lone broker serves; with `for_brokers`, those of a member of a cluster."""
    left_out = LONE_ONLY if for_brokers else CLUSTER_ONLY
    return tuple(each for each in _all() if each.name not in left_out)


def _all() -> Iterator[ListedApi]:
    lines = map(str.split, HIGHEST.strip().splitlines())
    known = {name: (int(key), _oldest(key, changes), _newest(changes)) for key, name, *changes in lines}
    for module, *names in map(str.split, HANDLERS.strip().splitlines()):
        for name in names:
            key, oldest, newest = known[name]
            switch, switched = SWITCHED.get(name, ("", newest))
            yield ListedApi(key, name, module, range(oldest, newest + 1), switch, range(oldest, switched + 1))


def _oldest(key: str, changes: list[str]) -> int:
    """Return the lowest version that any release has served: 0, unless the API is newer than the raise of the lowest versions."""
    first, _, _ = changes[0].partition("=")
    return LOWEST.get(int(key), 0) if NAMES.index(first) >= NAMES.index(RAISED) else 0


def _newest(changes: list[str]) -> int:
    """Return the highest version that any release has served."""
    return max(int(version) for _, _, version in (change.partition("=") for change in changes) if version != "-")
