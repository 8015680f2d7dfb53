"""The project's Python files as text and syntax, for the tests of the tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
FOLDERS = ("src", "tests", "bench", "examples")


class Function(NamedTuple):
    """A function or method. `lines` counts from its `def` to its last line, docstring and all."""

    name: str
    lines: int


class Source:
    """One file."""

    def __init__(self, path: Path) -> None:
        self.path = path.relative_to(ROOT).as_posix()
        self.text = path.read_text(encoding="utf-8")
        self.lines = self.text.splitlines()

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @cached_property
    def functions(self) -> list[Function]:
        return list(_functions(self.tree, ""))

    @property
    def package(self) -> str:
        """The package of `ottla` that it belongs to ("wire", "net" …), Kafka 0.7's by their namesakes; empty for all else."""
        parts = self.path.replace("/kafka07/", "/", 1).split("/")
        return parts[2].removesuffix(".py") if parts[:2] == ["src", "ottla"] and len(parts) > 2 else ""

    @property
    def is_declaration(self) -> bool:
        """Messages declared for the wire: no logic, as long as the protocol makes them."""
        return self.path.startswith(("src/ottla/wire/api/", "src/ottla/wire/data/"))

    def imports(self) -> Iterator[tuple[int, str]]:
        """(line, module) of every import wherever it stands; `from a import b` counts as a.b."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from ((node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)

    def imports_at_import(self) -> Iterator[tuple[int, str]]:
        """Those that run when the module itself is imported."""
        lazy = {id(node) for inner in ast.walk(self.tree) if is_deferred(inner) for node in ast.walk(inner)}
        for node in ast.walk(self.tree):
            if id(node) in lazy:
                continue
            if isinstance(node, ast.Import):
                yield from ((node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield node.lineno, node.module


def is_deferred(node: ast.AST) -> bool:
    if isinstance(node, ast.If):
        return ast.unparse(node.test).endswith("TYPE_CHECKING")
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)


def _functions(node: ast.AST, prefix: str) -> Iterator[Function]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield Function(prefix + child.name, (child.end_lineno or child.lineno) - child.lineno + 1)
        name = f"{prefix}{child.name}." if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else prefix
        yield from _functions(child, name)


@cache
def sources(*folders: str) -> list[Source]:
    """Every Python file below the folders (all of the project's, unless given), in order of path."""
    found = (path for folder in folders or FOLDERS for path in (ROOT / folder).rglob("*.py"))
    return [read(path) for path in sorted(found) if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)]


@cache
def read(path: Path) -> Source:
    """Return a file that is read and parsed once, however many tests ask for its folder."""
    return Source(path)
