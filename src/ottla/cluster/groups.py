"""Decisions about the settings of groups, the only data of groups that the registry contains. Callers check the settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ottla.cluster import layout
from ottla.cluster.decision import Decision
from ottla.ports import Change
from ottla.wire.errors import INVALID_CONFIG, NONE

ConfigError = Callable[[Mapping[str, str]], str | None]
"""A function that returns a message that says why a group's settings are invalid; None if they are valid."""


def set_configs(group_id: str, configs: Mapping[str, str], config_error: ConfigError) -> Decision:
    """Replace all settings of a group, whether the group exists or not."""
    sentence = config_error(configs)
    if sentence is not None:
        return Decision(group_id, INVALID_CONFIG, sentence)
    texts = {name: text.strip() for name, text in configs.items()}
    return Decision(group_id, NONE, None, (Change(layout.group_config_path(group_id), layout.config_json(texts)),))
