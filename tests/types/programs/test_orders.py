"""A test module of a user's: the fixtures come with the installed package."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import ottla


class Shop:
    """The code under test: it takes orders, and publishes them."""

    def __init__(self, producer: ottla.Producer[str, Any]) -> None:
        self._producer = producer

    def order(self, customer: str, articles: list[str]) -> ottla.RecordMetadata:
        return self._producer.send("orders", {"articles": articles}, key=customer).result(timeout=10)


@pytest.fixture
def ottla_settings() -> dict[str, Any]:
    return {"num_partitions": 2}


@pytest.fixture
def shop(ottla_broker: ottla.Broker) -> Iterator[Shop]:
    with ottla.Producer(ottla_broker.address, key_serializer="str", value_serializer="json") as producer:
        yield Shop(producer)


@pytest.mark.parametrize("customer", ["ann", "bob"])
def test_an_order_is_published(shop: Shop, ottla_address: str, customer: str) -> None:
    written = shop.order(customer, ["tea"])
    with ottla.Consumer("orders", bootstrap_servers=ottla_address, auto_offset_reset="earliest") as consumer:
        records = consumer.poll(10_000)
    assert [(record.key, record.partition) for record in records] == [(customer.encode(), written.partition)]
    value = records[0].value
    assert value is not None
    assert json.loads(value) == {"articles": ["tea"]}
