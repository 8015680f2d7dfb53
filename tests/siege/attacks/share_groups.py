"""Share groups: members, sessions and acknowledgements without end, giant ranges, and states that no leader has written."""

from __future__ import annotations

import time
import uuid
from base64 import urlsafe_b64encode

from ottla.records.batches.builder import build
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.initialize_share_group_state import InitializeShareGroupStateRequest
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.api.read_share_group_state import ReadShareGroupStateRequest, ReadShareGroupStateResponse
from ottla.wire.api.share_acknowledge import ShareAcknowledgeRequest
from ottla.wire.api.share_fetch import ShareFetchRequest
from ottla.wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest
from ottla.wire.api.write_share_group_state import WriteShareGroupStateRequest
from tests.siege.attack import attack
from tests.siege.attacks.groups import find_coordinator
from tests.siege.making import NOW_MS, produce
from tests.siege.site import Site, framed, press

READY_S = 60.0
NEW, CLOSED = 0, -1
ACCEPT, RELEASE = 1, 2
Batch = ShareFetchRequest.AcknowledgementBatch
StateBatch = ReadShareGroupStateResponse.StateBatch
StatePart = WriteShareGroupStateRequest.PartitionData


def topic_id_of(site: Site) -> bytes:
    """The id of this attack's topic."""
    wanted = MetadataRequest.MetadataRequestTopic(name=site.topic, topic_id=bytes(16))
    answer = site.ask(MetadataRequest(topics=[wanted], allow_auto_topic_creation=False), 12)
    return bytes(answer.topics[0].topic_id)


def member() -> str:
    """A new member's id."""
    return str(uuid.uuid4())


def heartbeat(group_id: str, member_id: str, *topics: str) -> bytes:
    """A member that joins."""
    body = ShareGroupHeartbeatRequest(group_id=group_id, member_id=member_id, member_epoch=0, subscribed_topic_names=list(topics))
    return framed(body, 1)


def share_fetch(
    group_id: str, member_id: str, topic_id: bytes, *, max_wait_ms: int = 0, epoch: int = NEW, most: int = 500
) -> bytes:
    """A fetch of the four partitions of a topic."""
    parts = [ShareFetchRequest.FetchPartition(partition_index=index) for index in range(4)]
    body = ShareFetchRequest(
        group_id=group_id,
        member_id=member_id,
        share_session_epoch=epoch,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_records=most,
        batch_size=most,
        topics=[ShareFetchRequest.FetchTopic(topic_id=topic_id, partitions=parts)],
    )
    return framed(body, 1)


def acknowledge(group_id: str, member_id: str, topic_id: bytes, batches: list[Batch], epoch: int = 1) -> bytes:
    """Acknowledgements of each of four partitions."""
    parts = [
        ShareAcknowledgeRequest.AcknowledgePartition(partition_index=index, acknowledgement_batches=batches) for index in range(4)
    ]
    topics = [ShareAcknowledgeRequest.AcknowledgeTopic(topic_id=topic_id, partitions=parts)]
    return framed(ShareAcknowledgeRequest(group_id=group_id, member_id=member_id, share_session_epoch=epoch, topics=topics), 1)


def prepare(site: Site) -> bytes:
    """Have a share group of this attack read its topic, which has some thousand records; return the topic's id."""
    find_coordinator(site)
    topic_id = topic_id_of(site)
    deadline, member_id = time.monotonic() + READY_S, member()
    while True:
        body = ShareGroupHeartbeatRequest(
            group_id=site.named("shared"), member_id=member_id, member_epoch=0, subscribed_topic_names=[site.topic]
        )
        answer = site.ask(body, 1)
        if not answer.error_code and answer.assignment is not None and answer.assignment.topic_partitions:
            break
        if time.monotonic() > deadline:
            raise RuntimeError(f"the share group has no assignment: error {answer.error_code}")
        time.sleep(0.2)
    with site.connect() as connection:
        records = bytes(build(None, [b"x" * 100] * 1_000, NOW_MS))
        for index in range(4):
            connection.sendall(produce(site.topic, records, partition=index))
            connection.recv(1 << 16)
    return topic_id


@attack("100 connections join a new share group with every request", spoils=True)
def new_share_groups(site: Site) -> None:
    find_coordinator(site)
    press(site, lambda number: heartbeat(site.named(number), member(), site.topic), lines=100)


@attack("8 connections join one share group as a new member with every request")
def new_members_of_a_share_group(site: Site) -> None:
    find_coordinator(site)
    press(site, lambda _: heartbeat(site.named("one"), member(), site.topic), lines=8, in_flight=5)


@attack("50 connections begin a share session as a new member with every request")
def new_share_sessions(site: Site) -> None:
    topic_id = prepare(site)
    press(site, lambda _: share_fetch(site.named("shared"), member(), topic_id, most=1), lines=50)


@attack("500 unknown members of a share group wait half a minute for records", minor=True)
def waiting_share_fetches(site: Site) -> None:
    find_coordinator(site)
    topic_id = topic_id_of(site)
    press(site, lambda _: share_fetch(site.named("none"), member(), topic_id, max_wait_ms=30_000), lines=500)


