"""`__transaction_state` on disk: ours replays what Apache Kafka stored, and Apache Kafka's tools read what is stored here."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.coord.runtime.machine import Input
from ottla.coord.transactions.inputs import TransactionSettings, WriteMarkers
from ottla.coord.transactions.machine import TransactionMachine
from ottla.coord.transactions.records import decode_record, encode_record
from ottla.coord.transactions.transaction import PREPARED
from ottla.ports import Now
from ottla.records.batches.columns import open_batches
from ottla.wire.api.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from ottla.wire.api.init_producer_id import InitProducerIdRequest
from ottla.wire.errors import NONE
from tests.support.clients.confluent import Confluent
from tests.support.java import CONSUME, run
from tests.support.peers import start_peer
from tests.support.transaction_cases import STATES, TOPIC
from tests.support.two_phase_cases import NEWEST, TWO_PHASE, TwoPhase

DUMP = "org.apache.kafka.tools.DumpLogSegments"
FORMATTER = "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter"
KNOWN = [*(state for state in STATES if state != "unknown"), f"{TWO_PHASE}empty", f"{TWO_PHASE}ongoing with epochs"]

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]


class Performed:
    """A transactional id in each state, its name; how the broker described them, and the records that it left."""

    def __init__(self, peer_name: str, home: Path) -> None:
        settings: dict[str, object] = {"transaction.two.phase.commit.enable": True, "transaction.state.log.num.partitions": 2}
        if peer_name != "ottla":
            settings["unstable.api.versions.enable"] = True
        with start_peer(peer_name, home, settings) as broker:
            Confluent(broker.address).create_topic(TOPIC, 2)
            asking = TwoPhase(broker.address, f"{time.time_ns():x}")
            for state in KNOWN:
                asking.find(state)
                asking.brought_to(state, state)
            if peer_name == "ottla":
                keep(asking, KNOWN[-1])
                self.formatted = formatted(broker.address)
            self.described = [asking.described(state) for state in KNOWN]
            asking.close()
            stopped: Any = broker
            stopped.kill()
            self.logs = sorted(path for path in home.rglob("__transaction_state-*/*.log") if path.stat().st_size)
            self.records = [pair for path in self.logs for pair in stored(path)]


def keep(asking: TwoPhase, name: str) -> None:
    response = asking.ask(InitProducerIdRequest(transactional_id=name, enable_2pc=True, keep_prepared_txn=True), NEWEST)
    assert response.error_code == NONE


def stored(path: Path) -> Iterator[tuple[bytes, bytes | None]]:
    for record in open_batches(path.read_bytes()).records():
        yield bytes(record.key or b""), None if record.value is None else bytes(record.value)


def formatted(address: str) -> list[dict[str, Any]]:
    """What the console consumer prints of all records."""
    said = run(
        CONSUME,
        "--bootstrap-server",
        address,
        "--topic",
        "__transaction_state",
        "--from-beginning",
        "--timeout-ms",
        "5000",
        "--formatter",
        FORMATTER,
    )
    found: list[dict[str, Any]] = []
    at = said.index("{")
    while at < len(said):
        each, end = json.JSONDecoder().raw_decode(said, at)
        found.append(each)
        at = end + len(said[end:]) - len(said[end:].lstrip())
    return found


def machine_of(records: list[tuple[bytes, bytes | None]]) -> TransactionMachine:
    machine = TransactionMachine(TransactionSettings(), lambda: None)
    for key, value in records:
        record = decode_record(key, value)
        assert record is not None
        machine.apply(record)
    return machine


@pytest.fixture(scope="module")
def performed(tmp_path_factory: pytest.TempPathFactory) -> Performed:
    return Performed("apache-kafka", tmp_path_factory.mktemp("performed"))


def test_what_apache_kafka_stored_of_its_transactions_is_replayed_and_stored_alike(performed: Performed) -> None:
    for key, value in performed.records:
        record = decode_record(key, value)
        assert record is not None
        assert encode_record(record, int.from_bytes((value or b"")[:2], "big")) == (key, value)
    machine = machine_of(performed.records)
    reply = machine.decide(Input(DescribeTransactionsRequest(transactional_ids=KNOWN), 1), Now(0, 0)).replies[0].message
    assert isinstance(reply, DescribeTransactionsResponse)
    assert reply.transaction_states == performed.described
    assert len(performed.records) > 3 * len(KNOWN)


def test_every_prefix_of_what_apache_kafka_stored_goes_on_where_it_stopped(performed: Performed) -> None:
    """A coordinator that starts on it writes the markers of all that was about to end, and of nothing else."""
    about_to_end = 0
    for end in range(len(performed.records)):
        machine = machine_of(performed.records[:end])
        wanted = {name for name, known in machine.by_id.items() if known.status in PREPARED}
        orders = machine.recall(Now(0, 0)).orders
        assert {order.transactional_id for order in orders if isinstance(order, WriteMarkers)} == wanted
        about_to_end += len(wanted)
    assert about_to_end >= 5


@pytest.mark.full(seconds=11)
def test_apache_kafkas_tools_read_what_is_stored_here(tmp_path: Path) -> None:
    performed = Performed("ottla", tmp_path)
    said = run(DUMP, "--transaction-log-decoder", "--files", ",".join(map(str, performed.logs)))
    assert not re.search("(?i)mismatch|exception|isvalid: false|corrupt", said)
    shown = re.findall(r" key: (\S.*) payload: (.*)$", said, re.MULTILINE)
    assert len(shown) == len(performed.records)
    last = {each["key"]["data"]["transactionalId"]: each["value"] for each in performed.formatted}
    assert set(KNOWN) <= last.keys()
    kept = last[KNOWN[-1]]["data"]
    assert kept["nextProducerEpoch"] == kept["producerEpoch"] + 1
    assert kept["nextProducerId"] == kept["producerId"]
    assert kept["transactionTimeoutMs"] == 2**31 - 1
    for described in performed.described:
        data = last[described.transactional_id]["data"]
        assert (data["producerId"], data["producerEpoch"]) == (described.producer_id, described.producer_epoch)
