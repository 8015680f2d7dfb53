"""A parser of Java's properties format, the format of a broker's server.properties and of a client's config file.

The module parses text; it reads no files and depends on no settings. Brokers and clients both import it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ottla.errors import SettingError

BLANKS = " \t\f"
"""The only characters that Java treats as blanks; `_ENDS` matches the only ends of lines."""
_ENDS = re.compile(r"\r\n|\r|\n")
_HEXADECIMAL = re.compile("[0-9a-fA-F]{4}")


class BadEscape(ValueError):
    """A backslash and a "u" without four hexadecimal digits after them."""


_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Return the values by name. If a name occurs twice, its last value counts.

    Comments begin with # or !. A backslash at the end of a line continues the line. Raises `SettingError` for a bad escape.
    """
    found: dict[str, str] = {}
    for number, line in _lines(text):
        try:
            name, value = _split(line)
        except BadEscape as bad:
            raise SettingError(
                f"line {number}: {bad} is no escape of a character (\\uXXXX): write each backslash twice, or slashes in a path."
            ) from None
        if name:
            found[name] = value
    return found


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield (the number of its first line, the text) of each logical line, with continuation lines joined."""
    held, began = "", 0
    for number, raw in enumerate(_ENDS.split(text), 1):
        line = raw.lstrip(BLANKS)
        if not held and line[:1] in ("", "#", "!"):
            continue
        began = began if held else number
        held += line
        if (len(held) - len(held.rstrip("\\"))) % 2:
            held = held[:-1]
            continue
        yield began, held
        held = ""
    if held:
        yield began, held


def _split(line: str) -> tuple[str, str]:
    position = 0
    while position < len(line) and line[position] not in "=: \t\f":
        position += 2 if line[position] == "\\" else 1
    rest = line[position:].lstrip(BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(BLANKS)
    return _unescape(line[:position]), _unescape(rest).rstrip(BLANKS)


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    pieces: list[str] = []
    position = 0
    while position < len(text):
        char = text[position]
        if char == "\\" and position + 1 < len(text):
            following = text[position + 1]
            if following == "u":
                digits = text[position + 2 : position + 6]
                if not _HEXADECIMAL.fullmatch(digits):
                    raise BadEscape(text[position : position + 6])
                pieces.append(chr(int(digits, 16)))
                position += 6
                continue
            pieces.append(_ESCAPES.get(following, following))
            position += 2
            continue
        pieces.append(char)
        position += 1
    return "".join(pieces).encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # two escapes can be one character
