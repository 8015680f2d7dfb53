"""Each request about a transactional id while the last decision about it is not durable: answered in the end as by Apache Kafka.

`decisions_not_yet_durable.json` was written by Apache Kafka: `--peer=apache-kafka --rewrite-scenarios` writes it anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.apache_kafka import Unavailable
from tests.support.pending_cases import UNDECIDED, PendingInside, PendingTransactions, pending_cases, pending_kafka
from tests.support.recorded import recorded

SEEN = Path(__file__).with_name("decisions_not_yet_durable.json")


@pytest.fixture(scope="module")
def transactions(peer_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PendingTransactions]:
    if peer_name == "ottla":
        yield PendingInside()
        return
    try:
        with pending_kafka(tmp_path_factory.mktemp("pending")) as pending:
            yield pending
    except Unavailable as missing:
        pytest.skip(f"no Apache Kafka: {missing}")


@pytest.fixture(scope="module")
def seen(request: pytest.FixtureRequest, peer_name: str) -> Iterator[dict[str, Any]]:
    """What Apache Kafka answered in the end, and how the transactional id stood then: asked before, and after it was durable."""
    yield from recorded(SEEN, request, peer_name)


@pytest.mark.rows(2, seconds=2)
@pytest.mark.timeout(300)
@pytest.mark.parametrize("state", UNDECIDED)
def test_whatever_is_asked_before_a_decision_is_durable_is_answered_in_the_end_as_kafka_does(
    transactions: PendingTransactions, seen: dict[str, Any], request: pytest.FixtureRequest, state: str
) -> None:
    """Where Kafka goes by what was before the decision, what it answers after it will do: that is the order in which they came."""
    run = state.replace(" ", "-")
    found = transactions.answers(pending_cases(state), run)
    if request.config.getoption("--rewrite-scenarios"):
        late = transactions.answers(pending_cases(state), f"late-{run}", is_late=True)
        seen.update({case: [answer, late[case]] for case, answer in found.items()})
    wrong = [f"{case}: {answer}, and Apache Kafka {seen[case]}" for case, answer in found.items() if answer not in seen[case]]
    assert wrong == []
