"""Decisions of `ottla.cluster` committed in the registry that brokers share, then true in this broker's image of it.

Each commit is a compare-and-set on what was read a moment ago: what is decided rests on what other brokers have written. Knows no
logs and no controller.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from ottla.broker.failures import CONFLICTS, MOST_RACES, Changes
from ottla.broker.membership.empty_entries import without_empty_users
from ottla.broker.membership.no_registry import NoRegistry
from ottla.broker.topics.commits import Commits, Decide, DecideOn, refused
from ottla.cluster import layout
from ottla.cluster.decision import Decision
from ottla.cluster.image import ClusterImage
from ottla.ports import NEW, Change, Entry, RegistryAway, SharedRegistry, Steps, StorageFailed
from ottla.wire.errors import REQUEST_TIMED_OUT, TOPIC_ALREADY_EXISTS, UNKNOWN_SERVER_ERROR

log = logging.getLogger("ottla.broker")

AWAY = "The registry of the cluster is unreachable, and the change may have been made: check it, and try again."
THERE = "Topic '{}' already exists, or is still being deleted: choose another name, or wait."
REFUSED = "The registry of the cluster refused the change: see the broker's log, and try again."

Announce = Callable[[Sequence[Change]], Sequence[Change]]
"""What has to be written besides, so that other brokers hear of these changes."""


class SharedCommits(Commits):
    """Commits for a broker of a cluster. Nothing is committed at once here: a registry over a network has to be waited for."""

    def __init__(
        self, registry: SharedRegistry, image: ClusterImage, changes: Changes, announce: Announce, known: set[str]
    ) -> None:
        """Add each entry that gets into the image to `known`."""
        super().__init__(NoRegistry(), image, changes)
        self._shared = registry
        self._announce = announce
        self._known = known

    def commit_slowly(self, decide: Decide) -> Steps[list[Decision]]:
        """As of a lone broker; where the registry is not reached, the change may have been made all the same."""
        return self.commit_read((), lambda entries: decide())

    def commit_read(self, reads: Sequence[str], decide: DecideOn) -> Steps[list[Decision]]:
        """Commit what is decided on entries read from the registry: the image lacks some of their content, or is behind."""
        return self.in_turn(self._decided(reads, decide))

    def _decided(self, reads: Sequence[str], decide: DecideOn) -> Steps[list[Decision]]:
        decisions = decide({})
        for _ in range(MOST_RACES):
            paths = list(dict.fromkeys((*reads, *(change.path for change in _changes(decisions)))))
            if not paths:
                return decisions
            try:
                entries = dict(zip(paths, (yield from self._shared.read(paths)), strict=True))
                self._take_in(entries)
                decisions = [_taken(decision, entries) for decision in decide(entries)]
                changes = _changes(decisions)
                if any(change.path not in entries for change in changes):
                    continue
                if changes:
                    yield from self._commit(changes, entries)
                return decisions
            except CONFLICTS as conflict:
                log.info("another broker was quicker to change %s", conflict)
            except RegistryAway as failure:
                log.warning("a change of the registry failed: %s", failure, extra={"cause": "a change given up"})
                return refused(decisions, REQUEST_TIMED_OUT, AWAY)
            except StorageFailed as failure:
                log.error("the registry refused a change: %s", failure, extra={"cause": "a refused change"})
                return refused(decisions, UNKNOWN_SERVER_ERROR, REFUSED)
        return refused(decisions, UNKNOWN_SERVER_ERROR, "Other brokers change the same things all the time: try again.")

    def _commit(self, changes: Sequence[Change], entries: Mapping[str, Entry | None]) -> Steps[None]:
        there = [change for change in changes if change.value is not None or entries[change.path] is not None]
        expected = [change._replace(version=_version(entries[change.path])) for change in there]
        guarded = yield from without_empty_users(self._shared, expected)
        self._changes.made = True
        yield from self._shared.commit([*guarded, *self._announce(changes)])
        self._apply((change.path, change.value) for change in changes)

    def _take_in(self, entries: Mapping[str, Entry | None]) -> None:
        """Let the image say what the registry says: notifications of it may be under way."""
        self._apply((path, None if entry is None else entry.value) for path, entry in entries.items())

    def _apply(self, values: Iterable[tuple[str, bytes | None]]) -> None:
        for path, value in values:
            if not _is_told(path):
                self._image.apply(path, value)
                if value is not None:
                    self._known.add(path)


def _is_told(path: str) -> bool:
    """Whether it is the controller that tells brokers of an entry: until then it is not in their image."""
    return path.startswith(f"{layout.TOPICS}/")


def _taken(decision: Decision, entries: Mapping[str, Entry | None]) -> Decision:
    """A decision that makes what is there already: the controller has not told of it yet, or it is being deleted."""
    if decision.error_code or all(change.version != NEW or entries.get(change.path) is None for change in decision.changes):
        return decision
    return replace(decision, error_code=TOPIC_ALREADY_EXISTS, message=THERE.format(decision.name))


def _changes(decisions: Sequence[Decision]) -> list[Change]:
    return [change for decision in decisions for change in decision.changes if not decision.error_code]


def _version(entry: Entry | None) -> int:
    return NEW if entry is None else entry.version
