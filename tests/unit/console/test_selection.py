"""The selection of messages by the parameters of a page, and the commands that do the same."""

from __future__ import annotations

import json
import shlex
import subprocess
from typing import Any

import pytest

from ottla.console.messages import commands
from ottla.console.messages.found_messages import ABORTED, COMMITTED, NONE, OPEN
from ottla.console.messages.selection import (
    BadSelection,
    Chooser,
    Selection,
    partitions_of,
    positions_of,
    positions_text,
    start_of,
)
from ottla.records.batches.record import ConsumerRecord

RECORD = ConsumerRecord(5, 0, 0, b"k", b'{"a": 1, "b": "Xyz"}', (("h", b"1"),), ("t", 0))
SERVERS = "localhost:9092"
AT_MS, AT = 1_795_000_000_123, "2026-11-18T11:06:40.123Z"


@pytest.mark.parametrize(
    ("conditions", "takes"),
    [
        ({}, True),
        ({"filter": "value.a == 1"}, True),
        ({"filter": "value.a == 2"}, False),
        ({"text": "xyz"}, True),
        ({"text": "zzz"}, False),
        ({"key": "k"}, True),
        ({"key": "0x6b"}, True),
        ({"key": "K"}, False),
        ({"filter": "value.a == 1", "text": "xyz", "key": "k"}, True),
        ({"filter": "value.a == 1", "text": "xyz", "key": "l"}, False),
    ],
)
def test_all_conditions_must_be_met(conditions: dict[str, Any], takes: bool) -> None:
    assert Chooser(Selection("t", **conditions)).accepts(RECORD, NONE, is_control=False) is takes


def test_transactions_are_shown_unless_only_committed_messages_are_wanted() -> None:
    for state in (NONE, OPEN, COMMITTED, ABORTED):
        assert Chooser(Selection("t")).accepts(RECORD, state, is_control=False)
        assert Chooser(Selection("t", is_committed=True)).accepts(RECORD, state, is_control=False) is (state in (NONE, COMMITTED))
    assert not Chooser(Selection("t")).accepts(RECORD, NONE, is_control=True)
    assert Chooser(Selection("t", has_control=True)).accepts(RECORD, NONE, is_control=True)


@pytest.mark.parametrize(
    ("conditions", "reason"),
    [
        ({"filter": "value.a ="}, "The filter cannot be used"),
        ({"filter": "matches(value, '(')"}, "no regular expression"),
        ({"text": "x" * 2000}, "1 to 1000 characters"),
        ({"key": "0xf"}, "two digits"),
    ],
)
def test_a_condition_that_cannot_be_used_is_refused(conditions: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadSelection, match=reason):
        Chooser(Selection("t", **conditions))


def test_a_filter_decodes_framed_values_and_reads_the_json_of_others() -> None:
    from ottla.inspection.filters import UNDECODED

    chooser = Chooser(Selection("t", filter="value.a == 1"), lambda data, topic: {"a": 1} if data == b"\0" else UNDECODED)
    assert chooser.accepts(RECORD, NONE, is_control=False)
    assert chooser.accepts(RECORD._replace(value=b"\0"), NONE, is_control=False)
    assert not chooser.accepts(RECORD._replace(value=b"\1"), NONE, is_control=False)
    texts = Chooser(Selection("t", filter="'Xyz' in value"), lambda data, topic: UNDECODED)
    assert texts.accepts(RECORD, NONE, is_control=False)


def test_partitions_and_positions_are_texts_in_an_address() -> None:
    assert partitions_of("") == ()
    assert partitions_of(" 3-5, 0,4 ") == (0, 3, 4, 5)
    positions = {3: 17, 0: 2**62}
    assert dict(positions_of(positions_text(positions))) == positions
    assert positions_of("") == ()


@pytest.mark.parametrize("text", ["a", "-1", "3-", "1-9999999", "0-20000", "1;2", "5-x"])
def test_wrong_partitions_are_refused(text: str) -> None:
    with pytest.raises(BadSelection):
        partitions_of(text)


