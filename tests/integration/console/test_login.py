"""Logins at the console: who has no user sees one page, who has one sees what it may see, and no page has a password."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import ottla
from bench.apache_kafka import free_port
from ottla.console.config import ConsoleConfig
from ottla.testing import BrokerProcess
from tests.integration.console.conftest import TOKEN, console_server

SECRET = "a-very-secret-word"


@pytest.fixture(scope="module")
def secured() -> Iterator[ottla.Broker]:
    with ottla.Broker(users={"alice": SECRET}) as broker:
        yield broker


@pytest.fixture(scope="module")
def login_url(secured: ottla.Broker) -> Iterator[str]:
    client = {"bootstrap_servers": secured.address, "security_protocol": "SASL_PLAINTEXT"}
    with console_server(ConsoleConfig(client)) as server:
        yield server.url


@pytest.fixture
def client(login_url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=login_url, timeout=30) as client:
        yield client


def log_in(client: httpx.Client, name: str = "alice", password: str = SECRET, mechanism: str = "PLAIN") -> httpx.Response:
    found = TOKEN.search(client.get("/login?then=/topics%3Fq%3Dx").text)
    assert found is not None
    form = {"token": found[1], "mechanism": mechanism, "name": name, "password": password}
    return client.post("/login?then=/topics%3Fq%3Dx", data=form)


def test_a_page_leads_to_the_login_and_back(client: httpx.Client) -> None:
    sent = client.get("/topics?q=x")
    assert (sent.status_code, sent.headers["location"]) == (303, "/login?then=%2Ftopics%3Fq%3Dx")
    assert client.get("/api/topics").status_code == 401
    assert client.get("/live?path=/").status_code == 401
    done = log_in(client)
    assert (done.status_code, done.headers["location"]) == (303, "/topics?q=x")
    page = client.get("/topics")
    assert page.status_code == 200
    assert "alice" in page.text
    assert client.get("/api/topics").status_code == 200


def test_a_login_changes_the_session(client: httpx.Client) -> None:
    client.get("/login")
    before = client.cookies["ottla_console"]
    log_in(client)
    assert client.cookies["ottla_console"] != before, "a cookie that somebody else has set is worth nothing"


@pytest.mark.parametrize(
    ("name", "password", "mechanism", "sentence"),
    [
        ("alice", "wrong", "PLAIN", "refused"),
        ("", SECRET, "PLAIN", "The name or the password is missing"),
        ("alice", "", "PLAIN", "The name or the password is missing"),
        ("", "", "OAUTHBEARER", "The token is missing"),
        ("alice", SECRET, "GSSAPI", "is not a mechanism of this page"),
        ("alice", SECRET, "SCRAM-SHA-256", "SCRAM-SHA-256"),
    ],
)
def test_a_wrong_login_is_one_sentence(client: httpx.Client, name: str, password: str, mechanism: str, sentence: str) -> None:
    answer = log_in(client, name, password, mechanism)
    assert answer.status_code in (400, 401)
    assert sentence in answer.text.replace("&#39;", "'")
    assert SECRET not in answer.text
    assert client.get("/topics").status_code == 303
    refused = client.post("/api/login", json={"mechanism": mechanism, "name": name, "password": password})
    assert refused.status_code == answer.status_code
    assert refused.json()["error"].endswith(".")


def test_users_of_scram_log_in_by_the_page(tmp_path: Path) -> None:
    plain, scram, mechanisms = free_port(), free_port(), ("SCRAM-SHA-256", "SCRAM-SHA-512")
    listener = f"127.0.0.1:{scram},name=SCRAM,security=SASL_PLAINTEXT"
    given = {"listener.name.scram.sasl.enabled.mechanisms": ",".join(mechanisms)}
    with BrokerProcess(tmp_path / "data", given, port=plain, arguments=["--listen", listener]):
        with ottla.Admin(f"127.0.0.1:{plain}") as admin:
            for mechanism in mechanisms:
                admin.set_user_password("bob", f"a-word-for-{mechanism}", mechanism=mechanism)
        settings = {"bootstrap_servers": f"127.0.0.1:{scram}", "security_protocol": "SASL_PLAINTEXT"}
        with console_server(ConsoleConfig(settings)) as server:
            for mechanism in mechanisms:
                with httpx.Client(base_url=server.url, timeout=30) as client:
                    assert log_in(client, "bob", "another-word", mechanism).status_code == 401
                    assert client.get("/topics").status_code == 303
                    done = log_in(client, "bob", f"a-word-for-{mechanism}", mechanism)
                    assert (done.status_code, done.headers.get("location")) == (303, "/topics?q=x"), done.text
                    assert "bob" in client.get("/topics").text
                    assert client.get("/api/brokers").status_code == 200


def test_a_login_needs_the_token_of_its_page(client: httpx.Client) -> None:
    form = {"mechanism": "PLAIN", "name": "alice", "password": SECRET}
    assert client.post("/login", data=form).status_code == 403


def test_programs_log_in_and_out(client: httpx.Client) -> None:
    done = client.post("/api/login", json={"mechanism": "PLAIN", "name": "alice", "password": SECRET})
    assert done.json() == {"sentence": "Logged in as alice."}
    assert client.get("/api/brokers").status_code == 200
    cookie = client.cookies["ottla_console"]
    assert client.post("/api/logout", json={}).status_code == 200
    assert client.get("/api/brokers", headers={"Cookie": f"ottla_console={cookie}"}).status_code == 401


def test_a_log_out_by_form(client: httpx.Client) -> None:
    log_in(client)
    found = TOKEN.search(client.get("/topics").text)
    assert found is not None
    assert client.post("/logout", data={"token": "other"}).status_code == 403
    assert client.post("/logout", data={"token": found[1]}).headers["location"] == "/login"
    assert client.get("/topics").status_code == 303


@pytest.mark.parametrize("then", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)"])
def test_a_login_leads_to_no_other_site(client: httpx.Client, then: str) -> None:
    found = TOKEN.search(client.get("/login").text)
    assert found is not None
    form = {"token": found[1], "mechanism": "PLAIN", "name": "alice", "password": SECRET}
    done = client.post("/login", params={"then": then}, data=form)
    assert (done.status_code, done.headers["location"]) == (303, "/")


def test_no_page_has_a_password(client: httpx.Client) -> None:
    log_in(client)
    for path in ("/", "/topics", "/brokers", "/brokers/1/config", "/users", "/api/overview", "/api/brokers/1/config", "/nope"):
        assert SECRET not in client.get(path).text


def test_the_log_has_each_change_with_its_user_and_no_value(client: httpx.Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "ottla.console")
    log_in(client)
    found = TOKEN.search(client.get("/users").text)
    assert found is not None
    form = {"name": "bob", "password": "a-new-secret", "mechanism": "SCRAM-SHA-512"}
    assert client.post("/users", data={**form, "token": found[1]}).status_code == 303
    assert client.post("/users", data={**form, "mechanism": "SCRAM-SHA-1", "token": found[1]}).status_code == 400
    assert client.post("/api/topics", json={"name": "logged", "partitions": "a-new-secret"}).status_code == 400
    assert client.post("/api/topics/un%2Dknown/delete", json={"typed": "un-known"}).status_code == 404
    assert client.post("/users", data={**form, "token": "forged"}).status_code == 403
    lines = [record.getMessage() for record in caplog.records if record.name == "ottla.console"]
    assert lines == [
        "alice logged in",
        "alice: POST /users: done",
        "alice: POST /users: refused with 400",
        "alice: POST /topics: refused with 400",
        "alice: POST /topics/un%2Dknown/delete: refused with 404",
        "alice: POST /users: refused with 403",
    ]
    assert not [line for line in caplog.messages if SECRET in line or "a-new-secret" in line]


def test_a_console_with_a_user_needs_no_login(secured: ottla.Broker) -> None:
    with console_server(ConsoleConfig(secured.client_settings())) as server:
        answer = httpx.get(f"{server.url}/api/brokers", timeout=30)
        assert answer.status_code == 200
        assert SECRET not in httpx.get(f"{server.url}/brokers", timeout=30).text
        assert SECRET not in repr(ConsoleConfig(secured.client_settings()))
