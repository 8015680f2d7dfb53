"""The settings of one broker with their values, and the resulting settings of topics and logs. Reads no files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from functools import cached_property
from typing import Any, Self

from ottla.broker.releases import TODAY, Release, find
from ottla.broker.settings.broker_access import AccessSettings
from ottla.broker.settings.broker_controller import ControllerSettings
from ottla.broker.settings.broker_groups import CoordinatorSettings
from ottla.broker.settings.broker_log import HOUR_MS, MINUTE_MS, LogSettings
from ottla.broker.settings.broker_replication import ReplicationSettings
from ottla.broker.settings.broker_sasl import SaslSettings
from ottla.broker.settings.broker_security import PREFIX, SecurityProtocol, SecuritySettings, bare, own_name
from ottla.broker.settings.broker_server import ServerSettings
from ottla.broker.settings.broker_share_coordinator import ShareCoordinatorSettings
from ottla.broker.settings.broker_share_streams import ShareStreamsSettings
from ottla.broker.settings.broker_tokens import TokenSettings
from ottla.broker.settings.broker_zookeeper import ZooKeeperSettings
from ottla.broker.settings.group import broker_bounds_error
from ottla.broker.settings.ineffective_settings import OtherSettings, is_relied_on
from ottla.broker.settings.setting import Setting, size_error
from ottla.broker.settings.topic import TopicSettings
from ottla.errors import SettingError
from ottla.log.config import LogConfig

_LOG_FIELDS = {field.name.replace("_", "."): field.name for field in fields(LogConfig)}
"""Setting -> the corresponding field of a log's configuration."""


