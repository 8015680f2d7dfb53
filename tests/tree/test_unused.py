"""Nothing lies about that nobody uses: each function, class, constant and method of the project is named by some other code of it.

A name counts as used where code outside its own definition reads it, be it as an attribute of anything, or spells it as a text of
its own. Not looked at: declarations of messages, what `ottla` exports, methods that Python or a base class from elsewhere calls,
what a decorator hands to somebody (handlers, fixtures), and numbers that are named together (`A, B = 1, 2`). What only tests,
benchmarks and examples use stands in a table, but for `ottla.sim`: with that users simulate programs of their own.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import NamedTuple

import pytest

import ottla
import ottla.testing
from tests.tree.exceptions import FOR_TESTS
from tests.tree.source import Source, sources

PLAIN_DECORATORS = {
    "abstractmethod", "cache", "cached_property", "classmethod", "contextmanager", "dataclass", "final", "lru_cache", "overload",
    "property", "runtime_checkable", "setter", "staticmethod", "total_ordering",
}  # fmt: skip
"""Those that leave a definition where it is; any other one may register it somewhere."""
OWN_BASES = {"ABC", "Enum", "Exception", "Generic", "IntEnum", "NamedTuple", "Protocol", "ValueError", "object"}
"""Bases from elsewhere that call none of our methods, other than those with underscores."""

WORLD = "src/ottla/sim/"

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign


class Defined(NamedTuple):
    """Something with a name that only other code can make use of."""

    path: str
    owner: str
    name: str
    node: Definition

    def __str__(self) -> str:
        return f"{self.path}::{self.owner}{self.name}"


def last_name(node: ast.expr) -> str:
    """The name at the end: of a.b(c), b."""
    node = node.func if isinstance(node, ast.Call) else node
    node = node.value if isinstance(node, ast.Subscript) else node
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def is_handed_over(node: Definition) -> bool:
    if isinstance(node, ast.Assign | ast.AnnAssign):
        return isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Call)  # NAME = serves(X)(function)
    return any(last_name(decorator) not in PLAIN_DECORATORS for decorator in node.decorator_list)


def defined(path: str, tree: ast.Module, classes: set[str]) -> Iterator[Defined]:
    """What a file defines; `classes` are those of the project."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and not is_handed_over(node):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (Defined(path, "", target.id, node) for target in targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not is_handed_over(node):
            yield Defined(path, "", node.name, node)
        if isinstance(node, ast.ClassDef) and all(last_name(base) in classes | OWN_BASES for base in node.bases):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef) and not is_handed_over(inner):
                    yield Defined(path, f"{node.name}.", inner.name, inner)


