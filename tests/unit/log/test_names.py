"""What the files and directories of a partition are called."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.log.names import DELETING, LONGEST_NAME, STRAY, file_name, parse_file_name, set_aside_name


@given(st.integers(0, 2**63 - 1), st.sampled_from([".log", ".index", ".snapshot"]))
def test_a_files_name_says_its_offset(offset: int, suffix: str) -> None:
    assert parse_file_name(file_name(offset, suffix)) == (offset, suffix)


@given(st.integers(1, 249), st.integers(0, 9_999), st.sampled_from([DELETING, STRAY]))
def test_a_directory_that_is_set_aside_has_a_name_that_fits_and_is_its_own(length: int, index: int, end: str) -> None:
    topic = "x" * length
    name = set_aside_name(f"{topic}-{index}", "0" * 32, end)
    assert len(name) <= LONGEST_NAME
    assert name.endswith(f"-{index}.{'0' * 32}{end}")
    assert name != set_aside_name(f"{topic}-{index + 1}", "0" * 32, end)