class BrokerSettings(
    ServerSettings,
    SecuritySettings,
    SaslSettings,
    TokenSettings,
    AccessSettings,
    ControllerSettings,
    LogSettings,
    CoordinatorSettings,
    ReplicationSettings,
    ZooKeeperSettings,
    ShareCoordinatorSettings,
    ShareStreamsSettings,
    OtherSettings,
):
    """Every setting of a broker as a typed attribute, parsed from strings.

    Raises `SettingError` for an invalid value, and for an unknown name, with the most similar name. Unknown dynamic settings are
    kept without effect, as in Kafka.
    """

    UNKNOWN = "There is no broker setting {!r}"

    @classmethod
    def parse(cls, texts: Mapping[str, str]) -> Self:
        """Return the settings of a properties file or of `--set`."""
        wanted = dict(texts)
        if "broker.id" in wanted:
            wanted.setdefault("node.id", wanted["broker.id"])
        settings = cls(wanted)
        settings._check_start()
        return settings

    def _check_start(self) -> None:
        """Refuse settings without effect that users rely on, unless they have their default. Raises `SettingError`."""
        for name, text in self.given.items():
            if is_relied_on(self.find(name), text):
                raise SettingError(f"{name} is Kafka's, and has no effect in Ottla: leave it out, and do not rely on it.")
        for listener in self.listeners if "listeners" in self.given else ():
            if self.security_of(listener.name) is None and listener.name not in (self.controller_listener_names or ()):
                raise SettingError(
                    f"No security protocol is defined for listener {listener.name}: add {listener.name}:PLAINTEXT, or another "
                    "protocol, to listener.security.protocol.map."
                )

    @property
    def idle(self) -> list[str]:
        """Return the names of settings that were given at startup and have no effect."""
        return sorted(name for name in self.given if self.find(name).idle)

    def __init__(
        self,
        given: Mapping[str, str] | None = None,
        *,
        of_all_brokers: Mapping[str, str] | None = None,
        of_this_broker: Mapping[str, str] | None = None,
        found: Mapping[str, str] | None = None,
    ) -> None:
        """Create settings from values `given` at startup and dynamic values. Dynamic values of this broker override the cluster's.

        `found` has defaults that depend on the machine.
        """
        self.found = dict(found or {})
        self._of_listeners: dict[tuple[str, str], Self] = {}
        self._set_texts(self.found)
        super().__init__(given)
        self.of_all_brokers = dict(of_all_brokers or {})
        self.of_this_broker = dict(of_this_broker or {})
        for texts in (self.of_all_brokers, self.of_this_broker):
            self._set_texts({name: text for name, text in texts.items() if bare(name, self.DECLARED) in self.DECLARED})
        refusal = broker_bounds_error(self)
        if refusal is not None:
            raise SettingError(refusal)

    @classmethod
    def find(cls, name: str) -> Setting[object]:
        """Return the setting of a name, which may be for one listener (`listener.name.NAME.SETTING`). Raises `SettingError`."""
        return super().find(bare(name, cls.DECLARED))

    def with_dynamic(self, of_all_brokers: Mapping[str, str], of_this_broker: Mapping[str, str]) -> Self:
        """Return the settings with other dynamic settings. Raises `SettingError`."""
        return type(self)(self.given, of_all_brokers=of_all_brokers, of_this_broker=of_this_broker, found=self.found)

    @cached_property
    def with_eligible_replicas(self) -> Self:
        """Return the settings as a cluster with eligible leader replicas shows them: min.insync.replicas is set for all brokers."""
        setting = LogSettings.min_insync_replicas
        implied = {setting.name: self.given.get(setting.name, str(setting.default))}
        return self.with_dynamic(implied | self.of_all_brokers, self.of_this_broker)

    def shown_default(self, name: str) -> str | None:
        """Return the default value, formatted as Kafka does."""
        return self.found.get(name, self.DECLARED[name].shown_default)

    @property
    def measures(self) -> bool:
        """Return whether requests and syncs are measured, because somebody reads the metrics."""
        return self.ottla_metrics_enable or self.ottla_opentelemetry_enable

    def release_of(self, listener: str) -> Release:
        """Return the release of Kafka that a listener emulates."""
        name = dict(self.ottla_listener_releases).get(listener)
        return TODAY if name is None else find(name)

    def security_of(self, listener: str) -> SecurityProtocol | None:
        """Return a listener's protocol by listener.security.protocol.map, else by its name; None if neither has a protocol."""
        name = listener.upper()
        return dict(self.listener_security_protocol_map).get(name) or SecurityProtocol.__members__.get(name)

    @property
    def inter_broker_listener(self) -> str:
        """Return the name of the listener for other brokers."""
        return (self.inter_broker_listener_name or self.security_inter_broker_protocol).upper()

    def of_listener(self, name: str, mechanism: str = "") -> Self:
        """Return the settings effective for a listener, or for a SASL mechanism of the listener.

        `listener.name.NAME.MECHANISM.SETTING` takes precedence over `listener.name.NAME.SETTING`, which takes precedence over
        `SETTING`, regardless of the order in which they were set.
        """
        found = self._of_listeners.get((name, mechanism))
        if found is None:
            prefixes = [f"{PREFIX}{name}.", f"{PREFIX}{name}.{mechanism}."][: 2 if mechanism else 1]
            own = {
                own_name(given, prefix): text
                for prefix in prefixes
                for texts in (self.given, self.of_all_brokers, self.of_this_broker)
                for given, text in texts.items()
                if own_name(given, prefix) in self.DECLARED
            }
            found = self.with_dynamic(self.of_all_brokers, self.of_this_broker | own) if own else self
            self._of_listeners[name, mechanism] = found
        return found

    @property
    def default_retention_ms(self) -> int:
        """Return the retention in ms, from the setting with the finest unit."""
        if self.log_retention_ms is not None:
            return self.log_retention_ms
        if self.log_retention_minutes is not None:
            return _scale(self.log_retention_minutes, MINUTE_MS)
        return _scale(self.log_retention_hours, HOUR_MS)

    @property
    def default_segment_ms(self) -> int:
        return self.log_roll_hours * HOUR_MS if self.log_roll_ms is None else self.log_roll_ms

    @property
    def default_segment_jitter_ms(self) -> int:
        return self.log_roll_jitter_hours * HOUR_MS if self.log_roll_jitter_ms is None else self.log_roll_jitter_ms

    @property
    def default_flush_ms(self) -> int:
        return self.log_flush_scheduler_interval_ms if self.log_flush_interval_ms is None else self.log_flush_interval_ms

    def topic_default(self, setting: Setting[object]) -> object:
        """Return the value of a topic setting that is effective for topics without their own value."""
        scaled = f"default_{setting.attribute}"
        if hasattr(type(self), scaled):
            return getattr(self, scaled)
        return setting.default if setting.broker is None else self.value(setting.broker)

    def topic_value(self, name: str, overrides: Mapping[str, str]) -> object:
        """Return the value effective for a topic with these configs; the default if its own value is invalid.

        Brokers refuse an invalid value, but tools also write the registry, and one topic's config must not fail others.
        """
        setting = TopicSettings.DECLARED[name]
        try:
            return setting.parse(overrides[name]) if name in overrides else self.topic_default(setting)
        except SettingError:
            return self.topic_default(setting)

    def log_config(self, overrides: Mapping[str, str]) -> LogConfig:
        """Return the log configuration of a topic with these configs. Raises `SettingError`."""
        values = {_LOG_FIELDS[name]: self._for_log(name, overrides) for name in overrides if name in _LOG_FIELDS}
        if "internal.segment.bytes" in overrides:
            values["segment_bytes"] = self._for_log("internal.segment.bytes", overrides)
        return replace(self._log_defaults, **values) if values else self._log_defaults

    @cached_property
    def _log_defaults(self) -> LogConfig:
        return LogConfig(**{attribute: self._for_log(name, {}) for name, attribute in _LOG_FIELDS.items()})

    def _for_log(self, name: str, overrides: Mapping[str, str]) -> Any:
        if name in TopicSettings.DECLARED:
            value = self.topic_value(name, overrides)
            return ",".join(value) if isinstance(value, tuple) else value
        return self.value(name)


def _scale(value: int, unit_ms: int) -> int:
    return value if value < 0 else value * unit_ms


def refused_topic_values(configs: Mapping[str, str]) -> Iterator[str]:
    """Yield a message for each stored value that is invalid and replaced by the default. Unknown settings are skipped."""
    for name in configs.keys() & TopicSettings.DECLARED.keys():
        try:
            TopicSettings.DECLARED[name].parse(configs[name])
        except SettingError as error:
            yield str(error)


def topic_config_error(configs: Mapping[str, str | None]) -> str | None:
    """Return why these topic configs are refused (INVALID_CONFIG), as a message; None if they are accepted."""
    for name, text in configs.items():
        if text is None:
            return f"Null value not supported for topic configs: {name}; give one, or leave it out for the default."
        try:
            TopicSettings.find(name).parse(text)
        except SettingError as error:
            return str(error)
    return size_error({name: text for name, text in configs.items() if text is not None})
