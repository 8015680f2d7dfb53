"""Messages of topics in the console over HTTP: pages by place and condition, tails, transactions, large values, and writing."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from html.parser import HTMLParser
from typing import Any

import httpx
import pytest

import ottla
from ottla.console.config import ConsoleConfig
from tests.integration.console.conftest import TOKEN, console_client

COUNT = 3_000
BASE_MS = int(time.time() * 1000) - 3_600_000
"""The time of the first number: recent, since retention deletes older messages."""
PAYLOADS = [
    "<script>alert(1)</script>", "\"><img src=x onerror=alert(1)>", "'-alert(1)-'", "<svg/onload=alert(1)>", "</pre><script>",
    "{{7*7}}", "{% raw %}", "${7*7}", "javascript:alert(1)", "<!--", "]]>", "&lt;script&gt;", "%3Cscript%3E", "\u202e<b>",
    "<a href=x>", "</textarea><script>", "</title><script>", "\\u003cscript\\u003e", "<iframe srcdoc='<script>'>", "<style>*{}",
    "`<b>`", "<b onmouseover='x'>", "<math><mtext>", "<x\nonclick=y>", "data:text/html,<script>",
]  # fmt: skip


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker() as broker:
        with ottla.Admin(broker.address) as admin:
            for topic, partitions in (
                ("numbers", 3),
                ("wide", 150),
                ("empty", 2),
                ("tailed", 2),
                ("txn", 1),
                ("nasty", 1),
                ("written", 2),
            ):
                admin.create_topic(topic, partitions)
            admin.create_topic("compacted", 1, configs={"cleanup.policy": "compact", "max.message.bytes": 20_000_000})
        with ottla.Producer(broker.address) as producer:
            for number in range(COUNT):
                value = json.dumps({"n": number, "even": number % 2 == 0}).encode()
                producer.send("numbers", key=b"k%d" % number, value=value, timestamp_ms=BASE_MS + number)
            for number in range(300):
                producer.send("wide", value=b"w%d" % number, partition=number % 150)
            for payload in PAYLOADS:
                text = payload.encode()
                producer.send("nasty", key=text, value=text, headers=[(payload, text)])
                producer.send("nasty", value=json.dumps({payload: payload}).encode())
        yield broker


@pytest.fixture(scope="module")
def client(broker: ottla.Broker) -> Iterator[httpx.Client]:
    config = ConsoleConfig({"bootstrap_servers": broker.address})
    with console_client(config) as client:
        client.get("/")  # begins the session, which keeps searches
        yield client


def read(client: httpx.Client, topic: str, status: int = 200, **query: Any) -> Any:
    """Return a page of messages once its search has finished."""
    answer = client.get(f"/api/topics/{topic}/messages", params={"wait_ms": 10_000, **query})
    assert answer.status_code == status, answer.text
    return answer.json()


def places(page: Any) -> list[tuple[int, int]]:
    return [(each["partition"], each["offset"]) for each in page["messages"]]


def numbers(page: Any) -> list[int]:
    return [json.loads(each["value"]["text"])["n"] for each in page["messages"]]


def eventually(check: Callable[[], object], seconds: float = 15) -> None:
    """Wait until a check is true."""
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def all_pages(client: httpx.Client, topic: str, **query: Any) -> list[Any]:
    """Return the messages of all pages, from the first to the last."""
    found, after = [], ""
    while True:
        page = read(client, topic, after=after, **query)
        assert page["is_finished"]
        found += page["messages"]
        after = page["after"]
        if not after:
            return found


def test_the_newest_messages_come_first(client: httpx.Client) -> None:
    page = read(client, "numbers", limit=5)
    assert numbers(page) == [COUNT - 1 - number for number in range(5)]
    assert page["total"] == COUNT


@pytest.mark.parametrize(("topic", "start"), [("numbers", "newest"), ("numbers", "oldest"), ("wide", "oldest")])
def test_pages_have_each_message_once(client: httpx.Client, start: str, topic: str) -> None:
    found = all_pages(client, topic, start=start, limit=400)
    assert len({(each["partition"], each["offset"]) for each in found}) == len(found) == (COUNT if topic == "numbers" else 300)


def test_the_newest_of_many_partitions_are_those_of_the_partitions_with_the_newest(client: httpx.Client) -> None:
    page = read(client, "wide", limit=10)
    assert "Of 150 partitions, the 64" in page["note"]
    assert len(page["messages"]) == 10


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"start": "oldest", "filter": "value.n in [7, 2500]"}, [7, 2500]),
        ({"start": "newest", "filter": "value.n in [7, 2500]"}, [2500, 7]),
        ({"filter": "value.even and value.n > 2990"}, [2998, 2996, 2994, 2992]),
        ({"filter": "matches(key, '^k12$')"}, [12]),
        ({"text": '"N": 77,'}, [77]),
        ({"key": "k100"}, [100]),
        ({"key": "0x6b313030"}, [100]),
        ({"start": "time", "time": str(BASE_MS + 2997)}, [2997, 2998, 2999]),
        ({"start": "oldest", "filter": f"timestamp >= {BASE_MS} and timestamp < {BASE_MS + 2} and timestamp > '2h'"}, [0, 1]),
        ({"filter": "value.n == 99999"}, []),
    ],
)
def test_conditions_choose_messages(client: httpx.Client, query: dict[str, Any], expected: list[int]) -> None:
    page = read(client, "numbers", **query)
    assert numbers(page) == expected
    assert page["is_finished"]


def test_an_offset_is_that_of_each_partition(client: httpx.Client) -> None:
    page = read(client, "numbers", start="offset", offset=7, limit=3, partition="1-2")
    assert {partition for partition, _ in places(page)} <= {1, 2}
    assert min(offset for _, offset in places(page)) == 7


def test_a_message_has_its_neighbours_and_commands(client: httpx.Client) -> None:
    one = client.get("/api/topics/numbers/messages/1/0").json()
    assert (one["previous"], one["following"]) == (None, 1)
    assert json.loads(one["message"]["value"]["text"])["n"] >= 0
    assert one["commands"][0].startswith("ottla consume numbers -b 127.0.0.1:")
    raw = client.get("/api/topics/numbers/messages/1/0?raw=true").json()
    data = client.get("/download/numbers/1/0/value")
    assert data.content == base64.b64decode(raw["value_base64"])
    assert data.headers["content-type"] == "application/octet-stream"
    assert "attachment" in data.headers["content-disposition"]


@pytest.mark.parametrize(
    ("path", "status", "reason"),
    [
        ("numbers/messages/1/999999", 200, "There is no message at offset 999999"),
        ("numbers/messages/9/0", 404, "numbers-9"),
        ("nope/messages", 404, "no such topic"),
        ("numbers/messages?partition=7", 400, "has no partition 7"),
        ("numbers/messages?filter=value.", 400, "filter cannot be used"),
        ("numbers/messages?start=time&time=noon", 400, "is not a time"),
        ("numbers/messages?start=offset", 400, "The offset is missing"),
        ("numbers/messages?limit=100000", 400, "from 1 to 500"),
        ("numbers/messages?after=x", 400, "damaged"),
        ("numbers/messages?value_format=xml", 400, "no format"),
    ],
)
def test_what_cannot_be_shown_is_said_in_a_sentence(client: httpx.Client, path: str, status: int, reason: str) -> None:
    answer = client.get(f"/api/topics/{path}")
    assert (answer.status_code, reason in answer.text) == (status, True), answer.text
    assert client.get(f"/topics/{path}").status_code == status


def test_an_empty_topic_has_an_empty_page(client: httpx.Client) -> None:
    page = read(client, "empty")
    assert (page["messages"], page["is_finished"], page["total"], page["after"]) == ([], True, 0, "")
    assert "No message was found." in client.get("/topics/empty/messages").text


def test_transactions_are_shown_with_their_states(client: httpx.Client, broker: ottla.Broker) -> None:
    def written() -> list[tuple[str, str]]:
        found = read(client, "txn", start="oldest", control=True)["messages"]
        return [("" if "marker" in each["transaction"] else each["value"]["text"], each["transaction"]) for each in found]

    with ottla.Producer(broker.address, transactional_id="t") as producer:
        with producer.transaction():
            producer.send("txn", value=b"good")
        with suppress(ZeroDivisionError), producer.transaction():
            producer.send("txn", value=b"bad")
            producer.flush()
            _ = 1 / 0
        with producer.transaction():
            producer.send("txn", value=b"open")
            producer.flush()
            decided = [("good", "committed"), ("", "commit marker"), ("bad", "aborted"), ("", "abort marker")]
            assert written() == [*decided, ("open", "open")]
            page = read(client, "txn", start="oldest", committed=True)
            assert [each["value"]["text"] for each in page["messages"]] == ["good"]
    assert written()[-2:] == [("open", "committed"), ("", "commit marker")]
    assert [each["transaction"] for each in read(client, "txn", limit=2)["messages"]] == ["committed", "aborted"]


def test_two_tails_show_new_messages_each_for_itself(client: httpx.Client, broker: ottla.Broker) -> None:
    first = read(client, "tailed", start="tail")
    second = read(client, "tailed", start="tail", text="two")
    assert (first["messages"], second["messages"]) == ([], [])
    assert first["run"] != second["run"]
    with ottla.Producer(broker.address) as producer:
        for text in (b"one", b"two"):
            producer.send("tailed", value=text)

    def shown(page: Any, **query: Any) -> list[str]:
        again = read(client, "tailed", start="tail", run=page["run"], wait_ms=0, **query)
        return [each["value"]["text"] for each in again["messages"]]

    eventually(lambda: sorted(shown(first)) == ["one", "two"])
    eventually(lambda: shown(second, text="two") == ["two"])
    paused = read(client, "tailed", start="tail", run=first["run"], paused=True)
    with ottla.Producer(broker.address) as producer:
        producer.send("tailed", value=b"three").result(10)
    eventually(lambda: read(client, "tailed", start="tail", run=first["run"], paused=True, wait_ms=0)["waiting"] == 1)
    again = read(client, "tailed", start="tail", run=first["run"], paused=True)
    assert again["messages"] == paused["messages"]
    eventually(lambda: "three" in shown(first))


def test_a_tail_ends_when_its_topic_is_deleted(client: httpx.Client, broker: ottla.Broker) -> None:
    with ottla.Admin(broker.address) as admin:
        admin.create_topic("doomed", 1)
        page = read(client, "doomed", start="tail")
        admin.delete_topics("doomed")
    eventually(lambda: client.get(f"/api/topics/doomed/messages?start=tail&run={page['run']}").json().get("is_finished"), 30)
    found = client.get(f"/api/topics/doomed/messages?start=tail&run={page['run']}").json()
    assert "doomed" in found["trouble"]
    assert "The tail has ended." in client.get(f"/topics/doomed/messages?start=tail&run={page['run']}").text


def test_a_compacted_topic_has_gaps(client: httpx.Client, broker: ottla.Broker) -> None:
    with ottla.Producer(broker.address) as producer:
        for number in range(5):
            producer.send("compacted", key=b"k", value=b"%d" % number)
        producer.send("compacted", key=b"k", value=None).result(10)
    page = read(client, "compacted")
    assert [each["value"]["format"] for each in page["messages"]][:2] == ["null", "text"]
    assert "null" in client.get("/topics/compacted/messages").text


@pytest.mark.full(seconds=5)
def test_a_message_of_ten_megabytes_is_shown_and_saved(client: httpx.Client, broker: ottla.Broker) -> None:
    value = b'{"long": "' + b"<x>" * 3_500_000 + b'"}'
    with ottla.Producer(broker.address, max_request_size=20_000_000) as producer:
        offset = producer.send("compacted", key=b"large", value=value).result(20).offset
    page = read(client, "compacted", limit=3)
    shown = page["messages"][0]["value"]
    assert (shown["size"], shown["is_cut"], len(shown["text"])) == (len(value), True, 400)
    html = client.get(f"/topics/compacted/messages/0/{offset}")
    assert html.status_code == 200
    assert len(html.content) < 600_000
    assert client.get(f"/download/compacted/0/{offset}/value").content == value
    assert read(client, "compacted", filter="value.long == 'x'")["too_large"] == 1


class TagReader(HTMLParser):
    """A reader of a page that collects its elements and the names of their attributes, as a browser finds them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag if tag != "script" else f"script {dict(attrs)}")
        self.attributes.update(name for name, _ in attrs)


