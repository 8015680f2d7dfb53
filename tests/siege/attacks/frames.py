"""Frames that are announced and never come, come byte by byte, or are no frames at all."""

from __future__ import annotations

import struct

from tests.siege.attack import attack
from tests.siege.site import Site, hold, press

ANNOUNCED_BYTES = 95_000_000


@attack("20 connections announce 95 MB each, send most of it and never the end")
def announced_and_never_finished(site: Site) -> None:
    announced = struct.pack(">ihhih", ANNOUNCED_BYTES, 0, 7, 1, -1) + bytes(ANNOUNCED_BYTES - 64)
    press(site, announced, lines=20, most=20)


@attack("2 000 connections send half a frame, and one byte more each second")
def half_frames(site: Site) -> None:
    hold(site, 2000, first=struct.pack(">ihhih", 1000, 3, 1, 1, -1), drip=b"\x00")
