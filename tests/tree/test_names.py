"""One name, one thing: no two classes of the project share a name, so that a search finds the one that is meant."""

from __future__ import annotations

import ast
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
