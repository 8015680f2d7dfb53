"""Limits of settings that Kafka checks only when a broker changes them at runtime (KIP-226)."""

from __future__ import annotations

from ottla.broker.settings.values import BrokerSettings
from ottla.errors import SettingError

POOLS = (
    "background.threads", "log.cleaner.threads", "num.io.threads", "num.network.threads", "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
)  # fmt: skip
"""Sizes of pools of threads. One change at most halves or doubles a pool."""
POSITIVE = ("max.connection.creation.rate", "max.connections")


def check_runtime_limits(before: BrokerSettings, after: BrokerSettings) -> None:
    """Refuse a change of settings that Kafka refuses at runtime. Raises `SettingError`."""
    for name in POOLS:
        present, wanted = _number(before, name), _number(after, name)
        if wanted != present:
            _check_pool(name, present, wanted)
    for name in POSITIVE:
        if _number(after, name) < 1 <= _number(before, name):
            raise SettingError(f"Invalid value 0 for configuration {name}: set 1 or more while the broker runs.")
    if after.max_connections_per_ip == 0 and not after.max_connections_per_ip_overrides:
        sentence = "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set"
        raise SettingError(f"{sentence}: set it first.")


def _number(settings: BrokerSettings, name: str) -> int:
    value = settings.value(name)
    assert isinstance(value, int)
    return value


def _check_pool(name: str, present: int, wanted: int) -> None:
    refused = f"Dynamic thread count update validation failed for {name}={wanted}"
    if wanted < 1:
        raise SettingError(f"{refused}, value should be at least 1")
    if wanted < present // 2:
        raise SettingError(f"{refused}, value should be at least half the current value {present}")
    if wanted > present * 2:
        raise SettingError(f"{refused}, value should not be greater than double the current value {present}")
