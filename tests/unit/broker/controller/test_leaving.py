"""A broker that is about to stop and asks the controller to have others lead in its place."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ottla.broker.controller.controlled_shutdown import HandOver
from ottla.broker.settings import BrokerSettings, SettingsInForce
from ottla.cluster.image import BrokerImage, ClusterImage
from ottla.wire.api.controlled_shutdown import ControlledShutdownResponse
from ottla.wire.errors import NOT_CONTROLLER
from tests.support.controllers import Candidate, ControlledCluster

BACKOFF_MS = 5_000
LEFT = ControlledShutdownResponse.RemainingPartition(topic_name="t", partition_index=0)


@pytest.fixture
def asking() -> Candidate:
    """A broker that is its own controller, as far as it is asked."""
    return ControlledCluster(nodes=(1,)).nodes[1]


def hand_over(broker: Candidate, controller_id: int = 1, others: Sequence[int] = (2,), **settings: str) -> list[int]:
    """When the broker had done with it, in milliseconds."""
    image = ClusterImage()
    image.controller_id = controller_id
    image.brokers = {node_id: BrokerImage(node_id) for node_id in (1, *others)}
    in_force = SettingsInForce(BrokerSettings.parse({name.replace("_", "."): text for name, text in settings.items()}))
    over: list[int] = []
    began_ms = broker.world.now_ms
    leave = HandOver(1, lambda: 77, broker.channels, image, in_force, broker.scheduler)
    leave.begin(lambda: over.append(broker.world.now_ms - began_ms))
    broker.world.run(60_000)
    return over


def test_a_broker_stops_when_the_controller_has_handed_over(asking: Candidate) -> None:
    asking.goodbyes = [ControlledShutdownResponse()]
    (over_ms,) = hand_over(asking)
    assert over_ms < 1000
    (heard,) = asking.shutdowns
    assert (heard.broker_id, heard.broker_epoch) == (1, 77)


def test_it_asks_again_while_something_is_left(asking: Candidate) -> None:
    asking.goodbyes = [
        ControlledShutdownResponse(error_code=NOT_CONTROLLER),
        ControlledShutdownResponse(remaining_partitions=[LEFT]),
        ControlledShutdownResponse(),
    ]
    (over_ms,) = hand_over(asking)
    assert 2 * BACKOFF_MS <= over_ms < 3 * BACKOFF_MS


def test_it_stops_in_the_end_whatever_is_left(asking: Candidate, caplog: pytest.LogCaptureFixture) -> None:
    asking.goodbyes = [ControlledShutdownResponse(remaining_partitions=[LEFT])] * 9
    (over_ms,) = hand_over(asking, controlled_shutdown_max_retries="2", controlled_shutdown_retry_backoff_ms="100")
    assert 200 <= over_ms < 300
    assert len(asking.shutdowns) == 3
    assert "no other broker is in sync for 1 partitions" in caplog.text


def test_it_does_not_wait_for_a_controller_that_nobody_knows(asking: Candidate) -> None:
    (over_ms,) = hand_over(asking, controller_id=-1)
    assert over_ms < 4 * BACKOFF_MS


def test_the_last_broker_of_a_cluster_asks_nobody(asking: Candidate) -> None:
    assert hand_over(asking, others=()) == [0]
    assert asking.shutdowns == []


def test_it_does_not_ask_again_when_all_others_are_gone(asking: Candidate) -> None:
    asking.goodbyes = [ControlledShutdownResponse(remaining_partitions=[LEFT])] * 9
    image = ClusterImage()
    image.controller_id = 1
    image.brokers = {node_id: BrokerImage(node_id) for node_id in (1, 2)}
    over: list[bool] = []
    leave = HandOver(1, lambda: 77, asking.channels, image, SettingsInForce(BrokerSettings.parse({})), asking.scheduler)
    leave.begin(lambda: over.append(True))
    asking.world.run(BACKOFF_MS // 2)
    assert not over
    del image.brokers[2]
    asking.world.run(BACKOFF_MS)
    assert over
    assert len(asking.shutdowns) == 1


def test_it_asks_nobody_where_the_setting_says_so(asking: Candidate) -> None:
    assert hand_over(asking, controlled_shutdown_enable="false") == [0]
    assert asking.shutdowns == []
