"""`ottla user` and `ottla acl` on the data directory of a broker that does not run, and that broker afterwards."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ottla
from bench.apache_kafka import free_port
from ottla.broker.settings.broker_access import BY_RULES
from ottla.cli.main import main
from ottla.log.checkpoints import CLEAN_SHUTDOWN
from ottla.net.startup.data_directory import META
from ottla.testing import BrokerProcess

PAGE = Path(__file__).parents[3] / "docs" / "security.md"
LOGINS_ONLY: dict[str, object] = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "authorizer.class.name": BY_RULES[0],
}


class Terminal:
    """Calls commands on one data directory."""

    def __init__(self, directory: Path, capture: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory = directory
        self._capture = capture
        self._monkeypatch = monkeypatch

    def __call__(self, *words: str, stdin: str = "") -> tuple[int, str]:
        """The exit code, and what was printed."""
        self._monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        try:
            code = main([*words, "--data-dir", str(self.directory)])
        except SystemExit as ended:
            code = int(str(ended.code))
        printed = self._capture.readouterr()
        return code, printed.out + printed.err


@pytest.fixture
def ask(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Terminal:
    return Terminal(tmp_path / "data", capsys, monkeypatch)


def names(said: str) -> list[str]:
    """The first word of each row of a table."""
    return [line.split()[0] for line in said.splitlines()[1:]]


def test_the_first_user_of_a_broker_where_all_log_in_is_added_before_its_start(ask: Terminal) -> None:
    assert ask("user", "add", "dora", stdin="doras word\n") == (0, "The password of dora is set.\n")
    assert ask("acl", "add", "User:dora", "all", "topic", "flights")[0] == 0
    with BrokerProcess(ask.directory, LOGINS_ONLY) as broker:
        with ottla.Admin(
            broker.address,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="SCRAM-SHA-256",
            sasl_username="dora",
            sasl_password="doras word",
        ) as admin:
            admin.create_topic("flights", 1)
            with pytest.raises(ottla.BrokerError, match="AUTHORIZATION_FAILED"):
                admin.create_topic("others", 1)
        code, said = ask("user", "list")
        assert (code, said) == (
            1, f"ottla: The broker of {ask.directory} is running: use --bootstrap-server instead, or stop it first.\n"
        )  # fmt: skip
    assert names(ask("user", "list")[1]) == ["dora"]
    assert (ask.directory / CLEAN_SHUTDOWN).exists(), "the next start would read all logs again"
    with BrokerProcess(ask.directory, LOGINS_ONLY) as broker:
        assert "WARNING" not in broker.log


def test_users_and_rules_are_listed_and_removed_without_a_broker(ask: Terminal) -> None:
    ask("user", "add", "dora", "--mechanism", "SCRAM-SHA-512", "--iterations", "8192", stdin="doras word\n")
    ask("user", "add", "emil", stdin="emils word\n")
    assert names(ask("user", "list")[1]) == ["dora", "emil"]
    said = ask("user", "list", "dora", "--json")
    assert said == (0, '{"name": "dora", "mechanism": "SCRAM-SHA-512", "iterations": 8192}\n')
    assert ask("user", "remove", "emil") == (0, "User emil is removed.\n")
    code, sentence = ask("user", "remove", "emil")
    assert (code, "RESOURCE_NOT_FOUND" in sentence) == (1, True)
    rule = ("User:dora", "read", "topic", "flights-", "--prefixed")
    ask("acl", "add", *rule)
    ask("acl", "add", "User:emil", "read", "group", "*", "--deny")
    assert names(ask("acl", "list")[1]) == ["User:dora", "User:emil"]
    assert names(ask("acl", "list", "--resource", "group")[1]) == ["User:emil"]
    assert names(ask("acl", "remove", *rule)[1]) == ["User:dora"]
    assert names(ask("acl", "list")[1]) == ["User:emil"]


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("user", "add", "dora", "--iterations", "1"), 1, "Too few iterations: choose 4096 to 16384."),
        (("user", "add", "dora", "--mechanism", "PLAIN"), 2, "choose one of SCRAM-SHA-256, SCRAM-SHA-512."),
        (("acl", "add", "dora", "read", "topic", "flights"), 2, "'dora' is not a principal"),
        (("acl", "add", "User:dora", "look", "topic", "flights"), 2, "'look' is not a word of an ACL"),
        (("user", "list", "--command-property", "client.id=me"), 2, "leave out one of them."),
        (("user", "add", "dora", "--node-id", "7"), 1, "belongs to node.id 1, not 7"),
        (("user", "list", "--bootstrap-server", "localhost:1"), 2, "--data-dir: not allowed with argument -b/--bootstrap-server"),
    ],
)
def test_what_cannot_be_is_one_sentence(ask: Terminal, words: tuple[str, ...], code: int, sentence: str) -> None:
    ask("user", "add", "emil", stdin="emils word\n")
    found, said = ask(*words, stdin="word\n")
    assert (found, sentence in said, said.count("\n")) == (code, True, 1)
    assert names(ask("user", "list")[1]) == ["emil"]


def test_only_what_adds_makes_a_data_directory(ask: Terminal) -> None:
    for words in (("user", "list"), ("user", "remove", "dora"), ("acl", "list")):
        code, said = ask(*words)
        assert (code, "is no data directory" in said, ask.directory.exists()) == (1, True, False)
    assert ask("user", "add", "dora", "--node-id", "7", stdin="doras word\n")[0] == 0
    assert "node.id=7\n" in (ask.directory / META).read_text()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="the commands of the page make a certificate with openssl")
def test_the_way_from_nothing_to_a_broker_with_one_user_runs(tmp_path: Path) -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## From nothing")[2].partition("\n## ")[0]
    section = section.replace("9093", str(free_port()))
    blocks = dict(re.findall(r"```(\w+)\n(.*?)```", section, re.DOTALL))
    (tmp_path / "server.properties").write_text(blocks["properties"])
    *commands, serve = [line.removeprefix("$ ") for line in blocks["console"].splitlines()]
    known = f'set -e; ottla() {{ "{sys.executable}" -m ottla "$@"; }}\n'
    subprocess.run(["sh", "-c", known + "\n".join(commands)], cwd=tmp_path, check=True, capture_output=True, timeout=100)
    assert (tmp_path / "broker.pem").stat().st_mode & 0o077 == 0
    words = [sys.executable, "-m", *serve.split()]
    log = (tmp_path / "log").open("wb")
    with log, subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=log, env=os.environ) as broker:
        try:
            assert broker.stdout is not None
            assert b"answers at" in broker.stdout.readline()
            done = subprocess.run([sys.executable, "-c", blocks["py"]], cwd=tmp_path, capture_output=True, text=True, timeout=100)
            assert (done.returncode, done.stderr) == (0, "")
            assert "offset=0" in done.stdout
        finally:
            broker.terminate()
