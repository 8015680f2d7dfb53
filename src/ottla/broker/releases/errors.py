"""Error codes translated for an older release. Depends on the fields of messages, and on no API."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Protocol, cast

from ottla.broker.releases.release import Release
from ottla.wire.schema import Message


class _WithCode(Protocol):
    error_code: int


def replace_newer_errors(message: Message, release: Release) -> None:
    """Replace, in place, error codes of a reply that `release` does not have."""
    _replace_in_part(message, release)


def _replace_in_part(part: object, release: Release) -> None:
    has_code, lists = _layout(type(part))
    if has_code:
        coded = cast("_WithCode", part)
        coded.error_code = release.error_code(coded.error_code)
    for name in lists:
        for each in getattr(part, name) or ():
            if is_dataclass(each):
                _replace_in_part(each, release)


_LAYOUTS: dict[type, tuple[bool, tuple[str, ...]]] = {}


def _layout(kind: type) -> tuple[bool, tuple[str, ...]]:
    """Return whether a message or struct has an error code, and the names of its list fields."""
    found = _LAYOUTS.get(kind)
    if found is None:
        names = {field.name: str(field.type) for field in fields(kind)}
        lists = tuple(name for name, text in names.items() if text.startswith("list["))
        found = _LAYOUTS[kind] = "error_code" in names, lists
    return found
