"""Unit tests stay pure: no event loop, socket, thread, signal, sleep or Java. What needs one of them is in `tests/integration`.

A pure test gives the same answer on a busy machine, and thousands of them take a minute. A process of its own is allowed: a fresh
interpreter shows what an import loads, or which memory a kernel takes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.tree.source import Source, sources

FOLDERS = ("tests/unit", "tests/scenarios")
WORLD = {"asyncio", "concurrent", "multiprocessing", "select", "selectors", "signal", "socket", "socketserver", "threading"}
JAVA = {"tests.support.java", "tests.support.toolbox", "tests.support.zookeeper", "bench.apache_kafka"}
RUNNING = {
    "ottla.Admin",
    "ottla.AsyncAdmin",
    "ottla.AsyncConsumer",
    "ottla.AsyncProducer",
    "ottla.Broker",
    "ottla.Consumer",
    "ottla.Producer",
}
SLEEP = "time.sleep"


def impurities(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield (line, name) of whatever an import or a call of a test takes from the world."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Call):
            for name in named(node):
                if name.split(".")[0] in WORLD or name in JAVA | RUNNING or name == SLEEP:
                    yield node.lineno, name


def named(node: ast.Import | ast.ImportFrom | ast.Call) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
    return [ast.unparse(node.func)]


def pure_tests() -> list[Source]:
    return sources(*FOLDERS)


def test_unit_tests_are_pure() -> None:
    found = [f"{source.path}:{line} uses {name}" for source in pure_tests() for line, name in impurities(source.tree)]
    assert not found, "move the test to tests/integration, or give it the clock, the disk or the bytes that it needs"


@pytest.mark.parametrize(
    ("text", "pure"),
    [
        ("import socket", False),
        ("def test():\n    from concurrent.futures import ThreadPoolExecutor", False),
        ("from tests.support.java import run", False),
        ("from ottla import Broker", False),
        ("with ottla.Broker() as broker: ...", False),
        ("import time\ntime.sleep(1)", False),
        ("import time\ntime.process_time()", True),
        ("import ottla\nottla.KafkaError('no')", True),
        ("import subprocess, sys", True),
    ],
)
def test_what_the_world_gives_is_noticed(text: str, pure: bool) -> None:
    assert (not list(impurities(ast.parse(text)))) == pure
