"""The pages that ask no broker: the protocol decoder, and the schemas of a registry."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from urllib.parse import quote

import httpx
import pytest

import ottla
from ottla.console.config import ConsoleConfig
from tests.integration.console.conftest import console_client
from tests.integration.schema_registry.instances import instance

METADATA = "00000019000300010000000700026d65000000010007666c6967687473"
FIRST = {"type": "record", "name": "Flight", "fields": [{"name": "late", "type": "int"}]}
SECOND = {"type": "record", "name": "Flight", "fields": [{"name": "late", "type": "long"}]}
HOSTILE = "a/<b>?x"
PROTO = 'syntax = "proto3"; message Time { int64 ms = 1; }'
HOSTILE_PROTO = (
    'syntax = "proto3"; import "time.proto"; message Late { Time at = 1; string by = 2 [json_name = "<script>alert(1)</script>"]; }'
)
REFERENCE = {"name": "time.proto", "subject": "time.proto", "version": 1}


@pytest.mark.parametrize(
    ("given", "title", "line"),
    [
        ({"frame": METADATA}, "Metadata request, version 1", '"flights"'),
        ({"frame": "0x" + METADATA[8:]}, "Metadata request, version 1", '"flights"'),
        ({"frame": "00000001000000000000", "response": "Heartbeat", "version": 1}, "Heartbeat response, version 1", "NONE"),
    ],
)
def test_a_pasted_frame_is_a_tree(url: str, given: dict[str, object], title: str, line: str) -> None:
    with httpx.Client(base_url=url) as client:
        found = client.post("/api/decoder", json=given).json()
        assert found["problem"] == ""
        assert title in found["frames"][0]["title"]
        assert line in "\n".join(found["frames"][0]["lines"])
        assert client.get("/api/decoder", params={key: str(value) for key, value in given.items()}).json() == found


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"frame": "xyz"}, "The input is not hex: 'x' is not a hex digit"),
        ({"frame": METADATA, "response": "Nothing"}, "Nothing"),
        ({"frame": METADATA, "response": "Fetch"}, "The version of Fetch is missing"),
        ({"frame": METADATA, "response": "Fetch", "version": 99}, "Fetch has no version 99"),
        ({"frame": "00" * 300_000}, "use `ottla decode --file FILE`"),
    ],
)
def test_a_text_without_a_frame_is_one_sentence(url: str, given: dict[str, object], sentence: str) -> None:
    found = httpx.post(f"{url}/api/decoder", json=given).json()
    assert sentence in found["problem"]
    assert found["frames"] == []


def test_a_frame_that_is_cut_off_is_shown_as_far_as_it_can_be_read(url: str) -> None:
    (found,) = httpx.post(f"{url}/api/decoder", json={"frame": METADATA[:-6]}).json()["frames"]
    assert "3 bytes of its size are missing" in found["faults"][0]
    assert found["lines"]


@pytest.fixture(scope="module")
def with_registry(broker: ottla.Broker) -> Iterator[httpx.Client]:
    with instance(broker.address, users={"user": "hidden-word"}) as registry:
        login = {"Authorization": "Basic " + base64.b64encode(b"user:hidden-word").decode()}
        for subject, body in (
            ("flights-value", {"schema": json.dumps(FIRST)}),
            ("flights-value", {"schema": json.dumps(SECOND)}),
            ("time.proto", {"schema": PROTO, "schemaType": "PROTOBUF"}),
            (HOSTILE, {"schema": HOSTILE_PROTO, "schemaType": "PROTOBUF", "references": [REFERENCE]}),
        ):
            status, found, _ = registry.ask("POST", f"/subjects/{quote(subject, safe='')}/versions", body, login)
            assert status == 200, found
        assert registry.ask("PUT", "/config/flights-value", {"compatibility": "FULL"}, login)[0] == 200
        url = registry.url.replace("http://", "http://user:hidden-word@")
        config = ConsoleConfig({"bootstrap_servers": "127.0.0.1:1"}, schema_registry=url)
        with console_client(config) as client:
            yield client


def test_subjects_are_listed(with_registry: httpx.Client) -> None:
    found = with_registry.get("/api/schemas?q=FLIGHTS").json()
    assert (found["subjects"], found["level"], found["trouble"]) == (["flights-value"], "BACKWARD", "")
    page = with_registry.get("/schemas").text
    assert "a/&lt;b&gt;?x" in page
    assert "hidden-word" not in page


def test_versions_are_compared(with_registry: httpx.Client) -> None:
    found = with_registry.get("/api/schemas/flights-value").json()
    assert (found["version"], found["other"], found["schema_id"], found["level"]) == (2, 1, 2, "FULL")
    changed = [(line["kind"], line["text"].strip()) for line in found["diff"] if line["kind"] in ("added", "removed")]
    assert changed == [("removed", '"type": "int"'), ("added", '"type": "long"')]
    assert with_registry.get("/api/schemas/flights-value?version=1").json()["diff"] == []
    assert with_registry.get("/api/schemas/flights-value?version=7").status_code == 404
    assert with_registry.get("/api/schemas/none").status_code == 404


def test_a_hostile_subject_and_its_schema_are_text(with_registry: httpx.Client) -> None:
    page = with_registry.get("/schemas/a%2F%3Cb%3E%3Fx")
    assert page.status_code == 200
    assert "<script>alert" not in page.text
    assert "time.proto" in page.text


def test_a_registry_that_is_not_there_is_one_sentence() -> None:
    config = ConsoleConfig({"bootstrap_servers": "127.0.0.1:1"}, schema_registry="http://user:hidden-word@127.0.0.1:1")
    with console_client(config) as client:
        found = client.get("/api/schemas").json()
        assert "does not answer" in found["trouble"]
        assert "hidden-word" not in found["trouble"]


def test_without_a_registry_there_is_no_page_of_schemas(url: str) -> None:
    assert httpx.get(f"{url}/schemas").status_code == 404
    assert 'href="/schemas"' not in httpx.get(f"{url}/topics").text
