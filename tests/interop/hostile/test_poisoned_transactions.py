"""Poison in `__transaction_state` of a real process: it starts, names what it passes over, and serves every id as before."""

from __future__ import annotations

from pathlib import Path
from struct import pack

import pytest
from confluent_kafka import Producer

from ottla.coord.transactions.records import encode_record
from ottla.coord.transactions.transaction import Status, Transaction
from ottla.testing.process import BrokerProcess
from tests.interop.hostile.test_poisoned_groups import poison
from tests.support.clients.confluent import Confluent

IDS = ("one", "two", "three")
KEY, GOOD = encode_record(Transaction("one", 7, 0, 60_000, Status.EMPTY, 0), version=1)
assert GOOD is not None
POISON: tuple[tuple[bytes | None, bytes | None], ...] = (
    (KEY, b"\0\x63" + bytes(30)),
    (KEY, GOOD[:12]),
    (KEY, GOOD[:16] + b"\x63" + GOOD[17:]),
    (b"\0\0\x7f\xffgarbage", GOOD),
    (None, None),
)
"""An unknown version, a value that ends too early, a status that there is not, a key that is none, and no key."""


def write(address: str, transactional_id: str) -> None:
    """One transaction: what was left of an earlier one would be in its way."""
    producer = Producer({"bootstrap.servers": address, "transactional.id": transactional_id, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("t", transactional_id.encode())
    producer.commit_transaction(30)


@pytest.mark.expects_errors("is passed over")
def test_poisoned_records_are_named_and_every_id_is_served(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", {"transaction.state.log.num.partitions": 1}) as broker:
        Confluent(broker.address).create_topic("t")
        for transactional_id in IDS:
            write(broker.address, transactional_id)
        broker.kill()
        log = tmp_path / "data" / "__transaction_state-0" / f"{0:020d}.log"
        offsets = [poison(log, key, value) for key, value in POISON]
        poison(log, b"\0\x63" + pack(">h3s", 3, b"one"), b"\0\0")
        broker.start()
        named = [line for line in broker.log.splitlines() if "is passed over" in line]
        assert len(named) == len(POISON)
        for offset in offsets:
            sentence = f"__transaction_state-0: the record at offset {offset} is passed over: "
            assert any(sentence in line for line in named), "a later one must not hide it"
        assert "1 records of types of a newer release were skipped" in broker.log
        for transactional_id in IDS:
            write(broker.address, transactional_id)
