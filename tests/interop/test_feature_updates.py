"""The levels of features: what each request to change them is answered, and what ApiVersions tells then, as of Apache Kafka 4.3.

`feature_updates.json` was written by Apache Kafka: `--peer=apache-kafka --rewrite-scenarios` writes it anew. Left out are features
that Ottla does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.wire.api.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.errors import NONE, UNSUPPORTED_VERSION
from tests.support.feature_levels import GROUPS, SAFE, TRANSACTIONS, UNSAFE, UPGRADE, Case, FeatureLevels, Update
from tests.support.peers import Peer, start_peer
from tests.support.recorded import recorded
from tests.support.waiting import eventually

SEEN = Path(__file__).with_name("feature_updates.json")
ASKED: tuple[tuple[Update, ...], ...] = (
    (),
    *(((TRANSACTIONS, level, kind),) for level in (-1, 0, 1, 2, 3, 32767) for kind in (UPGRADE, SAFE, UNSAFE)),
    *(((TRANSACTIONS, level, kind),) for level in (0, 1, 2, 3) for kind in (-1, 0, 4)),
    *(((GROUPS, level, kind),) for level in (0, 1, 2) for kind in (UPGRADE, SAFE)),
    *(((name, level, UPGRADE),) for name in ("nothing", "", "Transaction.Version") for level in (0, 1)),
    ((TRANSACTIONS, 1, SAFE), (TRANSACTIONS, 2, UPGRADE)),
    ((TRANSACTIONS, 2, UPGRADE), (TRANSACTIONS, 1, SAFE)),
    ((TRANSACTIONS, 1, UPGRADE), (TRANSACTIONS, 1, SAFE)),
    ((TRANSACTIONS, 0, SAFE), (GROUPS, 0, SAFE)),
    ((TRANSACTIONS, 0, SAFE), ("nothing", 1, UPGRADE)),
    ((TRANSACTIONS, 0, SAFE), (GROUPS, 2, UPGRADE)),
)


def cases() -> Iterator[Case]:
    for before in (0, 1, 2):
        for version in (0, 1, 2):
            for updates in ASKED:
                yield Case(before, version, updates)
                if version and len(updates) == 1:
                    yield Case(before, version, updates, validate_only=True)


@pytest.fixture(scope="module")
def peer(peer_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    with start_peer(peer_name, tmp_path_factory.mktemp("features")) as broker:
        yield broker


@pytest.fixture
def levels(peer: Peer) -> Iterator[FeatureLevels]:
    with FeatureLevels(peer.address) as levels:
        yield levels


@pytest.fixture(scope="module")
def seen(request: pytest.FixtureRequest, peer_name: str) -> Iterator[dict[str, Any]]:
    """What Apache Kafka answered, and which levels it told afterwards."""
    yield from recorded(SEEN, request, peer_name)


@pytest.mark.timeout(180)
def test_levels_are_changed_and_refused_as_kafka_does(
    levels: FeatureLevels, seen: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    rewrites = request.config.getoption("--rewrite-scenarios")
    wrong = []
    for case in cases():
        answer = levels.answer(case)
        if rewrites:
            seen[str(case)] = answer
        elif answer != seen[str(case)]:
            wrong.append(f"{case}: {answer}, and Apache Kafka {seen[str(case)]}")
    assert wrong == []


def test_a_refusal_says_what_to_do(levels: FeatureLevels) -> None:
    levels.set(**{TRANSACTIONS: 2})
    response = levels.update(Case(2, 2, ((TRANSACTIONS, 1, UPGRADE),)))
    assert response.error_message is not None
    assert "safe" in response.error_message
    assert "downgrade" in response.error_message


def test_without_its_feature_there_is_no_consumer_protocol(levels: FeatureLevels, unique: Callable[[str], str]) -> None:
    levels.ask(4, FindCoordinatorRequest(key_type=0, coordinator_keys=["group"]))
    group = unique("group")
    heartbeat = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=group,
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    levels.set(**{GROUPS: 0})
    assert levels.ask(1, heartbeat).error_code == UNSUPPORTED_VERSION
    [described] = levels.ask(1, ConsumerGroupDescribeRequest(group_ids=[group])).groups
    assert described.error_code == UNSUPPORTED_VERSION
    levels.set(**{GROUPS: 1})
    eventually(lambda: levels.ask(1, heartbeat).error_code == NONE)
