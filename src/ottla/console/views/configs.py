"""Settings of topics, brokers and the whole cluster: which are dynamic, which were changed, and their changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ottla.client.admin.topics import TOPIC_RESOURCE, ConfigEntry, ConfigResource
from ottla.console.cluster_session import ClusterSession
from ottla.console.declarations import Done, Part
from ottla.console.rows import Pages, cut, filter_rows
from ottla.console.views.topic_details import known_topic
from ottla.console.views.topics import CHANGE_S


@dataclass(frozen=True, slots=True)
class SettingValue:
    """A value that a setting has or falls back to, and where it comes from."""

    value: str | None
    source: str
    name: str


@dataclass(frozen=True, slots=True)
class SettingRow:
    """A setting. `value` is None if it is secret. A `dynamic` setting can be changed without a restart."""

    name: str
    value: str | None
    source: str
    is_changed: bool
    is_dynamic: bool
    is_secret: bool
    others: list[SettingValue]
    documentation: str


@dataclass(frozen=True, slots=True)
class ResourceSettings:
    """The settings of a topic, a broker or all brokers. `kind` is topic, broker or brokers."""

    kind: str
    name: str
    changed: bool
    q: str
    settings: Part[list[SettingRow]]
    total: int


@dataclass(frozen=True, slots=True)
class ChangedSettings:
    """The settings of one resource that differ from the defaults."""

    kind: str
    name: str
    settings: list[SettingRow]


@dataclass(frozen=True, slots=True)
class ChangedList:
    """The resources with settings that differ from the defaults. `place` is that of the topics that were compared."""

    brokers: list[ChangedSettings]
    topics: list[ChangedSettings]
    place: Pages
    q: str
    troubles: list[str]


async def topic_config(cluster: ClusterSession, topic: str, q: str = "", changed: bool = False) -> ResourceSettings:
    """Return the settings of a topic, filtered by a part of their names."""
    await known_topic(cluster, topic)
    return await _settings(cluster, ConfigResource.topic(topic), q, changed)


async def broker_config(cluster: ClusterSession, node_id: int, q: str = "", changed: bool = False) -> ResourceSettings:
    """Return the settings of a broker, filtered by a part of their names."""
    return await _settings(cluster, ConfigResource.broker(node_id), q, changed)


async def brokers_config(cluster: ClusterSession, q: str = "", changed: bool = False) -> ResourceSettings:
    """Return the dynamic settings that all brokers share."""
    return await _settings(cluster, ConfigResource.all_brokers(), q, changed)


async def _settings(cluster: ClusterSession, resource: ConfigResource, q: str, changed: bool) -> ResourceSettings:
    kind, name = _kind(resource), resource.name
    found = await cluster.part(
        f"settings {kind} {name}", lambda admin: admin.describe_configs(resource, synonyms=True, documentation=True)
    )
    rows = setting_rows((found.value or {}).values())
    wanted = q.strip().casefold()
    shown = [row for row in rows if wanted in row.name.casefold() and (row.is_changed or not changed)]
    part = Part(None if found.value is None else shown, found.trouble, found.as_of_ms)
    return ResourceSettings(kind, name, changed, q, part, len(rows))


def setting_rows(entries: Iterable[ConfigEntry]) -> list[SettingRow]:
    """Return settings sorted by name, those that differ from the defaults first."""
    rows = [
        SettingRow(
            each.name,
            each.value,
            each.source_name,
            not each.is_default,
            not each.read_only,
            each.is_sensitive,
            [SettingValue(other.value, other.source_name, other.name) for other in each.synonyms],
            each.documentation or "",
        )
        for each in entries
    ]
    return sorted(rows, key=lambda row: (not row.is_changed, row.name))


async def configs(cluster: ClusterSession, q: str = "", page: int = 1) -> ChangedList:
    """Return the settings of brokers and of a page of topics that differ from the defaults."""
    watch = await cluster.read_brokers()
    names = list(await cluster.topics())
    topics, place = cut(filter_rows(names, q, str), page, len(names))
    resources = [ConfigResource.all_brokers()]
    resources += [ConfigResource.broker(each.node_id) for each in watch.brokers.values() if each.answers]
    brokers = await cluster.part("changed brokers", lambda admin: admin.describe_configs_of(resources, check=False))
    some = [ConfigResource.topic(name) for name in topics]
    changed = await cluster.part(f"changed topics {topics[:1]}", lambda admin: admin.describe_configs_of(some, check=False))
    troubles = [part.trouble for part in (brokers, changed) if part.trouble]
    troubles += [str(error) for part in (brokers, changed) if part.value is not None for error in part.value.errors.values()][:5]
    own = {"dynamic topic"}
    return ChangedList(
        [each for resource, found in (brokers.value or {}).items() for each in _changed_settings(resource, found, None)],
        [each for resource, found in (changed.value or {}).items() for each in _changed_settings(resource, found, own)],
        place,
        q,
        list(dict.fromkeys(troubles)),
    )


def _changed_settings(resource: ConfigResource, entries: dict[str, ConfigEntry], sources: set[str] | None) -> list[ChangedSettings]:
    """Return the changed settings of a resource, if it has any; only those of some sources if `sources` is given."""
    rows = [row for row in setting_rows(entries.values()) if row.is_changed and (sources is None or row.source in sources)]
    return [ChangedSettings(_kind(resource), resource.name, rows)] if rows else []


def _kind(resource: ConfigResource) -> str:
    return "topic" if resource.kind == TOPIC_RESOURCE else "broker" if resource.name else "brokers"


async def set_topic_config(cluster: ClusterSession, topic: str, setting: str, value: str = "", unset: bool = False) -> Done:
    """Change a setting of a topic. `unset` restores the value that applies without it."""
    return await _set(cluster, ConfigResource.topic(topic), f"topic {topic}", setting.strip(), None if unset else value)


async def set_broker_config(cluster: ClusterSession, node_id: int, setting: str, value: str = "", unset: bool = False) -> Done:
    """Change a dynamic setting of a broker. `unset` restores the value that applies without it."""
    return await _set(cluster, ConfigResource.broker(node_id), f"broker {node_id}", setting.strip(), None if unset else value)


async def set_brokers_config(cluster: ClusterSession, setting: str, value: str = "", unset: bool = False) -> Done:
    """Change a dynamic setting that all brokers share. `unset` restores the value that applies without it."""
    return await _set(cluster, ConfigResource.all_brokers(), "all brokers", setting.strip(), None if unset else value)


async def _set(cluster: ClusterSession, resource: ConfigResource, of: str, setting: str, value: str | None) -> Done:
    if value is None:
        await cluster.query(lambda admin: admin.alter_configs(resource, delete=[setting]), CHANGE_S)
        return Done(f"{setting} of {of} falls back to its default again.")
    await cluster.query(lambda admin: admin.alter_configs(resource, set={setting: value}), CHANGE_S)
    return Done(f"{setting} of {of} was set.")
