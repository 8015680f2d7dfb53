"""Each request about a consumer group (KIP-848) between two assignments: answered as Apache Kafka 4.3 was seen to.

`reconciling_groups.json` was written by Apache Kafka: `--peer=apache-kafka --rewrite-scenarios` writes it anew.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from bench.groups import find_coordinator
from tests.support.bad_groups import Questioner
from tests.support.clients.confluent import Confluent
from tests.support.messages import request as request_of
from tests.support.peers import start_peer
from tests.support.rebalance_cases import QuestionerInside
from tests.support.reconciling_cases import HALVES, RECONCILING, Reconciling, reconciling_cases
from tests.support.recorded import differences, recorded

SEEN = Path(__file__).with_name("reconciling_groups.json")
FIND = 10
AT_ONCE = {"group.consumer.min.assignment.interval.ms": 0, "group.consumer.assignment.interval.ms": 0}
"""Members come within a second, and are assigned as they do."""


@pytest.fixture(scope="module")
def groups(peer_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reconciling]:
    if peer_name == "ottla":
        inside = QuestionerInside(num_partitions=2, **AT_ONCE)
        inside.ask(FIND, 0, request_of(FIND, 0, key="any"))
        yield Reconciling(inside)
        return
    with start_peer(peer_name, tmp_path_factory.mktemp("reconciling"), dict(AT_ONCE)) as broker:
        Confluent(broker.address).create_topic(HALVES, 2)
        find_coordinator(broker.address, "any")
        questioner = Questioner(broker.address)
        yield Reconciling(questioner)
        questioner.close()


@pytest.fixture(scope="module")
def seen(request: pytest.FixtureRequest, peer_name: str) -> Iterator[dict[str, Any]]:
    """What Apache Kafka answered, and how the group stood afterwards."""
    yield from recorded(SEEN, request, peer_name)


@pytest.mark.rows(2, seconds=2)
@pytest.mark.timeout(300)
@pytest.mark.parametrize("state", RECONCILING)
def test_whatever_is_asked_between_two_assignments_is_answered_as_kafka_does(
    groups: Reconciling, seen: dict[str, Any], request: pytest.FixtureRequest, state: str
) -> None:
    run, numbers = f"{time.time_ns():x}", count()
    asked = (case for case in reconciling_cases() if case.state == state)
    assert differences(asked, lambda case: groups.answer(case, f"r-{run}-{next(numbers)}"), seen, request) == []
