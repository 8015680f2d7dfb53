"""What is refused about consumer groups, in the words with which Apache Kafka 4.3 begins: its tools and tests look for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from bench.groups import find_coordinator
from ottla.wire.api.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.api.describe_groups import DescribeGroupsRequest
from tests.support.bad_groups import LOADING, Questioner
from tests.support.peers import start_peer

HEARTBEAT, DESCRIBE, DESCRIBE_CLASSIC = 68, 69, 15
SOMETHING = [ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=b"\x01" * 16, partitions=[0])]
GROUP = "words"


def beat(questioner: Questioner, **said: Any) -> tuple[int, str]:
    """Send what a member of GROUP sends that joins, but for what is `said`; (error code, text)."""
    wanted: dict[str, Any] = {
        "group_id": GROUP,
        "member_id": "ada",
        "member_epoch": 0,
        "rebalance_timeout_ms": 1000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
    }
    answer = questioner.ask(HEARTBEAT, 1, ConsumerGroupHeartbeatRequest(**(wanted | said)))
    return answer.error_code, answer.error_message or ""


@pytest.fixture(scope="module")
def questioner(peer_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Questioner]:
    """Asks a broker on which ada, and bea as the static member b, are in GROUP."""
    with start_peer(peer_name, tmp_path_factory.mktemp("words")) as peer, closing(Questioner(peer.address)) as questioner:
        find_coordinator(peer.address, GROUP)
        while beat(questioner)[0] in LOADING:
            pass
        assert beat(questioner, member_id="bea", instance_id="b") == (0, "")
        yield questioner


@pytest.mark.parametrize(
    ("said", "code", "words"),
    [
        ({"group_id": ""}, 42, "GroupId can't be empty"),
        ({"group_id": " "}, 42, "GroupId can't be empty"),
        ({"member_id": ""}, 42, "MemberId can't be empty"),
        ({"instance_id": ""}, 42, "InstanceId can't be empty"),
        ({"rack_id": ""}, 42, "RackId can't be empty"),
        ({"member_epoch": -2}, 42, "InstanceId can't be null"),
        ({"member_epoch": -3}, 42, "MemberEpoch is invalid"),
        ({"rebalance_timeout_ms": -1}, 42, "RebalanceTimeoutMs must be provided in first request"),
        ({"topic_partitions": SOMETHING}, 42, "TopicPartitions must be empty when (re-)joining"),
        ({"subscribed_topic_names": None}, 42, "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null"),
        ({"subscribed_topic_names": None, "subscribed_topic_regex": "["}, 128, "SubscribedTopicRegex `[` is not a valid"),
        ({"server_assignor": "nope"}, 112, "ServerAssignor nope is not supported. Supported assignors: uniform, range."),
        ({"member_id": "cyd", "member_epoch": 5}, 25, "Member cyd is not a member of group words"),
        ({"member_id": "cyd", "member_epoch": -1}, 25, "Member cyd is not a member of group words"),
        ({"member_epoch": 99}, 110, "The consumer group member has a greater member epoch (99) than the one known by"),
        ({"member_id": "cyd", "instance_id": "b"}, 111, "Static member cyd with instance id b cannot join the group because"),
        ({"instance_id": "b", "member_epoch": 1}, 82, "Static member ada with instance id b was fenced by member bea"),
        ({"instance_id": "nobody", "member_epoch": 1}, 25, "Instance id nobody is unknown"),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.rows(2, seconds=1)
def test_a_heartbeat_is_refused_beginning_with_kafkas_words(
    questioner: Questioner, said: dict[str, Any], code: int, words: str
) -> None:
    error_code, text = beat(questioner, **said)
    assert (error_code, text[: len(words)]) == (code, words)


def test_groups_of_the_other_kind_and_of_no_kind_are_described_in_kafkas_words(questioner: Questioner) -> None:
    (absent,) = questioner.ask(DESCRIBE, 1, ConsumerGroupDescribeRequest(group_ids=["nobody"])).groups
    assert (absent.error_code, absent.error_message) == (69, "Group nobody not found.")
    (other,) = questioner.ask(DESCRIBE_CLASSIC, 6, DescribeGroupsRequest(groups=[GROUP])).groups
    assert (other.error_code, other.error_message) == (69, f"Group {GROUP} is not a classic group.")
