"""Profiles: settings under a name, and the order of the sources of a command's settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.command.connection import SERVERS, client_texts
from ottla.cli.command.profiles import Profiles
from ottla.cli.main import main, parser_for
from ottla.errors import SettingError


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("OTTLA_BOOTSTRAP_SERVER", raising=False)
    return tmp_path


def ottla(line: str) -> int:
    return main(line.split())


def texts(line: str) -> dict[str, str]:
    return client_texts(parser_for(line.split()).parse_args(line.split()))


def test_a_profile_is_created_used_shown_and_deleted(capsys: pytest.CaptureFixture[str]) -> None:
    assert ottla("profile create dev -b one:1 -X sasl.password=secret -X client.id=c") == 0
    assert ottla("profile create prod -b two:2 --use") == 0
    capsys.readouterr()
    assert ottla("profile list --json") == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"name": "dev", "in_use": False, "bootstrap_servers": "one:1"},
        {"name": "prod", "in_use": True, "bootstrap_servers": "two:2"},
    ]
    assert ottla("profile show dev") == 0
    shown = capsys.readouterr().out
    assert "secret" not in shown
    assert "client.id          c" in shown
    assert ottla("profile delete prod") == 0
    assert ottla("profile use prod") == 2
    assert "There is no profile prod (dev)" in capsys.readouterr().err
    assert texts("cluster brokers")[SERVERS] == "localhost:9092"


def test_files_of_profiles_are_their_owners_alone(home: Path) -> None:
    assert ottla("profile create dev -b one:1 --use") == 0
    folder = home / "config/ottla/profiles"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()} == {"dev.properties": 0o600, "in-use": 0o600}


def test_the_nearest_source_wins(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "file").write_text("bootstrap.servers=file:1\nclient.id=of-the-file\nrequest.timeout.ms=7\n")
    assert texts("cluster brokers") == {SERVERS: "localhost:9092"}
    assert ottla("profile create dev -b used:1 -X client.id=of-the-profile -X security.protocol=SSL --use") == 0
    assert ottla("profile create other -b other:1") == 0
    assert texts("cluster brokers") == {SERVERS: "used:1", "client.id": "of-the-profile", "security.protocol": "SSL"}
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVER", "variable:1")
    assert texts("cluster brokers")[SERVERS] == "variable:1"
    assert texts("cluster brokers --profile other") == {SERVERS: "other:1"}
    found = texts(f"cluster brokers --command-config {home / 'file'}")
    assert (found[SERVERS], found["client.id"], found["request.timeout.ms"]) == ("file:1", "of-the-file", "7")
    found = texts(f"cluster brokers --command-config {home / 'file'} -X client.id=word -b option:1")
    assert (found[SERVERS], found["client.id"]) == ("option:1", "word")


def test_secrets_come_from_the_environment_or_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    profiles = Profiles()
    profiles.save("p", {"sasl.username": "${env:WHO}", "sasl.password": "${command:printf 'pa ss\\nmore'}"})
    with pytest.raises(SettingError, match="needs the environment variable WHO: set it"):
        profiles.read("p")
    monkeypatch.setenv("WHO", "alice")
    assert profiles.read("p") == {"sasl.username": "alice", "sasl.password": "pa ss"}
    profiles.save("p", {"sasl.password": "${command:false}"})
    with pytest.raises(SettingError, match="`false` failed"):
        profiles.read("p")


def test_settings_of_librdkafka_are_read_as_they_are(home: Path) -> None:
    (home / "cert.pem").write_text("CERT")
    (home / "rdkafka.conf").write_text(
        "metadata.broker.list=a:1,b:2\nsecurity.protocol=sasl_ssl\nsasl.mechanisms=PLAIN\nssl.ca.location=/ca.pem\n"
        f"ssl.certificate.location={home / 'cert.pem'}\nssl.endpoint.identification.algorithm=none\n"
    )
    assert texts(f"cluster brokers --command-config {home / 'rdkafka.conf'}") == {
        SERVERS: "a:1,b:2",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "ssl.truststore.location": "/ca.pem",
        "ssl.keystore.certificate.chain": "CERT",
        "ssl.endpoint.identification.algorithm": "",
    }


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("profile create ../x -b a:1", "'../x' cannot name a profile"),
        ("profile create x", "add -b HOST:PORT"),
        ("profile create x -b a:1 -X nope=1", "have no setting nope"),
        ("profile create x -b a:1 -X nope", "'nope' has no value: write -X NAME=VALUE."),
        ("profile use", "name one profile, or give --none"),
        ("profile delete x", "There is no profile x (there are none)"),
        ("cluster brokers --profile x", "There is no profile x"),
    ],
)
def test_mistakes_are_one_sentence(capsys: pytest.CaptureFixture[str], line: str, sentence: str) -> None:
    assert ottla(line) == 2
    assert sentence in capsys.readouterr().err
    assert Profiles().names() == []


@given(st.dictionaries(st.from_regex(r"[a-z.]{1,9}", fullmatch=True), st.text(st.characters(codec="utf-8"), max_size=20)))
def test_a_saved_profile_is_read_as_it_was(texts: dict[str, str]) -> None:
    written = {name: text.rstrip(" \t\f") for name, text in texts.items() if not text.startswith(("\t", "\f"))}
    Profiles().save("p", written)
    assert Profiles().texts("p") == written
