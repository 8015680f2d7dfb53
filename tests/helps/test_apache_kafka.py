"""Every example of every help does on Apache Kafka what its help says, but for those of Ottla alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.cli.command.parser import Example
from tests.helps.clusters import HelpCluster, apache_kafka
from tests.helps.runs import run_example
from tests.helps.scenario import examples_of, load

load()
pytestmark = [pytest.mark.java, pytest.mark.full(seconds=1)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HelpCluster]:
    with apache_kafka(tmp_path_factory.mktemp("kafka")) as cluster:
        yield cluster


@pytest.mark.parametrize("example", examples_of(), ids=lambda example: example.line)
def test_an_example_does_what_its_help_says(example: Example, cluster: HelpCluster, tmp_path: Path) -> None:
    assert run_example(example.line, cluster, tmp_path) > 0