@attack("20 connections acquire all records of a share group and close their session, again and again")
def records_acquired_and_released(site: Site) -> None:
    topic_id, members = prepare(site), [member() for _ in range(20)]

    def frame(number: int) -> bytes:
        epoch = NEW if number // 20 % 2 == 0 else CLOSED
        return share_fetch(site.named("shared"), members[number % 20], topic_id, epoch=epoch, most=2_000)

    press(site, frame, lines=20)


@attack("8 connections acknowledge ranges up to the largest offset that they never acquired")
def giant_acknowledgements(site: Site) -> None:
    topic_id = prepare(site)
    giant = [Batch(first_offset=0, last_offset=(1 << 63) - 2, acknowledge_types=[ACCEPT])]
    press(site, acknowledge(site.named("shared"), member(), topic_id, giant), lines=8, in_flight=20)


@attack("4 connections acknowledge 25 000 single offsets of each partition, each another way")
def scattered_acknowledgements(site: Site) -> None:
    topic_id = prepare(site)
    many = [
        Batch(first_offset=2 * at, last_offset=2 * at, acknowledge_types=[ACCEPT if at % 2 else RELEASE]) for at in range(25_000)
    ]
    press(site, acknowledge(site.named("shared"), member(), topic_id, many), lines=4)


@attack("4 connections acknowledge one range with a type for each of a million offsets", minor=True)
def types_without_end(site: Site) -> None:
    topic_id = prepare(site)
    long = [Batch(first_offset=0, last_offset=999_999, acknowledge_types=[ACCEPT] * 1_000_000)]
    press(site, acknowledge(site.named("shared"), member(), topic_id, long), lines=4)


def write_state(group_id: str, topic_id: bytes, batches: list[StateBatch]) -> bytes:
    """A write of states of four share partitions, as leaders send it."""
    parts = [
        StatePart(partition=index, state_epoch=-1, leader_epoch=-1, start_offset=0, state_batches=batches) for index in range(4)
    ]
    topics = [WriteShareGroupStateRequest.WriteStateData(topic_id=topic_id, partitions=parts)]
    return framed(WriteShareGroupStateRequest(group_id=group_id, topics=topics), 1)


def initialize_state(group_id: str, topic_id: bytes) -> InitializeShareGroupStateRequest:
    parts = [InitializeShareGroupStateRequest.PartitionData(partition=index, state_epoch=0, start_offset=0) for index in range(4)]
    topics = [InitializeShareGroupStateRequest.InitializeStateData(topic_id=topic_id, partitions=parts)]
    return InitializeShareGroupStateRequest(group_id=group_id, topics=topics)


def prepare_states(site: Site) -> bytes:
    """Have share coordinators, and wait until all of them serve; return the topic's id."""
    find_coordinator(site)
    topic_id, deadline = topic_id_of(site), time.monotonic() + READY_S
    key = f"g:{urlsafe_b64encode(topic_id).decode().rstrip('=')}:0"
    while time.monotonic() < deadline:
        found = site.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=[key]), 6)
        told = site.ask(initialize_state(site.named("state"), topic_id), 0)
        codes = {part.error_code for topic in told.results for part in topic.partitions}
        if not found.coordinators[0].error_code and codes == {0}:
            return topic_id
        time.sleep(0.2)
    raise RuntimeError("nobody coordinates states of share partitions")


@attack("4 connections write 10 000 state batches of each of four share partitions, each time others")
def scattered_states(site: Site) -> None:
    topic_id = prepare_states(site)
    frames = [
        write_state(
            site.named("state"),
            topic_id,
            [
                StateBatch(first_offset=3 * at + turn, last_offset=3 * at + turn, delivery_state=2, delivery_count=turn + 1)
                for at in range(10_000)
            ],
        )
        for turn in range(3)
    ]
    press(site, lambda number: frames[number % 3], lines=4)


@attack("50 connections initialize states of a new share group with every request", spoils=True)
def new_states(site: Site) -> None:
    topic_id = prepare_states(site)
    press(site, lambda number: framed(initialize_state(site.named(number), topic_id), 0), lines=50)


@attack("ReadShareGroupState of 200 000 share partitions that there are not, from 4 connections", minor=True)
def read_unknown_states(site: Site) -> None:
    topic_id = prepare_states(site)
    parts = [ReadShareGroupStateRequest.PartitionData(partition=index, leader_epoch=0) for index in range(4, 200_004)]
    topics = [ReadShareGroupStateRequest.ReadStateData(topic_id=topic_id, partitions=parts)]
    press(site, framed(ReadShareGroupStateRequest(group_id=site.named("state"), topics=topics), 0), lines=4)


@attack("FindCoordinator of 20 000 keys of share coordinators, half of them malformed, from 4 connections", minor=True)
def share_coordinators_of_many_keys(site: Site) -> None:
    prepare_states(site)
    keys = [f"{site.named(number)}:{'A' * (22 - number % 2)}:{number}" for number in range(20_000)]
    press(site, framed(FindCoordinatorRequest(key_type=2, coordinator_keys=keys), 6), lines=4)