def test_html_in_messages_is_text(client: httpx.Client) -> None:
    known = TagReader(client.get("/topics/numbers/messages").text + client.get("/topics/numbers/messages/1/0").text)
    pages = [client.get("/topics/nasty/messages?limit=100").text]
    pages += [client.get(f"/topics/nasty/messages/0/{offset}").text for offset in range(0, 2 * len(PAYLOADS), 5)]
    for text in PAYLOADS[::3]:
        pages.append(client.get("/topics/nasty/messages", params={"text": text, "key": text, "filter": "false", "wait_ms": 0}).text)
    for page in pages:
        found = TagReader(page)
        assert "<h1>" in page
        assert found.elements <= known.elements | {"b", "table", "thead", "tbody", "tr", "td", "th", "div", "time"}
        assert found.attributes <= known.attributes | {"data-live", "title", "colspan", "rel", "scope", "datetime"}
        assert 'class="value">49' not in page, "templates do not evaluate messages"


@pytest.mark.parametrize(
    ("form", "key", "value", "headers"),
    [
        ({"value": "hello", "key": "k"}, b"k", b"hello", ()),
        ({"value": '{"a": 1}', "value_input": "json", "headers": "h: v\n\nx"}, None, b'{"a": 1}', (("h", b"v"), ("x", None))),
        ({"value": "/w==", "value_input": "base64", "key": "0xff00", "key_input": "hex"}, b"\xff\0", b"\xff", ()),
        ({"key": "k", "tombstone": True, "partition": 1}, b"k", None, ()),
    ],
)
def test_a_message_is_written(
    client: httpx.Client, broker: ottla.Broker, form: dict[str, Any], key: bytes, value: bytes, headers: Any
) -> None:
    answer = client.post("/api/topics/written/produce", json=form)
    assert answer.status_code == 200, answer.text
    _, _, _, _, partition, offset = answer.json()["path"].split("/")
    with ottla.Consumer(bootstrap_servers=broker.address) as consumer:
        consumer.assign([("written", int(partition))])
        consumer.seek(("written", int(partition)), int(offset))
        record = next(iter(consumer))
    assert (record.key, record.value, record.headers) == (key, value, headers)


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ({"value": "{", "value_input": "json"}, "The value is not json"),
        ({"value": "zz", "value_input": "hex"}, "The value is not hex"),
        ({"tombstone": True}, "A tombstone needs a key"),
        ({"value": "x", "value_input": "xml"}, "no form of a value"),
        ({"value": "x", "value_input": "schema"}, "No schema registry"),
        ({"value": "x", "partition": 77}, "77"),
    ],
)
def test_a_wrong_message_is_refused_and_the_form_kept(client: httpx.Client, form: dict[str, Any], reason: str) -> None:
    answer = client.post("/api/topics/written/produce", json=form)
    assert answer.status_code in (400, 404, 409), answer.text
    assert reason in answer.json()["error"]
    token = TOKEN.search(client.get("/topics/written/produce").text)
    assert token is not None
    shown = client.post("/topics/written/produce", data={**form, "token": token[1]})
    assert shown.status_code == answer.status_code
    assert 'role="alert"' in shown.text


@pytest.mark.parametrize(
    "query",
    [
        {"limit": 4, "partition": "1"},
        {"start": "oldest", "filter": "value.n in [7, 2500] and 'x' not in value"},
        {"start": "time", "time": str(BASE_MS + 2997)},
        {"text": '"N": 77,', "key": "k77"},
    ],
)
def test_the_command_of_a_page_prints_its_messages(client: httpx.Client, query: dict[str, Any]) -> None:
    page = read(client, "numbers", **query)
    command = page["commands"][0].replace("ottla ", f"{sys.executable} -m ottla ", 1)
    printed = subprocess.run(["bash", "-c", command], capture_output=True, check=True, timeout=60).stdout
    assert sorted(printed.decode().splitlines()) == sorted(each["value"]["text"] for each in page["messages"])
