"""A transactional id in each state, each request about it, by each producer: answered as Apache Kafka 4.3 was seen to.

`transaction_refusals.json` was written by Apache Kafka: `--peer=apache-kafka --rewrite-scenarios` writes it anew.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.clients.confluent import Confluent
from tests.support.peers import start_peer
from tests.support.recorded import differences, recorded
from tests.support.transaction_cases import STATES, TOPIC, Case, Transactions, cases

SEEN = Path(__file__).with_name("transaction_refusals.json")


@pytest.fixture(scope="module")
def transactions(peer_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Transactions]:
    with start_peer(peer_name, tmp_path_factory.mktemp("transactions")) as broker:
        Confluent(broker.address).create_topic(TOPIC, 2)
        transactions = Transactions(broker.address, f"{time.time_ns():x}")
        yield transactions
        transactions.close()


@pytest.fixture(scope="module")
def seen(request: pytest.FixtureRequest, peer_name: str) -> Iterator[dict[str, Any]]:
    """What Apache Kafka answered, and how the transactional id stood afterwards."""
    yield from recorded(SEEN, request, peer_name)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("state", STATES)
@pytest.mark.rows(3)
def test_whatever_is_asked_of_a_transactional_id_is_answered_as_kafka_does(
    transactions: Transactions, seen: dict[str, Any], request: pytest.FixtureRequest, state: str
) -> None:
    asked = (case for case in cases() if case.state == state)
    assert differences(asked, transactions.answer, seen, request) == []


def test_there_are_many_cases() -> None:
    assert len(list(cases())) > 1000
    assert len({str(case) for case in cases()}) == len(list(cases()))
    assert Case("ongoing", "EndTxn 5, commit", "an epoch before") in cases()
