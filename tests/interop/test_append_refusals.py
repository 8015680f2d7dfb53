"""What producers with ids append to a partition: taken, recognised or refused as Apache Kafka 4.3 was seen to.

`append_refusals.json` was written by Apache Kafka: `--peer=apache-kafka --rewrite-scenarios` writes it anew.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.append_cases import ENDED_STATES, OPEN_STATES, PLAIN_STATES, Append, Appends, Marked, appends, markers
from tests.support.clients.confluent import Confluent
from tests.support.peers import start_peer
from tests.support.recorded import differences, recorded
from tests.support.transaction_cases import TOPIC

SEEN = Path(__file__).with_name("append_refusals.json")


@pytest.fixture(scope="module")
def partition(peer_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appends]:
    with start_peer(peer_name, tmp_path_factory.mktemp("appends")) as broker:
        Confluent(broker.address).create_topic(TOPIC, 2)
        partition = Appends(broker.address, f"{time.time_ns():x}")
        yield partition
        partition.close()


@pytest.fixture(scope="module")
def seen(request: pytest.FixtureRequest, peer_name: str) -> Iterator[dict[str, Any]]:
    """What Apache Kafka answered, where the batch went, and by how much the log grew."""
    yield from recorded(SEEN, request, peer_name)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("state", [*PLAIN_STATES, *OPEN_STATES, *ENDED_STATES])
@pytest.mark.rows(3)
def test_whatever_a_producer_appends_is_taken_or_refused_as_kafka_does(
    partition: Appends, seen: dict[str, Any], request: pytest.FixtureRequest, state: str
) -> None:
    all_cases: list[Append | Marked] = [*appends(), *markers()]
    asked = (case for case in all_cases if case.state == state)
    assert differences(asked, partition.answer, seen, request) == []
