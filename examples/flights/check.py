"""The same aggregates computed straight from the CSV files in plain Python, and what differs from those that came through."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from examples.flights import data
from examples.flights.data import Row
from examples.flights.delays import Delays, Key


@dataclass(slots=True)
class _Sums:
    flights: int = 0
    departed: int = 0
    delay_minutes: int = 0
    late: int = 0
    worst_minutes: int | None = None
    wet_departed: int = 0
    wet_delay_minutes: int = 0

    def add(self, delay: int | None, wet: bool) -> None:
        self.flights += 1
        if delay is None:
            return
        self.departed += 1
        self.delay_minutes += delay
        self.late += delay > 15
        self.worst_minutes = delay if self.worst_minutes is None else max(self.worst_minutes, delay)
        self.wet_departed += wet
        self.wet_delay_minutes += delay if wet else 0


def straight() -> dict[Key, Delays]:
    """What topic `delays` must hold in the end."""
    weather: dict[tuple[object, object], Row] = {(row["origin"], row["time_hour"]): row for row in data.rows(data.WEATHER)}
    names = {str(row["carrier"]): str(row["name"]) for row in data.rows(data.AIRLINES)}
    sums: dict[Key, _Sums] = defaultdict(_Sums)
    skies: dict[Key, Row] = {}
    for row in data.rows(data.FLIGHTS):
        sky = weather.get((row["origin"], row["time_hour"]), {})
        hour = Key("hour", str(row["origin"]), f"{row['year']}-{row['month']:02}-{row['day']:02}T{row['hour']:02}", None)
        skies[hour] = sky
        delay = row["dep_delay"]
        wet = float(sky.get("precip") or 0.0) > 0
        for key in (hour, Key("carrier", None, None, str(row["carrier"]))):
            sums[key].add(delay if isinstance(delay, int) else None, wet)
    return {key: _finished(key, found, skies.get(key, {}), names) for key, found in sums.items()}


def _finished(key: Key, found: _Sums, sky: Row, names: Mapping[str, str]) -> Delays:
    numbers = [getattr(found, field) for field in _Sums.__dataclass_fields__]
    name = names.get(key.carrier) if key.carrier else None
    return Delays._make([*numbers, name, *(sky.get(column) for column in ("wind_speed", "visib", "precip"))])


def differences(came: Mapping[Key, Delays], right: Mapping[Key, Delays]) -> Iterator[str]:
    """One sentence for each group that is missing, not asked for, or different."""
    for key in sorted(right.keys() | came.keys(), key=str):
        name = " ".join(part for part in key if part)
        if key not in came:
            yield f"{name} is missing; it should be {right[key]}"
        elif key not in right:
            yield f"{name} came and no flight belongs to it: {came[key]}"
        elif came[key] != right[key]:
            wrong = [field for field in Delays._fields if getattr(came[key], field) != getattr(right[key], field)]
            yield f"{name}: " + ", ".join(
                f"{field} is {getattr(came[key], field)}, not {getattr(right[key], field)}" for field in wrong
            )
