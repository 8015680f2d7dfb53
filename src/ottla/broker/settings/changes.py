"""Changes of one resource's configs: set or delete a value, add items to a list or remove them. Validates nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ottla.broker.settings.kinds import LIST
from ottla.broker.settings.setting import SettingsOf

SET, DELETE, APPEND, SUBTRACT = range(4)
"""The operations of IncrementalAlterConfigs (KIP-339)."""


class ConfigChange(NamedTuple):
    """One change of one setting; only a deletion has no value."""

    name: str
    operation: int
    value: str | None


def apply_changes(
    before: Mapping[str, str], changes: Iterable[ConfigChange], declared: type[SettingsOf], in_force: Callable[[str], object]
) -> dict[str, str]:
    """Return the configs after these changes.

    `in_force` returns a setting's current value, to which list items are added if the setting is not in `before`.
    """
    after = dict(before)
    for name, operation, value in changes:
        if operation == DELETE:
            after.pop(name, None)
            continue
        assert value is not None
        if operation == SET:
            after[name] = value
            continue
        setting = declared.DECLARED.get(name)
        present = LIST.parse(after.get(name, (setting and setting.show(in_force(name))) or ""))
        given = LIST.parse(value)
        kept = [item for item in present if operation == APPEND or item not in given]
        added = [item for item in given if operation == APPEND and item not in present]
        after[name] = ",".join(kept + added)
    return after
