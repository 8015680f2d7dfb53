"""ApiVersions tells the versions up to Kafka 4.4's, for every API that is served at all."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.support.frames import API_VERSIONS, Raw
from tests.support.peers import Peer

KNOWN = Path(__file__).parents[3] / "shared" / "spec" / "api_versions.csv"
NEEDED = {0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19, 20, 22, 32, 37, 42, 60}
"""From Produce to DescribeCluster: what the clients of these tests cannot do without."""


def advertised(broker: Peer) -> dict[int, tuple[int, int]]:
    with Raw(broker.address) as raw:
        reply = raw.ask(API_VERSIONS, 0)
        assert reply.number("h") == 0
        found = [reply.take("hhh") for _ in range(reply.number("i"))]
    assert len({key for key, _, _ in found}) == len(found)
    return {key: (lowest, highest) for key, lowest, highest in found}


def test_every_needed_api_is_served(broker: Peer) -> None:
    assert advertised(broker).keys() >= NEEDED


def test_the_highest_versions_are_those_of_kafka_and_all_begin_at_0(broker: Peer, peer_name: str) -> None:
    """Kafka 4 announces less than it could read; clients of 0.10 to 2.0, which ask, find no Fetch there that they know."""
    if peer_name != "ottla":
        pytest.skip("this Apache Kafka is of another release")
    if not KNOWN.exists():
        pytest.skip("../shared is absent: spec/api_versions.csv lists Kafka's versions")
    with KNOWN.open() as file:
        valid = {int(row["api_key"]): row["valid_4.4"].rstrip("*") for row in csv.DictReader(file)}
    for key, (lowest, highest) in advertised(broker).items():
        first, _, last = valid[key].partition("-")
        assert (lowest, highest) == (0, int(last or first)), f"API {key}"
