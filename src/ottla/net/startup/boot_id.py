"""The id of the machine's boot. If it has not changed, the page cache still contains what a killed process had written."""

from __future__ import annotations

from functools import cache
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@cache
def boot_id() -> str:
    """Return an id that no other boot of any machine has, or "" if the operating system offers none."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""
