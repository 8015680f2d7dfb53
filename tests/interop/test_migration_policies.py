"""`group.consumer.migration.policy`: which changes of a group's protocol it allows, in both directions, as on Apache Kafka."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.wire.errors import COORDINATOR_NOT_AVAILABLE, GROUP_ID_NOT_FOUND, MEMBER_ID_REQUIRED, NONE, NOT_COORDINATOR
from ottla.wire.framing import FrameHeader, decode_response, encode_request
from tests.support.frames import Raw
from tests.support.messages import request
from tests.support.peers import start_peer
from tests.support.waiting import eventually

FIND_COORDINATOR, JOIN, LEAVE, SYNC, LIST, CREATE_TOPICS, HEARTBEAT = 10, 11, 13, 14, 16, 19, 68
TOPIC = "migrated"
SUBSCRIPTION = struct.pack(">hih", 0, 1, len(TOPIC)) + TOPIC.encode() + struct.pack(">i", -1)
NOTHING = struct.pack(">hii", 0, 0, -1)
JOINED, LEFT, BACK_SOON = 0, -1, -2
NOT_YET = (COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, 14)
POLICIES = {"disabled": (False, False), "upgrade": (True, False), "downgrade": (False, True), "bidirectional": (True, True)}
"""Policy -> (whether a classic group may become a consumer group, whether a consumer group may become a classic one)."""


class Groups:
    """A broker of one policy, and members in plain requests."""

    def __init__(self, raw: Raw, *, may_upgrade: bool, may_downgrade: bool) -> None:
        self.may_upgrade, self.may_downgrade = may_upgrade, may_downgrade
        self._raw = raw

    def ask(self, key: int, version: int, /, **values: Any) -> Any:
        self._raw.send(b"".join(encode_request(FrameHeader(key, version, 7, "test"), request(key, version, **values))))
        return decode_response(key, version, self._raw.frame())[1]

    def beat(self, group_id: str, member_id: str, epoch: int = JOINED, **more: Any) -> Any:
        """A heartbeat of a consumer-protocol member that joins or leaves."""
        first: dict[str, Any] = {"rebalance_timeout_ms": 5_000, "subscribed_topic_names": [TOPIC], "topic_partitions": []}
        who = {"group_id": group_id, "member_id": member_id, "member_epoch": epoch}
        return self.ask(HEARTBEAT, 1, **who, **more, **(first if epoch == JOINED else {}))

    def join(self, group_id: str, **more: Any) -> Any:
        """A member of the classic protocol joins, and is what it has become when it is in."""
        usual: dict[str, Any] = {"session_timeout_ms": 30_000, "rebalance_timeout_ms": 3_000, "protocol_type": "consumer"}
        usual |= {"group_id": group_id, "protocols": [{"name": "range", "metadata": SUBSCRIPTION}], **more}
        answer = self.ask(JOIN, 9, **usual, member_id="")
        if answer.error_code == MEMBER_ID_REQUIRED:
            answer = self.ask(JOIN, 9, **usual, member_id=answer.member_id)
        return answer

    def lead(self, group_id: str, **more: Any) -> Any:
        """The first member of a classic group, which has assigned itself nothing."""
        joined = self.join(group_id, **more)
        who = {"group_id": group_id, "generation_id": joined.generation_id, "member_id": joined.member_id, **more}
        given = [{"member_id": joined.member_id, "assignment": NOTHING}]
        synced = self.ask(SYNC, 5, **who, protocol_type="consumer", protocol_name="range", assignments=given)
        assert (joined.error_code, synced.error_code) == (NONE, NONE)
        return joined

    def kind(self, group_id: str) -> str:
        listed = self.ask(LIST, 5, states_filter=[], types_filter=[]).groups
        return next(str(group.group_type) for group in listed if group.group_id == group_id)


@pytest.fixture(scope="module", params=POLICIES)
def groups(request: pytest.FixtureRequest, peer_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Groups]:
    may_upgrade, may_downgrade = POLICIES[request.param]
    home: Path = tmp_path_factory.mktemp("policy")
    with start_peer(peer_name, home, {"group.consumer.migration.policy": request.param}) as peer, Raw(peer.address) as raw:
        made = Groups(raw, may_upgrade=may_upgrade, may_downgrade=may_downgrade)
        made.ask(CREATE_TOPICS, 7, topics=[{"name": TOPIC, "num_partitions": 2, "replication_factor": 1}], timeout_ms=10_000)
        made.ask(FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["g"])
        assert eventually(lambda: made.beat("first", "first").error_code not in NOT_YET)
        yield made


def a_member() -> str:
    return str(uuid.uuid4())


@pytest.mark.rows(1, seconds=1)
def test_a_classic_member_may_always_join_a_consumer_group(groups: Groups) -> None:
    group_id, member_id = "joined", a_member()
    assert groups.beat(group_id, member_id).error_code == NONE
    assert groups.join(group_id).error_code == NONE
    assert groups.kind(group_id) == "consumer"
    assert groups.beat(group_id, member_id, LEFT).error_code == NONE
    assert groups.kind(group_id) == ("classic" if groups.may_downgrade else "consumer")


@pytest.mark.rows(1, seconds=1)
def test_a_classic_member_takes_the_seat_of_a_static_one(groups: Groups) -> None:
    group_id, member_id = "seats", a_member()
    assert groups.beat(group_id, member_id, instance_id="i").error_code == NONE
    assert groups.beat(group_id, member_id, BACK_SOON, instance_id="i").error_code == NONE
    assert groups.join(group_id, group_instance_id="i").error_code == NONE
    assert groups.kind(group_id) == ("classic" if groups.may_downgrade else "consumer")


@pytest.mark.parametrize("instance", [None, "i"])
@pytest.mark.rows(2, seconds=1)
def test_a_consumer_member_joins_a_classic_group_if_that_may_become_another(groups: Groups, instance: str | None) -> None:
    group_id = f"upgraded-{instance}"
    groups.lead(group_id, group_instance_id=instance)
    answer = groups.beat(group_id, a_member(), instance_id=instance)
    assert answer.error_code == (NONE if groups.may_upgrade else GROUP_ID_NOT_FOUND)
    assert groups.kind(group_id) == ("consumer" if groups.may_upgrade else "classic")
    if not groups.may_upgrade:
        beginning = f"Cannot upgrade classic group {group_id} to consumer group because online upgrade is disabled"
        assert answer.error_message.startswith(beginning)


@pytest.mark.rows(1, seconds=1)
def test_a_group_without_members_may_always_be_of_the_other_kind(groups: Groups) -> None:
    member_id = a_member()
    assert groups.beat("emptied", member_id).error_code == NONE
    assert groups.beat("emptied", member_id, LEFT).error_code == NONE
    assert groups.join("emptied").error_code == NONE
    assert groups.kind("emptied") == "classic"
    leader = groups.lead("emptied too")
    groups.ask(LEAVE, 5, group_id="emptied too", members=[{"member_id": leader.member_id}])
    assert groups.beat("emptied too", a_member()).error_code == NONE
    assert groups.kind("emptied too") == "consumer"
