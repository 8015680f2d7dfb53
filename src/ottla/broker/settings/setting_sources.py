"""Settings as clients see them: the effective value, its source, and its synonyms (KIP-226)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from ottla.broker.releases import Release
from ottla.broker.settings import BrokerSettings, Setting, TopicSettings
from ottla.broker.settings.broker_security import bare
from ottla.broker.settings.group import GroupConfigs, group_value

MIN_INSYNC_REPLICAS = "min.insync.replicas"

TOPIC_CONFIG, DYNAMIC_BROKER_CONFIG, DYNAMIC_DEFAULT_BROKER_CONFIG, STATIC_BROKER_CONFIG, DEFAULT_CONFIG = range(1, 6)
GROUP_CONFIG = 8


class Synonym(NamedTuple):
    name: str
    value: str | None
    source: int


UNKNOWN_TYPE = 0


class DescribedSetting(NamedTuple):
    """One setting in a DescribeConfigs response; `value` is None if the setting is not set or is secret."""

    name: str
    value: str | None
    source: int
    read_only: bool
    synonyms: tuple[Synonym, ...]
    is_sensitive: bool
    type_code: int
    documentation: str | None


def as_emulated(settings: BrokerSettings, release: Release) -> BrokerSettings:
    """Return the settings as the release that a listener emulates shows them to clients.

    With eligible leader replicas, min.insync.replicas is set cluster-wide.
    """
    return settings.with_eligible_replicas if release.eligible_replicas else settings


def described_topic(settings: BrokerSettings, overrides: Mapping[str, str]) -> Iterator[DescribedSetting]:
    """Yield every setting of a topic with these configs."""
    for setting, default in _topic_defaults(settings):
        if setting.name in overrides:
            value = setting.show(settings.topic_value(setting.name, overrides))
            yield _describe(setting, value, (Synonym(setting.name, value, TOPIC_CONFIG), *default.synonyms), read_only=False)
        elif not setting.hidden:
            yield default


@lru_cache(2)
def _topic_defaults(settings: BrokerSettings) -> list[tuple[Setting[object], DescribedSetting]]:
    """Return every topic setting, and how it is described for a topic without a value of its own."""
    found = []
    for name, setting in TopicSettings.DECLARED.items():
        synonyms = () if setting.broker is None else tuple(_synonyms(settings, setting.broker))
        found.append((setting, _describe(setting, setting.show(settings.topic_value(name, {})), synonyms, read_only=False)))
    return found


def described_group(settings: BrokerSettings, overrides: Mapping[str, str]) -> Iterator[DescribedSetting]:
    """Yield every setting of a group with these configs."""
    for name, setting in GroupConfigs.DECLARED.items():
        if setting.hidden and name not in overrides:
            continue
        value = setting.show(group_value(settings, name, overrides))
        default = Synonym(name, setting.shown_default, DEFAULT_CONFIG)
        synonyms = (default,) if setting.broker is None else tuple(_synonyms(settings, setting.broker))
        if name in overrides:
            synonyms = (Synonym(name, value, GROUP_CONFIG), *synonyms)
        yield _describe(setting, value, synonyms, read_only=False)


def described_broker(settings: BrokerSettings) -> Iterator[DescribedSetting]:
    """Yield every setting of this broker, and the settings of single listeners.

    A hidden setting is shown after it was changed at runtime, but without its default, because tools revert the settings they see.
    """
    changed = settings.of_all_brokers.keys() | settings.of_this_broker.keys()
    for name, setting in settings.DECLARED.items():
        synonyms = tuple(_synonyms(settings, name)) if not setting.hidden or name in changed else ()
        if setting.hidden:
            synonyms = tuple(found for found in synonyms if found.source != DEFAULT_CONFIG)
        if synonyms or not setting.hidden:
            yield _describe(setting, settings.text_of(name), synonyms, read_only=not setting.dynamic)
    for name in sorted({*settings.given, *settings.of_all_brokers, *settings.of_this_broker}.difference(settings.DECLARED)):
        if (wanted := bare(name, settings.DECLARED)) in settings.DECLARED:
            yield _of_listener(settings, name, settings.DECLARED[wanted])
        elif found := [source for texts, source in _sources(settings) if name in texts]:
            yield _unknown(name, found)


def _unknown(name: str, sources: Sequence[int]) -> DescribedSetting:
    """Describe an unknown setting that was set, so that it can be deleted. It is treated as secret, as in Kafka."""
    synonyms = tuple(Synonym(name, None, source) for source in sources)
    return DescribedSetting(name, None, sources[0], True, synonyms, True, UNKNOWN_TYPE, None)


def _of_listener(settings: BrokerSettings, name: str, setting: Setting[object]) -> DescribedSetting:
    found = [
        Synonym(name, setting.show(setting.parse(texts[name])), source) for texts, source in _sources(settings) if name in texts
    ]
    return _describe(setting, found[0].value, tuple(found), read_only=True)._replace(name=name)  # read-only as in Kafka


def described_changes(texts: Mapping[str, str]) -> Iterator[DescribedSetting]:
    """Yield only the cluster-wide dynamic settings in `texts`."""
    for name, text in sorted(texts.items()):
        setting = BrokerSettings.DECLARED.get(name)
        if setting is None:
            yield _unknown(name, [DYNAMIC_DEFAULT_BROKER_CONFIG])
            continue
        synonym = Synonym(name, setting.show(setting.parse(text)), DYNAMIC_DEFAULT_BROKER_CONFIG)
        yield _describe(setting, synonym.value, (synonym,), read_only=not setting.dynamic)


def _describe(setting: Setting[object], value: str | None, synonyms: tuple[Synonym, ...], *, read_only: bool) -> DescribedSetting:
    source = synonyms[0].source if synonyms else DEFAULT_CONFIG
    if setting.is_sensitive:
        value, synonyms = None, tuple(synonym._replace(value=None) for synonym in synonyms)
    return DescribedSetting(
        setting.name, value, source, read_only, synonyms, setting.is_sensitive, setting.kind.code, setting.documentation
    )


def _sources(settings: BrokerSettings) -> tuple[tuple[Mapping[str, str], int], ...]:
    """Return the configured values with their sources, highest precedence first."""
    return (
        (settings.of_this_broker, DYNAMIC_BROKER_CONFIG),
        (settings.of_all_brokers, DYNAMIC_DEFAULT_BROKER_CONFIG),
        (settings.given, STATIC_BROKER_CONFIG),
    )


def _synonyms(settings: BrokerSettings, name: str) -> Iterable[Synonym]:
    """Return the sources of a value, highest precedence first and the default last.

    Return none if the setting itself has no value, even if it falls back to another setting.
    """
    declared = settings.DECLARED
    names = (name, *declared[name].falls_back)
    found = [
        Synonym(one, declared[one].show(declared[one].parse(texts[one])), source)
        for texts, source in _sources(settings)
        for one in names
        if one in texts
    ]
    found += [Synonym(one, text, DEFAULT_CONFIG) for one in names if (text := settings.shown_default(one)) is not None]
    while found and found[0].name != name:
        del found[0]
    return found
