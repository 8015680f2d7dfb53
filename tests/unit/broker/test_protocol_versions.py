"""The versions that brokers speak to each other, by `inter.broker.protocol.version`."""

from __future__ import annotations

import pytest

from ottla.broker.releases.interbroker_versions import NAMES, ProtocolVersion, Switch
from ottla.broker.settings import BrokerSettings, SettingError
from ottla.wire.api.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.wire.api.alter_partition import AlterPartitionRequest
from ottla.wire.api.controlled_shutdown import ControlledShutdownRequest
from ottla.wire.api.fetch import FetchRequest
from ottla.wire.api.leader_and_isr import LeaderAndIsrRequest
from ottla.wire.api.list_offsets import ListOffsetsRequest
from ottla.wire.api.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from ottla.wire.api.stop_replica import StopReplicaRequest
from ottla.wire.api.update_metadata import UpdateMetadataRequest
from ottla.wire.api.write_txn_markers import WriteTxnMarkersRequest

REQUESTS = (
    LeaderAndIsrRequest,
    UpdateMetadataRequest,
    StopReplicaRequest,
    FetchRequest,
    OffsetForLeaderEpochRequest,
    ListOffsetsRequest,
    AlterPartitionRequest,
    WriteTxnMarkersRequest,
    AllocateProducerIdsRequest,
    ControlledShutdownRequest,
)


@pytest.mark.parametrize(
    ("name", "versions"),
    [
        ("0.8.0", (0, 0, 0, 4, -1, 0, -1, -1, -1, 0)),
        ("0.10.2", (0, 3, 0, 4, -1, 1, -1, -1, -1, 1)),
        ("0.11.0", (0, 3, 0, 5, 0, 2, -1, 0, -1, 1)),
        ("1.1", (1, 4, 0, 7, 0, 2, -1, 0, -1, 1)),
        ("2.2", (2, 5, 1, 10, 2, 5, -1, 0, -1, 2)),
        ("2.4", (4, 6, 2, 11, 3, 5, -1, 0, -1, 3)),
        ("2.8", (5, 7, 3, 12, 4, 6, 0, 1, -1, 3)),
        ("3.1", (5, 7, 3, 13, 4, 7, 0, 1, 0, 3)),
        ("3.4", (7, 8, 4, 13, 4, 7, 2, 1, 0, 3)),
        ("3.9", (7, 8, 4, 17, 4, 9, 3, 1, 0, 3)),
    ],
)
def test_each_protocol_version_has_the_versions_that_kafkas_brokers_speak_in_it(name: str, versions: tuple[int, ...]) -> None:
    protocol = ProtocolVersion(name)
    assert tuple(protocol.version(request) for request in REQUESTS) == versions


def test_every_version_spoken_is_one_of_its_message() -> None:
    for name in NAMES:
        for request in REQUESTS:
            version = ProtocolVersion(name).version(request)
            assert version == -1 or version in request.WIRE.valid, (name, request)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("2.8", "2.8-IV1"),
        ("2.8.2", "2.8-IV1"),
        ("2.7-IV0", "2.7-IV0"),
        ("0.10.1", "0.10.1-IV2"),
        ("0.9.0.1", "0.9.0"),
        ("3.9", "3.9-IV0"),
    ],
)
def test_a_release_means_the_newest_protocol_version_that_it_brought(text: str, name: str) -> None:
    assert BrokerSettings.parse({"inter.broker.protocol.version": text}).inter_broker_protocol_version.name == name


def test_the_newest_is_the_default() -> None:
    assert str(BrokerSettings.parse({}).inter_broker_protocol_version) == "3.9-IV0"


@pytest.mark.parametrize("text", ["4.0", "2", "", "2.8-IV9", "new"])
def test_what_is_no_protocol_version_is_refused_with_those_that_are(text: str) -> None:
    with pytest.raises(SettingError, match=r"write one from 0\.8\.0 to 3\.9-IV0, such as 2\.8 or 3\.9\.$"):
        BrokerSettings.parse({"inter.broker.protocol.version": text})


def test_a_switch_is_on_from_its_protocol_version_on() -> None:
    assert not ProtocolVersion("2.7-IV1").has(Switch.ALTER_PARTITION)
    assert ProtocolVersion("2.7").has(Switch.ALTER_PARTITION)
    assert ProtocolVersion("3.9").has(Switch.LEADER_RECOVERY)
