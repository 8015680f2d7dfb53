"""One line of a page of figures: what was measured, and what it was measured against in the same run."""

from __future__ import annotations

from typing import NamedTuple

MB = 1 << 20


class Figure(NamedTuple):
    """`limit` is what the system or a peer did in the same run, empty where a target stands alone. `reached` None: no target."""

    name: str
    value: str
    limit: str
    wanted: str
    reached: bool | None

    def __str__(self) -> str:
        return f"{self.name}: {self.value} ({self.limit}), wanted {self.wanted}"

    @property
    def verdict(self) -> str:
        return "" if self.reached is None else "reached" if self.reached else "**missed**"


def thousands(number: float) -> str:
    return f"{number:,.0f}".replace(",", " ")
