"""Batches that are small on the network and large or slow once opened."""

from __future__ import annotations

from tests.siege.attack import attack
from tests.siege.making import GZIP, LZ4, SNAPPY, ZSTD, bomb, produce
from tests.siege.site import Site, press


@attack("8 connections produce a valid zstd record of 120 MB in 3.7 KB")
def zstd_bomb(site: Site) -> None:
    press(site, produce(site.topic, bomb(ZSTD, 120_000_000)), lines=8)


@attack("8 connections produce a valid gzip record of 120 MB in 117 KB")
def gzip_bomb(site: Site) -> None:
    press(site, produce(site.topic, bomb(GZIP, 120_000_000)), lines=8)


@attack("8 connections produce a valid lz4 record of 120 MB in 470 KB")
def lz4_bomb(site: Site) -> None:
    press(site, produce(site.topic, bomb(LZ4, 120_000_000)), lines=8)


@attack("8 connections produce a valid snappy record of 20 MB in 940 KB")
def snappy_bomb(site: Site) -> None:
    press(site, produce(site.topic, bomb(SNAPPY, 20_000_000)), lines=8)
