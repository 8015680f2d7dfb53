"""Batches that are small on the network and large, or many, or slow once opened."""

from __future__ import annotations

import random

from ottla.records.batches.builder import build
from tests.siege.attack import attack
from tests.siege.making import GZIP, LZ4, NOW_MS, SNAPPY, ZSTD, bomb, create_topic, produce, produce_many, resealed
from tests.siege.site import Site, press

LINES = 8


@attack("8 connections produce a valid zstd record of 120 MB in 3.7 KB")
def zstd_bomb(site: Site) -> None:
    press(site, produce(site.topic, bomb(ZSTD, 120_000_000)), lines=LINES)


@attack("8 connections produce a valid gzip record of 120 MB in 117 KB")
def gzip_bomb(site: Site) -> None:
    press(site, produce(site.topic, bomb(GZIP, 120_000_000)), lines=LINES)


@attack("8 connections produce a valid lz4 record of 120 MB in 470 KB")
def lz4_bomb(site: Site) -> None:
    press(site, produce(site.topic, bomb(LZ4, 120_000_000)), lines=LINES)


@attack("8 connections produce a valid snappy record of 20 MB in 940 KB", minor=True)
def snappy_bomb(site: Site) -> None:
    press(site, produce(site.topic, bomb(SNAPPY, 20_000_000)), lines=LINES)


@attack("8 connections produce a zstd record of 400 MB in 12 KB", minor=True)
def zstd_bomb_beyond_limits(site: Site) -> None:
    press(site, produce(site.topic, bomb(ZSTD, 400_000_000)), lines=LINES)


@attack("8 connections produce 120 MB of zstd that is damaged at its very end")
def zstd_bomb_that_is_damaged(site: Site) -> None:
    press(site, produce(site.topic, resealed(bomb(ZSTD, 120_000_000)[:-3])), lines=LINES)


@attack("4 connections produce requests with a zstd bomb of 50 MB for each of four partitions", minor=True)
def zstd_bombs_for_many_partitions(site: Site) -> None:
    small = bomb(ZSTD, 50_000_000)
    press(site, produce_many(site.topic, [(partition, small) for partition in range(4)]), lines=4)


@attack("64 connections produce a zstd record of 10 MB each")
def zstd_bombs_from_many_connections(site: Site) -> None:
    press(site, produce(site.topic, bomb(ZSTD, 10_000_000)), lines=64)


@attack("4 connections produce zstd batches of 1 000 000 empty records")
def millions_of_records(site: Site) -> None:
    records = bytes(build(None, [b""] * 1_000_000, NOW_MS, codec=ZSTD))
    press(site, produce(site.topic, records), lines=4)


@attack("8 connections produce batches of 100 000 empty records, not compressed", minor=True)
def many_small_records(site: Site) -> None:
    records = bytes(build(None, [b""] * 100_000, NOW_MS))
    press(site, produce(site.topic, records), lines=LINES, most=1000)


@attack("8 connections produce a record with 100 000 headers", minor=True)
def many_headers(site: Site) -> None:
    records = bytes(build(None, [b""], NOW_MS, [[("h", b"")] * 100_000]))
    press(site, produce(site.topic, records), lines=LINES, most=2000)


@attack("8 connections produce batches of 900 KB to a topic that compresses with gzip anew", minor=True)
def compressed_anew_with_gzip(site: Site) -> None:
    create_topic(site, site.named("gzip"), compression_type="gzip")
    records = bytes(build(None, [random.Random(1).randbytes(900) for _ in range(1000)], NOW_MS))
    press(site, produce(site.named("gzip"), records), lines=LINES, most=2000)


@attack("8 connections produce bombs of 20 MB to a topic that compresses with zstd of level 19 anew")
def compressed_anew_with_zstd(site: Site) -> None:
    create_topic(site, site.named("zstd"), compression_type="zstd", compression_zstd_level="19")
    press(site, produce(site.named("zstd"), bomb(LZ4, 20_000_000)), lines=LINES, most=2000)
