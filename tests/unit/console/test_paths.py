"""Paths with names in them: any name survives the way into an address and back."""

from __future__ import annotations

from urllib.parse import urljoin

import pytest

from ottla.console.paths import match, path_of

NAMES = ["flights", "a b", "a/b", "..", ".", "", "~", "~..", "%2F", "é", "<script>", "?x=1#y", "a\\b", "\n", "日本"]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_survives(name: str) -> None:
    path = path_of("/groups/{group}/members", {"group": name})
    assert match("/groups/{group}/members", path) == {"group": name}
    assert urljoin("http://localhost/", path) == f"http://localhost{path}", "a browser takes nothing out of it"


@pytest.mark.parametrize("path", ["/topics", "/topics/a/b", "/topics/", "/topics/%ff", "/other/a", "topics/a"])
def test_other_paths_do_not_match(path: str) -> None:
    assert match("/topics/{topic}", path) is None
