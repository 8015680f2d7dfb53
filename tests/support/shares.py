"""The tests that only `make full` runs, divided into shares of like length, and as many of a share as there is time for.

`pytest --share 3/8` runs the third of eight shares of the tests marked `full`. A file is in one share, since its tests use
the same brokers. With `--until`, a test begins only if the seconds of its mark are left; the summary says how far the run came.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

import pytest

SECONDS = 10
"""How long a test marked `full` takes unless the mark has other seconds."""
LONG = (
    (("tests/spark/",), 0.0, 0.8),
    (("tests/old/", "tests/cluster/", "tests/interop/"), 0.0, 1.0),
    (("",), 1.0, 2.0),
)
"""Beginnings of files, those of long ones first, and between which numbers of the order each kind is spread."""
OUT_OF_TIME = "no time is left for it in this run"
"""Why a test was skipped that did not begin."""


class Share(NamedTuple):
    """One of so many parts, counted from 1."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


def parse(text: str) -> Share:
    """Return the share that "3/8" means; raise ValueError for anything that is none."""
    number, _, count = text.partition("/")
    share = Share(int(number), int(count))
    if not 1 <= share.number <= share.of:
        raise ValueError(f"{text} is no share: give one like 3/8.")
    return share


def divide(lengths: Mapping[str, float], count: int) -> list[set[str]]:
    """Return the names in so many parts, the longest first and each into the part that is shortest by then."""
    parts = [set[str]() for _ in range(count)]
    sums = [0.0] * count
    for name in sorted(lengths, key=lambda name: (-lengths[name], name)):
        least = sums.index(min(sums))
        parts[least].add(name)
        sums[least] += lengths[name]
    return parts


def seconds_of(item: pytest.Item) -> float:
    """Return how long the test takes by its mark; 0 if nothing says that it is a long one."""
    mark = item.get_closest_marker("full")
    return 0 if mark is None else float(mark.kwargs.get("seconds", SECONDS))


def thin_out(items: list[pytest.Item]) -> None:
    """Mark rows of tests as `full` whose mark `rows(3)` says that three, evenly spread, are enough for `make test`."""
    tests = defaultdict[str, list[pytest.Item]](list)
    for item in items:
        if item.get_closest_marker("rows"):
            tests[item.nodeid.partition("[")[0]].append(item)
    for rows in tests.values():
        mark = rows[0].get_closest_marker("rows")
        assert mark is not None, "they were found by it"
        rows.sort(key=_row)  # another plugin shuffles them
        count = min(mark.args[0], len(rows))
        kept = {index * len(rows) // count for index in range(count)}
        for index, item in enumerate(rows):
            if index not in kept and not item.get_closest_marker("full"):
                item.add_marker(pytest.mark.full(seconds=mark.kwargs.get("seconds", 2)))


def begin_long_files(items: list[pytest.Item]) -> None:
    """Sort tests by file so that long files begin first, and no process has one left when all others have ended.

    Files with Spark are spread among the others: where several processes start it at once, it waits too long for its own processes.
    """
    files = list(dict.fromkeys(map(_file, items)))
    order = dict[str, float]()
    for folders, first, last in LONG:
        chosen = [file for file in files if file.startswith(folders) and file not in order]
        order |= {file: first + (last - first) * place / len(chosen) for place, file in enumerate(chosen)}
    items.sort(key=lambda item: order[_file(item)])


def _row(item: pytest.Item) -> tuple[int, ...]:
    """Return the numbers of a test's parameters, in the order of their declaration."""
    assert isinstance(item, pytest.Function), "tests are functions"
    return tuple(item.callspec.indices.values())


def chosen(items: list[pytest.Item], share: Share) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return the tests of a share, and all others."""
    lengths = defaultdict[str, float](float)
    for item in items:
        if item.get_closest_marker("full"):
            lengths[_file(item)] += seconds_of(item)
    files = divide(lengths, share.of)[share.number - 1]
    here = [item for item in items if item.get_closest_marker("full") and _file(item) in files]
    ids = {id(item) for item in here}
    return here, [item for item in items if id(item) not in ids]


def skip_without_time(item: pytest.Item, until: float | None) -> None:
    """Skip the test if it takes longer than until then, a time as of `time.time`."""
    if until is not None and time.time() + seconds_of(item) > until:
        pytest.skip(OUT_OF_TIME)


def said(share: Share, ran: int, left_out: int) -> str:
    """Return what the summary says of a share: whether all of it ran, and what to type for the whole of it."""
    by_hand = f"by hand: make full SHARE={share}"
    if left_out:
        return f"SHARE {share} ENDED FOR WANT OF TIME: {ran} of its {ran + left_out} tests ran; {by_hand}"
    return f"Share {share} is complete: {ran} tests ran; {by_hand}"


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]
