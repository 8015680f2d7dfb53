"""Each request about a transactional id while markers are held back, by each producer: answered as Apache Kafka 4.3 was seen to.

Markers take no time on one broker with nothing to do, so that other tests hardly ever see a transaction that is ending; clients do.
`held_back_transactions.json` was written by Apache Kafka: `--peer=apache-kafka --rewrite-scenarios` writes it anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.apache_kafka import Unavailable
from tests.support.held_cases import HELD, HeldTransactions, held_cases, held_kafka, held_ottla
from tests.support.recorded import differences, recorded

SEEN = Path(__file__).with_name("held_back_transactions.json")


@pytest.fixture(scope="module")
def transactions(peer_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeldTransactions]:
    if peer_name == "ottla":
        with held_ottla() as held:
            yield held
        return
    try:
        with held_kafka(tmp_path_factory.mktemp("held")) as held:
            yield held
    except Unavailable as missing:
        pytest.skip(f"no Apache Kafka: {missing}")


@pytest.fixture(scope="module")
def seen(request: pytest.FixtureRequest, peer_name: str) -> Iterator[dict[str, Any]]:
    """What Apache Kafka answered, and how the transactional id stood afterwards."""
    yield from recorded(SEEN, request, peer_name)


@pytest.mark.rows(2, seconds=2)
@pytest.mark.timeout(300)
@pytest.mark.parametrize("state", HELD)
def test_whatever_is_asked_while_markers_are_held_back_is_answered_as_kafka_does(
    transactions: HeldTransactions, seen: dict[str, Any], request: pytest.FixtureRequest, state: str
) -> None:
    asked = (case for case in held_cases() if case.state == state)
    assert differences(asked, transactions.answer, seen, request) == []
