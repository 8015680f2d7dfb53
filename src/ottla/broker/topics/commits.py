"""Decisions of `ottla.cluster` made durable in the registry, then true in this broker's image of it. Knows no logs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from ottla.broker.failures import CONFLICTS, MOST_RACES, Changes
from ottla.cluster.decision import Decision
from ottla.cluster.image import ClusterImage
from ottla.ports import Change, Registry, StorageFailed
from ottla.wire.errors import KAFKA_STORAGE_ERROR, UNKNOWN_SERVER_ERROR

log = logging.getLogger("ottla.broker")


class Commits:
    """Commits decisions, all that are made together or none, and decides again where another broker was quicker."""

    def __init__(self, registry: Registry, image: ClusterImage, changes: Changes) -> None:
        self._registry = registry
        self._image = image
        self._changes = changes

    def commit(self, decide: Callable[[], list[Decision]], decided: list[Decision] | None = None) -> list[Decision]:
        """Commit what `decide` returns and apply it to the image; a registry that refuses turns it into errors.

        `decided`, if given, is what `decide` returned just now.
        """
        for _ in range(MOST_RACES):
            decisions = decide() if decided is None else decided
            changes = [change for decision in decisions for change in decision.changes]
            if not changes:
                return decisions
            self._changes.made = True
            try:
                self._registry.commit(changes)
            except CONFLICTS as conflict:
                log.info("another broker was quicker to change %s", conflict)
                self._look_again(changes)
                decided = None
            except StorageFailed as failure:
                return storage_refused(decisions, failure)
            else:
                self._image.apply_all(changes)
                return decisions
        return _refused(decide(), UNKNOWN_SERVER_ERROR, "Other brokers change the same things all the time: try again.")

    def lead(self, states: Sequence[Change]) -> None:
        """Let new partitions have their leader. What the registry refuses is made good by the next start."""
        try:
            self._registry.commit(states)
        except CONFLICTS as conflict:
            log.info("another broker was quicker to note who leads new partitions: %s", conflict)
        except StorageFailed as failure:
            log.error("the registry refused to note who leads new partitions: %s", failure)
        self._image.apply_all(states)

    def _look_again(self, changes: Iterable[Change]) -> None:
        """Bring the image up to date with all that these changes would have touched."""
        for change in changes:
            entry = self._registry.get(change.path)
            self._image.apply(change.path, None if entry is None else entry.value)


def storage_refused(decisions: Iterable[Decision], failure: StorageFailed) -> list[Decision]:
    """These decisions as refused by the disk."""
    log.error("a change of topics was refused: %s", failure)
    sentence = "The broker's disk refused the change: look at its log, and try again when there is room."
    return _refused(decisions, KAFKA_STORAGE_ERROR, sentence)


def _refused(decisions: Iterable[Decision], error_code: int, sentence: str) -> list[Decision]:
    return [one if one.error_code else replace(one, error_code=error_code, message=sentence) for one in decisions]
