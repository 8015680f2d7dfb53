"""Times as commands read and print them."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.inspection.times import duration_ms, format_time, parse_time

NOW_MS = 1_764_000_000_000
LAST_MS = 253_402_127_999_999
"""Two days before the end of the year 9999, the last that Python has in every zone."""


@pytest.fixture(autouse=True)
def berlin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2h", NOW_MS - 7_200_000),
        ("0.5s", NOW_MS - 500),
        ("1w", NOW_MS - 604_800_000),
        ("1700000000", 1_700_000_000_000),
        ("1700000000123", 1_700_000_000_123),
        ("2026-11-23T10:00Z", 1_795_428_000_000),
        ("2026-11-23T10:00", 1_795_424_400_000),
        ("2026-07-01", 1_782_856_800_000),
        ("2026-11-23 10:00:00.5+02:00", 1_795_420_800_500),
    ],
)
def test_times_are_ages_dates_or_numbers(text: str, ms: int) -> None:
    assert parse_time(text, NOW_MS) == ms


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2026-13-01", "2y", "-5s", "12345", "99999-01-01", "1e3s", "9" * 400 + "w", "٣h"]
)
def test_anything_else_names_the_forms(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time, such as 2h"):
        parse_time(text, NOW_MS)


@pytest.mark.parametrize("text", ["1960-01-01", "99999w", "0001-01-03"])
def test_times_before_kafkas_first_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is before 1970"):
        parse_time(text, NOW_MS)


def test_times_are_printed_local_with_their_zone_or_in_utc() -> None:
    assert format_time(1_795_424_400_000) == "2026-11-23T10:00:00.000+01:00"
    assert format_time(1_795_424_400_000, utc=True) == "2026-11-23T09:00:00.000Z"
    assert format_time(-1) == "-"
    assert format_time(2**62) == f"{2**62} ms"


@given(st.integers(0, LAST_MS), st.booleans())
def test_a_printed_time_is_read_as_the_same_time(ms: int, utc: bool) -> None:
    text = format_time(ms, utc=utc)
    if not text.endswith(" ms"):
        assert parse_time(text) == ms


@pytest.mark.parametrize(("text", "ms"), [("500ms", 500), ("1.5s", 1500), ("2h", 7_200_000)])
def test_durations_have_units(text: str, ms: int) -> None:
    assert duration_ms(text) == ms
    with pytest.raises(ValueError, match="is not a duration"):
        duration_ms(text.rstrip("msh"))
