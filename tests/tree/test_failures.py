"""Nothing is swallowed: exceptions that nobody expected have one door, and no other place catches them and goes on."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.tree.source import Source, sources

PACKAGES = ("broker", "log", "coord", "cluster", "registry", "records", "wire", "net", "sim")
BROAD = {"Exception", "BaseException"}
REASONS = {
    "src/ottla/net/server/exception_boundary.py": "the one door",
    "src/ottla/broker/metrics/snapshots.py": "what a reader raises costs its metrics alone, and is logged: reading changes nothing",
    "src/ottla/broker/share/in_flight.py": "what a read for a page raises costs that page alone, and is logged: it changes nothing",
    "src/ottla/broker/failures.py": "a step of a long request, perhaps long after the door: it costs that request alone",
    "src/ottla/broker/long_checks.py": "what work on another thread raises is raised again where it was asked for",
    "src/ottla/coord/consumer/assign/checked_assignor.py": "a user's own assignor may raise anything; its group stays as it is",
    "src/ottla/net/client/background.py": "what a user's function raises on its thread is raised again by the poll that needs it",
    "src/ottla/net/client/tasks.py": "whatever a client's own function raises ends the client, and its next call raises it again",
    "src/ottla/net/client/statistics.py": "a callback of on_statistics may raise anything; it is logged, and its client goes on",
    "src/ottla/net/client/producer/delivery_callbacks.py": "a callback of on_delivery may raise anything; flush raises it again",
}
"""Files that catch everything, and why they may."""


def names(node: ast.AST | None) -> set[str]:
    return set() if node is None else {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def swallowing(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, what stands there) of what catches everything and goes on; a handler that ends by raising does not."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            broad = node.type is None or BROAD & names(node.type)
            if broad and not isinstance(node.body[-1], ast.Raise):
                yield node.lineno, "except " + (ast.unparse(node.type) if node.type else "")
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress"):
            if BROAD & {name for argument in node.args for name in names(argument)}:
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.FunctionDef) and node.name == "__exit__" and "isinstance(error, Exception)" in ast.unparse(node):
            yield node.lineno, "__exit__ that lets go on"


def found_in(source: Source) -> list[str]:
    return [f"{source.path}:{line} {what}" for line, what in swallowing(source.tree)]


def test_what_nobody_expected_is_caught_in_one_place() -> None:
    found = [
        where
        for source in sources("src")
        if source.package in PACKAGES and source.path not in REASONS
        for where in found_in(source)
    ]
    assert not found, "catch what is expected there (StorageFailed, Malformed, conflicts of the registry) and nothing else"


def test_no_reason_outlives_what_it_excuses() -> None:
    left = {source.path for source in sources("src") if source.path in REASONS and found_in(source)}
    assert left == REASONS.keys()


@pytest.mark.parametrize(
    "text",
    [
        "try: f()\nexcept Exception: pass",
        "try: f()\nexcept (OSError, BaseException) as e: log(e)",
        "try: f()\nexcept: pass",
        "with suppress(Exception): f()",
    ],
)
def test_what_swallows_is_noticed(text: str) -> None:
    assert list(swallowing(ast.parse(text)))


@pytest.mark.parametrize("text", ["try: f()\nexcept BaseException:\n    close()\n    raise", "with suppress(OSError): f()"])
def test_what_raises_on_or_expects_something_is_not(text: str) -> None:
    assert not list(swallowing(ast.parse(text)))
