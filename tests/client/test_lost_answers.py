"""Transactions on a way that loses one request, or one answer: each is still written once and whole, or not at all."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

import ottla
from ottla.client.connection.versions import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    PRODUCE,
    TXN_OFFSET_COMMIT,
)
from tests.support.lossy import LossyWay

BOTH = [FIND_COORDINATOR, INIT_PRODUCER_ID, PRODUCE, TXN_OFFSET_COMMIT, END_TXN]
EXPLICIT = [*BOTH, ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN]
LOSSES = [(None, key) for key in BOTH] + [("3.9", key) for key in EXPLICIT]


@pytest.fixture(scope="module")
def way() -> Iterator[LossyWay]:
    """A way to a broker that is reached by it alone."""
    with LossyWay() as made, ottla.Broker(advertised_listeners=f"PLAINTEXT://127.0.0.1:{made.port}") as broker:
        made.leads_to(int(broker.address.rpartition(":")[2]))
        yield made


@pytest.mark.parametrize("request_is_lost", [True, False], ids=["request", "answer"])
@pytest.mark.parametrize(("api_version", "key"), LOSSES)
@pytest.mark.rows(12)
def test_a_loss_neither_doubles_nor_halves_a_transaction(
    way: LossyWay, api_version: str | None, key: int, request_is_lost: bool
) -> None:
    address = f"127.0.0.1:{way.port}"
    name = f"{api_version}-{key}-{request_is_lost}"
    group = ottla.ConsumerGroupMetadata(f"group-{name}")
    lost = way.lost
    with ottla.Producer(address, transactional_id=name, api_version=api_version, retry_backoff_ms=10) as producer:
        if key != FIND_COORDINATOR:
            producer.partitions_for(name)
        for number in range(4):
            if number == 0 or (number < 3 and key != INIT_PRODUCER_ID):
                way.lose(key, request=request_is_lost)
            producer.begin_transaction()
            for part in range(3):
                producer.send(name, b"%d-%d" % (number, part), partition=0)
            producer.flush()
            producer.send_offsets({(name, 0): number}, group)
            producer.abort_transaction() if number in (1, 3) else producer.commit_transaction()
    assert way.lost > lost
    with ottla.Consumer(
        bootstrap_servers=address, group_id=group.group_id, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([(name, 0)])
        committed = consumer.committed((name, 0))
        consumer.seek_to_beginning()
        end = consumer.end_offsets([(name, 0)])[ottla.TopicPartition(name, 0)]
        found: list[bytes | None] = []
        while consumer.position((name, 0)) < end:
            found += [record.value for record in consumer.poll(1_000)]
    assert found == [b"%d-%d" % (number, part) for number in (0, 2) for part in range(3)]
    assert committed == ottla.OffsetAndMetadata(2)


def test_many_transactional_ids_are_described_with_one_request_and_asked_for_again_where_it_is_lost(way: LossyWay) -> None:
    names = [f"described-{number}" for number in range(40)]
    with ottla.Admin(f"127.0.0.1:{way.port}", retry_backoff_ms=10) as admin:
        fenced = admin.fence_producers(*names)
        before = way.asked.copy()
        way.lose(DESCRIBE_TRANSACTIONS, request=False)
        described = admin.describe_transactions(*names, names[0])
        assert list(described) == names
        assert {name: (each.producer_id, each.producer_epoch) for name, each in described.items()} == fenced
        asked = way.asked - before
        assert (asked[FIND_COORDINATOR], asked[DESCRIBE_TRANSACTIONS]) == (2, 2), "once more than without the loss"
        with pytest.raises(ottla.BrokerError, match="Transactional id nobody: TRANSACTIONAL_ID_NOT_FOUND"):
            admin.describe_transactions(names[0], "nobody", names[1])


@pytest.mark.parametrize("request_is_lost", [True, False], ids=["request", "answer"])
@pytest.mark.parametrize("api_version", [None, "3.9"])
def test_a_transaction_of_which_brokers_may_have_heard_nothing_can_be_aborted(
    way: LossyWay, api_version: str | None, request_is_lost: bool
) -> None:
    """Just behind a commit, when the coordinator takes an end that it does not expect for that of a zombie."""
    address = f"127.0.0.1:{way.port}"
    name = f"aborted-{api_version}-{request_is_lost}"
    with ottla.Producer(address, transactional_id=name, api_version=api_version, linger_ms=0) as producer:
        for number in range(5):
            with producer.transaction():
                producer.send(name, b"%d" % number, partition=0)
            producer.begin_transaction()
            way.lose(PRODUCE, request=request_is_lost)
            sent, lost = producer.send(name, b"aborted", partition=0), way.lost
            while way.lost == lost and not sent.done():
                time.sleep(0.001)
            producer.abort_transaction()
    with ottla.Consumer(bootstrap_servers=address, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        consumer.assign([(name, 0)])
        end = consumer.end_offsets([(name, 0)])[ottla.TopicPartition(name, 0)]
        found: list[bytes | None] = []
        while consumer.position((name, 0)) < end:
            found += [record.value for record in consumer.poll(1_000)]
    assert found == [b"%d" % number for number in range(5)]
