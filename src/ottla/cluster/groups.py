"""Decisions about what the brokers agree on about groups: their settings, and nothing else. Knows no groups, and which settings
there are it is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ottla.cluster import layout
from ottla.cluster.outcome import Outcome
from ottla.ports import Change
from ottla.wire.errors import INVALID_CONFIG, NONE

ConfigError = Callable[[Mapping[str, str]], str | None]
"""Says why settings can't be a group's, or None."""


def set_configs(group_id: str, configs: Mapping[str, str], config_error: ConfigError) -> Outcome:
    """Let these be all the settings that a group has of its own, whether there is such a group or not."""
    sentence = config_error(configs)
    if sentence is not None:
        return Outcome(group_id, INVALID_CONFIG, sentence)
    texts = {name: text.strip() for name, text in configs.items()}
    return Outcome(group_id, NONE, None, (Change(layout.group_config_path(group_id), layout.config_json(texts)),))
