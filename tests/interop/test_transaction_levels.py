"""Transactions at each level of `transaction.version`: clients of either protocol go on when it is raised or lowered.

On Apache Kafka 4.3 a client that uses epochs cannot go on at level 0: what it asks to be stored has no room in the oldest format,
and is answered UNSUPPORTED_VERSION. Ottla stores it in the newer one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from ottla.wire.api.end_txn import EndTxnRequest
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.errors import NONE
from tests.interop.test_transaction_refusals import SEEN
from tests.support.clients.confluent import Confluent
from tests.support.feature_levels import TRANSACTIONS, FeatureLevels
from tests.support.peers import Peer, start_peer
from tests.support.transaction_cases import GROUP, TOPIC, Transactions, cases

STATES = ("ongoing", "ongoing with epochs", "fenced")
DIFFERENT: dict[str, Any] = {
    "fenced: InitProducerId 4 as itself": [
        ["PRODUCER_FENCED", -1, -1],
        ["CompleteAbort", "same id", 1, 60000, True, []],
    ]
}
"""Below level 2 a producer that was fenced cannot recover with the epoch that it had."""


@pytest.fixture(scope="module")
def peer(peer_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    with start_peer(peer_name, tmp_path_factory.mktemp("levels")) as broker:
        Confluent(broker.address).create_topic(TOPIC, 2)
        yield broker


@pytest.fixture
def transactions(peer: Peer) -> Iterator[Transactions]:
    transactions = Transactions(peer.address, f"{time.time_ns():x}")
    yield transactions
    transactions.close()


@pytest.fixture
def set_level(peer: Peer) -> Iterator[Callable[[int], None]]:
    with FeatureLevels(peer.address) as levels:

        def set_level(level: int) -> None:
            levels.set(**{TRANSACTIONS: level})

        yield set_level
        set_level(2)


@pytest.mark.full(seconds=11)
@pytest.mark.timeout(180)
@pytest.mark.parametrize("level", [0, 1])
def test_what_clients_are_answered_does_not_depend_on_the_level(
    transactions: Transactions, set_level: Callable[[int], None], peer_name: str, level: int
) -> None:
    if peer_name == "apache-kafka" and level == 0:
        pytest.skip("Apache Kafka stores no epochs at level 0")
    seen = {**json.loads(SEEN.read_text(encoding="utf-8")), **DIFFERENT}
    set_level(level)
    transactions.ask(
        FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP]), 4
    )  # Apache Kafka creates __consumer_offsets for it
    for case in (case for case in cases() if case.state in STATES):
        assert transactions.answer(case) == seen[str(case)], case


def test_a_transaction_that_is_open_while_the_level_changes_is_ended_as_it_began(
    peer: Peer, transactions: Transactions, set_level: Callable[[int], None], peer_name: str
) -> None:
    lowest = 1 if peer_name == "apache-kafka" else 0
    for before, after, version in ((2, lowest, 5), (lowest, 2, 5), (2, 0, 4), (0, 2, 4)):
        set_level(before)
        name = f"across {before} {after} {version} {time.time_ns()}"
        producer_id, epoch = transactions.ongoing(name, with_epochs=version == 5)
        set_level(after)
        end = EndTxnRequest(transactional_id=name, producer_id=producer_id, producer_epoch=epoch, committed=True)
        assert transactions.ask(end, version).error_code == NONE


def test_a_program_goes_on_through_all_levels(peer: Peer, set_level: Callable[[int], None], unique: Callable[[str], str]) -> None:
    topic = unique("levels")
    Confluent(peer.address).create_topic(topic, 1)
    producer = Producer({"bootstrap.servers": peer.address, "transactional.id": topic})
    producer.init_transactions(30)
    for number, level in enumerate((2, 1, 0, 1, 2)):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number)
        producer.flush(30)
        set_level(level)
        producer.produce(topic, b"%d again" % number)
        producer.commit_transaction(30)
    consumer = Consumer({"bootstrap.servers": peer.address, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found = [message.value() for message in consumer.consume(10, 30)]
    consumer.close()
    assert found == [text for number in range(5) for text in (b"%d" % number, b"%d again" % number)]


def test_levels_outlive_the_broker(peer: Peer) -> None:
    with FeatureLevels(peer.address) as levels:
        levels.set(**{TRANSACTIONS: 1})
        before = levels.told()
    peer.restart(kill=True)
    with FeatureLevels(peer.address) as levels:
        after = levels.told()
        assert levels.levels()[TRANSACTIONS] == [1, 1]
        levels.set(**{TRANSACTIONS: 2})
    assert after.finalized_features_epoch >= before.finalized_features_epoch
