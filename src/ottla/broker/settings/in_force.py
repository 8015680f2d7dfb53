"""The holder of the broker's current settings, which calls callbacks after changes. Independent of any particular setting."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TypeVar

from ottla.broker.settings.runtime_limits import check_runtime_limits
from ottla.broker.settings.values import BrokerSettings

P = TypeVar("P")


class SettingsInForce:
    """The holder of the broker's current settings, which change at runtime. Components read `value` each time.

    The callbacks in `told` are called after each change, for components that derive data from the settings.
    """

    __slots__ = ("checks", "told", "value")

    def __init__(self, value: BrokerSettings) -> None:
        self.value = value
        self.told: list[Callable[[], None]] = []
        self.checks: list[Callable[[BrokerSettings], None]] = []
        """Callbacks before a change; they raise `SettingError` to refuse it."""

    def part(self, kind: type[P], **derived: object) -> P:
        """Return the values of a dataclass whose fields are named as settings. `derived` has its other fields."""
        names = [one.name for one in fields(kind) if one.name not in derived]  # type: ignore[arg-type]  # a dataclass
        return kind(**{name: getattr(self.value, name) for name in names}, **derived)

    def check(self, of_all_brokers: Mapping[str, str], of_this_broker: Mapping[str, str]) -> None:
        """Raise `SettingError` if these dynamic settings are invalid as a whole."""
        wanted = self.value.with_dynamic(of_all_brokers, of_this_broker)
        check_runtime_limits(self.value, wanted)
        for check in self.checks:
            check(wanted)

    def change(self, of_all_brokers: Mapping[str, str], of_this_broker: Mapping[str, str]) -> None:
        """Replace all dynamic settings, of the cluster and of this broker. Raises `SettingError`."""
        self.value = self.value.with_dynamic(of_all_brokers, of_this_broker)
        for tell in self.told:
            tell()
