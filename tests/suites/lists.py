"""Which tests of a suite pass, and the cause of each gap, as a text file that people read and a diff shows.

A line is a test's name; below a heading of `#`, "passing" or "gaps". A gap has its cause after two spaces, and may end in `*`.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

HEAD = "# passing\n"
GAPS = "# gaps\n"


class Gaps(dict[str, str]):
    """Causes by name or pattern."""

    def __contains__(self, test: object) -> bool:
        return any(fnmatchcase(str(test), pattern.replace("[", "[[]")) for pattern in self)


class Listed(NamedTuple):
    """A list as it stands in its file."""

    passing: list[str]
    gaps: Gaps

    @property
    def known(self) -> set[str] | Gaps:
        """The tests that need no further word when they fail: those that pass are told of in words of their own."""
        return Gaps({**dict.fromkeys(self.passing, ""), **self.gaps})


def read(path: Path) -> Listed:
    """A list; an empty one where there is no file yet. Raises ValueError for a gap without a cause."""
    passing, gaps, in_gaps = list[str](), Gaps(), False
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        if line.startswith("#"):
            in_gaps = line.strip() == GAPS.strip()
        elif in_gaps and line.strip():
            name, _, cause = line.partition("  ")
            if not cause.strip():
                raise ValueError(f"{path.name}: say beside {name} why it does not pass")
            gaps[name] = cause.strip()
        elif line.strip():
            passing.append(line.strip())
    return Listed(passing, gaps)


def write(path: Path, listed: Listed, passed: Iterable[str]) -> Listed:
    """Add what passes to the list, and take it out of its gaps; nothing that passed before is ever taken out."""
    passing = sorted({*listed.passing, *passed})
    gaps = Gaps({name: cause for name, cause in listed.gaps.items() if name not in passing})
    lines = [HEAD, *(f"{name}\n" for name in passing), "\n", GAPS, *(f"{name}  {cause}\n" for name, cause in sorted(gaps.items()))]
    path.write_text("".join(lines), encoding="utf-8")
    return Listed(passing, gaps)
