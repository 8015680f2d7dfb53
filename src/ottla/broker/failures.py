"""What may go wrong without anything being wrong with the broker: the failures that are expected everywhere, and no others.

The disk refuses, bytes are not what they should be, another one was quicker in the registry. Whoever can answer such a failure
does so where it happens; the scheduler logs what nobody answered and goes on. Every other exception is a mistake of ours.
"""

from __future__ import annotations

from ottla.ports import EntryExists, NoEntry, StorageFailed, VersionConflict
from ottla.wire import Malformed

CONFLICTS = (EntryExists, NoEntry, VersionConflict)
"""What a registry raises when somebody else was quicker."""

MOST_RACES = 10
"""How often one change is tried that others are quicker with, each time after another look."""

EXPECTED = (StorageFailed, Malformed, *CONFLICTS)


class Changes:
    """Whether the request at hand has changed anything: a log, a coordinator, the registry.

    Until then an exception costs that request alone, for whoever only read and decided has nothing to take back.
    """

    __slots__ = ("made",)

    def __init__(self) -> None:
        self.made = False
