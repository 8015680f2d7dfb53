"""A pytest plugin for the suites of other clients: their fixtures get the broker that is running already, and outcomes are noted.

Runs inside their pytest, as a module of no package, for the names of ours are theirs there too. Told by the environment: where the
broker is (`SUITE_BROKER`, host:port) and where each test's outcome goes (`SUITE_OUTCOMES`, one JSON array per line).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

HOST, _, PORT = os.environ.get("SUITE_BROKER", "127.0.0.1:0").rpartition(":")
OUTCOMES = os.environ.get("SUITE_OUTCOMES", os.devnull)


def without_docker() -> None:
    """aiokafka's tests import the client of Docker, in whose container they would start a broker."""
    docker: Any = ModuleType("docker")
    docker.models = SimpleNamespace(containers=SimpleNamespace(Container=object))
    sys.modules.setdefault("docker", docker)


def without_services() -> None:
    """kafka-python's source archive lacks the module that starts its brokers; with one that runs already it is not missed."""
    if Path("test/integration").is_dir() and not Path("test/service.py").exists():
        services: Any = ModuleType("test.service")
        services.SpawnedService = SimpleNamespace
        services.ExternalService = lambda host, port: SimpleNamespace(host=host, port=port)
        sys.modules["test.service"] = services


def server_for_aiokafka(request: Any) -> Any:
    """What their fixture of a server in a container would have given."""
    ports = dict.fromkeys(("port", "ssl_port", "sasl_plain_port", "sasl_ssl_port"), int(PORT))
    return SimpleNamespace(host=HOST, hosts=[f"{HOST}:{PORT}"], container=None, **ports)


def broker_for_kafka_python(request: Any) -> Any:
    """Their own fixture of a broker that runs elsewhere, whose topics have four partitions as all of theirs."""
    from test.integration.fixtures import KafkaFixture  # type: ignore[import-not-found]  # theirs, not the standard library's

    return KafkaFixture.instance(0, host=HOST, port=int(PORT), external=True, partitions=4, replicas=1)


def _nothing(request: Any) -> None:
    return None


FIXTURES: dict[str, Callable[[Any], Any]] = {
    "docker": _nothing,
    "kafka_image": lambda request: "kafka_image",
    "ssl_folder": lambda request: Path("ssl"),
    "acl_manager": _nothing,
    "kerberos_utils": _nothing,
    "kafka_config": _nothing,
    "kafka_server": server_for_aiokafka,
    "kafka_broker": broker_for_kafka_python,
}
"""Theirs are in a conftest.py, which goes before a plugin: they are answered for, instead of defined anew."""


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Before their conftest.py is imported."""
    without_docker()
    without_services()


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: Any, request: Any) -> Any:
    make = FIXTURES.get(fixturedef.argname)
    if make is None:
        return None
    value = make(request)
    fixturedef.cached_result = (value, fixturedef.cache_key(request), None)
    return value if value is not None else False


def pytest_runtest_logreport(report: Any) -> None:
    """A test has passed if nothing of it failed; its set-up and its end are parts of it."""
    if report.when == "call" or report.outcome != "passed":
        with Path(OUTCOMES).open("a", encoding="utf-8") as outcomes:
            outcomes.write(json.dumps([report.nodeid, report.outcome, report.when]) + "\n")
