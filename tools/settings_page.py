"""Print docs/settings.md: every setting, as tables in Markdown. `make docs` runs it as `python -m tools.settings_page`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ottla.broker.settings.group import GroupConfigs
from ottla.broker.settings.ineffective_settings import RELIED_ON
from ottla.broker.settings.setting import Setting, SettingsOf
from ottla.broker.settings.topic import TopicSettings
from ottla.broker.settings.values import BrokerSettings
from ottla.broker.telemetry.subscriptions import ClientMetricsConfigs


def page() -> str:
    """Every setting, as tables in Markdown."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Settings"
    yield ""
    yield "Names, types and defaults are Kafka's. Written by `tools.settings_page`: change the declarations, not this page."
    yield ""
    yield "## Of a broker"
    yield ""
    yield "`ottla serve --set name=value`, or a properties file with `--config`. A dynamic one can change while the broker runs."
    yield ""
    yield from _table(BrokerSettings, "dynamic", lambda setting: "yes" if setting.dynamic else "")
    yield ""
    yield "Any other name is an error at the start. While the broker runs, AlterConfigs accepts and keeps it, as Kafka does."
    yield ""
    yield "### Without effect"
    yield ""
    yield (
        "These settings of Kafka have no effect here. They are checked, kept, described and changed as in Kafka, so that "
        "configurations and tools keep working; those given at the start are named in a warning. Those marked * (security, quotas, "
        "policies) are refused at the start unless they have their default value: whoever sets them relies on them."
    )
    yield ""
    yield from _idle_table()
    yield ""
    yield "## Of a topic"
    yield ""
    yield "Given when the topic is created, or changed at any time. The default comes from the broker's setting in the last column."
    yield ""
    yield from _table(TopicSettings, "default from", _broker_setting)
    yield ""
    yield "## Of a group"
    yield ""
    yield (
        "Set by IncrementalAlterConfigs on resource type GROUP (`kafka-configs --entity-type groups`), even before the group "
        "exists; members are told with their next heartbeat. The broker's settings with `min` and `max` in their names "
        "bound what can be set."
    )
    yield ""
    yield from _table(GroupConfigs, "default from", _broker_setting)
    yield ""
    yield "## Of a subscription to client metrics"
    yield ""
    yield (
        "Set on resource type CLIENT_METRICS (`kafka-client-metrics`, `ottla config set client-metrics/NAME`); a subscription ends "
        "with its last setting. Clients of Kafka 3.7 and librdkafka 2.5 on push what matches (KIP-714). The broker keeps the last "
        "push of each client in memory, as it came: `ottla metrics clients` prints it. Kafka needs a plugin for that."
    )
    yield ""
    yield from _table(ClientMetricsConfigs, "default from", _broker_setting)
    yield ""
    yield "## Of loggers"
    yield ""
    yield (
        "`kafka-configs --entity-type broker-loggers`, `ottla config set loggers/ID`: the levels of `root`, `ottla` and the "
        "loggers below it (`ottla.broker`, `ottla.log`, `ottla.net` …) are TRACE, DEBUG, INFO, WARN, ERROR or FATAL, from now on "
        "until the broker ends; a deleted level becomes the parent's. TRACE shows what DEBUG shows: nothing is logged below it."
    )


def _idle_table() -> Iterator[str]:
    yield "| name | type | default | dynamic |"
    yield "|---|---|---|---|"
    for name, setting in BrokerSettings.DECLARED.items():
        if setting.idle and not setting.hidden:
            mark = " *" if name.startswith(RELIED_ON) else ""
            yield f"| `{name}`{mark} | {setting.kind.name} | {_default(setting)} | {_reach(setting)} |"


def _reach(setting: Setting[object]) -> str:
    return setting.reach.value if setting.dynamic else ""


def _table(settings: type[SettingsOf], title: str, last: Callable[[Setting[object]], str]) -> Iterator[str]:
    yield f"| name | type | default | allowed | what it is for | {title} |"
    yield "|---|---|---|---|---|---|"
    for name, setting in settings.DECLARED.items():
        if not setting.hidden and not setting.idle:
            cells = (f"`{name}`", setting.kind.name, _default(setting), _allowed(setting), setting.documentation, last(setting))
            yield f"| {' | '.join(cells)} |"


def _broker_setting(setting: Setting[object]) -> str:
    return f"`{setting.broker}`" if setting.broker else ""


def _default(setting: Setting[object]) -> str:
    text = setting.shown_default
    return "" if text is None else f"`{text}`" if text else "(empty)"


def _allowed(setting: Setting[object]) -> str:
    return "" if setting.check is None else setting.check.short


if __name__ == "__main__":
    print(page(), end="")
