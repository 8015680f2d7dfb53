"""The plain-text search in records."""

from __future__ import annotations

import pytest

from ottla.inspection.text_search import LONGEST, TextSearch
from ottla.records.batches.record import ConsumerRecord

RECORD = ConsumerRecord(
    5,
    1_700_000_000_000,
    0,
    b"JFK",
    "\u00dcberf\u00e4llig (a+)".encode() + b"\xff\0tail",
    (("Trace", b"x-1"), ("none", None)),
    ("flights", 3),
)
EMPTY = ConsumerRecord(6, 1_700_000_000_000, 0, None, None, (), ("flights", 0))


@pytest.mark.parametrize("text", ["JFK", "jfk", "\u00fcber", "(A+)", "tail", "trace", "X-1", "\0"])
def test_a_text_is_found_in_keys_values_and_headers_in_any_case(text: str) -> None:
    assert TextSearch(text).matches(RECORD)
    assert not TextSearch(text).matches(EMPTY)


@pytest.mark.parametrize("text", ["flights", "a.+", "jfk ", "\udcff"])
def test_other_texts_are_not_found(text: str) -> None:
    assert not TextSearch(text).matches(RECORD)


@pytest.mark.parametrize("text", ["", "x" * (LONGEST + 1)])
def test_a_text_has_a_length(text: str) -> None:
    with pytest.raises(ValueError, match="must have 1 to"):
        TextSearch(text)
