"""What is stored of consumer groups (KIP-848): Apache Kafka's is replayed here, and what is stored here its decoder reads."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ottla.coord.consumer.events import TopicsSeen
from ottla.coord.consumer.records import EpochStored
from ottla.coord.consumer.topics import KnownTopics
from ottla.coord.group_machine import GroupMachine
from ottla.coord.records import decode_record, encode_record
from ottla.coord.runtime.machine import Input
from ottla.coord.settings import GroupSettings
from ottla.ports import Now
from ottla.records.batches.columns import open_batches
from ottla.wire.api.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from ottla.wire.api.list_groups import ListGroupsRequest
from tests.interop.test_consumer_group_requests import SCRIPT, LivePlay, ready
from tests.support.frames import Raw
from tests.support.java import run
from tests.support.peers import start_peer

pytestmark = [pytest.mark.java, pytest.mark.slow]

DUMP = "org.apache.kafka.tools.DumpLogSegments"
QUICK: dict[str, object] = {"group.initial.rebalance.delay.ms": 0}
MORE = """
ada enters x topics=orders
bea enters x topics=orders instance=b
cy enters x pattern=ord.*
wait 1100ms
ada lives x
cy lives x
"""
"""Beside what the script leaves: a group that is in the middle of things."""

Described = ConsumerGroupDescribeResponse.DescribedGroup


class Performed:
    """The script has been performed on a broker, which is killed. `described` is what it said of its consumer groups at last."""

    def __init__(self, name: str, home: Path) -> None:
        with start_peer(name, home, QUICK) as peer, Raw(peer.address, timeout_s=30) as raw:
            play = LivePlay(raw)
            ready(play, peer)
            play.perform(SCRIPT.read_text() + MORE)
            stage: Any = play.stage
            listed = stage.request(5, ListGroupsRequest(types_filter=["consumer"])).groups
            names = [each.group_id for each in listed]
            self.described: list[Described] = stage.request(1, ConsumerGroupDescribeRequest(group_ids=names)).groups
            self.ids = dict(stage._ids)
            self.topics = play.topics
            stopped: Any = peer
            stopped.kill()
            self.logs = sorted(path for path in home.rglob("__consumer_offsets-*/*.log") if path.stat().st_size)
            self.records = [record for path in self.logs for record in stored(path)]

    def known(self) -> KnownTopics:
        """The topics under their real ids."""
        named = (self.topics.topic(name) for name in self.topics.names)
        return KnownTopics(topic._replace(topic_id=self.ids[topic.topic_id]) for topic in named if topic is not None)


def stored(path: Path) -> list[tuple[bytes, bytes | None]]:
    view = memoryview(path.read_bytes())
    records = open_batches(view).records()
    return [(bytes(record.key or b""), None if record.value is None else bytes(record.value)) for record in records]


def plain(groups: list[Described]) -> Any:
    """What groups are described as, in an order of its own, without the words that explain an error."""
    return {group.group_id: (*state(group), members(group)) for group in groups}


def state(group: Described) -> tuple[object, ...]:
    return group.error_code, group.group_state, group.group_epoch, group.assignment_epoch, group.assignor_name


def members(group: Described) -> Any:
    return {
        member.member_id: (
            member.instance_id,
            member.member_epoch,
            sorted(member.subscribed_topic_names),
            member.subscribed_topic_regex,
            places(member.assignment),
            places(member.target_assignment),
            member.member_type,
        )
        for member in group.members
    }


def places(assignment: ConsumerGroupDescribeResponse.Assignment) -> set[tuple[str, int]]:
    return {(held.topic_name, index) for held in assignment.topic_partitions for index in held.partitions}


@pytest.mark.full(seconds=21)
def test_what_apache_kafka_stored_of_its_groups_is_replayed(tmp_path: Path) -> None:
    performed = Performed("apache-kafka", tmp_path)
    machine = GroupMachine(GroupSettings(), lambda: "new")
    machine.apply(TopicsSeen(performed.known(), frozenset(), new=False))
    kinds: Counter[str] = Counter()
    for key, value in performed.records:
        record = decode_record(key, value)
        assert record is not None
        kinds[type(record).__name__] += 1
        assert encode_record(record) == (key, value)
        machine.apply(record)
    assert {"EpochStored", "MemberStored", "TargetStored", "TargetEpochStored", "CurrentStored", "PatternStored"} <= kinds.keys()
    names = [group.group_id for group in performed.described]
    asked = Input(ConsumerGroupDescribeRequest(group_ids=names), 1)
    reply = machine.decide(asked, Now(0, 0)).replies[0].message
    assert isinstance(reply, ConsumerGroupDescribeResponse)
    assert plain(reply.groups) == plain(performed.described)
    living = machine.consumers.groups["x"]
    for member in list(living.members.values()):
        goes_on(machine, member.member_id, member.epoch, member.instance_id)
    assert len(living.members) == 3


def goes_on(machine: GroupMachine, member_id: str, epoch: int, instance_id: str | None) -> None:
    """A member that lives on sees no new epoch: the topics have the hash that Apache Kafka gave them."""
    body = ConsumerGroupHeartbeatRequest(group_id="x", member_id=member_id, member_epoch=epoch, instance_id=instance_id)
    outcome = machine.decide(Input(body, 1, "live", "/127.0.0.1", 1), Now(1, 1))
    reply = outcome.replies[0].message
    assert isinstance(reply, ConsumerGroupHeartbeatResponse)
    assert reply.error_code == 0
    assert not [record for record in outcome.records if isinstance(record, EpochStored)]


@pytest.mark.full(seconds=20)
def test_the_decoder_of_apache_kafka_reads_what_is_stored_here(tmp_path: Path) -> None:
    performed = Performed("ottla", tmp_path)
    kinds: Counter[str] = Counter()
    hashes = set()
    for path in performed.logs:
        said = run(DUMP, "--offsets-decoder", "--files", str(path))
        assert not re.search("(?i)mismatch|exception|isvalid: false|corrupt", said)
        records = re.findall(r" key: (\{.*\}) payload: (.*)$", said, re.MULTILINE)
        assert len(records) == len(stored(path))
        for key, payload in records:
            kinds[json.loads(key)["type"]] += 1
            if json.loads(key)["type"] == "3" and payload != "<DELETE>":
                hashes.add(json.loads(payload)["data"].get("metadataHash", 0))
    assert kinds.keys() >= {"1", "2", "3", "4", "5", "6", "7", "8", "16"}
    assert len(hashes) > 1
