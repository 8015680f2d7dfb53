"""Groups: members and groups without end, giant commits, and questions about groups that there are not."""

from __future__ import annotations

import time
import uuid

from ottla.wire.api.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.api.delete_groups import DeleteGroupsRequest
from ottla.wire.api.describe_groups import DescribeGroupsRequest
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.heartbeat import HeartbeatRequest
from ottla.wire.api.join_group import JoinGroupRequest
from ottla.wire.api.list_groups import ListGroupsRequest
from ottla.wire.api.offset_commit import OffsetCommitRequest
from ottla.wire.api.offset_delete import OffsetDeleteRequest
from ottla.wire.api.offset_fetch import OffsetFetchRequest
from tests.siege.attack import attack
from tests.siege.making import create_topic
from tests.siege.site import Site, framed, press

READY_S = 90.0


def find_coordinator(site: Site) -> None:
    """Have the topic of groups made, and wait until groups are served."""
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        answer = site.ask(ListGroupsRequest(), 4)
        found = site.ask(FindCoordinatorRequest(coordinator_keys=[site.named("group")]), 4)
        if answer.error_code == 0 and found.coordinators[0].error_code == 0:
            commit = site.ask(commit_of(site.named("group"), site.topic, range(1)), 8)
            if commit.topics[0].partitions[0].error_code == 0:
                return
        time.sleep(0.2)
    raise RuntimeError("nobody coordinates groups")


def commit_of(group_id: str, topic: str, partitions: range, metadata: str = "") -> OffsetCommitRequest:
    wanted = [
        OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=number, committed_offset=0, committed_metadata=metadata)
        for number in partitions
    ]
    topics = [OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=wanted)]
    return OffsetCommitRequest(group_id=group_id, topics=topics)


def join(group_id: str, metadata: bytes = b"") -> bytes:
    """A new member's request, in the version that needs no second one."""
    protocols = [JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=metadata)]
    body = JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        member_id="",
        protocol_type="consumer",
        protocols=protocols,
    )
    return framed(body, 3)


def consumer_heartbeat(group_id: str, **fields: object) -> bytes:
    """A new member's of a consumer group."""
    body = ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id=str(uuid.uuid4()),
        member_epoch=0,
        rebalance_timeout_ms=30_000,
        topic_partitions=[],
        **fields,  # type: ignore[arg-type]  # names and types are those of the fields
    )
    return framed(body, 1)


@attack("100 connections join a new classic group with every request")
def new_groups(site: Site) -> None:
    find_coordinator(site)
    press(site, lambda number: join(site.named(number)), lines=100)


@attack("1 000 connections join one classic group, again and again", minor=True)
def new_members(site: Site) -> None:
    find_coordinator(site)
    press(site, join(site.named("one")), lines=1000)


@attack("50 connections join one group with 1 MB of metadata, again and again", minor=True)
def members_with_giant_metadata(site: Site) -> None:
    find_coordinator(site)
    press(site, join(site.named("giant"), bytes(1 << 20)), lines=50, most=1000)


@attack("8 connections join one consumer group as a new member with every request")
def new_members_of_a_consumer_group(site: Site) -> None:
    find_coordinator(site)
    names = [site.topic]
    press(site, lambda _: consumer_heartbeat(site.named("one"), subscribed_topic_names=names), lines=8, in_flight=5)


@attack("8 connections join consumer groups with patterns that are dear to match", spoils=True)
def members_with_patterns(site: Site) -> None:
    find_coordinator(site)
    pattern = "(" + "|".join(f"{site.name}.*{number}.*[a-z]{{1,50}}" for number in range(100)) + ")"
    press(site, lambda number: consumer_heartbeat(site.named(number), subscribed_topic_regex=pattern), lines=8)


@attack("8 connections join consumer groups that subscribe to 20 000 unknown topics", minor=True)
def members_with_many_topics(site: Site) -> None:
    find_coordinator(site)
    names = [site.named(number) for number in range(20_000)]
    press(site, lambda number: consumer_heartbeat(site.named(f"group-{number}"), subscribed_topic_names=names), lines=8)


@attack("8 connections join consumer groups that subscribe to 5 000 unknown topics each, always others")
def members_with_topics_of_their_own(site: Site) -> None:
    find_coordinator(site)

    def frame(number: int) -> bytes:
        names = [site.named(f"{number}-{place}") for place in range(5_000)]
        return consumer_heartbeat(site.named(f"own-{number}"), subscribed_topic_names=names)

    press(site, frame, lines=8)


