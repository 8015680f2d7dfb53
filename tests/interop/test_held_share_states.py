"""Share groups while a stopped broker keeps their states from being stored: what is answered, and that nothing confirmed is lost.

`held_states.json` has the answers of Apache Kafka 4.3. It tries to store a state for more than 150 s, and a test does not wait so
long: "waits". Ottla tries for 15 s.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.apache_kafka import Unavailable
from tests.support.held_share_cases import CASES, EMPTY, HOLDS, NEW, HeldShares, Second, held_shares

SEEN: dict[str, list[Any]] = json.loads(Path(__file__).with_name("share_groups").joinpath("held_states.json").read_text())
UNAVAILABLE = "COORDINATOR_NOT_AVAILABLE"
LOCKED = {"ShareAcknowledge ends the session", "a member disconnects"}
"""Cases whose records are released only by the end of their locks, since their release could not be stored."""


def _partition(**fields: Any) -> dict[str, Any]:
    return {"responses": [{"topic_id": "known", "partitions": [fields]}], "acquisition_lock_timeout_ms": 600_000}


def _described(offset: int, lag: int) -> list[Any]:
    topic = {"topic_name": "known", "topic_id": "known", "partitions": [{"start_offset": offset, "lag": lag}]}
    return [{"groups": [{"group_id": "g", "topics": [topic]}]}]


def _state(**fields: Any) -> list[Any]:
    return [{"results": [{"topic_id": "known", "partitions": [{"state_epoch": 2, "start_offset": 3, **fields}]}]}]


_REFUSED = [_partition(error_code=UNAVAILABLE)]
_TOPIC = {"topic_name": "known", "topic_id": "known"}
INSTEAD_OF_WAITING: dict[str, list[Any]] = {
    "ShareFetch accepts": [_partition(acknowledge_error_code=UNAVAILABLE)],
    "ShareAcknowledge accepts": _REFUSED,
    "ShareAcknowledge releases": _REFUSED,
    "ShareAcknowledge rejects": _REFUSED,
    "ShareAcknowledge accepts twice": _REFUSED * 2,
    "ShareAcknowledge ends the session": _REFUSED,
    "AlterShareGroupOffsets": [{"responses": [{**_TOPIC, "partitions": [{"error_code": UNAVAILABLE}]}]}],
    "DeleteShareGroupOffsets": [{"responses": [{**_TOPIC, "error_code": UNAVAILABLE}]}],
    "DeleteGroups": [{"results": [{"group_id": "g", "error_code": UNAVAILABLE}]}],
}
"""What Ottla answers where Apache Kafka still waits."""
OTHERS: dict[str, list[Any]] = {
    "no leader: DescribeShareGroupOffsets": _described(-1, -1),
    "too few replicas in sync: DescribeShareGroupOffsets": _described(3, 7),
    "too few replicas in sync: ReadShareGroupState": _state(
        state_batches=[{"first_offset": 3, "last_offset": 9, "delivery_count": 1}]
    ),
    "too few replicas in sync: ReadShareGroupStateSummary": _state(delivery_complete_count=-1),
}
"""What Ottla answers about states that are on stable storage; Apache Kafka refuses or waits if their partition takes no record."""


def expected(name: str, peer_name: str) -> list[Any]:
    if peer_name != "ottla":
        return SEEN[name]
    return OTHERS.get(name) or INSTEAD_OF_WAITING.get(name.partition(": ")[2]) or SEEN[name]


def expected_afterwards(name: str) -> list[Any]:
    case = name.partition(": ")[2]
    if case in LOCKED:
        return []
    if case in EMPTY:
        return [[3, 9, 2]]
    return [[0, 9, 1 if case in NEW else 2]]


@pytest.fixture(scope="module")
def shares(peer_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[HeldShares, Second]]:
    try:
        with held_shares(peer_name, tmp_path_factory.mktemp("held")) as held:
            yield held
    except Unavailable as missing:
        pytest.skip(f"no Apache Kafka: {missing}")


@pytest.mark.full(seconds=60)
@pytest.mark.timeout(600)
def test_states_that_cannot_be_stored_are_refused_and_nothing_is_lost(shares: tuple[HeldShares, Second], peer_name: str) -> None:
    """Acknowledgements that were refused are of records that are delivered again, as soon as states can be stored."""
    held, second = shares
    second.stop()
    held.wait_until_held()
    met = held.meet()
    assert {name: answers for name, answers in met.items() if answers != expected(name, peer_name)} == {}
    if peer_name == "ottla":  # groups of Apache Kafka did not go on within half a minute
        second.start()
        held.wait_until_whole()
        looked = held.look()
        assert {name: found for name, found in looked.items() if found != expected_afterwards(name)} == {}


def test_each_recorded_answer_of_held_states_is_of_one_case() -> None:
    names = {f"{hold}: {case}" for hold in HOLDS for case in CASES}
    assert names == SEEN.keys()
    assert OTHERS.keys() <= names
    assert INSTEAD_OF_WAITING.keys() <= CASES.keys()
    assert all(SEEN[f"{hold}: {case}"][0] == "waits" for hold in HOLDS for case in INSTEAD_OF_WAITING)
