"""Requests of consumer groups, one by one, and what Apache Kafka 4.3 answers: a play (see `tests.scenarios`) on a real broker.

`consumer_groups.live` was written by Apache Kafka itself: `--peer=apache-kafka --rewrite-scenarios` writes it anew.
"""

from __future__ import annotations

import re
import time
from difflib import unified_diff
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ottla.coord.outcome import GroupOutcome, TopicsChanged, TopicsDeleted
from ottla.coord.runtime.machine import Outcome, Reply
from ottla.coord.settings import GroupSettings
from ottla.wire.api.consumer_group_describe import ConsumerGroupDescribeResponse
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from ottla.wire.api.create_partitions import CreatePartitionsRequest
from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.api.delete_topics import DeleteTopicsRequest
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.join_group import JoinGroupResponse
from ottla.wire.api.list_groups import ListGroupsResponse
from ottla.wire.api.offset_fetch import OffsetFetchRequest
from ottla.wire.errors import COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NONE, NOT_COORDINATOR
from ottla.wire.framing import FrameHeader, decode_response, encode_request
from tests.scenarios.consumer_words import topic_id, topic_name
from tests.scenarios.play import Play
from tests.support.frames import Raw
from tests.support.peers import GROUPS_STAY, Peer, start_peer
from tests.support.waiting import eventually

SCRIPT = Path(__file__).with_name("consumer_groups.live")
NOT_YET = (COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR)
LATER_S = 1.0
"""How long Apache Kafka may take until its coordinators know that a topic changed."""


class LiveStage:
    """Where a play is performed on a broker: requests go over a socket, topics are made, and time passes."""

    def __init__(self, raw: Raw, play: LivePlay) -> None:
        self.settings = GroupSettings()
        self.waiting: dict[int, Any] = {}
        self.now_ms = 0
        self._raw = raw
        self._play = play
        self._token = 0
        self._ids: dict[bytes, bytes] = {}
        self._partitions: dict[str, int] = {}

    def request(self, version: int, body: Any) -> Any:
        self._token += 1
        key = body.WIRE.key
        self._raw.send(b"".join(bytes(part) for part in encode_request(FrameHeader(key, version, self._token, "live"), body)))
        return decode_response(key, version, self._raw.frame())[1]

    def ask(self, body: Any, version: int, client_id: str) -> None:
        if isinstance(body, ConsumerGroupHeartbeatRequest):
            for held in body.topic_partitions or ():
                held.topic_id = self._ids.get(held.topic_id, held.topic_id)
        if isinstance(body, OffsetFetchRequest.OffsetFetchRequestGroup):
            message = self.request(version, OffsetFetchRequest(groups=[body])).groups[0]
        else:
            message = self.request(version, body)
        self._name(message)
        self.waiting = {self._token: body}
        self._play.came_out(Outcome(replies=(Reply(self._token, message),)))

    def tell(self, body: Any) -> None:
        if isinstance(body, TopicsDeleted):
            gone = [DeleteTopicsRequest.DeleteTopicState(name=name) for name in body.names]
            self.request(6, DeleteTopicsRequest(topics=gone, timeout_ms=10_000))
        elif isinstance(body, TopicsChanged):
            for name in body.names:
                self._change(name, body)
        time.sleep(LATER_S)

    def wait(self, ms: int) -> None:
        time.sleep(ms / 1000)

    def _change(self, name: str, changed: TopicsChanged) -> None:
        topic = changed.topics.topic(name)
        if topic is None:
            return
        count = topic.shape.partitions
        if changed.new:
            wanted = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=count, replication_factor=1)
            made = self.request(7, CreateTopicsRequest(topics=[wanted], timeout_ms=10_000)).topics[0]
            assert made.error_code == NONE
            self._ids[topic_id(name)] = bytes(made.topic_id)
        else:
            more = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=count, assignments=None)
            assert self.request(3, CreatePartitionsRequest(topics=[more], timeout_ms=10_000)).results[0].error_code == NONE

    def _name(self, message: Any) -> None:
        """Give topics the ids that plays have for them, and members that the broker named a name in the order of their coming."""
        names = {real: known for known, real in self._ids.items()}
        if isinstance(message, ListGroupsResponse):
            message.groups.sort(key=lambda listed: listed.group_id)
        if isinstance(message, ConsumerGroupHeartbeatResponse) and message.assignment is not None:
            for held in message.assignment.topic_partitions:
                held.topic_id = names[bytes(held.topic_id)]
        if isinstance(message, ConsumerGroupDescribeResponse):
            for member in message.groups[0].members:
                member.member_id = self._play.given.get(member.member_id, member.member_id)
                for shown in (*member.assignment.topic_partitions, *member.target_assignment.topic_partitions):
                    shown.topic_id = names[bytes(shown.topic_id)]
                    assert topic_name(shown.topic_id) == shown.topic_name
        if isinstance(message, JoinGroupResponse) and len(message.member_id) > 20:
            self._play.given.setdefault(message.member_id, f"given-{len(self._play.given) + 1}")


class LivePlay(Play):
    def __init__(self, raw: Raw) -> None:
        super().__init__()
        self.given: dict[str, str] = {}
        self.stage = LiveStage(raw, self)  # type: ignore[assignment]  # as much of one as a play of these lines needs

    def came_out(self, outcome: GroupOutcome) -> None:
        self._came_out(outcome)

    def perform(self, text: str) -> str:
        performed = super().perform(text)
        for member_id, name in self.given.items():
            performed = performed.replace(member_id, name)
        return performed


@pytest.mark.full(seconds=17)
@pytest.mark.timeout(180)
def test_requests_are_answered_as_by_apache_kafka(peer_name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    written = SCRIPT.read_text()
    settings = {"group.initial.rebalance.delay.ms": 0, **GROUPS_STAY}
    with start_peer(peer_name, tmp_path, settings) as peer, Raw(peer.address, timeout_s=30) as raw:
        play = LivePlay(raw)
        ready(play, peer)
        performed = play.perform(written)
    if request.config.getoption("--rewrite-scenarios"):
        assert peer_name == "apache-kafka", "these are Kafka's answers: add --peer=apache-kafka"
        SCRIPT.write_text(performed)
    differences = "\n".join(unified_diff(written.splitlines(), performed.splitlines(), "Apache Kafka", peer_name, lineterm="", n=1))
    assert not differences, differences


def ready(play: LivePlay, peer: Peer) -> None:
    """Wait until groups have their coordinator."""
    stage: Any = play.stage
    found = FindCoordinatorRequest(key_type=0, coordinator_keys=["a"])
    eventually(lambda: stage.request(4, found).coordinators[0].error_code == NONE, timeout_s=30)
    for group in re.findall(r"(?m)^\w+ (?:enters|joins|lives) (\w+)", SCRIPT.read_text()):
        eventually(partial(is_led, stage, group), timeout_s=30)


def is_led(stage: Any, group: str) -> bool:
    probe = ConsumerGroupHeartbeatRequest(group_id=group, member_id="nobody", member_epoch=7)
    return stage.request(1, probe).error_code not in NOT_YET
