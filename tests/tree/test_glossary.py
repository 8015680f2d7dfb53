"""The glossary is short, and its words are in use."""

from __future__ import annotations

import re

from tests.tree.source import ROOT, sources

MOST = 15
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
WORDS = re.findall(r"^\| ([a-z, ]+) \| ", PAGE.partition("## Glossary")[2].partition("## House style")[0], re.MULTILINE)[1:]


def test_the_glossary_has_at_most_fifteen_entries_in_order() -> None:
    assert 0 < len(WORDS) <= MOST
    assert sorted(WORDS) == WORDS


def test_every_word_of_the_glossary_is_in_use() -> None:
    text = "\n".join(source.text for source in sources()).lower()
    unused = [word for entry in WORDS for word in entry.split(", ") if not re.search(rf"\b{word}s?\b|_{word}|{word}_", text)]
    assert not unused
