"""Files that arguments name: each that cannot be read is one sentence with its path and the reason."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ottla.cli.command.files import read_text
from ottla.errors import KafkaError, SettingError


def test_a_file_is_read_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes("ü\r\n".encode())
    assert read_text(str(tmp_path / "f"), "a file") == "ü\r\n"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("none", "No such file or directory"),
        ("", "Is a directory"),
        ("half", "it is not UTF-8"),
        ("sparse", "it has more than 67108864 bytes"),
        ("n" * 300, "File name too long"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_the_reason(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "half").write_bytes("ü".encode()[:1])
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", 10_000_000_000)
    for failure in (SettingError, KafkaError):
        with pytest.raises(failure) as raised:
            read_text(str(tmp_path / name), "a file of offsets", failure)
        assert str(raised.value) == f"Cannot read {tmp_path / name}: {reason}; name a file of offsets."
