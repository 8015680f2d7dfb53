"""The levels of the broker's loggers as a resource of DescribeConfigs and IncrementalAlterConfigs (KIP-412).

A level is effective at once, is not stored, and ends with the process. A logger without a level of its own has its parent's.
"""

from __future__ import annotations

from ottla.broker.handlers.config_resources import ConfigRefused, named_broker
from ottla.broker.identity import BrokerIdentity
from ottla.broker.loggers import LEVELS, ROOT, level_name
from ottla.broker.settings.changes import APPEND, DELETE, SUBTRACT, ConfigChange
from ottla.broker.settings.setting_sources import UNKNOWN_TYPE, DescribedSetting
from ottla.ports import Loggers
from ottla.wire.errors import INVALID_CONFIG, INVALID_REQUEST

DYNAMIC_BROKER_LOGGER_CONFIG = 6
VALID = ", ".join(sorted(LEVELS))


def described_loggers(identity: BrokerIdentity, loggers: Loggers, name: str) -> list[DescribedSetting]:
    """Return the effective level of each logger of the broker with this id, which must be this broker. Raises `ConfigRefused`."""
    if not name:
        raise ConfigRefused(INVALID_REQUEST, "Broker id must not be empty: name the broker whose loggers are meant.")
    named_broker(identity, name, or_all="")
    source = DYNAMIC_BROKER_LOGGER_CONFIG
    return [
        DescribedSetting(logger, level_name(level), source, False, (), False, UNKNOWN_TYPE, "")
        for logger, level in loggers.levels().items()
    ]


def alter_loggers(
    identity: BrokerIdentity, loggers: Loggers, name: str, changes: list[ConfigChange], *, validate_only: bool
) -> None:
    """Change the levels of loggers, all of them or none. Raises `ConfigRefused`."""
    if not name:
        raise ConfigRefused(INVALID_REQUEST, "Node id must be an integer, but it is: ")
    named_broker(identity, name, "Node id", "")
    known = loggers.levels()
    levels = [(change.name, _level(change, known)) for change in changes]
    if not validate_only:
        for logger, level in levels:
            loggers.set_level(logger, level)


def _level(change: ConfigChange, known: dict[str, int]) -> int | None:
    """Return the level of a change; None for the parent's. Raises `ConfigRefused`."""
    name, operation, value = change
    if operation in (APPEND, SUBTRACT):
        verb = "APPEND" if operation == APPEND else "SUBTRACT"
        sentence = f"{verb} operation is not allowed for the BROKER_LOGGER resource: set a level, or delete it."
        raise ConfigRefused(INVALID_REQUEST, sentence)
    if name not in known:
        raise ConfigRefused(INVALID_CONFIG, f"Logger {name} does not exist! Describe the broker's loggers for their names.")
    if operation == DELETE:
        if name == ROOT:
            sentence = "Removing the log level of the root logger is not allowed: set another level."
            raise ConfigRefused(INVALID_REQUEST, sentence)
        return None
    if value not in LEVELS:
        sentence = f"Cannot set the log level of {name} to {value} as it is not a supported log level. Valid log levels are {VALID}"
        raise ConfigRefused(INVALID_CONFIG, sentence)
    return LEVELS[value]
