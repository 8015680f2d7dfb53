"""The real clock."""

from __future__ import annotations

import time

from ottla.ports import Now


class RealClock:
    """Implements `ottla.ports.Clock`."""

    def now(self) -> Now:
        return Now(time.time_ns() // 1_000_000, time.monotonic_ns() // 1_000_000)
