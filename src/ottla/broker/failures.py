"""The failures that are expected everywhere: the disk refuses, bytes are malformed, another broker was quicker in the registry.

They are answered where they happen, if anybody waits for an answer; the scheduler logs all others and goes on. Any other exception
is a bug.
"""

from __future__ import annotations

from ottla.ports import EntryExists, NoEntry, StorageFailed, VersionConflict
from ottla.wire import Malformed

CONFLICTS = (EntryExists, NoEntry, VersionConflict)
"""What a registry raises when another broker was quicker."""

MOST_RACES = 10
"""How often a change of the registry is tried while others are quicker, each time after another look."""

EXPECTED = (StorageFailed, Malformed, *CONFLICTS)


class Changes:
    """Whether the request at hand has changed anything: a log, a coordinator, the registry.

    Until then an unexpected exception costs that request alone: there is nothing to undo.
    """

    __slots__ = ("made",)

    def __init__(self) -> None:
        self.made = False
