"""`group.coordinator.rebalance.protocols`: without consumer in it, whoever comes with KIP-848 is sent away, and nobody else."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from bench.groups import find_coordinator
from ottla.testing import BrokerProcess
from ottla.testing.process import DidNotStart
from ottla.wire.api.api_versions import ApiVersionsRequest
from ottla.wire.api.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.errors import UNSUPPORTED_VERSION
from tests.support.bad_groups import Questioner
from tests.support.clients.confluent import Confluent
from tests.support.peers import start_peer

API_VERSIONS, HEARTBEAT, DESCRIBE = 18, 68, 69
PROTOCOLS = "group.coordinator.rebalance.protocols"


def test_without_consumer_only_groups_of_the_classic_protocol_are_served(peer_name: str, tmp_path: Path) -> None:
    with start_peer(peer_name, tmp_path, {PROTOCOLS: "classic"}) as broker, closing(Questioner(broker.address)) as questioner:
        find_coordinator(broker.address, "g")
        about = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        assert {HEARTBEAT, DESCRIBE} <= {api.api_key for api in questioner.ask(API_VERSIONS, 4, about).api_keys}
        join = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=1000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        refused = questioner.ask(HEARTBEAT, 1, join)
        assert (refused.error_code, refused.error_message, refused.member_id) == (UNSUPPORTED_VERSION, None, None)
        (group,) = questioner.ask(DESCRIBE, 1, ConsumerGroupDescribeRequest(group_ids=["g"])).groups
        assert (group.group_id, group.error_code, group.error_message) == ("g", UNSUPPORTED_VERSION, None)
        Confluent(broker.address).create_topic("known")
        assert questioner.member_of("classic")


@pytest.mark.rows(1, seconds=1.5)
@pytest.mark.parametrize(
    ("protocols", "words"),
    [
        ("consumer", "Disabling the 'classic' protocol is not supported"),
        ("classic,foo", "Invalid value foo for configuration group.coordinator.rebalance.protocols: String must be one of:"),
        ("", "'classic'"),
    ],
)
def test_protocols_that_cannot_be_are_refused_at_the_start(tmp_path: Path, protocols: str, words: str) -> None:
    with pytest.raises(DidNotStart) as refused:
        BrokerProcess(tmp_path / "data", {PROTOCOLS: protocols}).start()
    assert refused.value.code == 2
    assert words in refused.value.log
