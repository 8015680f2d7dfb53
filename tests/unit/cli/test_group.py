"""Positions, files of offsets and the display in place of `ottla group`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.cli.command.positions import SeekTarget, TopicChoice, target_argument, topic_argument
from ottla.cli.group.offset_files import OffsetRow, csv_text, json_text, parse_offsets
from ottla.cli.group.watch import Screen, clip
from ottla.cli.topic.offsets import position_argument
from ottla.errors import KafkaError


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("start", SeekTarget("start")),
        ("end", SeekTarget("end")),
        ("5000", SeekTarget("offset", 5000)),
        ("offset:5000000000000", SeekTarget("offset", 5_000_000_000_000)),
        ("offset:2000000000", SeekTarget("offset", 2_000_000_000)),
        ("99999999999", SeekTarget("offset", 99_999_999_999)),
        ("+10", SeekTarget("shift", 10)),
        ("-10", SeekTarget("shift", -10)),
        ("1795000000000", SeekTarget("time", 1_795_000_000_000)),
        ("@1795000000", SeekTarget("time", 1_795_000_000_000)),
        ("2026-11-23T10:00Z", SeekTarget("time", 1_795_428_000_000)),
    ],
)
def test_positions(text: str, target: SeekTarget) -> None:
    assert target_argument(text) == target


@pytest.mark.parametrize("text", ["", "beginning", "1.5", "--1", "²", "9" * 30, "+", "@", "٣", "offset:", "offset:-1"])
def test_wrong_positions_name_the_forms(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not start, end, an offset"):
        target_argument(text)


@pytest.mark.parametrize("parse", [target_argument, position_argument])
def test_a_number_that_can_be_an_offset_or_a_time_is_refused(parse: Callable[[str], SeekTarget]) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="write offset:2000000000 or @2000000000"):
        parse("2000000000")
    assert parse("offset:2000000000") == SeekTarget("offset", 2_000_000_000)
    assert parse("@2000000000") == SeekTarget("time", 2_000_000_000_000)


@pytest.mark.parametrize(("text", "partitions"), [("t", None), ("t:0", {0}), ("t:0,3-5,4", {0, 3, 4, 5}), ("t:0-0", {0})])
def test_topics_with_partitions(text: str, partitions: set[int] | None) -> None:
    assert topic_argument(text) == TopicChoice("t", None if partitions is None else frozenset(partitions))


@pytest.mark.parametrize("text", ["", ":0", "t:", "t:x", "t:5-3", "t:0-999999999", "t:-1", "t:0,"])
def test_wrong_topics_are_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        topic_argument(text)


ROWS = st.lists(
    st.builds(
        OffsetRow,
        st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufeff") | st.sampled_from('{["'), min_size=1),
        st.from_regex(r"[a-zA-Z0-9_-]{1,30}", fullmatch=True),
        st.integers(0, (1 << 31) - 1),
        st.integers(0, (1 << 63) - 1),
        st.just(""),
        st.just(-1),
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda row: row[:3],
)


@settings(deadline=None)
@given(ROWS, st.booleans())
def test_what_is_exported_is_imported(rows: list[OffsetRow], as_json: bool) -> None:
    assert parse_offsets(json_text(rows) if as_json else csv_text(rows, groups=True), "f") == rows


def test_files_of_kafkas_tools_and_arrays_are_read() -> None:
    three = [OffsetRow(None, "t", 0, 5), OffsetRow(None, "t", 1, 7)]
    assert csv_text(three, groups=False) == "t,0,5\nt,1,7\n"
    assert parse_offsets('"t",0,5\r\nt, 1 ,7\r\n\r\n', "f") == three
    assert parse_offsets("\ufefftopic,partition,offset\nt,0,5\nt,1,7\n", "f") == three
    assert parse_offsets("t 0 5\nt\t1 7\n", "f") == three
    array = '[{"topic": "t", "partition": 0, "offset": 5},\n {"topic": "t", "partition": "1", "offset": 7, "leader_epoch": null}]'
    assert parse_offsets(array, "f") == three


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "f has no offsets"),
        ("\n \n", "f has no offsets"),
        ("t,0\n", "line 1: 2 columns ('t,0'); a line is topic,partition,offset"),
        ("t,0,1\ng,t,0,1,2\n", "line 2: 5 columns"),
        ("t,0,1\nt,x,1\n", "line 2: a partition is a whole number from 0 to 2147483647, not 'x'"),
        ("t,2147483648,1\n", "line 1: a partition is"),
        ("t,0,-1\n", "line 1: an offset is a whole number"),
        ("t,0,9223372036854775808\n", "line 1: an offset is"),
        ("t,0,²\n", "line 1: an offset is"),
        (",0,1\n", "line 1: the topic is missing"),
        ("t,0,1\nt,0,2\n", "line 2: t-0 is there twice"),
        ("t,0,1\ng,t,1,2\n", "in some lines only"),
        (",t,1,2\n", "a group and metadata are texts"),
        ('"t,0,1\n', "this is not CSV"),
        ('{"topic": "t"\n', "line 1: this is not JSON"),
        ('{"topic": "t", "partition": 0, "offset": 1}\n7\n', "line 2: 7 is not an object"),
        ('{"topic": "t", "partition": true, "offset": 1}\n', "a partition is a whole number"),
        ('{"topic": "t", "partition": 0, "offset": 1.0}\n', "an offset is a whole number"),
        ('{"topic": 7, "partition": 0, "offset": 1}\n', "the topic is missing"),
        ('{"topic": "t", "partition": 0, "offset": 1, "group": 3}\n', "a group and metadata are texts"),
        ('[{"topic": ' + "[" * 100_000, "this is not JSON"),
        ("[" * 100_000, "line 1: 1 columns"),
    ],
)
def test_a_wrong_file_is_one_sentence_with_the_line(text: str, sentence: str) -> None:
    with pytest.raises(KafkaError, match=re.escape(sentence)) as raised:
        parse_offsets(text, "f")
    assert "\n" not in str(raised.value)


def drawn(frames: list[str], columns: int, rows: int) -> list[str]:
    """Return the rows of a terminal after frames, for the few sequences that a screen uses. It must never scroll."""
    cells = [""] * rows
    at = 0
    for text in frames:
        for token in re.findall(r"\x1b\[\d*[A-Za-z]|[^\x1b\n\r]+|\n|\r", text):
            if token == "\n":
                at += 1
                assert at < rows
            elif token.endswith("A") and token[0] == "\x1b":
                at -= int(token[2:-1])
                assert at >= 0
            elif token == "\x1b[J":
                cells[at:] = [""] * (rows - at)
            elif token not in ("\r", "\x1b[K", "\x1b[0m"):
                assert len(token) <= columns
                cells[at] = token
            elif token == "\x1b[0m":
                continue
            if token == "\x1b[K" and not cells[at]:
                cells[at] = ""
    return cells[:at]


def test_a_frame_is_drawn_over_the_last_one_and_never_scrolls() -> None:
    screen = Screen()
    long = [f"row {number}" for number in range(30)]
    first = screen.frame(long, ["status"], 20, 8)
    assert drawn([first], 20, 8) == ["row 0", "row 1", "row 2", "row 3", "row 4", "… 25 more lines: enl"[:20], "status"]
    second = screen.frame(["a", "b"], ["status"], 20, 8)
    assert drawn([first, second], 20, 8) == ["a", "b", "status"]
    assert drawn([first, second, screen.frame(long, ["one", "two"], 20, 8)], 20, 8)[4:] == ["… 26 more lines: enl", "one", "two"]
    screen.frame(["a", "b"], ["status"], 20, 8)
    third = screen.frame(["c"], ["status"], 3, 8)
    assert third.startswith("\r\x1b[4A"), "two rows, and a status that takes two in three columns"


def test_lines_are_clipped_and_cannot_steer_the_terminal() -> None:
    assert clip("abcdef", 3) == ("abc", 3)
    assert clip("日本語", 5) == ("日本", 4)
    assert clip("\x1b[1mabcdef\x1b[0m", 3) == ("\x1b[1mabc\x1b[0m", 3)
    assert clip("a\x1b]0;title\x07b\x1b[2Jc\rd", 80) == ("a?]0;title?b?[2Jc?d", 19)
