"""The lists of what passes of other people's suites: they only grow, and each gap says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.suites.lists import read, write
from tests.suites.run import HERE, SUITES


@pytest.mark.parametrize("name", sorted(SUITES))
def test_each_suite_has_a_list_in_which_nothing_stands_twice(name: str) -> None:
    listed = read(HERE / f"{name}.txt")
    assert len(listed.passing) > 15
    assert listed.passing == sorted(set(listed.passing))
    assert not listed.gaps.keys() & set(listed.passing)
    assert all(cause for cause in listed.gaps.values())


def test_a_list_grows_and_never_shrinks(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_text("# passing\na\n\n# gaps\nb[1]  not yet\nc*  never\n")
    listed = write(path, read(path), ["b[1]"])
    assert listed.passing == ["a", "b[1]"]
    assert read(path) == listed
    assert "c::d[2]" in listed.gaps
    assert "b[1]" not in listed.gaps


def test_a_gap_without_a_cause_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_text("# gaps\nb\n")
    with pytest.raises(ValueError, match="why it does not pass"):
        read(path)
