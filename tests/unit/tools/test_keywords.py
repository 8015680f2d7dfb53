"""Keyword arguments are typed as settings are declared."""

from __future__ import annotations

import pytest

from tools.keywords import PAGES, SOURCE


@pytest.mark.parametrize("path", PAGES)
def test_typed_keywords_are_those_of_the_declarations(path: str) -> None:
    assert (SOURCE / path).read_text() == PAGES[path](), "run make docs"