@attack("8 connections join classic groups that subscribe to 15 000 topics each, always others", minor=True)
def classic_members_with_many_topics(site: Site) -> None:
    find_coordinator(site)

    def frame(number: int) -> bytes:
        names = b"".join(b"\0\6%06x" % (number * 15_000 + place) for place in range(15_000))
        return join(site.named(f"classic-{number}"), b"\0\1" + (15_000).to_bytes(4) + names)

    press(site, frame, lines=8)


@attack("4 connections commit 200 offsets with 4 KB of metadata each with every request", spoils=True)
def giant_commits(site: Site) -> None:
    find_coordinator(site)
    create_topic(site, site.named("wide"), 200)
    frames = [framed(commit_of(site.named(number), site.named("wide"), range(200), "m" * 4000), 8) for number in range(4)]
    press(site, lambda number: frames[number % 4], lines=4, most=1000)


@attack("100 connections commit one offset of a new group with every request", minor=True)
def commits_of_new_groups(site: Site) -> None:
    find_coordinator(site)
    press(site, lambda number: framed(commit_of(site.named(number), site.topic, range(4)), 8), lines=100)


@attack("OffsetCommit of 100 000 partitions that there are not, from 2 connections", minor=True)
def commits_of_unknown_partitions(site: Site) -> None:
    find_coordinator(site)
    press(site, framed(commit_of(site.named("group"), site.topic, range(4, 100_004)), 8), lines=2)


@attack("OffsetFetch of 20 000 groups with every request, from 4 connections")
def offsets_of_many_groups(site: Site) -> None:
    find_coordinator(site)
    groups = [OffsetFetchRequest.OffsetFetchRequestGroup(group_id=site.named(number), topics=None) for number in range(20_000)]
    press(site, framed(OffsetFetchRequest(groups=groups), 8), lines=4)


@attack("OffsetFetch of 200 000 partitions of a group, again and again", minor=True)
def offsets_of_many_partitions(site: Site) -> None:
    find_coordinator(site)
    topics = [OffsetFetchRequest.OffsetFetchRequestTopics(name=site.topic, partition_indexes=list(range(200_000)))]
    groups = [OffsetFetchRequest.OffsetFetchRequestGroup(group_id=site.named("group"), topics=topics)]
    press(site, framed(OffsetFetchRequest(groups=groups), 8))


@attack("OffsetDelete of 200 000 partitions of a group, again and again", minor=True)
def deletions_of_offsets(site: Site) -> None:
    find_coordinator(site)
    wanted = [OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=number) for number in range(200_000)]
    topics = [OffsetDeleteRequest.OffsetDeleteRequestTopic(name=site.topic, partitions=wanted)]
    press(site, framed(OffsetDeleteRequest(group_id=site.named("group"), topics=topics), 0))


@attack("DescribeGroups of 50 000 unknown groups, from 4 connections", minor=True)
def describe_unknown_groups(site: Site) -> None:
    find_coordinator(site)
    press(site, framed(DescribeGroupsRequest(groups=[site.named(number) for number in range(50_000)]), 5), lines=4)


@attack("ConsumerGroupDescribe of 50 000 unknown groups, from 4 connections", minor=True)
def describe_unknown_consumer_groups(site: Site) -> None:
    find_coordinator(site)
    press(site, framed(ConsumerGroupDescribeRequest(group_ids=[site.named(number) for number in range(50_000)]), 1), lines=4)


@attack("DeleteGroups of 50 000 unknown groups, from 4 connections", minor=True)
def delete_unknown_groups(site: Site) -> None:
    find_coordinator(site)
    press(site, framed(DeleteGroupsRequest(groups_names=[site.named(number) for number in range(50_000)]), 2), lines=4)


@attack("8 connections list all groups; 5 000 groups have committed offsets", spoils=True, minor=True)
def list_of_all_groups(site: Site) -> None:
    find_coordinator(site)
    for number in range(5000):
        site.ask(commit_of(site.named(number), site.topic, range(1)), 8)
    press(site, framed(ListGroupsRequest(), 5), lines=8, in_flight=5)


@attack("FindCoordinator of 100 000 keys, from 4 connections", minor=True)
def coordinators_of_many_keys(site: Site) -> None:
    press(site, framed(FindCoordinatorRequest(coordinator_keys=[site.named(number) for number in range(100_000)]), 4), lines=4)


@attack("4 connections pipeline heartbeats of unknown members without end", minor=True)
def heartbeats_of_unknown_members(site: Site) -> None:
    find_coordinator(site)
    press(
        site,
        framed(HeartbeatRequest(group_id=site.named("group"), generation_id=1, member_id="nobody"), 3),
        lines=4,
        in_flight=1000,
    )
