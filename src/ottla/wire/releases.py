"""The versions of each API that every release of Apache Kafka served: one line for each API.

A line has the API's key, its name, and each release that changed the highest version, with the new version ("-" if the release no
longer serves the API). Unfinished versions that need a setting are left out. The lowest version is 0 until 3.9; 4.0 raised it for
some APIs (KIP-896).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final


class UnknownRelease(ValueError):
    """Raised if no Kafka release has the given name. The text lists all releases."""


NAMES: Final = (
    "0.8.0", "0.8.1", "0.8.2", "0.9.0", "0.10.0", "0.10.1", "0.10.2", "0.11.0", "1.0", "1.1",
    "2.0", "2.1", "2.2", "2.3", "2.4", "2.5", "2.6", "2.7", "2.8",
    "3.0", "3.1", "3.2", "3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9",
    "4.0", "4.1", "4.2", "4.3", "4.4",
)  # fmt: skip
"""The releases whose requests have versions, oldest first."""

BEFORE_VERSIONS: Final = ("0.6", "0.7")
"""The older releases, which have other requests, without versions (`ottla.kafka07.wire`)."""

HIGHEST: Final = """
0 Produce 0.8.0=0 0.9.0=1 0.10.0=2 0.11.0=3 1.0=5 2.0=6 2.1=7 2.4=8 2.8=9 3.7=10 3.8=11 4.0=12 4.1=13
1 Fetch 0.8.0=0 0.9.0=1 0.10.0=2 0.10.1=3 0.11.0=5 1.0=6 1.1=7 2.0=8 2.1=10 2.3=11 2.7=12 3.1=13 3.5=15 3.7=16 3.9=17 4.1=18
2 ListOffsets 0.8.0=0 0.10.1=1 0.11.0=2 2.0=3 2.1=4 2.2=5 2.8=6 3.0=7 3.5=8 3.9=9 4.0=10 4.2=11
3 Metadata 0.8.0=0 0.10.0=1 0.10.1=2 0.11.0=4 1.0=5 2.0=6 2.1=7 2.3=8 2.4=9 2.8=11 3.1=12 4.0=13
4 LeaderAndIsr 0.8.0=0 1.0=1 2.2=2 2.4=4 2.8=5 3.2=6 3.4=7 4.0=-
5 StopReplica 0.8.0=0 2.2=1 2.4=2 2.6=3 3.4=4 4.0=-
6 UpdateMetadata 0.8.0=0 0.9.0=1 0.10.0=2 0.10.2=3 1.0=4 2.2=5 2.4=6 2.8=7 3.4=8 4.0=-
7 ControlledShutdown 0.8.0=0 0.9.0=1 2.2=2 2.4=3 4.0=-
8 OffsetCommit 0.8.1=0 0.8.2=1 0.9.0=2 0.11.0=3 2.0=4 2.1=6 2.3=7 2.4=8 3.7=9 4.2=10
9 OffsetFetch 0.8.1=0 0.8.2=1 0.10.2=2 0.11.0=3 2.0=4 2.1=5 2.4=6 2.5=7 3.0=8 3.7=9 4.2=10
10 FindCoordinator 0.8.2=0 0.11.0=1 2.0=2 2.4=3 3.0=4 3.8=5 3.9=6
11 JoinGroup 0.8.2=0 0.10.1=1 0.11.0=2 2.0=3 2.2=4 2.3=5 2.4=6 2.5=7 3.2=9
12 Heartbeat 0.8.2=0 0.11.0=1 2.0=2 2.3=3 2.4=4
13 LeaveGroup 0.9.0=0 0.11.0=1 2.0=2 2.4=4 3.2=5
14 SyncGroup 0.9.0=0 0.11.0=1 2.0=2 2.3=3 2.4=4 2.5=5
15 DescribeGroups 0.9.0=0 0.11.0=1 2.0=2 2.3=3 2.4=5 4.0=6
16 ListGroups 0.9.0=0 0.11.0=1 2.0=2 2.4=3 2.6=4 3.8=5
17 SaslHandshake 0.10.0=0 1.0=1
18 ApiVersions 0.10.0=0 0.11.0=1 2.0=2 2.4=3 3.9=4 4.4=5
19 CreateTopics 0.10.1=0 0.10.2=1 0.11.0=2 2.0=3 2.4=5 2.7=6 2.8=7
20 DeleteTopics 0.10.1=0 0.11.0=1 2.0=2 2.1=3 2.4=4 2.7=5 2.8=6
21 DeleteRecords 0.11.0=0 2.0=1 2.6=2
22 InitProducerId 0.11.0=0 2.0=1 2.4=2 2.5=3 2.7=4 3.8=5
23 OffsetForLeaderEpoch 0.11.0=0 2.0=1 2.1=2 2.3=3 2.8=4
24 AddPartitionsToTxn 0.11.0=0 2.0=1 2.7=2 2.8=3 3.6=4 3.8=5
25 AddOffsetsToTxn 0.11.0=0 2.0=1 2.7=2 2.8=3 3.8=4
26 EndTxn 0.11.0=0 2.0=1 2.7=2 2.8=3 3.8=4 4.0=5
27 WriteTxnMarkers 0.11.0=0 2.8=1 4.2=2
28 TxnOffsetCommit 0.11.0=0 2.0=1 2.1=2 2.5=3 3.8=4 4.0=5 4.4=6
29 DescribeAcls 0.11.0=0 2.0=1 2.5=2 3.3=3
30 CreateAcls 0.11.0=0 2.0=1 2.5=2 3.3=3
31 DeleteAcls 0.11.0=0 2.0=1 2.5=2 3.3=3
32 DescribeConfigs 0.11.0=0 1.1=1 2.0=2 2.6=3 2.8=4
33 AlterConfigs 0.11.0=0 2.0=1 2.8=2
34 AlterReplicaLogDirs 1.0=0 2.0=1 2.8=2
35 DescribeLogDirs 1.0=0 2.0=1 2.6=2 3.2=3 3.3=4 4.3=5
36 SaslAuthenticate 1.0=0 2.2=1 2.5=2
37 CreatePartitions 1.0=0 2.0=1 2.5=2 2.7=3
38 CreateDelegationToken 1.1=0 2.0=1 2.4=2 3.3=3
39 RenewDelegationToken 1.1=0 2.0=1 2.5=2
40 ExpireDelegationToken 1.1=0 2.0=1 2.5=2
41 DescribeDelegationToken 1.1=0 2.0=1 2.5=2 3.3=3
42 DeleteGroups 1.1=0 2.0=1 2.4=2 4.4=3
43 ElectLeaders 2.2=0 2.4=2
44 IncrementalAlterConfigs 2.3=0 2.4=1
45 AlterPartitionReassignments 2.4=0 4.1=1
46 ListPartitionReassignments 2.4=0
47 OffsetDelete 2.4=0
48 DescribeClientQuotas 2.6=0 2.8=1
49 AlterClientQuotas 2.6=0 2.8=1
50 DescribeUserScramCredentials 2.7=0
51 AlterUserScramCredentials 2.7=0
52 Vote 2.7=0 3.9=1 4.0=2
53 BeginQuorumEpoch 2.7=0 3.9=1
54 EndQuorumEpoch 2.7=0 3.9=1
55 DescribeQuorum 2.7=0 3.3=1 3.9=2
56 AlterPartition 2.7=0 3.2=1 3.3=2 3.5=3
57 UpdateFeatures 2.7=0 3.3=1 4.0=2
58 Envelope 2.8=0
59 FetchSnapshot 2.8=0 3.9=1
60 DescribeCluster 2.8=0 3.7=1 4.0=2
61 DescribeProducers 2.8=0
62 BrokerRegistration 2.8=0 3.4=1 3.7=3 3.9=4
63 BrokerHeartbeat 2.8=0 3.7=1 4.3=2
64 UnregisterBroker 2.8=0
65 DescribeTransactions 3.0=0
66 ListTransactions 3.0=0 3.8=1 4.1=2
67 AllocateProducerIds 3.0=0
68 ConsumerGroupHeartbeat 3.7=0 4.0=1
69 ConsumerGroupDescribe 3.8=0 4.0=1
70 ControllerRegistration 3.7=0
71 GetTelemetrySubscriptions 3.7=0
72 PushTelemetry 3.7=0
73 AssignReplicasToDirs 3.7=0
74 ListConfigResources 3.7=0 4.1=1
75 DescribeTopicPartitions 3.8=0
76 ShareGroupHeartbeat 4.1=1
77 ShareGroupDescribe 4.1=1
78 ShareFetch 4.1=1 4.2=2
79 ShareAcknowledge 4.1=1 4.2=2
80 AddRaftVoter 3.9=0 4.2=1
81 RemoveRaftVoter 3.9=0
82 UpdateRaftVoter 3.9=0
83 InitializeShareGroupState 4.1=0
84 ReadShareGroupState 4.1=0
85 WriteShareGroupState 4.1=0 4.2=1
86 DeleteShareGroupState 4.1=0
87 ReadShareGroupStateSummary 4.1=0 4.2=1
88 StreamsGroupHeartbeat 4.2=0 4.4=1
89 StreamsGroupDescribe 4.2=0 4.4=1
90 DescribeShareGroupOffsets 4.1=0 4.2=1
91 AlterShareGroupOffsets 4.1=0
92 DeleteShareGroupOffsets 4.1=0
93 StreamsGroupTopologyDescriptionUpdate 4.4=0
94 UnregisterController 4.4=0
"""

NAMES_BY_KEY: Final = {int(key): name for key, name, *_ in map(str.split, HIGHEST.strip().splitlines())}
"""The name of each API, by API key."""

RAISED: Final = "4.0"
LOWEST: Final = {
    0: 3, 1: 4, 2: 1, 8: 2, 9: 1, 19: 2, 20: 1, 23: 2, 27: 1, 29: 1, 30: 1, 31: 1, 32: 1, 34: 1, 35: 1, 38: 1, 39: 1, 40: 1, 41: 1,
    56: 2, 76: 1, 77: 1, 78: 1, 79: 1,
}  # fmt: skip
"""The lowest version from release `RAISED` on, by API key, for APIs whose lowest version is not 0."""

DRAFTS: Final = {"0.8.2": (11, 12)}
"""The API keys that a release declared but never served. JoinGroup and Heartbeat had another layout in this release."""


def match_release(name: str, among: tuple[str, ...] = NAMES) -> str:
    """Return the name in `among` for a release, such as "0.10.1" or "2.8", without a bug-fix number. Raises `UnknownRelease`."""
    for known in (name, name.rpartition(".")[0]):
        if known in among:
            return known
    raise UnknownRelease(f"There is no release {name!r}: choose one of {', '.join(among)}.")


def highest(name: str) -> dict[int, int]:
    """Return the highest version of each API key in a release, from the table."""
    found: dict[int, int] = {}
    number = NAMES.index(name)
    for line in HIGHEST.strip().splitlines():
        key, _, *changes = line.split()
        version = "-"
        for first, _, changed in (change.partition("=") for change in changes):
            if NAMES.index(first) <= number:
                version = changed
        if version != "-":
            found[int(key)] = int(version)
    return found


def served_versions(name: str) -> dict[int, range]:
    """Return the versions that a release serves, by API key. `name` is one of `NAMES`."""
    raised = NAMES.index(name) >= NAMES.index(RAISED)
    drafts = DRAFTS.get(name, ())
    return {
        key: range(LOWEST.get(key, 0) if raised else 0, version + 1) for key, version in highest(name).items() if key not in drafts
    }


def release_like(served: Mapping[int, int]) -> str | None:
    """Return the newest release that serves no higher version of any API than a broker does; None if there is none.

    `served` has the broker's highest version by API key. APIs that the broker does not serve are not compared, because they also
    depend on ZooKeeper and KRaft. Of several equal releases, return the one with the fewest APIs that the broker lacks.
    """
    best, found = (-1, 0), None
    for name in NAMES:
        known = highest(name)
        shared = {key: version for key, version in known.items() if key in served}
        likeness = (sum(shared.values()), len(shared) - len(known))
        if all(served[key] >= version for key, version in shared.items()) and likeness >= best:
            best, found = likeness, name
    return found
