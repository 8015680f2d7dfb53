"""What a process holds, seen from outside."""

from __future__ import annotations

import psutil


def resident_mb(pid: int) -> float:
    return float(psutil.Process(pid).memory_info().rss) / 1e6
