"""Decisions of `ottla.cluster` made durable in the registry, then true in this broker's image of it. Knows no logs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from ottla.broker.failures import CONFLICTS, MOST_RACES, Changes
from ottla.broker.serial_jobs import InTurn
from ottla.cluster.decision import Decision
from ottla.cluster.image import ClusterImage
from ottla.ports import Change, CommitSteps, Entry, Registry, Steps, StorageFailed
from ottla.wire.errors import KAFKA_STORAGE_ERROR, UNKNOWN_SERVER_ERROR

log = logging.getLogger("ottla.broker")

T = TypeVar("T")
Decide = Callable[[], list[Decision]]
DecideOn = Callable[[Mapping[str, Entry | None]], list[Decision]]
"""Decides on entries as they were read, by their paths; where one was not read, on the image."""


class Commits:
    """Commits decisions, all that are made together or none, and decides again where another broker was quicker.

    What is committed slowly takes turns, and decides when it is its turn: on an image that holds all that was committed before.
    """

    def __init__(self, registry: Registry, image: ClusterImage, changes: Changes) -> None:
        self._registry = registry
        self._image = image
        self._changes = changes
        self._turns = InTurn()

    def commit_slowly(self, decide: Decide) -> Steps[list[Decision]]:
        """Commit what `decide` returns and apply it to the image; a registry that refuses turns it into errors.

        These steps must be taken to their end.
        """
        return self.in_turn(self._committed(decide, self._commit_beside))

    def commit_read(self, reads: Sequence[str], decide: DecideOn) -> Steps[list[Decision]]:
        """Commit what is decided on these entries of the registry. The image of a lone broker has the same content."""
        return self.commit_slowly(lambda: decide({}))

    def commit(self, decide: Decide) -> list[Decision]:
        """The same now, on this thread: for rare changes of what no slow commit is about, and of what must be new in the registry.

        There, a conflict tells if a slow commit that is under way was quicker.
        """
        return _at_once(self._committed(decide, self._commit_at_once))

    def in_turn(self, steps: Steps[T]) -> Steps[T]:
        """Take these steps when all others before are over, and have others wait for them."""
        return self._turns.steps(steps)

    def lead(self, states: Sequence[Change]) -> None:
        """Let new partitions have their leader, now. What the registry refuses is made good by the next start."""
        _at_once(self._led(states, self._commit_at_once))

    def lead_slowly(self, states: Callable[[], Sequence[Change]]) -> Steps[None]:
        """The same in its turn, for those that are then to have one."""

        def lead() -> Steps[None]:
            yield from self._led(states(), self._commit_beside)

        return self.in_turn(lead())

    def _committed(self, decide: Decide, commit: Callable[[Sequence[Change]], CommitSteps]) -> Steps[list[Decision]]:
        for _ in range(MOST_RACES):
            decisions = decide()
            changes = [change for decision in decisions for change in decision.changes if not decision.error_code]
            if not changes:
                return decisions
            read = yield from self._image.read_slowly(changes)
            try:
                yield from commit(changes)
            except CONFLICTS as conflict:
                log.info("another broker was quicker to change %s", conflict)
                self._look_again(changes)
            except StorageFailed as failure:
                return storage_refused(decisions, failure)
            else:
                self._image.apply_all(changes, read)
                return decisions
        return refused(decide(), UNKNOWN_SERVER_ERROR, "Other brokers change the same things all the time: try again.")

    def _led(self, states: Sequence[Change], commit: Callable[[Sequence[Change]], CommitSteps]) -> Steps[None]:
        if not states:
            return
        try:
            yield from commit(states)
        except CONFLICTS as conflict:
            log.info("another broker was faster to store the leaders of new partitions: %s", conflict)
        except StorageFailed as failure:
            log.error("the registry refused to store the leaders of new partitions: %s", failure, extra={"cause": "new leaders"})
        self._image.apply_all(states)

    def _commit_at_once(self, changes: Sequence[Change]) -> CommitSteps:
        self._changes.made = True
        self._registry.commit(changes)
        yield from ()

    def _commit_beside(self, changes: Sequence[Change]) -> CommitSteps:
        steps = self._registry.commit_slowly(changes)
        resumed: StorageFailed | None = None
        try:
            while True:
                self._changes.made = True  # with each step: a mistake in any of them must not look as if nothing had happened
                resumed = yield steps.send(resumed)
        except StopIteration:
            return

    def _look_again(self, changes: Iterable[Change]) -> None:
        """Bring the image up to date with all that these changes would have touched."""
        for change in changes:
            entry = self._registry.get(change.path)
            self._image.apply(change.path, None if entry is None else entry.value)


def _at_once(steps: Generator[object, None, T]) -> T:
    """What steps come to that wait for nothing."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        result: T = end.value
        return result


def storage_refused(decisions: Iterable[Decision], failure: StorageFailed) -> list[Decision]:
    """These decisions as refused by the disk."""
    log.error("a change of topics was refused: %s", failure, extra={"cause": "a change of topics"})
    sentence = "The broker's disk refused the change: see the broker's log, and try again."
    return refused(decisions, KAFKA_STORAGE_ERROR, sentence)


def refused(decisions: Iterable[Decision], error_code: int, sentence: str) -> list[Decision]:
    return [one if one.error_code else replace(one, error_code=error_code, message=sentence) for one in decisions]
