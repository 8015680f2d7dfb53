"""The share consumer of kafka-clients (KIP-932): what its users do, one thing after another (`java/Sharing.java`)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from bench.apache_kafka import Unavailable, class_path
from tests.support.jars import program
from tests.support.peers import start_peer

SETTINGS: dict[str, object] = {
    "group.share.assignment.interval.ms": 0,
    "group.share.min.record.lock.duration.ms": 1000,
    "group.share.heartbeat.interval.ms": 500,
    "group.share.min.heartbeat.interval.ms": 100,
    "offsets.topic.num.partitions": 3,
    "share.coordinator.state.topic.num.partitions": 3,
}
EXPECTED = {
    "implicit": "101 records, each [1]",
    "explicit": "20 accepted, 10 again, all released, deliveries [2]",
    "unacknowledged": "refused",
    "closed": "10 records, deliveries [2]",
    "lock": "10 held, 10 taken, deliveries [2], then none, callback {none=10}",
    "renew": "held for 4000 ms, 0 taken by others, accepted",
    "limit": "12 deliveries, at most the 3rd",
    "members": "3000 records, each [1], several busy, 0 failed",
    "batches": "20 at once",
    "records": "6 at once",
    "committed": "10 records from 10 to 34",
    "uncommitted": "20 records from 0 to 34",
    "administered": "Stable with 1, has offset, again 6, listed, deleted",
}
"""What comes of each use, as with Apache Kafka. A late acknowledgement is dropped by the client, which knows its lock."""


@pytest.fixture(scope="module")
def uses(peer_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What came of each use."""
    home = tmp_path_factory.mktemp("sharing")
    try:
        command = program("Sharing", class_path(), home / "classes")
    except Unavailable as missing:
        pytest.skip(f"the Java client cannot run: {missing}")
    with start_peer(peer_name, home, SETTINGS) as broker:
        done = subprocess.run([*command, broker.address], capture_output=True, text=True, timeout=240, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        found = dict(line.split("\t", 1) for line in done.stdout.splitlines() if "\t" in line)
        found["log"] = done.stderr[-3000:]
        yield found


@pytest.mark.java
@pytest.mark.timeout(300)
@pytest.mark.parametrize("use", EXPECTED)
@pytest.mark.rows(13)
def test_a_share_consumer_of_java_gets_what_it_gets_of_kafka(uses: dict[str, str], use: str) -> None:
    assert uses.get(use) == EXPECTED[use], uses["log"]
