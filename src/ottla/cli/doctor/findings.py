"""The finding of one check: its status, its subject, and a sentence with what was found and, if anything is wrong, what to do."""

from __future__ import annotations

from typing import NamedTuple

from ottla.cli.command.exits import name_settings
from ottla.cli.command.output import GREEN, RED, YELLOW, as_lines, styled

OK, WARN, FAIL = "ok", "warn", "FAIL"
STYLES = {OK: GREEN, WARN: YELLOW, FAIL: RED}


class HealthFinding(NamedTuple):
    """The finding of a check. FAIL: commands cannot work. WARN: they can, or something could not be checked."""

    status: str
    check: str
    sentence: str

    def line(self, *, as_json: bool) -> str:
        """Return the finding as a line for people or as a JSON object."""
        sentence = name_settings(self.sentence)
        if as_json:
            (line,) = as_lines([{"status": self.status.lower(), "check": self.check, "finding": sentence}])
            return line
        return f"{styled(self.status.ljust(4), STYLES[self.status])}  {self.check:<11}  {sentence}"
