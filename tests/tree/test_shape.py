"""Short functions and short files. The few exceptions stand in `tests/tree/exceptions.py`, which may only shrink."""

from __future__ import annotations

from statistics import median, quantiles

from tests.tree.exceptions import FILES, FUNCTIONS
from tests.tree.source import sources

LONGEST_FUNCTION = 60
LONGEST_FILE = 599
MOST_FUNCTIONS = 35
HALF_OF_THE_FUNCTIONS = 10


def too_long(lengths: dict[str, int], allowed: dict[str, int], limit: int) -> list[str]:
    """What breaks the ratchet, each with the way out."""
    out = []
    for name, lines in sorted(lengths.items()):
        if lines > max(limit, allowed.get(name, 0)):
            out.append(f"{name} has {lines} lines; divide it ({limit} at most)")
        elif name in allowed and lines < allowed[name]:
            out.append(f"{name} shrank to {lines} lines: say so in the table of exceptions, or take it out")
    return out + [f"{name} is gone: take it out of the table of exceptions" for name in sorted(allowed.keys() - lengths.keys())]


def test_no_function_is_too_long() -> None:
    lengths = {f"{source.path}::{function.name}": function.lines for source in sources() for function in source.functions}
    assert not too_long(lengths, FUNCTIONS, LONGEST_FUNCTION)


def test_no_file_is_too_long() -> None:
    lengths = {source.path: len(source.lines) for source in sources() if not source.is_declaration}
    assert not too_long(lengths, FILES, LONGEST_FILE)


def test_most_functions_are_short() -> None:
    lengths = [function.lines for source in sources("src") for function in source.functions]
    assert median(lengths) < HALF_OF_THE_FUNCTIONS
    assert quantiles(lengths, n=10)[-1] < MOST_FUNCTIONS


def test_the_ratchet_notices_growth_shrinkage_and_absence() -> None:
    assert too_long({"a": 61}, {}, 60)
    assert too_long({"a": 71}, {"a": 70}, 60)
    assert too_long({"a": 69}, {"a": 70}, 60)
    assert too_long({}, {"a": 70}, 60)
    assert not too_long({"a": 70, "b": 60}, {"a": 70}, 60)
