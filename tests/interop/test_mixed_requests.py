"""A request with batches of several kinds and producers: what is written and what is refused, as Apache Kafka 4.3 was seen to.

`mixed_requests.json` was written by Apache Kafka: `--peer=apache-kafka --rewrite-scenarios` writes it anew.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.clients.confluent import Confluent
from tests.support.mixed_cases import STATES, MixedRequests, mixed
from tests.support.peers import start_peer
from tests.support.recorded import differences, recorded
from tests.support.transaction_cases import TOPIC

SEEN = Path(__file__).with_name("mixed_requests.json")


@pytest.fixture(scope="module")
def requests(peer_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedRequests]:
    with start_peer(peer_name, tmp_path_factory.mktemp("mixed")) as broker:
        Confluent(broker.address).create_topic(TOPIC, 2)
        requests = MixedRequests(broker.address, f"{time.time_ns():x}")
        yield requests
        requests.close()


@pytest.fixture(scope="module")
def seen(request: pytest.FixtureRequest, peer_name: str) -> Iterator[dict[str, Any]]:
    """What Apache Kafka answered, by how much each log grew, and how the transactional id stood afterwards."""
    yield from recorded(SEEN, request, peer_name)


@pytest.mark.rows(1, seconds=3)
@pytest.mark.timeout(300)
@pytest.mark.parametrize("state", STATES)
def test_batches_of_several_kinds_in_a_request_are_taken_or_refused_as_kafka_does(
    requests: MixedRequests, seen: dict[str, Any], request: pytest.FixtureRequest, state: str
) -> None:
    asked = (case for case in mixed() if case.state == state)
    assert differences(asked, requests.answer, seen, request) == []
