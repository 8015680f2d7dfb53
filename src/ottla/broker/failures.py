"""The failures that are expected everywhere: the disk refuses, bytes are malformed, another broker was quicker in the registry.

They are answered where they happen, if anybody waits for an answer; the scheduler logs all others and goes on. Any other exception
is a bug.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TypeVar

from ottla.ports import EntryExists, NoEntry, StorageFailed, VersionConflict
from ottla.wire import Malformed

CONFLICTS = (EntryExists, NoEntry, VersionConflict)
"""What a registry raises when another broker was quicker."""

MOST_RACES = 10
"""How often a change of the registry is tried while others are quicker, each time after another look."""

EXPECTED = (StorageFailed, Malformed, *CONFLICTS)


Paused = TypeVar("Paused")
Resumed = TypeVar("Resumed")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Mistake:
    """What a request comes to that met an unexpected exception before it changed anything."""

    error: Exception


class Changes:
    """Whether the request at hand has changed anything: a log, a coordinator, the registry.

    Until then an unexpected exception costs that request alone: there is nothing to undo. Whoever refuses one for it counts it in
    `mistakes`.
    """

    __slots__ = ("made", "mistakes")

    def __init__(self) -> None:
        self.made = False
        self.mistakes = 0

    def attempted(self, work: Callable[[], Result]) -> Result | Mistake:
        """What `work` comes to; a `Mistake` if it meets an unexpected exception and has changed nothing."""
        made, self.made = self.made, False
        try:
            return work()
        except EXPECTED:
            raise
        except Exception as error:
            if self.made:
                raise
            return Mistake(error)
        finally:
            self.made = self.made or made

    def spared(self, steps: Generator[Paused, Resumed | None, Result]) -> Generator[Paused, Resumed | None, Result | Mistake]:
        """The same steps, where an unexpected exception in one that has changed nothing makes the result a `Mistake`.

        At each pause everything is in order for others, so what the steps before it have changed can stay.
        """
        resumed: Resumed | None = None
        try:
            while True:
                made, self.made = self.made, False
                try:
                    paused = steps.send(resumed)
                except StopIteration as end:
                    result: Result = end.value
                    return result
                except EXPECTED:
                    raise
                except Exception as error:
                    if self.made:
                        raise
                    return Mistake(error)
                finally:
                    self.made = self.made or made
                resumed = yield paused
        finally:
            steps.close()
