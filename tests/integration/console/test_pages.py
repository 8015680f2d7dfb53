"""Each page and action of the console over HTTP, for people and for programs, against a broker."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest

import ottla
from ottla.console.config import ConsoleConfig
from ottla.console.openapi import json_path
from ottla.console.pages import ACTIONS, PAGES
from tests.integration.console.conftest import TOKEN, console_client
from tests.support.waiting import eventually

NAMES = {"topic": "flights", "node_id": "1"}
SIMPLE = [page for page in PAGES if set(re.findall(r"{(\w+)}", page.path)) <= NAMES.keys() and page.path != "/schemas"]


@pytest.fixture
def client(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, timeout=20) as client:
        yield client


def path_with_names(path: str) -> str:
    return re.sub(r"{(\w+)}", lambda found: NAMES[found[1]], path)


def post(client: httpx.Client, path: str, page: str, **form: object) -> httpx.Response:
    """Send a form with the token of the page that has it."""
    token = TOKEN.search(client.get(page).text)
    assert token is not None, f"{page} has no form"
    return client.post(path, data={**form, "token": token[1]}, follow_redirects=True)


def call(client: httpx.Client, path: str, status: int = 200, **body: object) -> Any:
    """Call an action as a program does."""
    answer = client.post(f"/api{path}", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


@pytest.mark.parametrize("page", SIMPLE, ids=lambda page: page.path)
def test_a_page_is_there_for_people_and_for_programs(client: httpx.Client, page: Any) -> None:
    path = path_with_names(page.path)
    shown = client.get(path)
    assert shown.status_code == 200, shown.text
    assert "<h1>" in shown.text
    assert "None" not in re.sub(r"<[^>]*>", "", shown.text)
    content = client.get(path_with_names(json_path(page.path)))
    assert content.status_code == 200
    described = client.get("/api/openapi.json").json()
    schema = described["paths"][json_path(page.path)]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    conforms(content.json(), schema, described["components"]["schemas"])


def conforms(value: Any, schema: Any, known: Any) -> None:
    """Check a value against the part of JSON Schema that the console uses."""
    if "$ref" in schema:
        schema = known[schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        schema = next(each for each in schema["anyOf"] if (each.get("type") == "null") == (value is None))
        return conforms(value, schema, known)
    if schema["type"] == "object" and "properties" in schema:
        assert value.keys() == schema["properties"].keys()
        for name, each in value.items():
            conforms(each, schema["properties"][name], known)
    elif schema["type"] == "object":
        for each in value.values():
            conforms(each, schema["additionalProperties"], known)
    elif schema["type"] == "array":
        for each in value:
            conforms(each, schema["items"], known)
    else:
        kinds: dict[str, tuple[type, ...]] = {
            "string": (str,), "boolean": (bool,), "integer": (int,), "number": (int, float), "null": (type(None),),
        }  # fmt: skip
        assert isinstance(value, kinds[schema["type"]])
    return None


@pytest.mark.parametrize("path", ["/nope", "/topics/nope", "/topics/nope/config", "/brokers/77", "/brokers/x", "/topics?sort=x"])
def test_an_error_is_one_sentence(client: httpx.Client, path: str) -> None:
    answer = client.get(f"/api{path}")
    assert 400 <= answer.status_code < 500
    sentence = answer.json()["error"]
    assert sentence.endswith(".")
    page = client.get(path)
    assert page.status_code == answer.status_code
    assert sentence in html.unescape(page.text)


@pytest.mark.parametrize(
    "path", ["/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static//etc/passwd", "/..%2f..%2fetc/passwd"]
)
def test_no_path_leads_to_other_files(client: httpx.Client, url: str, path: str) -> None:
    answer = client.get(httpx.URL(url).copy_with(raw_path=path.encode()))
    assert answer.status_code == 404
    assert "root:" not in answer.text
    assert "import" not in answer.text


def test_a_method_that_the_console_does_not_have_is_refused_as_json(client: httpx.Client) -> None:
    answer = client.delete("/api/topics/flights")
    assert answer.status_code == 405
    assert answer.json() == {"error": "The console answers GET and POST, not DELETE: read /api/openapi.json."}


def test_a_topic_is_created_changed_and_deleted_by_forms(client: httpx.Client, broker: ottla.Broker) -> None:
    made = post(client, "/topics", "/topics", name="forms", partitions="2", configs="retention.ms=1000\ncleanup.policy=compact")
    assert made.url.path == "/topics/forms"
    assert "Topic forms was created with 2 partitions." in made.text
    assert "Topic forms was created" not in client.get("/topics/forms").text, "a notice is shown once"
    assert client.get("/api/topics/forms/config?changed=true&q=retention").json()["settings"]["value"][0]["value"] == "1000"
    grown = post(client, "/topics/forms/partitions", "/topics/forms", partitions="5")
    assert "has 5 partitions now" in grown.text
    changed = post(client, "/topics/forms/config", "/topics/forms/config", setting="retention.ms", value="2000")
    assert "retention.ms of topic forms was set." in changed.text
    post(client, "/topics/forms/config", "/topics/forms/config", setting="retention.ms", unset="true")
    settings = {each["name"]: each for each in client.get("/api/topics/forms/config").json()["settings"]["value"]}
    assert settings["retention.ms"]["is_changed"] is False
    refused = post(client, "/topics/forms/delete", "/topics/forms", typed="form")
    assert refused.status_code == 400
    assert "The typed name is not forms" in refused.text
    deleted = post(client, "/topics/forms/delete", "/topics/forms", typed="forms")
    assert deleted.url.path == "/topics"
    assert "forms" not in [each["name"] for each in client.get("/api/topics").json()["topics"]]


def test_a_refused_form_is_shown_again_with_what_was_typed(client: httpx.Client) -> None:
    answer = post(client, "/topics", "/topics", name="no good", partitions="3", configs="a=b")
    assert answer.status_code in (400, 409)
    assert 'role="alert"' in answer.text
    assert 'value="no good"' in answer.text
    assert ">a=b</textarea>" in answer.text


def test_programs_tell_errors_of_brokers_apart_by_their_statuses(client: httpx.Client) -> None:
    assert "TOPIC_ALREADY_EXISTS" in call(client, "/topics", 409, name="flights", partitions=1)["error"]
    assert "INVALID_TOPIC_EXCEPTION" in call(client, "/topics", 400, name="no good", partitions=1)["error"]
    assert "GROUP_ID_NOT_FOUND" in call(client, "/groups/nobody/delete", 404, typed="nobody")["error"]
    assert "RESOURCE_NOT_FOUND" in call(client, "/users/remove", 404, name="nobody", typed="nobody")["error"]


def test_users_are_set_and_removed(client: httpx.Client, broker: ottla.Broker) -> None:
    call(client, "/users", name="alice", password="secret-word", mechanism="SCRAM-SHA-512")
    users = client.get("/api/users").json()["users"]["value"]
    assert users == [{"name": "alice", "mechanisms": {"SCRAM-SHA-512": 4096}}]
    refused = post(client, "/users", "/users", name="alice", password="other-secret", mechanism="SCRAM-SHA-1")
    assert refused.status_code == 400
    assert "other-secret" not in refused.text, "no page has a password"
    assert "exactly" in call(client, "/users/remove", 400, name="alice", mechanism="SCRAM-SHA-512")["error"]
    call(client, "/users/remove", name="alice", typed="alice", mechanism="SCRAM-SHA-512")
    assert client.get("/api/users").json()["users"]["value"] == []


def test_acls_are_added_and_removed(client: httpx.Client) -> None:
    rule: dict[str, Any] = {"principal": "User:bob", "operation": "read", "resource": "topic", "name": "fl", "pattern": "prefixed"}
    call(client, "/acls", **rule)
    (found,) = client.get("/api/acls?q=bob").json()["acls"]["value"]
    assert found == {**rule, "host": "*", "permission": "allow"}
    answer = post(client, "/acls/remove", "/acls", **found)
    assert "was removed" in answer.text
    assert call(client, "/acls/remove", 404, **found)["error"].startswith("There is no such ACL")


def test_quotas_are_set_and_removed(client: httpx.Client) -> None:
    call(client, "/quotas", user="<default>", quota="producer_byte_rate", value=1000)
    assert client.get("/api/quotas").json()["entries"]["value"] == [
        {"user": "", "client_id": None, "ip": None, "quotas": {"producer_byte_rate": 1000.0}}
    ]
    post(client, "/quotas", "/quotas", user="<default>", quota="producer_byte_rate", remove="true")
    assert client.get("/api/quotas").json()["entries"]["value"] == []
    assert "Name a user" in call(client, "/quotas", 400, quota="producer_byte_rate", value=1)["error"]


def test_an_open_transaction_is_shown_and_ended(client: httpx.Client, broker: ottla.Broker) -> None:
    with ottla.Producer(broker.address, transactional_id="load") as producer:
        producer.begin_transaction()
        producer.send("flights", value=b"held back").result(20)
        (row,) = client.get("/api/transactions?open=true").json()["transactions"]["value"]
        assert (row["transactional_id"], row["state"], row["partitions"]) == ("load", "Ongoing", 1)
        assert client.get("/api/transactions/load").json()["partitions"][0].startswith("flights-")
        call(client, "/transactions/load/terminate")
        assert client.get("/api/transactions/load").json()["is_open"] is False
        with pytest.raises(ottla.KafkaError):
            producer.commit_transaction()


def test_a_hanging_transaction_is_found(client: httpx.Client) -> None:
    found = client.get("/api/transactions?hanging=true&minutes=0").json()["hanging"]
    assert found["trouble"] == ""
    assert found["value"] == []


def test_what_was_created_elsewhere_appears(client: httpx.Client, broker: ottla.Broker) -> None:
    names = [f"behind-{number}" for number in range(200)]
    with ottla.Admin(broker.address) as admin:
        admin.create_topics([ottla.NewTopic(name, 1, 1) for name in names])
        try:
            pages: list[Any] = []

            def are_shown() -> bool:
                pages[:] = [client.get(f"/api/topics?q=behind&page={page}").json() for page in (1, 2)]
                return [each["name"] for page in pages for each in page["topics"]] == sorted(names)

            eventually(are_shown, what="200 topics are shown")
            assert pages[1]["place"] == {"page": 2, "pages": 2, "matching": 200, "total": pages[1]["place"]["total"]}
        finally:
            admin.delete_topics(*names)


def test_a_read_only_console_changes_nothing(broker: ottla.Broker) -> None:
    config = ConsoleConfig({"bootstrap_servers": broker.address}, read_only=True)
    with console_client(config) as client:
        for action in ACTIONS:
            path = re.sub(r"{(\w+)}", "1", action.path)
            refused = client.post(f"/api{path}", json={})
            assert (refused.status_code, refused.json()) == (403, {"error": "This console is read-only: it changes nothing."})
            assert client.post(path, data={"x": "y"}).status_code == 403
        for page in SIMPLE:
            assert 'method="post"' not in client.get(path_with_names(page.path)).text or page.takes_post


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.path)
def test_a_forged_request_is_refused(client: httpx.Client, action: Any) -> None:
    path = re.sub(r"{(\w+)}", "1", action.path)
    page = client.get("/topics")
    token = TOKEN.search(page.text)
    assert token is not None
    for form in ({}, {"token": "x" * 43}, {"token": token[1][:-1]}, {"token": "é"}):
        assert client.post(path, data={"name": "forged", **form}).status_code == 403
    with httpx.Client(base_url=client.base_url) as other:  # the token of another session
        assert other.post(path, data={"name": "forged", "token": token[1]}).status_code == 403
    assert client.post(f"/api{path}", content=json.dumps({"name": "forged"})).status_code == 415
    plain = {"Content-Type": "text/plain"}
    assert client.post(f"/api{path}", content=json.dumps({"name": "forged"}), headers=plain).status_code == 415
    foreign = {"Origin": "http://evil.example"}
    assert client.post(f"/api{path}", json={"name": "forged"}, headers=foreign).status_code == 403
    assert client.get("/api/topics?q=forged").json()["topics"] == []


def test_a_foreign_host_is_refused(client: httpx.Client) -> None:
    assert client.get("/topics", headers={"Host": "evil.example"}).status_code == 421


def test_bodies_that_are_no_json_object(client: httpx.Client) -> None:
    kind = {"Content-Type": "application/json"}
    for body in ("[", "[]", "1", '"x"', "[" * 100_000):
        answer = client.post("/api/topics", content=body, headers=kind)
        assert answer.status_code == 400, body[:10]
        assert answer.json()["error"].startswith("The body is not")


def test_headers_of_pages_forbid_what_they_can(client: httpx.Client) -> None:
    answer = client.get("/")
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "style=" not in answer.text, "the policy forbids inline styles"
    assert not re.search(r"<script(?![^>]*\bsrc=)", answer.text), "and inline scripts"
    assert not re.search(r"\son\w+=", answer.text)


def test_no_page_needs_anything_from_elsewhere(client: httpx.Client) -> None:
    for path in ("/", "/static/console.css", "/static/console.js", "/static/icon.svg"):
        text = client.get(path).text.replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|[\"'(]//", text), path


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg onload=alert(1)>",
    "{{ 7 * 7 }}",
    "{% raw %}",
    "javascript:alert(1)",
    "</title><script>",
    "--><b>",
    "&lt;b&gt;",
    "a\x00b",
    "‮drow",
    "%3Cscript%3E",
]


def test_hostile_names_and_values_are_text(client: httpx.Client, broker: ottla.Broker) -> None:
    payloads = [f"{each}{number}" for number in range(9) for each in HOSTILE][:100]
    with ottla.Admin(broker.address) as admin:
        rules = [ottla.AclRule(f"User:{each}", "read", "group", each) for each in payloads]
        admin.create_acls(rules)
        admin.alter_quotas_of({ottla.QuotaOf(user=each, client_id=each): {"producer_byte_rate": 1.0} for each in payloads})
        pages = [client.get(path).text for path in ("/acls", "/quotas")]
        admin.delete_acls(rules)
        admin.alter_quotas_of({ottla.QuotaOf(user=each, client_id=each): {"producer_byte_rate": None} for each in payloads})
    for page in pages:
        text = html.unescape(re.sub(r"<[^>]*>", "", page))
        for each in payloads:
            assert each.strip().replace("\x00", "") in text.replace("\x00", ""), each
            if "<" in each:
                assert each not in page, "it stands in the page as it is"
    for each in HOSTILE:
        for path in (
            f"/topics?q={quote(each)}",
            f"/topics?sort={quote(each)}",
            f"/topics/{quote(each, safe='')}",
            f"/x{quote(each)}",
        ):
            page = client.get(path).text
            assert "<" not in each or each not in page, path
            assert 'href="javascript:' not in page