@pytest.mark.parametrize("text", ["a", "1", "1.", "1.2_", "1.2__3.4", "1.-2", "_".join("1.1" for _ in range(65))])
def test_damaged_positions_are_refused(text: str) -> None:
    with pytest.raises(BadSelection):
        positions_of(text)


PLACES = [("middle", None, ""), ("offset", None, ""), ("offset", -1, ""), ("time", None, ""), ("time", None, "noon")]


@pytest.mark.parametrize(("start", "offset", "time"), PLACES)
def test_a_wrong_place_is_refused(start: str, offset: int | None, time: str) -> None:
    with pytest.raises(BadSelection):
        start_of(start, offset, time)


NASTY = ["a'b", 'a"b', "a b; rm -rf /", "$(id)", "`id`", "a\\nb", "\x1b]0;x\x07", "line\nfeed", "-x", "\u202e€", "!x", "*", "~"]


@pytest.mark.parametrize("text", NASTY)
def test_commands_are_taken_by_a_shell_as_they_are(text: str) -> None:
    for command in commands.search("h:1", Selection(text, filter=text, text=text, key=text)):
        found = subprocess.run(["bash", "-c", f"set -- {command}; printf '%s\\0' \"$@\""], capture_output=True, check=True)
        words = found.stdout.decode().split("\0")[:-1]
        assert words[:2] == ["ottla", "consume"]
        assert text in words
        assert f"--filter=({text}) and (key == {json.dumps(text)})" in words
        assert command.isprintable()


@pytest.mark.parametrize("text", NASTY)
def test_a_message_is_produced_again_byte_by_byte(text: str) -> None:
    made = commands.produce_message("h:1", "t", 3, text.encode(), text.encode(), [("h", text.encode()), ("none", None)])
    assert len(made) == 1, "kcat has no null headers"
    line = subprocess.run(["bash", "-c", made[0].partition(" | ")[0]], capture_output=True, check=True).stdout
    assert json.loads(line) == {
        "key": text,
        "value": text,
        "headers": [{"key": "h", "value": text}, {"key": "none", "value": None}],
        "partition": 3,
    }
    made = commands.produce_message("h:1", "t", None, text.encode(), text.encode(), [])
    sent, _, kcat = made[1].rpartition(" | ")
    assert subprocess.run(["bash", "-c", sent], capture_output=True, check=True).stdout == text.encode()
    assert "-k" in kcat


def test_bytes_that_are_no_text_are_in_base64_and_not_for_kcat() -> None:
    made = commands.produce_message("h:1", "t", None, b"\xff", None, [])
    assert len(made) == 1
    assert json.loads(shlex.split(made[0])[2]) == {"key": {"base64": "/w=="}, "value": None}


@pytest.mark.parametrize(
    ("selection", "ottla", "kcat"),
    [
        (Selection("t", limit=5), "-o -5 -e --isolation uncommitted", "-o -5 -e"),
        (Selection("t", start="tail", is_committed=True), "-o end", "-o end"),
        (Selection("t", (2,), "offset", 7, is_committed=True), "-p 2 -o 7 -n 50 -e", "-p 2 -o 7 -c 50 -e"),
        (Selection("t", (), "time", AT_MS, is_committed=True), f"-o @{AT} -n 50 -e", f"-o s@{AT_MS} -c 50 -e"),
        (Selection("t", (1, 2), "oldest", has_control=True, is_committed=True), "-p 1,2 -o start -n 50 -e --print-control", None),
    ],
)  # fmt: skip
def test_a_page_is_a_command(selection: Selection, ottla: str, kcat: str | None) -> None:
    wanted = [f"ottla consume t -b {SERVERS} {ottla}"] + ([] if kcat is None else [f"kcat -C -b {SERVERS} -t t {kcat}"])
    assert commands.search(SERVERS, selection) == wanted
    assert commands.read_message(SERVERS, "t", 1, 5)[0] == f"ottla consume t -b {SERVERS} -p 1 -o 5 -n 1"
