"""Names of classes and functions in `src` say what a thing is or does: no house words, no bare participles.

Names from before this rule are in `old_names.txt`. The list shrinks: a name that is renamed leaves it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.tree.source import ROOT, sources
from tests.tree.test_names import PARTICIPLES

INSTEAD = {
    "tell tells told telling": "notify, send, announce, log, record",
    "hear hears heard unheard": "receive, process",
    "ask asks asked asking asker": "request, query, read",
    "know knows knowing": "load, contain, is_cached",
    "say says said unsaid": "report, log, contain",
    "news": "update, metadata",
    "who whom whose nobody everybody somebody people": "client, principal, member, none, all",
    "owe owes owed owing": "pending, missing",
    "life lives": "session, epoch, seed",
    "reign weather talk": "term, faults, exchange",
    "settle settled settling": "finish, resolve, evaluate",
    "stand stands": "become, is",
    "greet greeted welcome": "begin, handshake, add",
    "go goes gone": "continue, resume, removed",
    "come comes came": "arrive, follow",
    "give gives gave giving": "return, release, abandon, assign",
    "take takes took": "apply, remove, acquire, accept, append",
    "let lets": "allow, release",
    "look looks looking": "check, read, search",
}
"""House words, and what says the same in Kafka's and Python's words."""
FORBIDDEN = {word: instead for words, instead in INSTEAD.items() for word in words.split()}
OLD = frozenset((ROOT / "tests/tree/old_names.txt").read_text().split())


def words(name: str) -> list[str]:
    """Return the words of a name, in lower case."""
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]


def wrong(node: ast.AST) -> str | None:
    """Return what to do about the name that a node declares; None if it is fine."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return None
    for word in words(node.name):
        if word in FORBIDDEN:
            return f"{word}: say {FORBIDDEN[word]}"
    if isinstance(node, ast.ClassDef) or any("property" in ast.unparse(each) for each in node.decorator_list):
        return None
    is_bool = node.returns is not None and ast.unparse(node.returns) == "bool"
    is_bare = len(words(node.name)) == 1 and bool(PARTICIPLES.search(node.name.strip("_")))
    return "a bare participle: say what the function does" if is_bare and not is_bool else None


def declared() -> Iterator[tuple[str, str, str]]:
    """Yield (place, name, what to do) for all wrong names in `src`."""
    for source in sources("src"):
        if not source.is_declaration:
            for node in ast.walk(source.tree):
                if (instead := wrong(node)) is not None:
                    name = getattr(node, "name", "")
                    yield f"{source.path}:{getattr(node, 'lineno', 0)} {name}", name, instead


def test_new_names_have_no_house_words() -> None:
    """A stranger who knows Kafka and Python searches for Kafka's and Python's words."""
    found = [f"{place} ({instead})" for place, name, instead in declared() if name not in OLD]
    assert not found, "take the field's noun or verb (CONTRIBUTING.md, House style)"


def test_renamed_names_leave_the_list() -> None:
    assert not OLD - {name for _, name, _ in declared()}, "these are gone: take them out of tests/tree/old_names.txt"


@pytest.mark.parametrize(
    ("text", "is_wrong"),
    [
        ("def tell_all(): ...", True),
        ("def _moved(): ...", True),
        ("def moved() -> bool: ...", False),
        ("@property\ndef moved(): ...", False),
        ("class FirstNews: ...", True),
        ("class Retold: ...", False),
        ("def move_partitions(): ...", False),
    ],
)
def test_house_words_are_noticed(text: str, is_wrong: bool) -> None:
    assert (wrong(ast.parse(text).body[0]) is not None) == is_wrong
