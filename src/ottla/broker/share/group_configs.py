"""The settings of share groups that ShareFetch and ShareAcknowledge use: each group's own, else the broker's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.broker.settings import BrokerSettings, SettingsInForce
from ottla.broker.settings.group import DURATION, group_value
from ottla.cluster.image import ClusterImage
from ottla.share.outcome import ShareLimits

BY_DURATION: Final = "by_duration:"
EARLIEST: Final = "earliest"
MOST_CACHED: Final = 1000
"""The most groups whose parsed settings are cached."""
_NUMBER: Final = re.compile(r"(\d+(?:\.\d+)?)([DHMS])", re.IGNORECASE)
_MS: Final = {"D": 86_400_000, "H": 3_600_000, "M": 60_000, "S": 1000}


class ShareGroupConfig(NamedTuple):
    """The effective settings of one share group."""

    limits: ShareLimits
    renew_acknowledge_enable: bool
    reads_committed: bool
    auto_offset_reset: str

    @property
    def reset_before_ms(self) -> int | None:
        """Return the duration before now, in ms, from which a new group reads; None without one."""
        reset = self.auto_offset_reset
        return duration_ms(reset[len(BY_DURATION) :]) if reset.startswith(BY_DURATION) else None


def duration_ms(text: str) -> int:
    """Return an ISO 8601 duration such as P1DT2H3.5S in ms."""
    assert DURATION.fullmatch(text), "the setting was checked"
    return round(sum(float(number) * _MS[unit.upper()] for number, unit in _NUMBER.findall(text)))


class ShareGroupConfigs:
    """The effective settings of all share groups, parsed when they are first needed after a change."""

    def __init__(self, image: ClusterImage, settings: SettingsInForce) -> None:
        self._image = image
        self._settings = settings
        self._parsed_with: BrokerSettings | None = None
        self._cached: dict[str, tuple[Mapping[str, str] | None, ShareGroupConfig]] = {}

    def of(self, group_id: str) -> ShareGroupConfig:
        """Return the settings of a group."""
        settings = self._settings.value
        if settings is not self._parsed_with:
            self._cached.clear()
            self._parsed_with = settings
        texts = self._image.group_configs.get(group_id)
        known = self._cached.get(group_id)
        if known is not None and known[0] is texts:
            return known[1]
        if len(self._cached) >= MOST_CACHED:
            self._cached.clear()
        found = _parse(settings, texts or {})
        self._cached[group_id] = texts, found
        return found


def _parse(settings: BrokerSettings, texts: Mapping[str, str]) -> ShareGroupConfig:
    def number(name: str) -> int:
        value = group_value(settings, name, texts)
        assert isinstance(value, int), "its setting is a number"
        return value

    return ShareGroupConfig(
        ShareLimits(
            delivery_count_limit=number("share.delivery.count.limit"),
            max_record_locks=number("share.partition.max.record.locks"),
            lock_duration_ms=number("share.record.lock.duration.ms"),
        ),
        bool(group_value(settings, "share.renew.acknowledge.enable", texts)),
        group_value(settings, "share.isolation.level", texts) == "read_committed",
        str(group_value(settings, "share.auto.offset.reset", texts)),
    )
