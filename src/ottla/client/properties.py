"""Settings of clients as texts with Kafka's names, such as a file for `--command-config` or the options of a Spark job.

Knows the declarations of settings; reads no file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, fields
from typing import Any

from ottla.client.errors import SettingError
from ottla.client.security import SecureSettings


def names_of(kind: type[SecureSettings]) -> dict[str, Field[Any]]:
    """The settings that a text can say, by Kafka's names."""
    return {each.name.replace("_", "."): each for each in fields(kind) if not str(each.type).startswith(("object", "Callable"))}


def values_of(kind: type[SecureSettings], texts: Mapping[str, str]) -> dict[str, Any]:
    """Keyword arguments of a client. What `kind` does not know is left out. Raises `SettingError`."""
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
