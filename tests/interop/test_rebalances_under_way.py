"""Each request about a classic group while its rebalance is held back by a member: answered as Apache Kafka 4.3 was seen to.

`rebalances_under_way.json` was written by Apache Kafka: `--peer=apache-kafka --rewrite-scenarios` writes it anew.
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
from tests.support.rebalance_cases import REBALANCES, QuestionerInside, Rebalances, rebalance_cases
from tests.support.recorded import differences, recorded

SEEN = Path(__file__).with_name("rebalances_under_way.json")
METADATA, FIND = 3, 10


@pytest.fixture(scope="module")
def rebalances(peer_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rebalances]:
    if peer_name == "ottla":
        inside = QuestionerInside()
        inside.ask(METADATA, 4, request_of(METADATA, 4, topics=[{"name": "known"}], allow_auto_topic_creation=True))
        inside.ask(FIND, 0, request_of(FIND, 0, key="any"))
        yield Rebalances(inside)
        return
    with start_peer(peer_name, tmp_path_factory.mktemp("held"), {"group.initial.rebalance.delay.ms": 0}) as broker:
        Confluent(broker.address).create_topic("known")
        find_coordinator(broker.address, "any")
        questioner = Questioner(broker.address)
        yield Rebalances(questioner)
        questioner.close()


@pytest.fixture(scope="module")
def seen(request: pytest.FixtureRequest, peer_name: str) -> Iterator[dict[str, Any]]:
    """What Apache Kafka answered, and how the group stood afterwards."""
    yield from recorded(SEEN, request, peer_name)


@pytest.mark.rows(2, seconds=3)
@pytest.mark.timeout(900)
@pytest.mark.parametrize("state", REBALANCES)
def test_whatever_is_asked_during_a_rebalance_is_answered_as_kafka_does(
    rebalances: Rebalances, seen: dict[str, Any], request: pytest.FixtureRequest, state: str
) -> None:
    run, numbers = f"{time.time_ns():x}", count()
    asked = (case for case in rebalance_cases() if case.state == state)
    assert differences(asked, lambda case: rebalances.answer(case, f"r-{run}-{next(numbers)}"), seen, request) == []
