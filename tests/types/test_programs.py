"""Thirteen programs as users write them: each runs against a broker, and passes mypy and pyright in their strict modes.

`make lint` checks the programs with mypy too. `mistakes` has lines that type checkers must report, each marked `# mistake`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import ottla


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker() as running:
        yield running


RESULTS: dict[str, Callable[[Any], bool]] = {
    "admin_chores": lambda lines: (
        lines[:3] == ["chores-0", "chores-1", "chores-2"] and lines[-2:] == ["chores-0: 0", "chores-1: 0"]
    ),
    "arrow_to_parquet": lambda rows: rows == 3,
    "async_listeners": lambda found: found[0] == sum(range(20)) and sum(found[1].values()) == 20,
    "callbacks": lambda tally: tally.written == {"callbacks": 100} and not tally.lost,
    "consumer_loop": lambda minutes: minutes == {"JFK": 59, "LGA": 3},
    "dead_letters": lambda found: found[0] == 42 and [letter.data for letter in found[1]] == [b"twelve"],
    "futures": lambda last: sum(offset + 1 for offset in last.values()) == 3,
    "pipeline": lambda means: sorted(means) == [1.5, 5.5, 9.5],
    "registry_schemas": lambda flights: flights == [{"gate": 12, "to": "JFK"}, {"gate": 3, "to": "LGA"}],
    "static_member": lambda values: values == [f"job {number}" for number in range(6)],
    "transactional_copy": lambda copied: copied == 10,
    "work_queue": lambda done: done == {"accept": 2, "release": 1, "reject": 1},
}
"""Whether the result of each program's `main` is right. `programs/test_orders.py` is the thirteenth: pytest finds it by itself."""
NEEDS = {"arrow_to_parquet": "pyarrow", "registry_schemas": "fastavro"}


@pytest.mark.parametrize("name", RESULTS)
def test_programs_run(name: str, broker: ottla.Broker) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    program = importlib.import_module(f"tests.types.programs.{name}")
    result = program.main(broker.address)
    assert RESULTS[name](result), result
