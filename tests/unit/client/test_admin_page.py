"""docs/admin.md names methods that the admin clients have, and all of them that it should."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ottla

PAGE = Path(__file__).parents[3] / "docs/admin.md"
ROW = re.compile(r"^\| `(\w+)` \| (.*) \| (.*) \|$", re.MULTILINE)
ROWS = ROW.findall(PAGE.read_text())
OUR_OWN = {
    "supports_api", "describe_api_versions", "find_hanging_transactions", "describe_client_metrics", "read_client_metrics", "start",
}  # fmt: skip
"""Methods that Java's client does not have."""


@pytest.mark.parametrize("kind", [ottla.Admin, ottla.AsyncAdmin])
def test_each_of_ours_exists_and_each_that_exists_is_in_the_table(kind: type) -> None:
    named = {name for _, ours, _ in ROWS for name in re.findall(r"`(\w+)`", ours)} - {"types"}
    public = {name for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name, None))}
    assert named - public == set()
    assert public - named - OUR_OWN == set()


def test_each_method_of_javas_has_one_row() -> None:
    names = [name for name, _, _ in ROWS]
    assert len(names) == len(set(names)) == 64
