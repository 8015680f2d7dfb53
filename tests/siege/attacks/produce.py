"""Records by the million, in ordinary batches: many partitions, many producers, many segments, and batches that are refused."""

from __future__ import annotations

from ottla.records.batches.builder import build
from tests.siege.attack import attack
from tests.siege.making import NOW_MS, create_topic, one_record, produce, produce_many, resealed
from tests.siege.site import Site, press

PARTITIONS = 1000
LARGE = 900_000


@attack("8 connections produce batches of 900 KB, a gigabyte at most")
def large_batches(site: Site) -> None:
    press(site, produce(site.topic, one_record(LARGE)), lines=8, in_flight=5, most=1100)


@attack("50 connections produce one record each with acks=all, again and again")
def small_batches_to_be_synced(site: Site) -> None:
    press(site, produce(site.topic, one_record(), acks=-1), lines=50)


@attack("one connection pipelines one-record produces without end", minor=True)
def small_batches_pipelined(site: Site) -> None:
    press(site, produce(site.topic, one_record()), in_flight=5000)


@attack("4 connections produce to 1 000 partitions with each request, acks=all", spoils=True)
def produce_to_many_partitions(site: Site) -> None:
    create_topic(site, site.named("wide"), PARTITIONS)
    frame = produce_many(site.named("wide"), [(partition, one_record()) for partition in range(PARTITIONS)], acks=-1)
    press(site, frame, lines=4)


@attack("4 connections produce to 50 000 partitions that there are not with each request", minor=True)
def produce_to_unknown_partitions(site: Site) -> None:
    record = one_record(1)
    press(site, produce_many(site.topic, [(partition, record) for partition in range(4, 50_004)]), lines=4)


@attack("4 connections pipeline batches whose checksum is wrong", minor=True)
def batches_with_wrong_checksums(site: Site) -> None:
    damaged = bytearray(one_record())
    damaged[-1] ^= 1
    press(site, produce(site.topic, bytes(damaged)), lines=4, in_flight=50)


@attack("4 connections pipeline damaged batches with acks=0")
def damaged_batches_without_acks(site: Site) -> None:
    press(site, produce(site.topic, one_record()[:-7], acks=0), lines=4, in_flight=1 << 30)


@attack("4 connections produce as a new idempotent producer with every batch", minor=True)
def new_producers(site: Site) -> None:
    records = one_record()

    def frame(number: int) -> bytes:
        producer = (10_000 + number).to_bytes(8, "big") + bytes(2) + bytes(4)  # epoch 0, first sequence 0
        return produce(site.topic, resealed(records[:43] + producer + records[57:]))

    press(site, frame, lines=4, in_flight=20)


@attack("4 connections produce to a topic that begins a new segment with nearly every batch", spoils=True)
def new_segments(site: Site) -> None:
    create_topic(site, site.named("rolls"), segment_ms="1")
    frame_count = 5000

    def frame(number: int) -> bytes:
        return produce(site.named("rolls"), bytes(build(None, [b"x"], NOW_MS + 10 * number)))

    press(site, frame, lines=1, in_flight=4, most=frame_count)


@attack("8 connections produce records without a key to a compacted topic", minor=True)
def records_without_keys(site: Site) -> None:
    create_topic(site, site.named("compacted"), cleanup_policy="compact")
    press(site, produce(site.named("compacted"), bytes(build(None, [b"x"] * 10_000, NOW_MS))), lines=8)
