"""The times of records in commands: how they are parsed and printed, in local time or in UTC."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta

_AGO = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d|w)")
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
MOST_CHARACTERS = 20
"""The length of a duration, beyond which its milliseconds have more than 64 bits."""
FORMS = "a time, such as 2h (ago), 2026-11-23T10:00, 2026-11-23T10:00Z or 1795000000000 (ms)"
"""The forms that `parse_time` reads, for messages and helps."""


def parse_time(text: str, now_ms: int | None = None) -> int:
    """Return a time in ms since 1970, which is not negative. A time without a zone is local. Raises `ValueError` with the forms."""
    try:
        if ago := _AGO.fullmatch(text):
            now = int(time.time() * 1000) if now_ms is None else now_ms
            found = now - round(float(ago[1]) * _UNIT_MS[ago[2]])
        elif re.fullmatch(r"[0-9]{10}|[0-9]{13}", text):
            found = int(text) * (1000 if len(text) == 10 else 1)
        else:
            found = round(datetime.fromisoformat(text).astimezone().timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"{text!r:.60} is not {FORMS}") from None
    if found < 0:
        raise ValueError(f"{text!r:.60} is before 1970, where Kafka's times begin: name a later time")
    return found


def format_time(ms: int, *, utc: bool = False) -> str:
    """Return a time in ms since 1970 as ISO 8601 with ms and zone; a dash for -1, which means no time."""
    if ms < 0:
        return "-"
    try:
        found = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
        shown = found if utc else found.astimezone()
    except (OverflowError, ValueError, OSError):
        return f"{ms} ms"
    text = shown.isoformat(timespec="milliseconds")
    return text.removesuffix("+00:00") + "Z" if utc else text


def is_duration(text: str) -> bool:
    """Return whether a text is a duration, such as 500ms, 30s or 2h."""
    return _AGO.fullmatch(text) is not None


def duration_ms(text: str) -> int:
    """Return a duration, such as 500ms, 30s or 2h, in ms. Raises `ValueError`."""
    found = _AGO.fullmatch(text)
    if found is None or len(text) > MOST_CHARACTERS:
        raise ValueError(f"{text!r:.60} is not a duration, such as 500ms, 30s, 5m, 2h or 7d")
    return round(float(found[1]) * _UNIT_MS[found[2]])
