"""What a person looks at: the worst hours and carriers as tables, and the year as a picture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path

from rich.console import Console
from rich.table import Table

from examples.flights.delays import Delays, Key

ORIGINS = {"EWR": "Newark", "JFK": "Kennedy", "LGA": "LaGuardia"}
_FEWEST = 10  # an hour with fewer departures says little
_HOURS = range(5, 24)


def _of_kind(delays: Mapping[Key, Delays], kind: str) -> list[tuple[Key, Delays]]:
    found = [(key, row) for key, row in delays.items() if key.kind == kind and row.departed]
    return sorted(found, key=lambda each: -each[1].mean)


def _number(value: float | None, unit: str = "", digits: int = 0) -> str:
    return "-" if value is None else f"{value:.{digits}f}{unit}"


def _table(title: str, columns: Iterable[str], rows: Iterable[list[str]]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", header_style="dim", box=None, padding=(0, 2, 0, 0))
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right", no_wrap=number == 0)
    for row in rows:
        table.add_row(*row)
    return table


def worst_hours(delays: Mapping[Key, Delays], count: int = 8) -> Table:
    found = [each for each in _of_kind(delays, "hour") if each[1].departed >= _FEWEST][:count]
    rows = (
        [
            f"{key.hour or ''}h {ORIGINS.get(key.origin or '', key.origin or '')}".replace("T", " "),
            str(row.departed),
            str(row.flights - row.departed),
            _number(row.mean, " min"),
            _number(row.worst_minutes, " min"),
            _number(row.wind_speed, " mph"),
            _number(row.visib, " mi", 1),
            _number(row.precip, " in", 2),
        ]
        for key, row in found
    )
    return _table("Worst hours", ("", "left", "never left", "mean delay", "worst", "wind", "visibility", "rain"), rows)


def worst_carriers(delays: Mapping[Key, Delays], count: int = 8) -> Table:
    rows = (
        [
            row.name or key.carrier or "",
            f"{row.departed:,}",
            _number(row.mean, " min", 1),
            _number(100 * row.late / row.departed, " %"),
            _number(row.wet_mean, " min", 1),
        ]
        for key, row in _of_kind(delays, "carrier")[:count]
    )
    return _table("Worst carriers", ("", "left", "mean delay", "over 15 min late", "mean in rain or snow"), rows)


def print_tables(console: Console, delays: Mapping[Key, Delays]) -> None:
    for table in (worst_hours(delays), worst_carriers(delays)):
        console.print()
        console.print(table)
    console.print()


def _grid(delays: Mapping[Key, Delays], origin: str) -> list[list[float]]:
    """Mean delay by hour of the day (rows) and day of the year (columns); NaN where nothing left."""
    grid = [[float("nan")] * 365 for _ in _HOURS]
    for key, row in delays.items():
        if key.kind == "hour" and key.origin == origin and key.hour and row.departed:
            day, hour = key.hour.split("T")
            if int(hour) in _HOURS:
                grid[int(hour) - _HOURS.start][date.fromisoformat(day).timetuple().tm_yday - 1] = row.mean
    return grid


def save_picture(delays: Mapping[Key, Delays], path: Path) -> Path:
    """Departure delay over the year, by airport and hour of the day."""
    import matplotlib

    matplotlib.use("Agg")  # a file is drawn, no window is opened
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(len(ORIGINS), 1, figsize=(13, 8), sharex=True, layout="constrained")
    for axis, (origin, name) in zip(axes, ORIGINS.items(), strict=True):
        image = axis.imshow(
            _grid(delays, origin),
            aspect="auto",
            origin="lower",
            cmap="YlOrRd",
            vmin=0,
            vmax=90,
            interpolation="nearest",
            extent=(0.5, 365.5, _HOURS.start - 0.5, _HOURS.stop - 0.5),
        )
        axis.set_title(f"{name} ({origin})", loc="left", fontsize=10)
        axis.set_ylabel("scheduled hour")
        axis.set_yticks([6, 12, 18, 23])
    starts = [date(2013, month, 1) for month in range(1, 13)]
    axes[-1].set_xticks([day.timetuple().tm_yday for day in starts], [day.strftime("%b") for day in starts])
    figure.colorbar(image, ax=axes, label="mean departure delay in minutes (early is palest, 90 and more darkest)", shrink=0.8)
    figure.suptitle("Departures from New York in 2013: how late, hour by hour", fontsize=13)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
    return path
