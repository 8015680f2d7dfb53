"""Every example of the daily tasks does on older releases what its help says, or ends with one sentence that names the release."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.cli.command.parser import Example
from tests.helps.clusters import HelpCluster, old_kafka, ottla_cluster
from tests.helps.runs import run_example
from tests.helps.scenario import DAILY, examples_of, load

load()
RELEASES = ("0.10.2", "2.8", "3.9")
EXAMPLES = examples_of(*DAILY)


@pytest.fixture(scope="module", params=RELEASES)
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HelpCluster]:
    with old_kafka(request.param, tmp_path_factory.mktemp("kafka")) as cluster:
        yield cluster


@pytest.fixture(scope="module", params=RELEASES)
def ottla_(request: pytest.FixtureRequest) -> Iterator[HelpCluster]:
    with ottla_cluster(request.param) as cluster:
        yield cluster


@pytest.mark.java
@pytest.mark.full(seconds=1)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.line)
def test_an_example_on_apache_kafka(example: Example, kafka: HelpCluster, tmp_path: Path) -> None:
    assert run_example(example.line, kafka, tmp_path) > 0


@pytest.mark.full(seconds=0.5)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.line)
def test_an_example_on_a_listener_of_a_release(example: Example, ottla_: HelpCluster, tmp_path: Path) -> None:
    assert run_example(example.line, ottla_, tmp_path) > 0
