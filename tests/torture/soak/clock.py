"""The broker's clock, which can be moved while it runs: libfaketime reads how far from a file. Clients keep the real one."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.torture.soak.kinds import WEEK_MS

NAME = "libfaketimeMT.so.1"
PLACES = ("/usr/lib", "/usr/lib64", "/usr/local/lib", "/opt/homebrew/lib")
TAKES_S = 3.0
"""The library looks at its file once a second, when somebody asks for the time."""

JUMP_MS = WEEK_MS + 3_600_000


def library() -> Path | None:
    """Debian's package `faketime` has it; LIBFAKETIME may name another place."""
    named = os.environ.get("LIBFAKETIME")
    if named:
        return Path(named)
    found = [path for place in PLACES for path in Path(place).glob(f"**/faketime/{NAME}")]
    return found[0] if found else None


class Clock:
    """Milliseconds since the epoch as the broker has them. Without the library it is the real clock, and can't be moved."""

    def __init__(self, home: Path) -> None:
        self.library = library()
        self._file = home / "clock"
        self.moves = 0
        self._ahead_ms = 0
        self._settled_at = 0.0
        self._write()

    def _write(self) -> None:
        new = self._file.with_suffix(".new")
        new.write_text(f"+{self._ahead_ms // 1000}\n")
        new.replace(self._file)

    def environment(self) -> dict[str, str]:
        """For the broker's process. The monotonic clock stays what it is."""
        if self.library is None:
            return {}
        return {
            "LD_PRELOAD": str(self.library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_CACHE_DURATION": "1",
            "DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }

    def move_ahead(self) -> None:
        """A week and an hour. The broker follows within `TAKES_S`."""
        self._settled_at = time.monotonic() + TAKES_S
        self.moves += 1
        self._ahead_ms += JUMP_MS
        self._write()

    @property
    def is_settled(self) -> bool:
        """Whether the broker has followed the last move."""
        return time.monotonic() >= self._settled_at

    def now_ms(self) -> int:
        """What producers stamp: never ahead of the broker, who would refuse it."""
        return int(time.time() * 1000) + self._ahead_ms - (0 if self.is_settled else JUMP_MS)

    def most_ms(self) -> int:
        """The latest time that the broker may have."""
        return int(time.time() * 1000) + self._ahead_ms
