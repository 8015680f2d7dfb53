"""The pages that ask no broker: the protocol decoder, and the schemas of a registry."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import unquote

import httpx
import pytest

from ottla.console.config import ConsoleConfig
from tests.integration.console.conftest import console_server

METADATA = "00000019000300010000000700026d65000000010007666c6967687473"
FIRST = {"type": "record", "name": "Flight", "fields": [{"name": "late", "type": "int"}]}
SECOND = {"type": "record", "name": "Flight", "fields": [{"name": "late", "type": "long"}]}
HOSTILE = "a/<b>?x"


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


class Registry(BaseHTTPRequestHandler):
    """The part of Confluent's API that the page reads."""

    answers: ClassVar[dict[str, object]] = {
        "/subjects": ["flights-value", HOSTILE],
        "/config": {"compatibilityLevel": "BACKWARD"},
        "/config/flights-value": {"compatibilityLevel": "FULL"},
        "/subjects/flights-value/versions": [1, 3],
        "/subjects/flights-value/versions/1": {"id": 7, "schema": json.dumps(FIRST)},
        "/subjects/flights-value/versions/3": {"id": 9, "schema": json.dumps(SECOND)},
        f"/subjects/{HOSTILE}/versions": [1],
        f"/subjects/{HOSTILE}/versions/1": {
            "id": 10,
            "schemaType": "PROTOBUF",
            "schema": 'syntax = "proto3"; // <script>alert(1)</script>',
            "references": [{"name": "other.proto", "subject": "flights-value", "version": 1}],
        },
    }

    def do_GET(self) -> None:
        parts = self.path.split("/")
        found = self.answers.get("/".join(unquote(part) for part in parts))
        body = json.dumps({"error_code": 40401, "message": "not found"} if found is None else found).encode()
        self.send_response(404 if found is None else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def with_registry() -> Iterator[httpx.Client]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Registry) as registry:
        threading.Thread(target=registry.serve_forever, daemon=True).start()
        url = f"http://user:hidden-word@127.0.0.1:{registry.server_port}"
        config = ConsoleConfig({"bootstrap_servers": "127.0.0.1:1"}, schema_registry=url)
        with console_server(config) as server, httpx.Client(base_url=server.url, timeout=20) as client:
            yield client
        registry.shutdown()


def test_subjects_are_listed(with_registry: httpx.Client) -> None:
    found = with_registry.get("/api/schemas?q=FLIGHTS").json()
    assert (found["subjects"], found["level"], found["trouble"]) == (["flights-value"], "BACKWARD", "")
    page = with_registry.get("/schemas").text
    assert "a/&lt;b&gt;?x" in page
    assert "hidden-word" not in page


def test_versions_are_compared(with_registry: httpx.Client) -> None:
    found = with_registry.get("/api/schemas/flights-value").json()
    assert (found["version"], found["other"], found["schema_id"], found["level"]) == (3, 1, 9, "FULL")
    changed = [(line["kind"], line["text"].strip()) for line in found["diff"] if line["kind"] in ("added", "removed")]
    assert changed == [("removed", '"type": "int"'), ("added", '"type": "long"')]
    assert with_registry.get("/api/schemas/flights-value?version=1").json()["diff"] == []
    assert with_registry.get("/api/schemas/flights-value?version=2").status_code == 404
    assert with_registry.get("/api/schemas/none").status_code == 404


def test_a_hostile_subject_and_its_schema_are_text(with_registry: httpx.Client) -> None:
    page = with_registry.get("/schemas/a%2F%3Cb%3E%3Fx")
    assert page.status_code == 200
    assert "<script>alert" not in page.text
    assert "other.proto" in page.text


def test_a_registry_that_is_not_there_is_one_sentence() -> None:
    config = ConsoleConfig({"bootstrap_servers": "127.0.0.1:1"}, schema_registry="http://user:hidden-word@127.0.0.1:1")
    with console_server(config) as server:
        found = httpx.get(f"{server.url}/api/schemas", timeout=20).json()
        assert "does not answer" in found["trouble"]
        assert "hidden-word" not in found["trouble"]


def test_without_a_registry_there_is_no_page_of_schemas(url: str) -> None:
    assert httpx.get(f"{url}/schemas").status_code == 404
    assert 'href="/schemas"' not in httpx.get(f"{url}/topics").text
