"""The optional libraries of value formats, and the exception for a value that does not fit its format."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ottla.errors import SettingError


class UnfitValue(ValueError):
    """Raised for a key or a value that does not fit its format or its schema. The message is a clause, such as "it is not JSON"."""


def library(module: str, format_name: str) -> Any:
    """Import and return a module of the library for a format. Raises `SettingError` if the library is not installed."""
    try:
        return import_module(module)
    except ImportError:
        name = "protobuf" if module.startswith("google.") else module.partition(".")[0]
        raise SettingError(
            f"{format_name} needs {name}, which is not installed: install it with pip install 'ottla[formats]'."
        ) from None


def first_line(error: Exception) -> str:
    """Return the first line of an exception's message, shortened, for use within a sentence."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:200].rstrip(".;")
