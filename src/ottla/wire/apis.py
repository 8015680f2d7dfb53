"""The table of APIs: key, name, versions ever valid, which of them have tagged fields, and the header each travels under.

Message modules are imported when a message class is first asked for, so that importing this table is cheap. What a broker
serves of all this is not known here.
"""

from __future__ import annotations

import re
from functools import cached_property
from importlib import import_module
from typing import Final

from ottla.wire.schema import Message, versions


class Api:
    """One API. `versions` are those ever valid, `flexible` those whose bodies and headers have tagged fields (KIP-482)."""

    def __init__(self, key: int, name: str, valid: str, flexible: str) -> None:
        self.key: Final = key
        self.name: Final = name
        self.versions: Final = versions(valid)
        self.flexible: Final = versions(flexible)

    def __repr__(self) -> str:
        return f"Api({self.key}, {self.name!r}, versions={self.versions.start}-{self.versions.stop - 1})"

    @property
    def module(self) -> str:
        """The module of `ottla.wire.api` with its messages."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", self.name).lower()

    @cached_property
    def request(self) -> type[Message]:
        return self._message("Request")

    @cached_property
    def response(self) -> type[Message]:
        return self._message("Response")

    def _message(self, kind: str) -> type[Message]:
        found: type[Message] = getattr(import_module(f"ottla.wire.api.{self.module}"), self.name + kind)
        return found

    @cached_property
    def request_headers(self) -> tuple[int, ...]:
        """By version, the version of the request header: 2 with tagged fields, 1 without, and the exceptions."""
        return tuple(REQUEST_HEADERS.get((self.key, v), 2 if v in self.flexible else 1) for v in range(self.versions.stop))

    @cached_property
    def response_headers(self) -> tuple[int, ...]:
        """By version, the version of the response header: 1 with tagged fields, 0 without, and the exceptions."""
        return tuple(RESPONSE_HEADERS.get(self.key, 1 if v in self.flexible else 0) for v in range(self.versions.stop))


REQUEST_HEADERS: Final = {(7, 0): 0}
"""(API key, version) -> request header version. ControlledShutdown 0 has no client id."""
RESPONSE_HEADERS: Final = {18: 0}
"""API key -> response header version. ApiVersions never has tags there: the client cannot know yet what the broker speaks."""
FALLBACK_VERSIONS: Final = {18: 0}
"""API key -> the version to answer in when the one asked for is too new. Other APIs have none: the connection ends (KIP-511)."""

_TABLE: Final = (
    (0, "Produce", "0-13", "9+"),
    (1, "Fetch", "0-18", "12+"),
    (2, "ListOffsets", "0-11", "6+"),
    (3, "Metadata", "0-13", "9+"),
    (4, "LeaderAndIsr", "0-7", "4+"),
    (5, "StopReplica", "0-4", "2+"),
    (6, "UpdateMetadata", "0-8", "6+"),
    (7, "ControlledShutdown", "0-3", "3+"),
    (8, "OffsetCommit", "0-10", "8+"),
    (9, "OffsetFetch", "0-10", "6+"),
    (10, "FindCoordinator", "0-6", "3+"),
    (11, "JoinGroup", "0-9", "6+"),
    (12, "Heartbeat", "0-4", "4+"),
    (13, "LeaveGroup", "0-5", "4+"),
    (14, "SyncGroup", "0-5", "4+"),
    (15, "DescribeGroups", "0-6", "5+"),
    (16, "ListGroups", "0-5", "3+"),
    (17, "SaslHandshake", "0-1", "none"),
    (18, "ApiVersions", "0-5", "3+"),
    (19, "CreateTopics", "0-7", "5+"),
    (20, "DeleteTopics", "0-6", "4+"),
    (21, "DeleteRecords", "0-2", "2+"),
    (22, "InitProducerId", "0-6", "2+"),
    (23, "OffsetForLeaderEpoch", "0-4", "4+"),
    (24, "AddPartitionsToTxn", "0-5", "3+"),
    (25, "AddOffsetsToTxn", "0-4", "3+"),
    (26, "EndTxn", "0-5", "3+"),
    (27, "WriteTxnMarkers", "0-2", "1+"),
    (28, "TxnOffsetCommit", "0-6", "3+"),
    (29, "DescribeAcls", "0-3", "2+"),
    (30, "CreateAcls", "0-3", "2+"),
    (31, "DeleteAcls", "0-3", "2+"),
    (32, "DescribeConfigs", "0-4", "4+"),
    (33, "AlterConfigs", "0-2", "2+"),
    (34, "AlterReplicaLogDirs", "0-2", "2+"),
    (35, "DescribeLogDirs", "0-5", "2+"),
    (36, "SaslAuthenticate", "0-2", "2+"),
    (37, "CreatePartitions", "0-3", "2+"),
    (38, "CreateDelegationToken", "0-3", "2+"),
    (39, "RenewDelegationToken", "0-2", "2+"),
    (40, "ExpireDelegationToken", "0-2", "2+"),
    (41, "DescribeDelegationToken", "0-3", "2+"),
    (42, "DeleteGroups", "0-3", "2+"),
    (43, "ElectLeaders", "0-2", "2+"),
    (44, "IncrementalAlterConfigs", "0-1", "1+"),
    (45, "AlterPartitionReassignments", "0-1", "0+"),
    (46, "ListPartitionReassignments", "0", "0+"),
    (47, "OffsetDelete", "0", "none"),
    (48, "DescribeClientQuotas", "0-1", "1+"),
    (49, "AlterClientQuotas", "0-1", "1+"),
    (50, "DescribeUserScramCredentials", "0", "0+"),
    (51, "AlterUserScramCredentials", "0", "0+"),
    (52, "Vote", "0-2", "0+"),
    (53, "BeginQuorumEpoch", "0-1", "1+"),
    (54, "EndQuorumEpoch", "0-1", "1+"),
    (55, "DescribeQuorum", "0-2", "0+"),
    (56, "AlterPartition", "0-3", "0+"),
    (57, "UpdateFeatures", "0-2", "0+"),
    (58, "Envelope", "0", "0+"),
    (59, "FetchSnapshot", "0-1", "0+"),
    (60, "DescribeCluster", "0-2", "0+"),
    (61, "DescribeProducers", "0", "0+"),
    (62, "BrokerRegistration", "0-4", "0+"),
    (63, "BrokerHeartbeat", "0-2", "0+"),
    (64, "UnregisterBroker", "0", "0+"),
    (65, "DescribeTransactions", "0", "0+"),
    (66, "ListTransactions", "0-2", "0+"),
    (67, "AllocateProducerIds", "0", "0+"),
    (68, "ConsumerGroupHeartbeat", "0-1", "0+"),
    (69, "ConsumerGroupDescribe", "0-1", "0+"),
    (70, "ControllerRegistration", "0", "0+"),
    (71, "GetTelemetrySubscriptions", "0", "0+"),
    (72, "PushTelemetry", "0", "0+"),
    (73, "AssignReplicasToDirs", "0", "0+"),
    (74, "ListConfigResources", "0-1", "0+"),
    (75, "DescribeTopicPartitions", "0", "0+"),
    (76, "ShareGroupHeartbeat", "0-1", "0+"),
    (77, "ShareGroupDescribe", "0-1", "0+"),
    (78, "ShareFetch", "0-2", "0+"),
    (79, "ShareAcknowledge", "0-2", "0+"),
    (80, "AddRaftVoter", "0-1", "0+"),
    (81, "RemoveRaftVoter", "0", "0+"),
    (82, "UpdateRaftVoter", "0", "0+"),
    (83, "InitializeShareGroupState", "0", "0+"),
    (84, "ReadShareGroupState", "0", "0+"),
    (85, "WriteShareGroupState", "0-1", "0+"),
    (86, "DeleteShareGroupState", "0", "0+"),
    (87, "ReadShareGroupStateSummary", "0-1", "0+"),
    (88, "StreamsGroupHeartbeat", "0-1", "0+"),
    (89, "StreamsGroupDescribe", "0-1", "0+"),
    (90, "DescribeShareGroupOffsets", "0-1", "0+"),
    (91, "AlterShareGroupOffsets", "0", "0+"),
    (92, "DeleteShareGroupOffsets", "0", "0+"),
    (93, "StreamsGroupTopologyDescriptionUpdate", "0", "0+"),
    (94, "UnregisterController", "0", "0+"),
)

API: Final = {row[0]: Api(*row) for row in _TABLE}
_BY_NAME: Final = {api.name: api for api in API.values()}


def by_name(name: str) -> Api:
    """The API of a name such as "Fetch". Raises KeyError."""
    return _BY_NAME[name]
