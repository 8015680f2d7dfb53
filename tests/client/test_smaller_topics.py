"""Topics whose max.message.bytes is smaller than a batch: batches are split, and only records that are too large fail."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import ottla
from tests.support.peers import Peer

COUNT = 300


@pytest.fixture
def small(admin: ottla.Admin, unique: Callable[[str], str]) -> str:
    name = unique("small")
    admin.create_topic(name, 1, 1, configs={"max.message.bytes": "1500"})
    return name


def values(broker: Peer, topic: str) -> list[bytes | None]:
    with ottla.Consumer(
        bootstrap_servers=broker.address, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        consumer.assign([(topic, 0)])
        return [record.value for record in consumer.records(timeout_ms=1_000)]


@pytest.mark.parametrize("codec", ["none", "lz4"])
@pytest.mark.parametrize("transactional_id", [None, "t"])
def test_batches_that_are_too_large_are_split_and_each_record_has_its_offset(
    broker: Peer, small: str, codec: str, transactional_id: str | None
) -> None:
    name = None if transactional_id is None else small
    with ottla.Producer(broker.address, linger_ms=1_000, compression_type=codec, transactional_id=name) as producer:  # type: ignore[call-overload]  # a codec of the parameters
        if name is not None:
            producer.begin_transaction()
        sent = [b"%d " % number + b"%d" % (number * 7919) * 30 for number in range(COUNT)]
        deliveries = [producer.send(small, value) for value in sent]
        producer.flush()
        assert [delivery.result(0).offset for delivery in deliveries] == list(range(COUNT))
        if name is not None:
            producer.commit_transaction()
    assert values(broker, small) == sent


def test_a_record_that_is_too_large_fails_alone(broker: Peer, small: str) -> None:
    with ottla.Producer(broker.address, linger_ms=1_000) as producer:
        deliveries = [producer.send(small, b"x" * (5_000 if number == 77 else 100)) for number in range(COUNT)]
        with pytest.raises(ottla.DeliveryFailed, match=rf"1 record of topic {small}.*MESSAGE_TOO_LARGE"):
            producer.flush()
        with pytest.raises(ottla.BrokerError, match="MESSAGE_TOO_LARGE"):
            deliveries[77].result(0)
        written = [delivery for number, delivery in enumerate(deliveries) if number != 77]
        assert [delivery.result(0).offset for delivery in written] == list(range(COUNT - 1))
        with pytest.raises(ottla.BrokerError):
            deliveries[77].result(0)
        producer.flush()
        assert producer.send(small, b"after").result(20).offset == COUNT - 1
