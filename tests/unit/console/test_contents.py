"""The contents of keys and values as people see them: guessed with a reason, chosen, bounded, and without control characters."""

from __future__ import annotations

import json
import struct

import msgpack
import pytest

from ottla.console.messages.contents import (
    AUTO,
    BASE64,
    FORMATS,
    HEX,
    JSON,
    MOST_DECODED,
    MSGPACK,
    REGISTRY,
    TEXT,
    Content,
    LoadedSchema,
    Presentation,
)

LINE, WHOLE = Presentation(100, is_laid_out=False), Presentation(10_000, is_laid_out=True)
SCHEMAS = {
    7: LoadedSchema("avro", lambda data: {"size": len(data), "raw": b"\xff"}),
    8: LoadedSchema("", None, "the registry does not have it"),
}


@pytest.mark.parametrize(
    ("data", "format_name", "text", "reason"),
    [
        (None, "null", "", "deletes its key"),
        (b"", "empty", "", "no bytes"),
        (b"plain text", TEXT, "plain text", "all its bytes are text"),
        ("Ünïcode €".encode(), TEXT, "Ünïcode €", "text"),
        (b"42", TEXT, "42", "text"),
        (b'{"b": 1.10, "a": [1, {}], "big": 123456789012345678}', JSON, '{"b": 1.10, "a": [1, {}], "big": 123456789012345678}', ""),
        (b'{"a": broken', TEXT, '{"a": broken', "text"),
        (b"[" * 5000, TEXT, "[" * 100, "text"),
        (struct.pack(">q", -5), HEX, "fffffffffffffffb", "as a big-endian number it is -5"),
        (struct.pack(">i", 1), HEX, "00000001", "as a big-endian number it is 1"),
        (b"\xff\xfe\xfd", HEX, "fffefd", "it is not text"),
        (b"a\0b", HEX, "610062", "not text"),
        (msgpack.packb({"a": [1, b"\xff"]}), MSGPACK, '{"a": [1, {"base64": "/w=="}]}', "MessagePack"),
        (b"\0\0\0\0\x07abc", "avro", '{"size": 3, "raw": {"base64": "/w=="}}', "frame of a schema registry, with schema 7"),
        (b"\0\0\0\0\x08abc", HEX, "0000000008616263", "schema 8 cannot be used: the registry does not have it"),
    ],
)  # fmt: skip
def test_a_format_is_guessed_with_a_reason(data: bytes | None, format_name: str, text: str, reason: str) -> None:
    found = LINE.content(data, AUTO, SCHEMAS)
    assert (found.format, found.text) == (format_name, text)
    assert reason in found.why
    assert found.size == len(data or b"")


@pytest.mark.parametrize("wanted", [each for each in FORMATS if each != AUTO])
@pytest.mark.parametrize("data", [b"\xff\0\x01", b"{", b"\0\0\0\0\x63x", b"\xc1", b"a" * 1000, b"[" * 100_000])
def test_a_chosen_format_shows_something_of_any_bytes(wanted: str, data: bytes) -> None:
    for form in (LINE, WHOLE):
        found = form.content(data, wanted, SCHEMAS)
        assert found.format == wanted or (found.format == HEX and f"{wanted} was chosen, but" in found.why)
        assert found.text


def test_json_is_laid_out_with_its_numbers_as_they_are_written() -> None:
    found = WHOLE.content(b'{"a":1.10,"b":[],"c":[1,{"d":"x, y: {"}],"e":{}}')
    assert found.text == '{\n  "a": 1.10,\n  "b": [],\n  "c": [\n    1,\n    {\n      "d": "x, y: {"\n    }\n  ],\n  "e": {}\n}'
    assert json.loads(found.text) == {"a": 1.1, "b": [], "c": [1, {"d": "x, y: {"}], "e": {}}


def test_bytes_are_laid_out_as_rows_of_hex() -> None:
    assert WHOLE.content(b"\xff0123456789abcdefgh", HEX).text == (
        "00000000  ff 30 31 32 33 34 35 36  37 38 39 61 62 63 64 65  .0123456789abcde\n"
        "00000010  66 67 68                                          fgh"
    )
    assert LINE.content(b"\xff0", BASE64).text == "/zA="


@pytest.mark.parametrize("data", [b"x" * (10 << 20), b"\xff" * (10 << 20), b'{"a": "' + b"x" * (10 << 20) + b'"}'])
def test_a_large_value_is_cut(data: bytes) -> None:
    for wanted in FORMATS:
        found = WHOLE.content(data, wanted)
        assert found.is_cut
        assert len(found.text) < 20_000
        assert found.size == len(data) > MOST_DECODED


def test_the_kept_beginning_of_a_value_counts_as_cut() -> None:
    found = LINE.content(b'{"a": 1', size=10_000_000)
    assert found == Content(TEXT, '{"a": 1', 10_000_000, "all its bytes are text", is_cut=True)
    assert "too large for a list" in LINE.content(b"\0\0\0\0\x07abc", REGISTRY, SCHEMAS, 100_000).why


def test_a_character_that_the_end_of_the_beginning_divides_is_text() -> None:
    euros = "€".encode() * 1000
    for most in range(1, 20):
        assert Presentation(most, is_laid_out=False).content(euros).text == "€" * most


@pytest.mark.parametrize("char", ["\x1b[31m", "\u202e", "\u2028", "\x9b"])
def test_characters_that_direct_a_terminal_or_a_browser_are_escapes(char: str) -> None:
    shown = LINE.content(f"a{char}b".encode()).text
    assert char not in shown
    assert "\\" in shown or shown == "61c29b62"


def test_lines_are_marked_in_a_list_and_kept_in_a_whole_message() -> None:
    assert LINE.content(b"a\r\nb").text == "a\u21b5b"
    assert WHOLE.content(b"a\r\nb").text == "a\nb"
