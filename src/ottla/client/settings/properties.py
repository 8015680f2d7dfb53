"""Client settings as texts with Kafka's names, for example from a file for `--command-config` or the options of a Spark job.

The module depends on the declarations of settings; it reads no file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, fields
from typing import Any

from ottla.client.errors import SettingError
from ottla.client.settings.security import SecureSettings


def names_of(kind: type[SecureSettings]) -> dict[str, Field[Any]]:
    """Return the settings that can be given as text, by Kafka's names."""
    return {each.name.replace("_", "."): each for each in fields(kind) if not str(each.type).startswith(("object", "Callable"))}


def values_of(kind: type[SecureSettings], texts: Mapping[str, str]) -> dict[str, Any]:
    """Return keyword arguments for a client. Settings that `kind` does not declare are left out. Raises `SettingError`."""
    known = names_of(kind)
    return {known[name].name: _value(name, text, known[name].default) for name, text in texts.items() if name in known}


def _value(name: str, text: str, default: object) -> object:
    if isinstance(default, bool):
        if text.strip().lower() not in ("true", "false"):
            raise SettingError(f"{name} must be true or false, not {text!r}.")
        return text.strip().lower() == "true"
    if isinstance(default, int):
        try:
            return int(text)
        except ValueError:
            raise SettingError(f"{name} must be a whole number, not {text!r}.") from None
    return text
