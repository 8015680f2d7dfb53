"""Transactions are not served yet: clients that ask for one are told so at once, each in its own words."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import TransactionalIdAuthorizationFailed
from confluent_kafka import KafkaException, Producer
from kafka import KafkaProducer
from kafka.errors import TransactionalIdAuthorizationFailedError

from ottla.testing import BrokerProcess
from tests.support import java

PATIENCE_S = 60
ADVICE = "produce without a transactional id"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Nothing that Apache Kafka could be asked: it has transactions."""
    with BrokerProcess(tmp_path_factory.mktemp("broker") / "data") as broker:
        yield broker.address
        assert broker.log.count("does not serve transactions yet") == 1


def test_librdkafka_fails_for_good_and_shows_the_brokers_sentence(address: str) -> None:
    producer = Producer({"bootstrap.servers": address, "transactional.id": "t", "log_level": 0})
    with pytest.raises(KafkaException, match=ADVICE) as failed:
        producer.init_transactions(PATIENCE_S)
    assert failed.value.args[0].fatal()


def test_kafka_python_fails(address: str) -> None:
    producer = KafkaProducer(bootstrap_servers=address, transactional_id="t")
    with pytest.raises(TransactionalIdAuthorizationFailedError):
        producer.init_transactions()
    producer.close(timeout=0)


def test_aiokafka_fails(address: str) -> None:
    async def start() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=address, transactional_id="t")
        try:
            await producer.start()
        finally:
            await producer.stop()

    with pytest.raises(TransactionalIdAuthorizationFailed):
        asyncio.run(asyncio.wait_for(start(), PATIENCE_S))


@pytest.mark.java
def test_kafkas_own_producer_fails(address: str) -> None:
    load = ("--topic", "t", "--num-records", "1", "--record-size", "1", "--throughput", "-1", "--transactional-id", "t")
    with pytest.raises(AssertionError, match="TransactionalIdAuthorizationException"):
        java.run(java.PRODUCER_PERFORMANCE, *load, "--bootstrap-server", address)
