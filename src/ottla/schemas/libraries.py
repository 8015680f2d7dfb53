"""The optional libraries of value formats, and the error about a value that does not fit its format."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ottla.errors import SettingError


class UnfitValue(ValueError):
    """A key or a value that does not fit its format or its schema; the message is a clause about the reason."""


def library(module: str, format_name: str) -> Any:
    """Return the module of a format. Raises `SettingError` if its library is not installed."""
    try:
        return import_module(module)
    except ImportError:
        name = "protobuf" if module.startswith("google.") else module.partition(".")[0]
        raise SettingError(
            f"{format_name} needs {name}, which is not installed: install it with pip install 'ottla[formats]'."
        ) from None


def first_line(error: Exception) -> str:
    """Return the beginning of a library's message, for use within a sentence."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:200].rstrip(".;")
