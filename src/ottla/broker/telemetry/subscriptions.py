"""Subscriptions to client metrics: their settings, and which clients they match (KIP-714). Independent of requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from zlib import crc32

from ottla.broker.settings.kinds import INT, LIST
from ottla.broker.settings.setting import Setting, SettingsOf
from ottla.coord.patterns import IllegalPattern, Matcher, matcher
from ottla.errors import SettingError

INTERVAL, MATCH, METRICS = "interval.ms", "match", "metrics"
SHORTEST_MS, DEFAULT_MS, LONGEST_MS = 100, 300_000, 3_600_000
EVERY_METRIC: Final = "*"
MATCHED: Final = (
    "client_instance_id", "client_id", "client_software_name", "client_software_version", "client_source_address",
    "client_source_port",
)  # fmt: skip
"""The properties of a client that a subscription can match."""


class ClientMetricsConfigs(SettingsOf):
    """The settings of one subscription."""

    UNKNOWN = "Unknown client metrics configuration: {}"

    interval_ms = Setting(INT, DEFAULT_MS, f"Interval of pushes, in milliseconds: {SHORTEST_MS} to {LONGEST_MS}.")
    match = Setting(
        LIST, (), f"Clients to match, as PROPERTY=REGULAR-EXPRESSION of {', '.join(MATCHED)}; without it, every client."
    )
    metrics = Setting(LIST, (), "Prefixes of the names of metrics to push; * for all, none without it.")


class MetricsSubscription(NamedTuple):
    """One parsed subscription. `patterns` are the properties that a client must match, all of them."""

    name: str
    metrics: tuple[str, ...]
    interval_ms: int
    patterns: Mapping[str, Matcher]

    def matches(self, client: Mapping[str, str]) -> bool:
        return all(pattern.match((client[name],)) for name, pattern in self.patterns.items())


class Subscribed(NamedTuple):
    """The combined metrics subscription of one client: all subscriptions that match it."""

    subscription_id: int
    names: tuple[str, ...]
    metrics: tuple[str, ...]
    interval_ms: int


def subscription(name: str, texts: Mapping[str, str]) -> MetricsSubscription:
    """Parse the settings of a subscription. Raises `SettingError`."""
    configs = ClientMetricsConfigs(texts)
    return MetricsSubscription(name, configs.metrics, configs.interval_ms, _patterns(configs.match))


def _patterns(entries: Iterable[str]) -> Mapping[str, Matcher]:
    found = {}
    for entry in entries:
        name, *patterns = entry.split("=")
        if len(patterns) != 1 or name.strip() not in MATCHED:
            raise SettingError(
                f"Illegal client matching pattern: {entry}; write PROPERTY=PATTERN with one of {', '.join(MATCHED)}."
            )
        try:
            found[name.strip()] = matcher(patterns[0].strip())
        except IllegalPattern as illegal:
            raise SettingError(f"Illegal client matching pattern: {entry}. {illegal}") from None
    return found


def combine(instance_id: bytes, client: Mapping[str, str], subscriptions: Iterable[MetricsSubscription]) -> Subscribed:
    """Return the combination of all subscriptions that match a client: all their metrics, and the shortest of their intervals.

    The subscription id depends on these values and on the client instance, and not on the broker or on time.
    """
    found = [each for each in subscriptions if each.matches(client)]
    prefixes = tuple(sorted({prefix for each in found for prefix in each.metrics}))
    metrics = (EVERY_METRIC,) if EVERY_METRIC in prefixes else prefixes
    interval_ms = min((each.interval_ms for each in found), default=DEFAULT_MS)
    unsigned = crc32(f"{interval_ms} {','.join(metrics)}".encode(), crc32(instance_id))
    return Subscribed(unsigned - (unsigned >> 31 << 32), tuple(each.name for each in found), metrics, interval_ms)
