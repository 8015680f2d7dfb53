"""Tells the end of a process from that of the machine: what a process wrote outlives it in the page cache, until the next boot."""

from __future__ import annotations

from functools import cache
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@cache
def boot_id() -> str:
    """Return what no other boot of any machine has, or "" where the system does not tell."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""
