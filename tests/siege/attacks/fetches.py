"""Reading: very many partitions, sessions, long polls by the thousand, and readers that do not read."""

from __future__ import annotations

from ottla.wire.api.fetch import FetchRequest
from ottla.wire.api.list_offsets import ListOffsetsRequest
from ottla.wire.api.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from tests.siege.attack import attack
from tests.siege.making import create_topic, one_record, produce, send_all
from tests.siege.site import Site, framed, hold, press

MANY = 500_000
WIDE = 1000
FILLED_BATCHES = 64
LARGE = 900_000
Wanted = FetchRequest.FetchPartition


def fetch(
    topic: str,
    partitions: range,
    *,
    offset: int = 0,
    most_bytes: int = 1 << 20,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    session: tuple[int, int] = (0, -1),
) -> bytes:
    """A request for the same offset of each; `session` is its id and epoch."""
    wanted = [Wanted(partition=partition, fetch_offset=offset, partition_max_bytes=most_bytes) for partition in partitions]
    session_id, session_epoch = session
    body = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=50 << 20,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[FetchRequest.FetchTopic(topic=topic, partitions=wanted)],
    )
    return framed(body, 12)


def fill(site: Site) -> None:
    """Write some megabytes to the attack's topic."""
    send_all(site, [produce(site.topic, one_record(LARGE))] * FILLED_BATCHES)


@attack("Fetch of 500 000 partitions that there are not, again and again")
def fetch_of_unknown_partitions(site: Site) -> None:
    press(site, fetch(site.topic, range(4, MANY)))


@attack("Fetch that names one partition 200 000 times, again and again", minor=True)
def fetch_of_one_partition_often(site: Site) -> None:
    body = FetchRequest(
        max_bytes=50 << 20,
        topics=[
            FetchRequest.FetchTopic(
                topic=site.topic, partitions=[Wanted(partition=0, fetch_offset=0, partition_max_bytes=1)] * 200_000
            )
        ],
    )
    press(site, framed(body, 12))


@attack("8 connections fetch 1 000 empty partitions with every request", spoils=True)
def fetch_of_many_partitions(site: Site) -> None:
    create_topic(site, site.named("wide"), WIDE)
    press(site, fetch(site.named("wide"), range(WIDE)), lines=8)


@attack("8 connections begin a fetch session of 1 000 partitions with every request", spoils=True)
def new_fetch_sessions(site: Site) -> None:
    create_topic(site, site.named("wide"), WIDE)
    press(site, fetch(site.named("wide"), range(WIDE), session=(0, 0)), lines=8)


@attack("4 connections begin small fetch sessions without end, pipelined", minor=True)
def small_fetch_sessions(site: Site) -> None:
    press(site, fetch(site.topic, range(4), session=(0, 0)), lines=4, in_flight=200)


@attack("500 connections wait for the topic to which the innocent client writes, and each record wakes all")
def long_polls_on_the_innocents_topic(site: Site) -> None:
    latest = site.ask(
        ListOffsetsRequest(
            topics=[
                ListOffsetsRequest.ListOffsetsTopic(
                    name=site.innocent_topic,
                    partitions=[ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-1)],
                )
            ]
        ),
        5,
    )
    frame = fetch(site.innocent_topic, range(1), offset=latest.topics[0].partitions[0].offset, max_wait_ms=1000, min_bytes=1 << 20)
    press(site, frame, lines=500)


@attack("2 000 connections wait in long polls of half a second on topics where nothing happens", minor=True)
def long_polls(site: Site) -> None:
    press(site, fetch(site.topic, range(4), max_wait_ms=500), lines=2000)


@attack("64 connections ask for 50 MB again and again and never read")
def fetches_unread(site: Site) -> None:
    fill(site)
    press(site, fetch(site.topic, range(1), most_bytes=50 << 20), lines=64, in_flight=1000, reads=False, receive_buffer_bytes=4096)


@attack("200 connections ask for 50 MB and read a few bytes each second", minor=True)
def fetches_read_slowly(site: Site) -> None:
    fill(site)
    hold(site, 200, first=fetch(site.topic, range(1), most_bytes=50 << 20))


@attack("8 connections read 50 MB again and again", minor=True)
def fetches_of_much(site: Site) -> None:
    fill(site)
    press(site, fetch(site.topic, range(1), most_bytes=50 << 20), lines=8)


@attack("one connection pipelines fetches of one byte without end", minor=True)
def fetches_of_little(site: Site) -> None:
    fill(site)
    press(site, fetch(site.topic, range(1), offset=1 << 40, most_bytes=1), in_flight=5000)


@attack("ListOffsets of 200 000 partitions that there are not, again and again", minor=True)
def offsets_of_unknown_partitions(site: Site) -> None:
    wanted = [ListOffsetsRequest.ListOffsetsPartition(partition_index=number, timestamp=-1) for number in range(4, 200_000)]
    press(site, framed(ListOffsetsRequest(topics=[ListOffsetsRequest.ListOffsetsTopic(name=site.topic, partitions=wanted)]), 5))


@attack("ListOffsets that asks for a time in one partition 20 000 times, from 4 connections", minor=True)
def offsets_by_time(site: Site) -> None:
    fill(site)
    wanted = [ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=5)] * 20_000
    frame = framed(ListOffsetsRequest(topics=[ListOffsetsRequest.ListOffsetsTopic(name=site.topic, partitions=wanted)]), 5)
    press(site, frame, lines=4)


@attack("OffsetForLeaderEpoch of one partition 200 000 times, again and again", minor=True)
def leader_epochs(site: Site) -> None:
    wanted = [OffsetForLeaderEpochRequest.OffsetForLeaderPartition(partition=0, leader_epoch=0)] * 200_000
    topics = [OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic=site.topic, partitions=wanted)]
    press(site, framed(OffsetForLeaderEpochRequest(topics=topics), 4))
