"""The real clock."""

from __future__ import annotations

from time import monotonic_ns, time_ns

from ottla.ports import Now

_new = tuple.__new__


class RealClock:
    """The real clock of this process; implements `ottla.ports.Clock`."""

    def now(self) -> Now:
        # equals `Now(...)`, in half the time: the clock is read twice for each batch of requests
        return _new(Now, (time_ns() // 1_000_000, monotonic_ns() // 1_000_000))