class Uses:
    """Where names are used in some files. A read of `self.x` counts for the class that it stands in, and its kin."""

    def __init__(self, files: Mapping[str, ast.Module]) -> None:
        self._prefixes: set[str] = set()
        """Beginnings of names that are put together: what stands before the first brace of an f-string."""
        self._imported: set[tuple[str, str]] = set()
        self._read: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        self._attributes: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        self._own: dict[str, dict[tuple[str, str], list[int]]] = defaultdict(lambda: defaultdict(list))
        for path, tree in files.items():
            self._take_in(path, tree, "")

    def _take_in(self, path: str, tree: ast.AST, cls: str) -> None:
        for node in ast.iter_child_nodes(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                self._imported |= {(node.module, alias.name) for alias in node.names}
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                if cls and isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
                    self._own[node.attr][path, cls].append(node.lineno)
                else:
                    self._attributes[node.attr][path].append(node.lineno)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                self._read[node.id][path].append(node.lineno)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
                self._attributes[node.value][path].append(node.lineno)
            elif isinstance(node, ast.JoinedStr) and isinstance(node.values[0], ast.Constant):
                self._prefixes.add(str(node.values[0].value))
            self._take_in(path, node, node.name if isinstance(node, ast.ClassDef) else cls)

    def has(self, one: Defined, kin: set[str]) -> bool:
        """Whether it is used anywhere outside of its own lines; `kin` are the classes that its own is related to."""
        first, last = one.node.lineno, one.node.end_lineno or one.node.lineno

        def outside(path: str, lines: list[int]) -> bool:
            return path != one.path or any(not first <= line <= last for line in lines)

        if any(outside(path, lines) for path, lines in self._attributes[one.name].items()):
            return True
        if any(prefix.endswith("_") and one.name.startswith(prefix) for prefix in self._prefixes if prefix.isidentifier()):
            return True
        if outside(one.path, self._read[one.name][one.path]):
            return True
        if one.owner:
            return any(cls in kin and outside(path, lines) for (path, cls), lines in self._own[one.name].items())
        return (module_of(one.path), one.name) in self._imported


def module_of(path: str) -> str:
    return path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def families(trees: Iterable[ast.Module]) -> dict[str, set[str]]:
    """Class -> all that it is related to by inheritance, itself too."""
    classes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    found = {node.name: {node.name} for node in classes}
    for node in classes:
        bases = {last_name(base) for base in node.bases} & found.keys()
        family = found[node.name].union(*(found[name] for name in bases))
        found |= dict.fromkeys(family, family)
    return found


def unused(files: Mapping[str, ast.Module], uses: Uses, public: set[str]) -> list[Defined]:
    kin = families(files.values())
    everything = [one for path, tree in files.items() for one in defined(path, tree, set(kin))]
    return [one for one in everything if not is_public(one, public) and not uses.has(one, kin.get(one.owner.rstrip("."), set()))]


def is_public(one: Defined, public: set[str]) -> bool:
    """Whether Python or users of `ottla` may use it: `public` is what that and `ottla.testing` export."""
    return one.name.startswith("__") or ((one.owner.rstrip(".") or one.name) in public and not one.name.startswith("_"))


@cache
def project() -> tuple[list[Defined], list[Defined]]:
    """(what nobody uses, what only tests, benchmarks and examples use)"""
    files = {source.path: source.tree for source in sources("src") if not source.is_declaration}
    left = unused(files, Uses({source.path: source.tree for source in sources("src")}), {*ottla.__all__, *ottla.testing.__all__})
    others = Uses({source.path: source.tree for source in sources("tests", "bench", "examples", "tools") if not is_this(source)})
    in_tests = [one for one in left if others.has(one, {one.owner.rstrip(".")})]
    return [one for one in left if one not in in_tests], [one for one in in_tests if not one.path.startswith(WORLD)]


def is_this(source: Source) -> bool:
    return source.path == "tests/tree/exceptions.py"


def test_everything_is_used() -> None:
    nobody, _ = project()
    assert not sorted(map(str, nobody)), "nobody uses it: remove it"


def test_what_only_tests_use_is_meant_for_them() -> None:
    _, tests = project()
    found = set(map(str, tests))
    assert not sorted(found - FOR_TESTS.keys()), "only tests use it: remove it with them, or say in the table what it is for"
    assert not sorted(FOR_TESTS.keys() - found), "it is used or gone: take it out of the table"


def found_in(text: str) -> list[str]:
    tree = {"a.py": ast.parse(text)}
    return [one.owner + one.name for one in unused(tree, Uses(tree), {"Public"})]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("def f(): f()", ["f"]),
        ("LIMIT: int = 1", ["LIMIT"]),
        ("class A:\n    def m(self): self.m()\nA()", ["A.m"]),
        ("class A(Protocol):\n    def m(self): ...\nA", ["A.m"]),
        ("from b import f\nf = 1", ["f"]),
    ],
)
def test_what_nobody_uses_is_noticed(text: str, names: list[str]) -> None:
    assert found_in(text) == names


@pytest.mark.parametrize(
    "text",
    [
        "def f(): ...\nf()",
        "def f(): ...\nEXPORTS = ['f']\nEXPORTS",
        "class Public:\n    def m(self): ...",
        "@serves(X)\ndef f(): ...",
        "class A(Elsewhere):\n    def called_by_it(self): ...\nA",
        "class A:\n    def __len__(self): ...\nA",
    ],
)
def test_what_somebody_may_use_is_not(text: str) -> None:
    assert not found_in(text)
