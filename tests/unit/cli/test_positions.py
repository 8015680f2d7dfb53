"""The positions of `ottla consume -o`: words, numbers, times, and the ranges of rpk and of kcat."""

from __future__ import annotations

import argparse

import pytest

from ottla.cli.consume.positions import END, FROM_END, FROM_START, OFFSET, START, TIME, RecordPosition, position_range

NOON, ONE = 1_795_608_000_000, 1_795_611_600_000


def at(ms: int) -> RecordPosition:
    return RecordPosition(TIME, ms)


@pytest.mark.parametrize(
    ("text", "start", "until"),
    [
        ("start", RecordPosition(START), None),
        ("end", RecordPosition(END), None),
        (":end", None, RecordPosition(END)),
        ("+10", RecordPosition(FROM_START, 10), None),
        ("-10", RecordPosition(FROM_END, 10), None),
        ("5000", RecordPosition(OFFSET, 5000), None),
        ("5000:", RecordPosition(OFFSET, 5000), None),
        (":5000", None, RecordPosition(OFFSET, 5000)),
        ("4000:5000", RecordPosition(OFFSET, 4000), RecordPosition(OFFSET, 5000)),
        ("4000:+5", RecordPosition(OFFSET, 4000), RecordPosition(FROM_START, 5)),
        ("@2026-11-25T12:00Z", at(NOON), None),
        ("@2026-11-25T12:00Z:", at(NOON), None),
        ("@2026-11-25T12:00:00Z:2026-11-25T13:00:00Z", at(NOON), at(ONE)),
        ("@2026-11-25T12:00Z:@2026-11-25T13:00Z", at(NOON), at(ONE)),
        ("@2026-11-25T12:00Z:1h", at(NOON), at(ONE)),
        ("@2026-11-25T12:00Z:end", at(NOON), RecordPosition(END)),
        (f"@{NOON}:{ONE}", at(NOON), at(ONE)),
        (f"@:{ONE}", None, at(ONE)),
        (f"s@{NOON}", at(NOON), None),
        (f"e@{ONE}", None, at(ONE)),
    ],
)
def test_positions_and_ranges(text: str, start: RecordPosition | None, until: RecordPosition | None) -> None:
    assert position_range(text) == (start, until)


def test_durations_on_both_sides_are_ago() -> None:
    start, until = position_range("@-48h:-24h")
    assert start is not None
    assert until is not None
    assert until.number - start.number == pytest.approx(24 * 3_600_000, abs=2000)


@pytest.mark.parametrize("text", ["", "soon", "@", "@soon", "1:2:3", "start:soon", "@2026-11-25T12:00Z:soon", "s@"])
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not"):
        position_range(text)
