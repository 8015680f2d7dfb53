"""Short functions and short files.

A limit is what was measured when it was last set and a tenth more, so that the next feature has room where it belongs. What is one
piece and longer all the same is in `LONG` (`tests/tree/exceptions.py`) with its reason: better than a split by length.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median, quantiles

import pytest

from tests.tree.exceptions import LONG
from tests.tree.source import sources

LONGEST_FUNCTION = 66
"""Lines of a function, docstring and all: it fits on one screen. The longest had 60."""
LONGEST_FILE = 660
"""Lines of a file: one sitting reads it from top to bottom. The longest had 599."""
HALF_OF_THE_FUNCTIONS = 7
"""Lines that half of all functions in src have at most; it was 6. Names then say what the code does, step by step."""
NINE_IN_TEN_FUNCTIONS = 18
"""Lines that nine in ten functions in src have at most; it was 16. Long ones are the exception, even below the limit."""


def too_long(lengths: Mapping[str, int], reasons: Mapping[str, str], limit: int) -> list[str]:
    """What breaks the rule, each with the way out."""
    found = [
        f"{name} has {lines} lines of at most {limit}: divide it by what it does, or say in LONG why it is one piece"
        for name, lines in sorted(lengths.items())
        if lines > limit and name not in reasons
    ]
    return found + [f"{name} is short or gone: take it out of LONG" for name in sorted(reasons) if lengths.get(name, 0) <= limit]


def exceptions(*, functions: bool) -> dict[str, str]:
    return {name: why for name, why in LONG.items() if ("::" in name) == functions}


def test_no_function_is_too_long() -> None:
    lengths = {f"{source.path}::{function.name}": function.lines for source in sources() for function in source.functions}
    assert not too_long(lengths, exceptions(functions=True), LONGEST_FUNCTION)


def test_no_file_is_too_long() -> None:
    lengths = {source.path: len(source.lines) for source in sources() if not source.is_declaration}
    assert not too_long(lengths, exceptions(functions=False), LONGEST_FILE)


def test_most_functions_are_short() -> None:
    lengths = [function.lines for source in sources("src") for function in source.functions]
    assert median(lengths) <= HALF_OF_THE_FUNCTIONS
    assert quantiles(lengths, n=10)[-1] <= NINE_IN_TEN_FUNCTIONS


@pytest.mark.parametrize(
    ("lengths", "reasons", "wrong"),
    [
        ({"a": 61}, {}, True),
        ({"a": 61}, {"a": "a table"}, False),
        ({"a": 60}, {"a": "a table"}, True),
        ({}, {"a": "a table"}, True),
        ({"a": 60}, {}, False),
    ],
)
def test_length_and_exceptions_that_nothing_needs_are_noticed(
    lengths: dict[str, int], reasons: dict[str, str], wrong: bool
) -> None:
    assert bool(too_long(lengths, reasons, 60)) == wrong
