"""Paths with names in them, such as `/topics/{topic}`. A name can be any text: it is percent-encoded as one segment.

Browsers drop the segments `.` and `..` even if they are encoded, so that such names, empty ones and those with a leading `~` get a
`~` in front.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from urllib.parse import quote, unquote_to_bytes

ESCAPE = "~"


def path_of(pattern: str, names: Mapping[str, object]) -> str:
    """Return the path of a pattern with its names filled in."""
    return "/".join(_encode(str(names[each[1:-1]])) if each[:1] == "{" else each for each in _segments(pattern))


def match(pattern: str, raw_path: str) -> dict[str, str] | None:
    """Return the names in a percent-encoded path, or None if the path does not match the pattern."""
    wanted, given = _segments(pattern), raw_path.split("/")
    if len(wanted) != len(given):
        return None
    names = {}
    for each, segment in zip(wanted, given, strict=True):
        if each[:1] == "{":
            name = _decode(segment)
            if name is None:
                return None
            names[each[1:-1]] = name
        elif each != segment:
            return None
    return names


@cache
def _segments(pattern: str) -> tuple[str, ...]:
    return tuple(pattern.split("/"))


def _encode(name: str) -> str:
    return quote(ESCAPE + name if name in ("", ".", "..") or name.startswith(ESCAPE) else name, safe="")


def _decode(segment: str) -> str | None:
    try:
        name = unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        return None
    return (name[1:] if name.startswith(ESCAPE) else name) if name else None
