"""What one row of topic `delays` says, the same whoever computed it: Spark in `pipeline`, or plain Python in `check`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Key(NamedTuple):
    """An hour at an airport (`hour` is local time, such as 2013-01-01T05) or a carrier."""

    kind: str
    origin: str | None
    hour: str | None
    carrier: str | None


class Delays(NamedTuple):
    """Departures of one hour at one airport, or of one carrier. Times are minutes; sums are whole numbers, and so exact.

    Flights that never left count in `flights` alone. `late` left more than 15 minutes late. `wet_*` are those with rain or snow.
    The weather is that of the hour; None where nobody measured it.
    """

    flights: int
    departed: int
    delay_minutes: int
    late: int
    worst_minutes: int | None
    wet_departed: int
    wet_delay_minutes: int
    name: str | None
    wind_speed: float | None
    visib: float | None
    precip: float | None

    @property
    def mean(self) -> float:
        return self.delay_minutes / self.departed if self.departed else 0.0

    @property
    def wet_mean(self) -> float | None:
        return self.wet_delay_minutes / self.wet_departed if self.wet_departed else None


def from_json(row: Mapping[str, Any]) -> tuple[Key, Delays]:
    """One message of topic `delays`; Spark leaves out fields that are null."""
    return Key._make(map(row.get, Key._fields)), Delays._make(map(row.get, Delays._fields))
