"""One name, one thing: no two classes of the project share a name, so that a search finds the one that is meant."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable

import pytest

from tests.tree.source import sources


def classes(tree: ast.AST, *, nested: bool) -> list[str]:
    """The names of the classes in a file. Structs nested in declarations of messages bear the protocol's names."""
    nodes = ast.walk(tree) if nested else ast.iter_child_nodes(tree)
    return [node.name for node in nodes if isinstance(node, ast.ClassDef)]


def shared(found: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The names that several places (path, name) give, and those places."""
    places = defaultdict[str, list[str]](list)
    for path, name in found:
        places[name].append(path)
    return {name: paths for name, paths in sorted(places.items()) if len(paths) > 1}


def duplicates() -> dict[str, list[str]]:
    files = [source for source in sources("src") if source.path.startswith("src/ottla/")]
    return shared((file.path, name) for file in files for name in classes(file.tree, nested=not file.is_declaration))


def test_class_names_are_unique() -> None:
    assert not duplicates(), "give each a name of its own that says what it is"


@pytest.mark.parametrize(("nested", "names"), [(True, ["A", "B"]), (False, ["A"])])
def test_nested_classes_count_but_in_declarations(nested: bool, names: list[str]) -> None:
    assert classes(ast.parse("class A:\n    class B: pass"), nested=nested) == names


def test_a_name_that_two_places_give_is_noticed() -> None:
    assert shared([("a.py", "X"), ("b.py", "X"), ("b.py", "Y")]) == {"X": ["a.py", "b.py"]}


PARTICIPLES = re.compile(
    r"(ed|ing)$|^(done|fallen|given|gone|held|kept|known|left|lost|made|met|said|seen|sent|shown|taken|told|torn|written)$"
)
NOUNS = {"feed", "framing", "logging", "setting", "speed"}
"""Words that the field uses as nouns, whatever they end in."""
STILL_INFLECTED = {
    ("group", "groups"), ("partition", "partitions"), ("router", "routes"),
}  # fmt: skip
"""Modules of one package that still differ by inflection alone. The list shrinks."""
ENDINGS = ("ings", "ing", "ions", "ion", "ers", "er", "ors", "or", "ed", "es", "s", "e")


def is_participle(module: str) -> bool:
    word = module.removesuffix("07")
    return word not in NOUNS and "_" not in word and bool(PARTICIPLES.search(word))


def stem(module: str) -> str:
    """Return the name without what inflects it: moves, moving and moved have one stem."""
    for ending in ENDINGS:
        if module.endswith(ending) and len(module) - len(ending) >= 3:
            return module.removesuffix(ending)
    return module


def modules() -> dict[str, list[str]]:
    """Return the modules of each package."""
    found = defaultdict[str, list[str]](list)
    for source in sources("src/ottla"):
        package, _, name = source.path.removesuffix(".py").rpartition("/")
        if not name.startswith("__") and not source.is_declaration:
            found[package].append(name)
    return found


def inflected(names: Iterable[str]) -> list[tuple[str, ...]]:
    stems = defaultdict[str, list[str]](list)
    for name in sorted(names):
        stems[stem(name)].append(name)
    return [tuple(names) for names in stems.values() if len(names) > 1]


def test_modules_are_named_by_nouns() -> None:
    """A reader of imports learns what a module is: `moved` and `taking` name neither a thing nor what it does."""
    found = {name for names in modules().values() for name in names if is_participle(name)}
    assert not found, "name the module by what it is"


def test_modules_of_a_package_differ_by_more_than_inflection() -> None:
    """Nobody remembers whether it was in `fetcher` or in `fetchers`."""
    found = {pair for names in modules().values() for pair in inflected(names)}
    assert not found - STILL_INFLECTED, "say in the names what is different"
    assert not STILL_INFLECTED - found, "they differ by more now: take them out of the list"


@pytest.mark.parametrize(
    ("name", "expected"),
    [("moved", True), ("taking", True), ("torn07", True), ("framing", False), ("copy_running", False), ("lane", False)],
)
def test_a_bare_participle_is_noticed(name: str, expected: bool) -> None:
    assert is_participle(name) == expected


def test_names_that_differ_by_inflection_are_noticed() -> None:
    assert inflected(["election", "elections", "moves", "moving", "log"]) == [("election", "elections"), ("moves", "moving")]
