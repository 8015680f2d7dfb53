"""Settings as people type them: a line NAME=VALUE for each."""

from __future__ import annotations

from ottla.console.declarations import PageRefused


def settings_of(text: str) -> dict[str, str]:
    """Return the settings in a text. Raises `PageRefused` for a line without a name or a value."""
    found = {}
    for line in text.splitlines():
        if line.strip():
            name, equals, value = (part.strip() for part in line.partition("="))
            if not (name and equals):
                raise PageRefused(400, f"{line.strip()[:100]!r} is not a setting: write a line NAME=VALUE for each.")
            found[name] = value
    return found
