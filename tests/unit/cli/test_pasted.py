"""Bytes as people paste them: what tools print means the bytes that it was printed of, and nothing else does."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.inspection.pasted_text import NotBytes, bytes_of, is_text

FRAME = bytes.fromhex("00000019000300010000000700026d65000000010007666c6967687473")
BYTES = st.binary(min_size=1, max_size=100)

WIRESHARK = """0000   00 00 00 19 00 03 00 01 00 00 00 07 00 02 6d 65   ..............me
0010   00 00 00 01 00 07 66 6c 69 67 68 74 73            ......flights
"""


@given(data=BYTES)
def test_hex_and_literals_mean_their_bytes(data: bytes) -> None:
    for text in (
        data.hex(),
        data.hex(" "),
        data.hex(":").upper(),
        "0x" + data.hex(),
        data.hex(" ", 4),
        repr(data),
        f"  {data!r}\n",
    ):
        assert bytes_of(text) == data


@pytest.mark.parametrize("command", [["xxd"], ["xxd", "-g", "1"], ["hexdump", "-C"]], ids=" ".join)
def test_dumps_mean_what_was_dumped(command: list[str]) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    for data in (FRAME, FRAME * 3, bytes(range(48)), FRAME[:3], b"0123456789abcdef  00" * 2):
        text = subprocess.run(command, input=data, capture_output=True, check=True).stdout.decode()
        assert bytes_of(text) == data


def test_what_wireshark_prints_is_read() -> None:
    assert bytes_of(WIRESHARK) == FRAME


def test_lines_that_only_look_like_a_dump_are_hex() -> None:
    assert bytes_of("0000 0019 0003") == bytes.fromhex("000000190003")
    assert bytes_of("00000019\n00030001") == bytes.fromhex("0000001900030001")


@pytest.mark.parametrize("text", ["b'\\x00", "b\"abc'", "xyz", "123", "0000: 00 01\n0010: 02"])
def test_what_means_no_bytes_is_said(text: str) -> None:
    with pytest.raises(NotBytes):
        bytes_of(text)


def test_nothing_is_said_to_be_nothing() -> None:
    with pytest.raises(NotBytes, match="The input is empty"):
        bytes_of(" \n")
    assert not is_text(b"")
    assert is_text(b"00 0a\n")
    assert not is_text(FRAME)
