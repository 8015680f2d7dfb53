"""The registry for those who only read entries and commit changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ottla.ports import Change, CommitSteps, Entry, Steps


class RegistryEntries(Protocol):
    """The methods of `ottla.ports.SharedRegistry` that read entries without watches, and commit changes."""

    def read(self, paths: Sequence[str]) -> Steps[list[Entry | None]]: ...

    def commit(self, changes: Sequence[Change]) -> CommitSteps: ...
