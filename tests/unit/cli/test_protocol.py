"""`ottla protocol`: tables, one API, one version, the page, and names that are nearly right."""

from __future__ import annotations

import json
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.main import main
from ottla.wire.apis import API
from ottla.wire.errors import ERRORS
from ottla.wire.headers import RequestHeader, ResponseHeader


@pytest.fixture
def protocol(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("COLUMNS", "120")

    def run(*words: str, code: int = 0) -> str:
        assert main(["protocol", *words]) == code
        captured = capsys.readouterr()
        return captured.err if code else captured.out

    return run


def test_without_a_name_all_apis_are_listed(protocol: Any) -> None:
    lines = protocol().splitlines()
    assert lines[1].split()[:4] == ["0", "Produce", "0-13", "9+"]
    names = {words[1] for words in map(str.split, lines) if len(words) > 1 and words[0].isdecimal()}
    assert {api.name for api in API.values()} <= names
    assert max(map(len, lines)) <= 120


def test_one_api_has_purpose_versions_grammar_and_fields(protocol: Any) -> None:
    text = protocol("heartbeat")
    assert text.startswith(
        "Heartbeat (API key 12), versions 0-4, flexible 4+\n\nA member of a classic group keeps its session alive."
    )
    assert "Version 4: request header 2, response header 1." in text
    assert "  Heartbeat Request (Version: 4) => group_id generation_id member_id group_instance_id _tagged_fields" in text
    assert "  group_instance_id  string  3+        3+         null" in text


def test_one_version_has_only_its_fields(protocol: Any) -> None:
    text = protocol("Heartbeat", "--version", "0")
    assert "Heartbeat Request (Version: 0) => group_id generation_id member_id\n" in text
    assert "group_instance_id" not in text


@pytest.mark.parametrize("name", ["list_offsets", "LISTOFFSETS", "list-offsets", "2", "ListOffsetsRequest"])
def test_a_name_is_found_however_it_is_written(protocol: Any, name: str) -> None:
    assert protocol(name).startswith("ListOffsets (API key 2)")


def test_other_messages_are_found_too(protocol: Any) -> None:
    assert "OffsetCommitValue (Version: 4) => offset" in protocol("OffsetCommitValue")
    assert "RequestHeader (Version: 0) => request_api_key" in protocol("RequestHeader", "--version", "0")


def test_an_unknown_name_names_the_nearest(protocol: Any) -> None:
    assert protocol("Fecth", code=2).startswith("ottla: There is no API 'Fecth': did you mean Fetch")
    assert protocol("zzzzzz", code=2) == "ottla: There is no API 'zzzzzz': `ottla protocol` lists all.\n"
    assert protocol("Fetch", "--version", "99", code=2) == "ottla: Fetch has no version 99: its versions are 0-18.\n"
    assert "--version needs an API" in protocol("--version", "1", code=2)


def test_errors_are_a_table(protocol: Any) -> None:
    text = protocol("--errors")
    assert all(error.name in text for error in ERRORS.values())
    assert json.loads(protocol("--errors", "--json"))[1]["name"] == "NONE"


def test_json_of_one_api_and_of_all(protocol: Any) -> None:
    found = json.loads(protocol("Fetch", "--json"))
    assert (found["key"], found["versions"], found["flexible"]) == (1, "0-18", "12+")
    assert found["headers"]["12"] == {"request": 2, "response": 1}
    assert set(found["request"]["grammar"]) == {str(version) for version in range(19)}
    assert len(json.loads(protocol("--json"))) == len(API)
    assert json.loads(protocol("RequestHeader", "--json"))["flexible"] == "2+"


class Page(HTMLParser):
    """Checks that tags are closed in order, and gathers what links lead to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.outside: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if "id" in found:
            self.ids.append(found["id"] or "")
        if tag == "a":
            self.links.append(found["href"] or "")
        if tag in ("script", "link", "img", "iframe") or "src" in found:
            self.outside.append(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_stands_alone_and_its_links_lead_somewhere(protocol: Any) -> None:
    text = protocol("--html", "-")
    page = Page(text)
    assert not page.outside
    assert "http" not in text.split("</style>")[0]
    assert len(page.ids) == len(set(page.ids))
    assert {link[1:] for link in page.links} <= set(page.ids)
    assert {api.name for api in API.values()} <= set(page.ids)
    stored = text[text.index('id="stored"') :].count("<summary>Version ")
    of_apis = sum(len(api.versions) * 2 for api in API.values())
    of_headers = len(RequestHeader.WIRE.valid) + len(ResponseHeader.WIRE.valid)
    assert text.count("<summary>Version ") == of_apis + stored + of_headers
    assert "prefers-color-scheme: dark" in text
    assert "<code>max_wait_ms</code>" in text
    assert "`" not in text.split("<body>")[1]


def test_the_page_of_one_api_goes_to_a_file(protocol: Any, tmp_path: Path) -> None:
    path = tmp_path / "fetch.html"
    assert protocol("Fetch", "--html", str(path)) == ""
    page = Page(path.read_text())
    assert {"Fetch", "FetchRequest", "FetchResponse", "types", "errors"} <= set(page.ids)
    assert "Cannot write" in protocol("Fetch", "--html", str(tmp_path / "no" / "such"), code=1)
    assert Page(protocol("OffsetCommitKey", "--version", "0", "--html", "-")).ids[0] == "OffsetCommitKey"


def test_serving_loads_nothing_of_the_looking_glass() -> None:
    code = "import sys; from ottla.cli.main import parser_for; parser_for(['serve']); print('\\n'.join(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    looking = (
        "ottla.wire",
        "ottla.records",
        "ottla.cli.decode.capture",
        "ottla.cli.decode.conversation",
        "ottla.inspection.frames",
        "ottla.inspection.bytes_fields",
    )
    assert "ottla.cli.serve" in loaded
    assert not [
        name
        for name in loaded
        if name.startswith(
            (*looking, "ottla.cli.protocol.grammar", "ottla.cli.protocol.html", "ottla.cli.protocol.text", "ottla.inspection.tree")
        )
    ]


def test_the_protocol_of_kafka_07_is_listed_too(protocol: Any) -> None:
    lines = protocol("--release", "0.7").splitlines()
    assert [line.split()[:3] for line in lines[1:] if line[:1].isdecimal()] == [
        ["0", "Produce", "no"],
        ["1", "Fetch", "yes"],
        ["2", "MultiFetch", "yes"],
        ["3", "MultiProduce", "no"],
        ["4", "Offsets", "yes"],
    ]
    assert max(map(len, lines)) <= 120
    fetch = protocol("--release", "0.7", "multi_fetch")
    assert "MultiFetch Request => size type [fetches]\n    size => INT32\n    type => INT16, which is 2\n" in fetch
    assert "    fetches => topic partition offset max_bytes\n      topic => STRING\n" in fetch
    assert "MultiFetch Response => size error_code [responses]\n" in fetch
    assert "    responses => size error_code messages\n      size => INT32\n" in fetch
    assert "offsets => INT64" in protocol("--release", "0.7", "4")
    assert "not answered" in protocol("--release", "0.7", "Produce")
    assert "-1    Something failed" in protocol("--release", "0.7", "--errors")


def test_the_protocol_of_kafka_07_is_there_for_programs(protocol: Any) -> None:
    everything = json.loads(protocol("--release", "0.7", "--json"))
    assert [found["name"] for found in everything] == ["Produce", "Fetch", "MultiFetch", "MultiProduce", "Offsets"]
    assert json.loads(protocol("--release", "0.7", "--json", "Fetch")) == everything[1]
    assert everything[0]["response"] is None
    assert [found["code"] for found in json.loads(protocol("--release", "0.7", "--json", "--errors"))] == [-1, 0, 1, 2, 3, 4]


def test_what_kafka_07_does_not_have_is_said(protocol: Any) -> None:
    assert "it has Produce, Fetch, MultiFetch" in protocol("--release", "0.7", "Metadata", code=2)
    assert "leave out --version" in protocol("--release", "0.7", "Fetch", "--version", "1", code=2)
