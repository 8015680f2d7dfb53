"""A lone broker's own registry as one that brokers share, for those who only read entries and commit changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ottla.ports import Change, CommitSteps, Entry, Registry, Steps


class RegistryEntries(Protocol):
    """The methods of `ottla.ports.SharedRegistry` that read entries without watches, and commit changes."""

    def read(self, paths: Sequence[str]) -> Steps[list[Entry | None]]: ...

    def commit(self, changes: Sequence[Change]) -> CommitSteps: ...


class OwnEntries:
    """Implements `RegistryEntries` on a registry that no other broker shares."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def read(self, paths: Sequence[str]) -> Steps[list[Entry | None]]:
        """Raises `StorageFailed`."""
        yield from ()
        return [self._registry.get(path) for path in paths]

    def commit(self, changes: Sequence[Change]) -> CommitSteps:
        """Raises what `Registry.commit` raises."""
        return self._registry.commit_slowly(changes)
