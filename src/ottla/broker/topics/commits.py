"""Decisions of `ottla.cluster` committed to the registry, and then applied to this broker's image.

Each commit is a compare-and-set on versions read just before, so that each decision takes other brokers' writes into account.
Independent of logs and the controller.

Empty user entries are removed, as Apache Kafka does, unless another broker adds a quota below them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from ottla.broker.failures import CONFLICTS, MOST_RACES, Changes
from ottla.broker.scheduler import InTurn
from ottla.cluster import layout
from ottla.cluster.decision import Decision
from ottla.cluster.image import ClusterImage
from ottla.cluster.metadata_updates import apply_setting
from ottla.cluster.registry_entries import settings_in
from ottla.ports import (
    NEW,
    Change,
    CommitSteps,
    Condition,
    Entry,
    RegistryAway,
    RegistryRefused,
    SharedRegistry,
    Steps,
    StorageFailed,
)
from ottla.wire.errors import KAFKA_STORAGE_ERROR, REQUEST_TIMED_OUT, TOPIC_ALREADY_EXISTS, UNKNOWN_SERVER_ERROR

log = logging.getLogger("ottla.broker")

AWAY = "The registry of the cluster is not reached: whether the change was made is unknown; look, and try again."
THERE = "Topic '{}' already exists, or is still being deleted: choose another name, or wait."
REFUSED = "The registry of the cluster refused the change: look at the broker's log, and try again."
FULL = "The broker's disk refused the change: look at its log, and try again when there is room."
RACES = "Other brokers change the same things all the time: try again."

Decide = Callable[[], list[Decision]]
DecideOn = Callable[[Mapping[str, Entry | None]], list[Decision]]
"""Makes decisions, based on entries that were just read, given by path, and on the image."""

Announce = Callable[[Sequence[Change]], Sequence[Change]]
"""Returns the notifications that announce the given changes to other brokers, as further changes."""

PREFIX = f"{layout.USER_CONFIGS}/"


def _without_empty_users(registry: SharedRegistry, changes: Sequence[Change]) -> Steps[list[Change | Condition]]:
    """Return these changes, extended by the removal of user entries that they leave empty.

    `changes` contain the versions that were read. The entry of a user with a quota for some client id is emptied instead of
    removed.
    """
    users = list(dict.fromkeys(_user_of(change) for change in changes if change.value is None and change.path.startswith(PREFIX)))
    if not users:
        return [*changes]
    below = [f"{user}/clients" for user in users]
    entries = yield from registry.read([*users, *below])
    listed = yield from registry.list(below)
    kept: list[Change | Condition] = [change for change in changes if _user_of(change) not in users]
    found = dict(zip((*users, *below), entries, strict=True))
    for user, names in zip(users, listed, strict=True):
        kept += _of_user(user, found, names or (), [change for change in changes if _user_of(change) == user])
    return kept


def _user_of(change: Change) -> str:
    """Return the path of the user entry that a change modifies or is below; "" if there is none."""
    return PREFIX + change.path.removeprefix(PREFIX).partition("/")[0] if change.path.startswith(PREFIX) else ""


def _of_user(
    user: str, entries: Mapping[str, Entry | None], names: Sequence[str], changes: Sequence[Change]
) -> list[Change | Condition]:
    entry, clients = entries[user], entries[f"{user}/clients"]
    own = next((change for change in changes if change.path == user), None)
    pairs = [change for change in changes if change is not own]
    left = {f"{user}/clients/{name}" for name in names} - {pair.path for pair in pairs if pair.value is None}
    is_set = own.value is not None if own is not None else entry is not None and bool(layout.configs_in(entry.value))
    if entry is not None and not is_set and not left and all(pair.value is None for pair in pairs):
        version = entry.version if own is None or own.version is None else own.version
        checked = [Condition(f"{user}/clients", NEW if clients is None else clients.version)]
        checked += [Condition(pair.path, pair.version) for pair in pairs if pair.version is not None]
        return [*checked, Change(user, None, version)]
    if own is not None and own.value is None:
        return [own._replace(value=layout.config_json({})), *pairs]
    return [*changes]


class Commits:
    """The commits of changes to the registry. If another broker's commit came first, the decision is made again.

    Commits run one after another, and the image contains all earlier commits when a decision is made.
    """

    def __init__(
        self, registry: SharedRegistry, image: ClusterImage, changes: Changes, announce: Announce, known: set[str]
    ) -> None:
        """Create the committer of changes. `known` are the paths of the image's entries, to which commits add new entries."""
        self._registry = registry
        self._image = image
        self._changes = changes
        self._announce = announce
        self._known = known
        self._turns = InTurn()

    def commit_slowly(self, decide: Decide) -> Steps[list[Decision]]:
        """Commit the decisions of `decide` and apply them to the image. A registry error becomes an error code.

        The steps must run to their end. If the registry becomes unreachable, the change may have been made.
        """
        return self.commit_read((), lambda entries: decide())

    def commit_read(self, reads: Sequence[str], decide: DecideOn) -> Steps[list[Decision]]:
        """Commit decisions based on newly read entries at `reads`, which the image lacks or has in older versions."""
        return self._turns.steps(self._decide(reads, decide))

    def _decide(self, reads: Sequence[str], decide: DecideOn) -> Steps[list[Decision]]:
        decisions = decide({})
        for _ in range(MOST_RACES):
            paths = list(dict.fromkeys((*reads, *(change.path for change in _changes(decisions)))))
            if not paths:
                return decisions
            try:
                entries = dict(zip(paths, (yield from self._registry.read(paths)), strict=True))
                self._load(entries)
                decisions = [_refuse_taken(decision, entries) for decision in decide(entries)]
                changes = _changes(decisions)
                if any(change.path not in entries for change in changes):
                    continue
                if changes:
                    yield from self._commit(changes, entries)
                return decisions
            except CONFLICTS as conflict:
                log.info("another broker was quicker to change %s", conflict)
            except RegistryAway as failure:
                log.warning("a change of the registry was given up: %s", failure, extra={"cause": "a change given up"})
                return refuse(decisions, REQUEST_TIMED_OUT, AWAY)
            except RegistryRefused as failure:
                log.error("the registry refused a change: %s", failure, extra={"cause": "a refused change"})
                return refuse(decisions, UNKNOWN_SERVER_ERROR, REFUSED)
            except StorageFailed as failure:
                log.error("a change of topics was refused: %s", failure, extra={"cause": "a refused change"})
                return refuse(decisions, KAFKA_STORAGE_ERROR, FULL)
        return refuse(decisions, UNKNOWN_SERVER_ERROR, RACES)

    def _commit(self, changes: Sequence[Change], entries: Mapping[str, Entry | None]) -> Steps[None]:
        there = [change for change in changes if change.value is not None or entries[change.path] is not None]
        expected = [change._replace(version=_version(entries[change.path])) for change in there]
        guarded = yield from _without_empty_users(self._registry, expected)
        yield from self._mark_changes(self._registry.commit([*guarded, *self._announce(changes)]))
        self._apply((change.path, change.value, _version(entries[change.path]) + 1) for change in changes)

    def _mark_changes(self, steps: CommitSteps) -> CommitSteps:
        """Run the steps of a commit. Mark each as a change, so that a bug in it is not treated as free of effects."""
        resumed: StorageFailed | None = None
        try:
            while True:
                self._changes.made = True
                resumed = yield steps.send(resumed)
        except StopIteration:
            return

    def _load(self, entries: Mapping[str, Entry | None]) -> None:
        """Load these entries into the image, because notifications of their changes may not have arrived yet."""
        self._apply((path, None if entry is None else entry.value, _version(entry)) for path, entry in entries.items())

    def _apply(self, values: Iterable[tuple[str, bytes | None, int]]) -> None:
        for path, value, version in values:
            for setting in settings_in(path, value, version):
                apply_setting(self._image, setting)
                if value is not None:
                    self._known.add(path)


def alone(changes: Sequence[Change]) -> Sequence[Change]:
    """Return an empty list of notifications, because there is no other broker to notify."""
    return ()


def _refuse_taken(decision: Decision, entries: Mapping[str, Entry | None]) -> Decision:
    """Return a refusal if a decision creates an entry that exists. Return other decisions unchanged.

    The entry exists although the image lacks the topic if the controller has not sent the topic yet, or is deleting it.
    """
    if decision.error_code or all(change.version != NEW or entries.get(change.path) is None for change in decision.changes):
        return decision
    return replace(decision, error_code=TOPIC_ALREADY_EXISTS, message=THERE.format(decision.name))


def _changes(decisions: Sequence[Decision]) -> list[Change]:
    return [change for decision in decisions for change in decision.changes if not decision.error_code]


def _version(entry: Entry | None) -> int:
    return NEW if entry is None else entry.version


def refuse(decisions: Iterable[Decision], error_code: int, sentence: str) -> list[Decision]:
    return [one if one.error_code else replace(one, error_code=error_code, message=sentence) for one in decisions]
