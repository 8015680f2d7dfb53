"""The settings as a page of the documentation. Knows Markdown and the declarations, and reads nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ottla.broker.settings.group import GroupConfigs
from ottla.broker.settings.setting import Setting, SettingsOf
from ottla.broker.settings.topic import TopicSettings
from ottla.broker.settings.values import BrokerSettings
from ottla.broker.settings.without_effect import WITHOUT_EFFECT


def page() -> str:
    """Everything that can be set, as tables in Markdown."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Settings"
    yield ""
    yield "Names, types and defaults are Kafka's. Written by `ottla.broker.settings.docs`: change the declarations, not this page."
    yield ""
    yield "## Of a broker"
    yield ""
    yield "`ottla serve --set name=value`, or a properties file with `--config`. A dynamic one can change while the broker runs."
    yield ""
    yield from _table(BrokerSettings, "dynamic", lambda setting: "yes" if setting.dynamic else "")
    yield ""
    yield (
        "These of Kafka's mean nothing here; they are ignored with a warning: "
        + ", ".join(f"`{name}`" for name in sorted(WITHOUT_EFFECT))
        + ". Any other name is an error."
    )
    yield ""
    yield "## Of a topic"
    yield ""
    yield "Given when the topic is made, or changed at any time; the default is the broker's setting beside it, where there is one."
    yield ""
    yield from _table(TopicSettings, "default from", _broker_setting)
    yield ""
    yield "## Of a group"
    yield ""
    yield (
        "Set by IncrementalAlterConfigs on resource type GROUP (`kafka-configs --entity-type groups`), even before the group is "
        "there; members hear of it with their next heartbeat. The broker's settings with `min` and `max` in their names "
        "bound what can be set."
    )
    yield ""
    yield from _table(GroupConfigs, "default from", _broker_setting)


def _table(settings: type[SettingsOf], title: str, last: Any) -> Iterator[str]:
    yield f"| name | type | default | allowed | what it is for | {title} |"
    yield "|---|---|---|---|---|---|"
    for name, setting in settings.DECLARED.items():
        if not setting.hidden:
            cells = (f"`{name}`", setting.kind.name, _default(setting), _allowed(setting), setting.documentation, last(setting))
            yield f"| {' | '.join(cells)} |"


def _broker_setting(setting: Setting[Any]) -> str:
    return f"`{setting.broker}`" if setting.broker else ""


def _default(setting: Setting[Any]) -> str:
    text = setting.shown_default
    return "" if text is None else f"`{text}`" if text else "(empty)"


def _allowed(setting: Setting[Any]) -> str:
    return "" if setting.check is None else setting.check.short
