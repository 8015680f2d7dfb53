"""Every setting of a broker, a topic and a group, declared once. Parsing, DescribeConfigs and the docs use the declarations."""

from __future__ import annotations

from ottla.broker.settings.broker_security import SecurityProtocol
from ottla.broker.settings.broker_server import Listener
from ottla.broker.settings.broker_zookeeper import registry_settings
from ottla.broker.settings.in_force import SettingsInForce
from ottla.broker.settings.setting import Setting
from ottla.broker.settings.topic import TopicSettings
from ottla.broker.settings.values import BrokerSettings, topic_config_error
from ottla.errors import SettingError

__all__ = [
    "BrokerSettings",
    "Listener",
    "SecurityProtocol",
    "Setting",
    "SettingError",
    "SettingsInForce",
    "TopicSettings",
    "registry_settings",
    "topic_config_error",
]
