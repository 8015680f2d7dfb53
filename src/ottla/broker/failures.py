"""Failures that are expected everywhere: a disk error, malformed bytes, or a registry write of another broker that came first.

A failure is answered where it happens if a client waits for a response; the scheduler logs all others and continues. Any other
exception is a bug.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from typing import TypeVar

from ottla.ports import Buffer, DuplicateEntry, NoEntry, StorageFailed, VersionConflict
from ottla.values import dataclass
from ottla.wire import Malformed

log = logging.getLogger("ottla.broker")

CONFLICTS = (DuplicateEntry, NoEntry, VersionConflict)
"""Exceptions of the registry after another broker's write came first."""

MOST_RACES = 10
"""Attempts to change the registry when writes of other brokers come first. Entries are read before each attempt."""

EXPECTED = (StorageFailed, Malformed, *CONFLICTS)

SHOWN_BYTES = 200
MISTAKEN = "%s met a bug in Ottla and was refused; please report these lines. It begins with %s"

Paused = TypeVar("Paused")
Resumed = TypeVar("Resumed")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Mistake:
    """The result of work that raised an unexpected exception, which is a bug in the broker, before it changed anything."""

    error: Exception


class Changes:
    """The record of whether the current request has changed a log, a coordinator or the registry.

    Before its first change, an unexpected exception fails the request alone, because there is nothing to undo. The caller that
    refuses the request counts it in `mistakes`.
    """

    __slots__ = ("made", "mistakes")

    def __init__(self) -> None:
        self.made = False
        self.mistakes = 0

    def report(self, error: Exception, what: str, frame: Buffer) -> None:
        """Log an unexpected exception that fails only one request or a part of it, with the request's first bytes, and count it."""
        self.mistakes += 1
        log.error(MISTAKEN, what, first_bytes(frame), exc_info=error, extra={"cause": "mistake"})

    def attempt(self, work: Callable[[], Result]) -> Result | Mistake:
        """Return the result of `work`; return a `Mistake` if it raises an unexpected exception and has changed nothing."""
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

    def attempt_steps(
        self, steps: Generator[Paused, Resumed | None, Result]
    ) -> Generator[Paused, Resumed | None, Result | Mistake]:
        """Return the result of `steps`, or a `Mistake` if a step raises an unexpected exception before it changes anything.

        The state is consistent at each pause, so the changes of earlier steps remain.
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


def first_bytes(frame: Buffer) -> str:
    """Return the first bytes of a request in hexadecimal, for the log."""
    return bytes(frame[:SHOWN_BYTES]).hex()
