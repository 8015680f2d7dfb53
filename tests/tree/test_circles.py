"""No module imports itself by way of others: whoever reads one can read what it rests on first, and never has to come back.

What counts as an import: every one, wherever it stands; one for types only or inside a function ties two modules together as well.
`from package import module` imports that module, `from package import name` the package's `__init__`. Importing a module of a
package from outside of it also imports the package's `__init__`, as Python does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

import pytest

from tests.tree.source import Source, sources

Graph = Mapping[str, set[str]]


def named(source: Source) -> str:
    return source.path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def imported(tree: ast.Module, modules: set[str]) -> Iterator[str]:
    """The modules of the project that a file names in its imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module in modules:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in modules else node.module


def with_packages(importer: str, module: str, modules: set[str]) -> Iterator[str]:
    """The module, and the packages around it that the importer is not in itself."""
    yield module
    parts = module.split(".")
    for count in range(1, len(parts)):
        package = ".".join(parts[:count])
        if package in modules and not f"{importer}.".startswith(f"{package}."):
            yield package


def graph_of(files: Mapping[str, ast.Module]) -> Graph:
    modules = set(files)
    return {
        name: {found for module in imported(tree, modules) for found in with_packages(name, module, modules)} - {name}
        for name, tree in files.items()
    }


def reachable(graph: Graph, start: str) -> set[str]:
    found, left = set[str](), [start]
    while left:
        new = graph[left.pop()] - found
        found |= new
        left += new
    return found


def circles(graph: Graph) -> list[list[str]]:
    """Each set of modules that reach one another, as the shortest path from its first module back to it."""
    reach = {name: reachable(graph, name) for name in graph}
    out, seen = list[list[str]](), set[str]()
    for name in sorted(graph):
        if name in reach[name] and name not in seen:
            seen |= {other for other in reach[name] if name in reach[other]}
            out.append(shortest_way_back(graph, name))
    return out


def shortest_way_back(graph: Graph, start: str) -> list[str]:
    ways, seen = [[start]], {start}
    for way in ways:
        if start in graph[way[-1]]:
            return [*way, start]
        ways += ([*way, module] for module in sorted(graph[way[-1]] - seen))
        seen |= graph[way[-1]]
    raise AssertionError("the start is on no circle")


def project() -> Graph:
    return graph_of({named(source): source.tree for source in sources("src") if source.path.startswith("src/ottla/")})


def test_no_module_imports_itself_by_way_of_others() -> None:
    found = circles(project())
    assert not found, "\n".join(" -> ".join(circle) for circle in found)


def graph(**texts: str) -> Graph:
    return graph_of({name.replace("__", "."): ast.parse(text) for name, text in texts.items()})


@pytest.mark.parametrize(
    "texts",
    [
        {"a": "import b", "b": "import c", "c": "import a"},
        {"a": "if TYPE_CHECKING:\n    from b import B", "b": "from a import A"},
        {"a": "def f():\n    import b", "b": "import a"},
        {"p": "from p.m import X", "p__m": "from p import Y"},
        {"p": "from q import X", "p__m": "", "q": "import p.m"},
    ],
)
def test_a_circle_is_noticed(texts: dict[str, str]) -> None:
    assert circles(graph(**texts))


@pytest.mark.parametrize(
    "texts",
    [
        {"a": "import b, c", "b": "import c", "c": "import sys"},
        {"p": "from p.m import X", "p__m": "from p import n", "p__n": ""},
    ],
)
def test_what_comes_back_to_nothing_is_none(texts: dict[str, str]) -> None:
    assert not circles(graph(**texts))


def test_a_circle_is_told_as_the_shortest_path() -> None:
    assert circles(graph(a="import b, c", b="import c", c="import a", d="import a")) == [["a", "c", "a"]]
