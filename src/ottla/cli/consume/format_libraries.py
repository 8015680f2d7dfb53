"""The optional libraries of value formats, and the error about a value that is not in its format."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ottla.errors import SettingError


class Undecodable(ValueError):
    """A key or a value that is not in its format; the message is a clause about the reason."""


def library(module: str, format_name: str) -> Any:
    """Return the module of a format. Raises `SettingError` if its library is not installed."""
    try:
        return import_module(module)
    except ImportError:
        name = module.partition(".")[0].replace("google", "protobuf")
        raise SettingError(
            f"{format_name} needs {name}, which is not installed: install it with pip install 'ottla[formats]'."
        ) from None
