"""Formats before Kafka 0.11: Ottla converts them where it answers as an old release, and Apache Kafka 4 reads none of them."""

from __future__ import annotations

import random

from ottla.records.batches.builder import build
from ottla.wire.api.fetch import FetchRequest
from tests.old.message_sets import plain, wrapped
from tests.siege.attack import attack
from tests.siege.making import NOW_MS, ZSTD, produce, send_all
from tests.siege.site import Site, framed, press

RELEASE = "2.8"


@attack("8 connections produce gzip sets of 150 000 messages of format 1", release=RELEASE, minor=True)
def old_message_sets(site: Site) -> None:
    messages = wrapped(plain(*[b""] * 150_000, magic=1), magic=1, offset=149_999)
    press(site, produce(site.topic, messages, version=2), lines=8)


@attack("8 connections produce an old gzip message of 100 MB", release=RELEASE, minor=True)
def old_bomb(site: Site) -> None:
    press(site, produce(site.topic, wrapped(plain(bytes(100_000_000), magic=1), magic=1), version=2), lines=8)


@attack("8 connections produce sets within sets within sets", release=RELEASE, minor=True)
def nested_message_sets(site: Site) -> None:
    messages = plain(*[b"x" * 100] * 10_000, magic=1)
    for _ in range(3):
        messages = wrapped(messages, magic=1)
    press(site, produce(site.topic, messages, version=2), lines=8)


@attack("8 connections read 30 MB in the format of 2015 again and again", release=RELEASE, minor=True)
def old_readers(site: Site) -> None:
    records = bytes(build(None, [random.Random(1).randbytes(900) for _ in range(1000)], NOW_MS))
    send_all(site, [produce(site.topic, records)] * 32)
    press(site, old_fetch(site.topic), lines=8)


@attack("8 connections read zstd batches of 20 MB in the format of 2015", release=RELEASE, minor=True)
def old_readers_of_bombs(site: Site) -> None:
    send_all(site, [produce(site.topic, bytes(build(None, [bytes(1000)] * 20_000, NOW_MS, codec=ZSTD)))] * 8)
    press(site, old_fetch(site.topic), lines=8)


def old_fetch(topic: str) -> bytes:
    """A request for 30 MB of a topic's first partition, in a version that knows no batches."""
    wanted = [FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=30 << 20)]
    return framed(FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchRequest.FetchTopic(topic=topic, partitions=wanted)]), 2)
