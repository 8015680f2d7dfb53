"""Messages with schemas in the console: decoded and filtered by a registry, written with a schema, and schemas that are hostile."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

import ottla
from ottla.console.config import ConsoleConfig
from ottla.schemas.frames import frame
from tests.integration.console.conftest import console_client

FLIGHT = {"type": "record", "name": "Flight", "fields": [{"name": "to", "type": "string"}, {"name": "late", "type": "int"}]}
BOMB = {"type": "array", "items": "null"}
SLOW = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A console whose registry is a directory with schemas: 7 and 8 of Avro, 9 of JSON."""
    home = tmp_path_factory.mktemp("schemas")
    for name, text in (
        ("flights-value/7.avsc", FLIGHT),
        ("bombs/8.avsc", {"type": "array", "items": "null"}),
        ("slow/9.json", SLOW),
    ):
        (home / name).parent.mkdir()
        (home / name).write_text(json.dumps(text))
    with ottla.Broker() as broker:
        with ottla.Admin(broker.address) as admin:
            admin.create_topic("flights", 1)
        with ottla.Producer(broker.address) as producer:
            producer.send("flights", value=frame(7) + b"\x06JFK\x5e")  # 47 minutes late
            producer.send("flights", value=frame(8) + b"\xfe\xff\xff\xff\xff\xff\x03\x00")
            producer.send("flights", value=frame(77) + b"x")
            producer.send("flights", value=b'{"late": 3}')
        config = ConsoleConfig({"bootstrap_servers": broker.address}, schema_registry=str(home))
        with console_client(config) as client:
            client.get("/")
            yield client


def read(client: httpx.Client, **query: Any) -> list[Any]:
    answer = client.get("/api/topics/flights/messages", params={"wait_ms": 10_000, "start": "oldest", "limit": 4, **query})
    assert answer.status_code == 200, answer.text
    return [each["value"] for each in answer.json()["messages"]]


def test_values_are_decoded_by_the_schemas_that_they_name(client: httpx.Client) -> None:
    flight, bomb, unknown, plain = read(client)
    assert (flight["format"], flight["text"], flight["schema_id"]) == ("avro", '{"to": "JFK", "late": 47}', 7)
    assert (bomb["format"], "items that take no bytes" in bomb["why"]) == ("hex", True)
    assert (unknown["format"], "schema 77 cannot be used" in unknown["why"]) == ("hex", True)
    assert (plain["format"], plain["text"]) == ("json", '{"late": 3}')


def test_filters_read_the_fields_of_decoded_values(client: httpx.Client) -> None:
    assert [value["text"] for value in read(client, filter="value.late > 5 and value.to == 'JFK'")] == ['{"to": "JFK", "late": 47}']
    assert [value["text"] for value in read(client, filter="value.late == 3")] == ['{"late": 3}']


def test_a_message_is_written_with_the_newest_schema(client: httpx.Client) -> None:
    done = client.post("/api/topics/flights/produce", json={"value": '{"to": "LAX", "late": 1}', "value_input": "schema"})
    assert done.status_code == 200, done.text
    assert client.get(f"/api{done.json()['path']}").json()["message"]["value"]["schema_id"] == 7
    for value, reason in (('{"to": "LAX"}', "does not fit the newest schema of flights-value"), ("{", "it is no JSON")):
        refused = client.post("/api/topics/flights/produce", json={"value": value, "value_input": "schema"})
        assert (refused.status_code, reason in refused.json()["error"]) == (400, True), refused.text
    missing = client.post("/api/topics/flights/produce", json={"value": "1", "value_input": "schema", "subject": "nope"})
    assert "has no subject nope" in missing.json()["error"]


@pytest.mark.full(seconds=7)
def test_a_regular_expression_of_a_schema_holds_nobody(client: httpx.Client) -> None:
    body = {"value": json.dumps({"a": "a" * 40 + "b"}), "value_input": "schema", "subject": "slow"}
    began = time.monotonic()
    refused = client.post("/api/topics/flights/produce", json=body)
    assert "has not ended within 5 s" in refused.json()["error"]
    assert time.monotonic() - began < 15
