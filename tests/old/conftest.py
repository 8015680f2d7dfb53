"""One broker with a listener for each release, so that clients of all times meet on the same topics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.apache_kafka import free_port
from ottla.testing import BrokerProcess

RELEASES = ("0.8.0", "0.8.1", "0.8.2", "0.9.0", "0.10.0", "0.10.1", "0.10.2", "0.11.0", "1.1", "2.0", "2.8")
TODAY = "today"
SETTINGS = {"group.initial.rebalance.delay.ms": 200, "offsets.topic.num.partitions": 2}


@dataclass(frozen=True)
class ManyReleases:
    """One broker; `addresses` are those of its listeners, by the release that each is."""

    broker: BrokerProcess
    addresses: Mapping[str, str]


@pytest.fixture(scope="session")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManyReleases]:
    """A broker that listens as today and as each release, on one set of topics."""
    ports = {release: free_port() for release in RELEASES}
    listen = [part for release, port in ports.items() for part in ("--listen", f"127.0.0.1:{port},release={release}")]
    home: Path = tmp_path_factory.mktemp("releases")
    process = BrokerProcess(home / "data", SETTINGS, arguments=listen)
    process.settings = dict(SETTINGS)  # with no housekeeping of the tests' own: DescribeConfigs would tell of it
    with process as broker:
        addresses = {release: f"127.0.0.1:{port}" for release, port in ports.items()}
        yield ManyReleases(broker, {TODAY: broker.address, **addresses})
