"""The broker's settings as they are now: a holder that tells rooms when they change. Knows no particular setting."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ottla.broker.settings.values import BrokerSettings


class SettingsInForce:
    """The settings in force, which change while the broker runs: a room keeps this holder and reads `value` each time.

    `told` are called after each change, for rooms that keep something made of the settings.
    """

    __slots__ = ("checks", "told", "value")

    def __init__(self, value: BrokerSettings) -> None:
        self.value = value
        self.told: list[Callable[[], None]] = []
        self.checks: list[Callable[[BrokerSettings], None]] = []
        """Each is asked before a change, and raises `SettingError` where it cannot be."""

    def check(self, of_all_brokers: Mapping[str, str], of_this_broker: Mapping[str, str]) -> None:
        """Raise `SettingError` if these cannot be all that was set while the broker runs."""
        wanted = self.value.changed(of_all_brokers, of_this_broker)
        for check in self.checks:
            check(wanted)

    def change(self, of_all_brokers: Mapping[str, str], of_this_broker: Mapping[str, str]) -> None:
        """Let these be all that was set while the broker runs, for all brokers and for this one. Raises `SettingError`."""
        self.value = self.value.changed(of_all_brokers, of_this_broker)
        for tell in self.told:
            tell()
