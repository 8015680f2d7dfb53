"""Java's properties format, in which server.properties is written. Knows text only: no files, no settings."""

from __future__ import annotations

from collections.abc import Iterator

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Names and values; a name given twice has its last value. Comments begin with # or !, and a backslash joins lines."""
    found: dict[str, str] = {}
    for line in _lines(text):
        name, value = _split(line)
        if name:
            found[name] = value
    return found


def _lines(text: str) -> Iterator[str]:
    held = ""
    for raw in text.splitlines():
        line = raw.lstrip()
        if not held and line[:1] in ("", "#", "!"):
            continue
        held += line
        if (len(held) - len(held.rstrip("\\"))) % 2:
            held = held[:-1]
            continue
        yield held
        held = ""
    if held:
        yield held


def _split(line: str) -> tuple[str, str]:
    position = 0
    while position < len(line) and line[position] not in "=: \t":
        position += 2 if line[position] == "\\" else 1
    rest = line[position:].lstrip()
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip()
    return _unescaped(line[:position]), _unescaped(rest).rstrip()


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    pieces: list[str] = []
    position = 0
    while position < len(text):
        char = text[position]
        if char == "\\" and position + 1 < len(text):
            following = text[position + 1]
            if following == "u" and len(text) >= position + 6:
                pieces.append(chr(int(text[position + 2 : position + 6], 16)))
                position += 6
                continue
            pieces.append(_ESCAPES.get(following, following))
            position += 2
            continue
        pieces.append(char)
        position += 1
    return "".join(pieces)
