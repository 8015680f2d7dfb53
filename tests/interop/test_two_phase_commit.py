"""Transactions that an outside coordinator decides about (KIP-939): answered as Apache Kafka 4.3 does, and kept as the KIP says.

`two_phase_answers.json` was written by Apache Kafka: `--peer=apache-kafka --rewrite-scenarios` writes it anew. Apache Kafka 4.3
knows no kept transactions yet: it answers UNSUPPORTED_VERSION wherever one is asked for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.testing import BrokerProcess
from ottla.wire.api.api_versions import ApiVersionsRequest
from ottla.wire.api.end_txn import EndTxnRequest
from ottla.wire.api.init_producer_id import InitProducerIdRequest
from ottla.wire.errors import NONE
from tests.interop.test_transactions import committed_values
from tests.support.clients.confluent import Confluent
from tests.support.peers import start_peer
from tests.support.recorded import recorded
from tests.support.transaction_cases import TOPIC
from tests.support.two_phase_cases import KEPT, NEWEST, STATES, TwoPhase, cases

SEEN = Path(__file__).with_name("two_phase_answers.json")
SWITCHED_ON: dict[str, object] = {"transaction.two.phase.commit.enable": True}


@pytest.fixture(scope="module")
def transactions(peer_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoPhase]:
    settings = dict(SWITCHED_ON)
    if peer_name != "ottla":
        settings["unstable.api.versions.enable"] = True
    with start_peer(peer_name, tmp_path_factory.mktemp("two-phase"), settings) as broker:
        Confluent(broker.address).create_topic(TOPIC, 2)
        transactions = TwoPhase(broker.address, f"{time.time_ns():x}")
        yield transactions
        transactions.close()


@pytest.fixture(scope="module")
def seen(request: pytest.FixtureRequest, peer_name: str) -> Iterator[dict[str, Any]]:
    """What Apache Kafka answered, and how the transactional id stood afterwards."""
    yield from recorded(SEEN, request, peer_name)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("state", STATES)
@pytest.mark.rows(3)
def test_whatever_is_asked_of_a_transaction_in_two_phases_is_answered_as_kafka_does(
    transactions: TwoPhase, seen: dict[str, Any], request: pytest.FixtureRequest, state: str
) -> None:
    rewrites = request.config.getoption("--rewrite-scenarios")
    wrong = []
    for case in (case for case in cases() if case.state == state):
        answer = transactions.answer(case)
        if rewrites:
            seen[str(case)] = answer
        elif case.asked in KEPT and answer != seen[str(case)]:
            assert seen[str(case)][0][0] == "UNSUPPORTED_VERSION", "only what Kafka does not serve yet may be answered otherwise"
        elif answer != seen[str(case)]:
            wrong.append(f"{case}: {answer}, and Apache Kafka {seen[str(case)]}")
    assert wrong == []


@pytest.mark.parametrize(("kill", "committed"), [(False, False), (True, True)])
@pytest.mark.rows(1, seconds=3)
def test_what_is_prepared_outlives_its_producer_and_its_broker(tmp_path: Path, *, kill: bool, committed: bool) -> None:
    with BrokerProcess(tmp_path / "data", SWITCHED_ON) as broker:
        Confluent(broker.address).create_topic(TOPIC, 2)
        first = TwoPhase(broker.address, "a")
        producer = first.brought_to("two-phase ongoing with epochs", "prepared")
        first.close()
        broker.restart(kill=kill)
        later = TwoPhase(broker.address, "b")
        assert committed_values(broker.address, TOPIC) == []
        body = InitProducerIdRequest(transactional_id="prepared", enable_2pc=True, keep_prepared_txn=True)
        kept = later.ask(body, NEWEST)
        assert (kept.error_code, kept.ongoing_txn_producer_id, kept.ongoing_txn_producer_epoch) == (NONE, *producer)
        end = EndTxnRequest(
            transactional_id="prepared", producer_id=kept.producer_id, producer_epoch=kept.producer_epoch, committed=committed
        )
        assert later.ask(end, 5).error_code == NONE
        later.close()
        assert committed_values(broker.address, TOPIC) == ([b"x"] if committed else [])


def test_clients_are_told_that_they_may_ask_for_two_phases(transactions: TwoPhase) -> None:
    body = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    told = {each.api_key: each.max_version for each in transactions.ask(body, 3).api_keys}
    assert told[InitProducerIdRequest.WIRE.key] == NEWEST
