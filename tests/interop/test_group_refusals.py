"""Every field of every group request out of range: answered as Apache Kafka 4.3 was seen to, and an error changes nothing.

`group_refusals.json` was written by Apache Kafka: `--peer=apache-kafka --rewrite-scenarios` writes it anew.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.groups import find_coordinator
from tests.support.bad_groups import JOIN, VERSIONS, Case, Questioner, cases
from tests.support.clients.confluent import Confluent
from tests.support.peers import start_peer
from tests.support.recorded import recorded

SEEN = Path(__file__).with_name("group_refusals.json")
RUN = f"{time.time_ns():x}"


@pytest.fixture(scope="module")
def questioner(peer_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Questioner]:
    """Asks a broker on which a group's first member waits for nobody."""
    with start_peer(peer_name, tmp_path_factory.mktemp("bad"), {"group.initial.rebalance.delay.ms": 0}) as broker:
        Confluent(broker.address).create_topic("known")
        find_coordinator(broker.address, "any")
        questioner = Questioner(broker.address)
        yield questioner
        questioner.close()


@pytest.fixture(scope="module")
def seen(request: pytest.FixtureRequest, peer_name: str) -> Iterator[dict[str, Any]]:
    """What Apache Kafka answered."""
    yield from recorded(SEEN, request, peer_name)


def is_garbage(case: Case) -> bool:
    """Apache Kafka fails at a subscription that can't be read (UNKNOWN_SERVER_ERROR) when the member is another already.

    Ottla leaves it to the members, who alone say what their bytes mean: such groups lose no offsets but by commits' own age.
    """
    return case.key == JOIN and (case.field, case.number) == ("protocols.0.metadata", 1)


@pytest.mark.timeout(600)
def test_a_field_out_of_range_is_refused_as_kafka_does_and_changes_nothing(
    questioner: Questioner, seen: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    """All in the order in which Apache Kafka was asked: some of what is out of range makes groups of odd names, which stay."""
    rewrites = request.config.getoption("--rewrite-scenarios")
    wrong = []
    for key in VERSIONS:
        for number, case in enumerate(case for case in cases() if case.key == key and not is_garbage(case)):
            answer, unchanged = questioner.answer(case, f"bad-{RUN}-{key}-{number}")
            if not unchanged:
                wrong.append(f"{case}: refused with {answer}, and the group is another")
            if rewrites:
                seen[str(case)] = answer
            elif answer != seen[str(case)]:
                wrong.append(f"{case}: {answer}, and Apache Kafka {seen[str(case)]}")
    assert wrong == []


def test_there_are_many_cases() -> None:
    assert len(cases()) > 400
    assert len({str(case) for case in cases()}) == len(cases())
    assert Case(11, 9, "session_timeout_ms", 0) in cases()
