"""`ottla doctor` against brokers: a line for each check, exit code 1 for one that fails, and nothing changed."""

from __future__ import annotations

import json
import shlex
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

import ottla
from bench.apache_kafka import free_port
from ottla.cli.main import main

Doctor = Callable[[str], tuple[int, list[dict[str, str]]]]


@pytest.fixture
def doctor(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Doctor:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    def run(line: str) -> tuple[int, list[dict[str, str]]]:
        code = main(["doctor", "--json", *shlex.split(line)])
        out, err = capsys.readouterr()
        assert err == ""
        return code, [json.loads(each) for each in out.splitlines()]

    return run


def statuses(findings: list[dict[str, str]], *checks: str) -> dict[str, str]:
    """Return the worst status of each check, or of some."""
    order = ("ok", "warn", "fail")
    found: dict[str, str] = {}
    for each in findings:
        if not checks or each["check"] in checks:
            found[each["check"]] = max(found.get(each["check"], "ok"), each["status"], key=order.index)
    return found


def sentence(findings: list[dict[str, str]], check: str) -> str:
    return next(each["finding"] for each in findings if each["check"] == check)


@pytest.mark.parametrize(
    ("release", "like", "unchecked"),
    [
        (None, "4.4", set()),
        ("2.8", "2.8", set()),
        ("0.10.2", "0.10.2", {"clock", "disks"}),
        ("0.10.0", "0.10.0", {"clock", "disks"}),
    ],
)
def test_everything_is_ok_and_nothing_is_changed(doctor: Doctor, release: str | None, like: str, unchecked: set[str]) -> None:
    with ottla.Broker(release=release) as broker, ottla.Producer(broker.address, enable_idempotence=False) as producer:
        producer.send("t", b"x").result(20)
        code, findings = doctor(f"-b {broker.address}")
        assert (code, "fail" in statuses(findings).values()) == (0, False)
        expected = ["address", "connection", "login", "versions", "brokers", "controller", "rights", "partitions", "clock", "disks"]
        assert list(statuses(findings)) == [name for name in expected if name not in unchecked] + ["limits", "extras"]
        assert sentence(findings, "versions").endswith(f"Kafka {like}.")
        with ottla.Admin(broker.address) as admin:
            assert admin.list_topics() == ["t"]


def test_lines_for_people_have_the_status_first(capsys: pytest.CaptureFixture[str]) -> None:
    with ottla.Broker() as broker:
        assert main(["doctor", "-b", broker.address]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].startswith("ok    login        127.0.0.1:")
    assert {line.split()[0] for line in lines} <= {"ok", "warn"}


def test_tls_and_login(doctor: Doctor, tmp_path: Path) -> None:
    with ottla.Broker(users={"alice": "secret"}, tls=True) as broker:
        trust = f"-b {broker.address} -X security.protocol=SASL_SSL -X ssl.truststore.location={broker.ca_file}"
        trust += " -X ssl.truststore.type=PEM -X sasl.mechanism=PLAIN -X sasl.username=alice"
        code, findings = doctor(f"{trust} -X sasl.password=secret")
        assert (code, statuses(findings, "login", "TLS", "brokers")["login"]) == (0, "ok")
        assert "TLSv1.3" in sentence(findings, "TLS")
        code, findings = doctor(f"{trust} -X sasl.password=wrong")
        assert (code, statuses(findings)["login"], "brokers" in statuses(findings)) == (1, "fail", False)
        code, findings = doctor(
            f"-b {broker.address} -X security.protocol=SASL_SSL -X sasl.mechanism=PLAIN -X sasl.username=a -X sasl.password=b"
        )
        assert (code, statuses(findings)["TLS"], "login" in statuses(findings)) == (1, "fail", False)
        assert "ssl.truststore.location" in sentence(findings, "TLS")


def test_a_listener_without_tls_and_an_advertised_address_that_nobody_has(doctor: Doctor) -> None:
    port, closed = free_port(), free_port()
    with ottla.Broker(port=port, advertised_listeners=f"PLAINTEXT://127.0.0.1:{closed}"):
        code, findings = doctor(f"-b 127.0.0.1:{port}")
        assert (code, statuses(findings)["brokers"], statuses(findings)["rights"]) == (1, "fail", "warn")
        assert "advertised.listeners" in sentence(findings, "brokers")
        code, findings = doctor(f"-b 127.0.0.1:{port} -X security.protocol=SSL")
        assert (code, statuses(findings)["TLS"]) == (1, "fail")


def test_rights_that_are_missing_are_warnings(doctor: Doctor) -> None:
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    with ottla.Broker(users={"root": "r", "alice": "a"}, authorizer_class_name=authorizer, super_users="User:root") as broker:
        given = "-X security.protocol=SASL_PLAINTEXT -X sasl.mechanism=PLAIN -X sasl.username=alice -X sasl.password=a"
        code, findings = doctor(f"-b {broker.address} {given}")
        assert (code, statuses(findings, "rights", "disks")) == (0, {"rights": "warn", "disks": "warn"})
        said = " ".join(each["finding"] for each in findings)
        assert "cannot create topics" in said
        assert "lists only groups that it may describe" in said
        given = given.replace("alice", "root").replace("password=a", "password=r")
        assert "may list all groups" in " ".join(each["finding"] for each in doctor(f"-b {broker.address} {given}")[1])


def test_what_is_not_there_fails_in_one_line(doctor: Doctor) -> None:
    closed = free_port()
    code, findings = doctor(f"-b 127.0.0.1:{closed}")
    assert (code, statuses(findings)["connection"], "login" in statuses(findings)) == (1, "fail", False)
    assert "refused" in sentence(findings, "connection")
    code, findings = doctor("-b no-such-host.invalid:9092")
    assert (code, statuses(findings)["address"], "connection" in statuses(findings)) == (1, "fail", False)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        code, findings = doctor(f"-b 127.0.0.1:{silent.getsockname()[1]} -X request.timeout.ms=100")
        assert (code, statuses(findings)["login"]) == (1, "fail")
    with ottla.Broker() as broker:
        code, findings = doctor(f"-b 127.0.0.1:{closed},{broker.address}")
        assert (code, statuses(findings)["connection"], statuses(findings)["partitions"]) == (1, "fail", "ok")


def exit_code(arguments: list[str]) -> object:
    """Run `ottla` with these arguments, and return its exit code, also where the parser of arguments ends it."""
    try:
        return main(arguments)
    except SystemExit as end:
        return end.code


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("-b host:port", "is not a host and port"),
        ("-X nope=1", "have no setting nope"),
        ("-X request.timeout.ms=soon", "request"),
        ("-X security.protocol=TLS", "security.protocol must be"),
        ("--command-config /no/such/file", "Cannot read /no/such/file"),
        ("--profile nobody", "nobody"),
        ("extra", "invalid choice: 'extra'"),
        ("--jsn", "did you mean --json?"),
    ],
)
def test_a_mistake_is_one_sentence(
    line: str, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVER", "127.0.0.1:1")
    assert exit_code(["doctor", *shlex.split(line)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n"), err.startswith("ottla: ")) == ("", 1, True)
    assert said in err
