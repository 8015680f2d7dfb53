"""Configs, quotas, credentials, ACLs, delegation tokens and feature levels from the cluster's registry.

They are read at startup and at the beginning of each session. In between, brokers notify each other of changed entries
(`ottla.cluster.announcements`). Topics, brokers and roles come from the controller.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from ottla.broker.failures import CONFLICTS
from ottla.broker.retries import Repeats
from ottla.broker.scheduler import Scheduler
from ottla.cluster import announcements, layout
from ottla.cluster.announcements import Announcements
from ottla.cluster.image import ClusterImage
from ottla.cluster.metadata import MetadataSink
from ottla.cluster.registry_entries import settings_in
from ottla.ports import Change, Entry, Now, SharedRegistry, Steps, StorageFailed

log = logging.getLogger("ottla.broker")

READ_AT_ONCE: Final = 200
KEPT_MS: Final = 15 * 60 * 1000
"""Lifetime of a notification, in ms, for brokers that are briefly disconnected."""
REMOVED_AT_ONCE: Final = 100
RETRY_MS: Final = 500
MOST_RETRY_MS: Final = 2_000

WATCHED: Final = (layout.FEATURES, layout.UNKNOWN_USERS)
"""Entries that are watched directly, because no notification announces their changes."""

REMOVED: Final = (None, 0)
"""The value and version of an entry that does not exist."""

Item = TypeVar("Item")


class Notifications:
    """The source of the metadata that brokers read from the registry. Implements `ottla.cluster.metadata.MetadataSource`.

    Changed entries are read one batch at a time. If notifications arrive meanwhile, reading continues with them.
    """

    def __init__(
        self, registry: SharedRegistry, image: ClusterImage, scheduler: Scheduler, sink: MetadataSink, known: set[str]
    ) -> None:
        """Create the source of metadata. `known` are the paths of the image's entries; commits of this broker add paths."""
        self._registry = registry
        self._image = image
        self._scheduler = scheduler
        self._sink = sink
        self._seen: dict[str, int] = {}
        """When each notification was first seen, by path: monotonic ms."""
        self._told: dict[str, None] = {}
        """The entries named in notifications, until they are read and applied."""
        self._known = known
        self._is_due = False
        self._is_all_due = False
        self._repeats = Repeats(RETRY_MS, MOST_RETRY_MS)

    def load(self) -> Steps[str]:
        """Read everything, watch for changes, and return a message about an invalid entry; "" if all are valid.

        Notifications are listed first, so that no change is missed. Their entries can be read twice.
        """
        yield from self._new()
        paths = yield from self._paths()
        return (yield from self._read([*paths, *sorted(self._known.union(self._told).difference(paths))]))

    def load_again(self, now: Now) -> None:
        """Read everything in a new session, because notifications may have been missed."""
        self._is_all_due = True
        self._process_if_changed()

    def read_again(self, paths: Iterable[str]) -> None:
        """Read these entries as soon as the registry is reachable, because an earlier read failed."""
        self._told.update(dict.fromkeys(paths))
        self._process_if_changed()

    def _on_change(self, path: str) -> None:
        self._process_if_changed()

    def _process_if_changed(self) -> None:
        self._is_due = True
        self._scheduler.begin("notifications", self._process_steps(), lambda _: self._repeats.over(), self._on_failure)

    def _on_failure(self, failure: Exception) -> None:
        self._repeats.log_once(log, logging.INFO, "changes of settings and ACLs could not be read; it is retried: %s", failure)
        self._scheduler.at(
            "notifications", self._scheduler.now().mono_ms + self._repeats.pause_ms(), lambda now: self._process_if_changed()
        )

    def _process_steps(self) -> Steps[None]:
        while self._is_due:
            self._is_due = False
            if self._is_all_due:
                yield from self.load()
                self._is_all_due = False
            else:
                yield from self._new()
                yield from self._read([*self._told, *WATCHED])
        yield from self._forget_old()

    def _new(self) -> Steps[None]:
        """Record the entries that new notifications name, each entry once."""
        listed = yield from self._registry.list([each.path for each in announcements.ALL], changed=self._on_change)
        now_ms = self._scheduler.now().mono_ms
        seen: dict[str, int] = {}
        new: list[tuple[Announcements, str]] = []
        for where, names in zip(announcements.ALL, listed, strict=True):
            for name in names or ():
                path = f"{where.path}/{name}"
                if path not in self._seen:
                    new.append((where, path))
                seen[path] = self._seen.get(path, now_ms)
        for some in _pieces(new):
            entries = yield from self._registry.read([path for _, path in some])
            for (where, path), entry in zip(some, entries, strict=True):
                if entry is not None:
                    self._understand(where, path, entry.value)
        self._seen = seen

    def _understand(self, where: Announcements, path: str, value: bytes) -> None:
        try:
            self._told[announcements.parse_notification(where, value)] = None
        except ValueError as error:
            log.warning("the notification %s cannot be parsed (%s), and is ignored", path, error)

    def _paths(self) -> Steps[list[str]]:
        """Return the paths of all registry entries in the image, except topics, brokers and the controller."""
        found = [*WATCHED]
        found += yield from self._below((layout.BROKER_CONFIGS, *layout.OTHER_CONFIGS))
        users = [path for path in found if path.startswith(f"{layout.USER_CONFIGS}/")]
        found += yield from self._below([f"{path}/clients" for path in users])
        found += yield from self._below((yield from self._below(tuple(layout.ACLS.values()))))
        found += yield from self._below((layout.DELEGATION_TOKENS,))
        found += (layout.topic_config_path(name) for name in self._image.topics)
        return found

    def _below(self, paths: Sequence[str]) -> Steps[list[str]]:
        found: list[str] = []
        for some in _pieces(paths):
            listed = yield from self._registry.list(some)
            found += (f"{path}/{name}" for path, names in zip(some, listed, strict=True) for name in names or ())
        return found

    def _read(self, paths: Iterable[str]) -> Steps[str]:
        """Load these entries into the image, except entries that can't be decoded. Return a message about one of these, else "".

        Changes take effect after all entries are read. Until then changes are recorded, and notifications are kept, so that nothing
        is lost if the registry disconnects between two reads.
        """
        fault, wanted = "", list(paths)
        for some in _pieces(wanted):
            watched = [path for path in some if path in WATCHED]
            if watched:
                entries = yield from self._registry.read(watched, changed=self._on_change)
                fault = self._apply(watched, entries) or fault
            others = [path for path in some if path not in watched]
            entries = yield from self._registry.read(others)
            fault = self._apply(others, entries) or fault
            yield None
        yield from self._sink.apply_events()
        for path in wanted:
            self._told.pop(path, None)
        return fault

    def _apply(self, paths: Sequence[str], entries: Sequence[Entry | None]) -> str:
        fault = ""
        for path, entry in zip(paths, entries, strict=True):
            if entry is None and path not in self._known:
                continue
            try:
                settings = settings_in(path, *(entry or REMOVED)[:2])
            except layout.NOT_UNDERSTOOD as error:
                why = layout.why(error)
                fault = f"The registry's entry {path} cannot be parsed ({why}): repair it with ZooKeeper's own tools, or remove it."
                log.error("%s", fault)
                continue
            self._sink.learn(settings)
            (self._known.discard if entry is None else self._known.add)(path)
        return fault

    def _forget_old(self) -> Steps[None]:
        """Remove notifications that all brokers have had time to read. Another broker can remove them first."""
        before_ms = self._scheduler.now().mono_ms - KEPT_MS
        old = [path for path, seen_ms in self._seen.items() if seen_ms < before_ms][:REMOVED_AT_ONCE]
        for path in old:
            try:
                yield from self._registry.commit([Change(path, None)])
            except CONFLICTS:
                log.debug("another broker has removed %s", path)
            except StorageFailed as failure:
                log.info("old notifications stay until the next change: %s", failure)
                return


def _pieces(items: Sequence[Item]) -> Iterable[Sequence[Item]]:
    return (items[first : first + READ_AT_ONCE] for first in range(0, len(items), READ_AT_ONCE))
