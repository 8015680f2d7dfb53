"""`pip install`, told in a few lines: what is fetched, how much of it, what is built. The arguments are pip's.

A terminal has one line that is written again and again; a log has one for whatever is large or slow. What pip itself said is shown
if it fails. Knows pip's words, and nothing of what is installed.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import deque

MB = 1_000_000
LARGE_MB = 20
"""What is at least so large has a line of its own in a log."""

UNITS = {"bytes": 1 / MB, "kB": 1 / 1000, "MB": 1.0, "GB": 1000.0}
FETCHED = re.compile(r"\s*(?:Downloading|Using cached) (\S+)(?: \(([\d.]+) (bytes|kB|MB|GB)\))?")
PROGRESS = re.compile(r"Progress (\d+) of (\d+)")
BUILT = re.compile(r"\s*Building (?:editable|wheel) for (\S+) .*: started")
INSTALLED = re.compile(r"Installing collected packages: (.*)")
REMEMBERED = 40


class Telling:
    """What came of pip's output so far, line by line."""

    def __init__(self) -> None:
        self.fetched = 0
        self.fetched_mb = 0.0
        self._file = ""

    def hear(self, line: str) -> tuple[str, bool]:
        """(what a person is told now, "" for nothing; whether a log should have it)."""
        if (found := FETCHED.match(line)) is not None:
            return self._fetch(found[1], float(found[2]) * UNITS[found[3]] if found[2] else 0.0)  # a wheel built before has no size
        if (found := PROGRESS.match(line)) is not None:
            return f"{self._so_far()}: {self._file}, {int(found[1]) // MB} of {int(found[2]) // MB} MB", False
        if (found := BUILT.match(line)) is not None:
            return f"building {found[1]}", True
        if (found := INSTALLED.match(line)) is not None:
            return f"{self._so_far()}; installing {found[1].count(',') + 1}, which takes a while", True
        return "", False

    def _fetch(self, name: str, size_mb: float) -> tuple[str, bool]:
        if name.endswith(".metadata"):
            return "", False
        self.fetched += 1
        self.fetched_mb += size_mb
        self._file = name
        return f"{self._so_far()}: {name} ({size_mb:.1f} MB)", size_mb >= LARGE_MB

    def _so_far(self) -> str:
        return f"{self.fetched} packages, {self.fetched_mb:.0f} MB"


def show(text: str, *, terminal: bool) -> None:
    """A line in a log, or the one line of a terminal, cut to its width."""
    print(f"\r\x1b[K  {text[:100]}" if terminal else f"  {text}", end="" if terminal else "\n", flush=True)


def main(arguments: list[str]) -> int:
    """Run pip; its exit code."""
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "raw", *arguments]
    terminal = sys.stdout.isatty()
    telling = Telling()
    last: deque[str] = deque(maxlen=REMEMBERED)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as pip:
        assert pip.stdout is not None
        for line in pip.stdout:
            if not PROGRESS.match(line):
                last.append(line)
            text, belongs_in_logs = telling.hear(line)
            if text and (terminal or belongs_in_logs):
                show(text, terminal=terminal)
    if terminal:
        print("\r\x1b[K", end="")
    if pip.returncode:
        print("".join(last), end="", file=sys.stderr)
    return pip.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
