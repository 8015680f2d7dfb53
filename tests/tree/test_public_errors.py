"""Every exception that a public call can raise is exported by `ottla` and described; no other class is raised."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

import pytest

import ottla
from ottla.client import errors
from tests.tree.source import ROOT, Source, sources

PUBLIC = ("src/ottla/client/", "src/ottla/net/client/")
EMBEDDED = {
    f"src/ottla/net/{name}.py"
    for name in ("process/embedded", "startup/start", "startup/data_directory", "server/exception_boundary", "startup/plugins")
}
BUILTIN = {
    "AttributeError": "a method of another Kafka client is looked up",
    "TypeError": "an argument of a wrong type",
    "RuntimeError": "a broker that is not running is asked for its address",
    "ImportError": "an extra is not installed",
    "KeyError": "a metric of an unknown name",
    "ValueError": "an address to listen on, which the command line turns into its own words",
}
CAUGHT = {
    "BadBatch": "the fetcher turns it into CORRUPT_MESSAGE",
    "MalformedMetrics": "who reads the metrics of a client turns it into KafkaError",
    "NothingCommitted": "the command and the console turn it into sentences of their own",
    "RegistryAway": "whoever walks the steps turns it into ConnectionFailed",
    "SaslFailed": "a login turns it into AuthenticationFailed",
}
"""Exceptions that are raised and do not leave, and why."""


def public_files() -> list[Source]:
    return [source for source in sources("src") if source.path.startswith(PUBLIC) or source.path in EMBEDDED]


def raised(tree: ast.AST) -> Iterator[str]:
    """The names of classes in `raise Name` and `raise Name(...)`; what is raised by another name is looked at where it is made."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and node.exc is not None:
            made = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            name = made.id if isinstance(made, ast.Name) else ""
            if name[:1].isupper():
                yield name


def exceptions() -> dict[str, type[BaseException]]:
    found = {name: getattr(ottla, name) for name in ottla.__all__}
    return {name: kind for name, kind in found.items() if isinstance(kind, type) and issubclass(kind, BaseException)}


def test_what_a_public_call_raises_is_exported() -> None:
    known = exceptions().keys() | BUILTIN.keys() | CAUGHT.keys()
    found = {f"{source.path} raises {name}" for source in public_files() for name in raised(source.tree) if name not in known}
    assert not found
    assert all(hasattr(builtins, name) for name in BUILTIN)


def test_every_exception_of_clients_is_exported() -> None:
    classes = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, ottla.KafkaError)}
    assert classes <= exceptions().keys()


@pytest.mark.parametrize("name", exceptions())
def test_every_exported_exception_is_described(name: str) -> None:
    assert f"`{name}`" in (ROOT / "docs/clients.md").read_text()
    assert exceptions()[name].__doc__


def test_what_is_exported_is_what_is_found() -> None:
    homes = {name for names in ottla._HOMES.values() for name in names.split()}
    assert {*homes, "__version__"} == set(ottla.__all__)
    assert all(getattr(ottla, name) is not None for name in ottla.__all__)


@pytest.mark.parametrize(
    ("text", "names"), [("raise A('x') from e", ["A"]), ("raise A", ["A"]), ("raise error", []), ("raise", [])]
)
def test_raised_classes_are_noticed(text: str, names: list[str]) -> None:
    assert list(raised(ast.parse(text))) == names
