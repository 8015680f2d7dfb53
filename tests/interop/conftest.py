"""Which client a test runs with."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import pytest

from bench.apache_kafka import VERSION
from tests.support.clients import CLIENTS, Client
from tests.support.toolbox import Toolbox, opened

Connect = Callable[[str], Client]


@pytest.fixture(params=CLIENTS, ids=lambda kind: kind.name)
def connect(request: pytest.FixtureRequest) -> Connect:
    """Makes a client of one library for a broker's address."""
    kind: type[Client] = request.param
    return kind


@pytest.fixture(scope="session")
def toolbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toolbox]:
    """Apache Kafka's tools, in one Java machine for all tests of the session."""
    yield from opened(VERSION, tmp_path_factory.mktemp("toolbox"))


@pytest.fixture(autouse=True)
def _collect_here() -> Iterator[None]:
    """What a client leaves behind is collected in the test that used it, and not held against a later one."""
    yield
    gc.collect()
