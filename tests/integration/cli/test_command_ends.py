"""How commands end that lack rights, streams, brokers or partitions: one sentence, the exit code, and nothing half done."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla
from ottla.cli.main import main
from ottla.client.admin.acls import AclRule
from tests.support.commands import Run
from tests.support.waiting import eventually

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
GIVES_UP = "-X bootstrap.timeout.ms=1"
QUICK = f"-X default.api.timeout.ms=500 {GIVES_UP}"


@pytest.fixture(scope="module")
def guarded() -> Iterator[ottla.Broker]:
    """A broker on which `mute` has no rights, `viewer` may describe topic t and group g, and `reader` may also read topic t."""
    users = {"root": "r", "mute": "m", "viewer": "v", "reader": "x"}
    with ottla.Broker(users=users, authorizer_class_name=AUTHORIZER, super_users="User:root", num_partitions=1) as broker:
        with ottla.Producer(**broker.client_settings(user="root")) as producer:
            producer.send("t", b"v").result(20)
        with ottla.Admin(**broker.client_settings(user="root")) as admin:
            admin.alter_group_offsets("g", {("t", 0): 1})
            for user in ("User:viewer", "User:reader"):
                admin.create_acls([AclRule(user, "describe", "topic", "t"), AclRule(user, "describe", "group", "g")])
            admin.create_acls([AclRule("User:reader", "read", "topic", "t")])
        yield broker


def login(broker: ottla.Broker, user: str, password: str) -> str:
    return (
        f"-b {broker.address} -X security.protocol=SASL_PLAINTEXT -X sasl.mechanism=PLAIN -X sasl.username={user} "
        f"-X sasl.password={password} {GIVES_UP}"
    )


@pytest.mark.parametrize(
    ("user", "line", "sentence"),
    [
        ("mute", "topic create x", "Topic x: TOPIC_AUTHORIZATION_FAILED"),
        ("mute", "topic describe t", "Topic t: TOPIC_AUTHORIZATION_FAILED"),
        ("mute", "topic copy t x", "Topic t: TOPIC_AUTHORIZATION_FAILED"),
        ("mute", "topic delete --regex .* --yes", "No topic's whole name matches '.*'"),
        ("viewer", "topic describe t -c", "Settings of topic t: TOPIC_AUTHORIZATION_FAILED"),
        ("viewer", "topic alter t -p 2", "Topic t: TOPIC_AUTHORIZATION_FAILED"),
        ("viewer", "topic alter t -p 2 -c retention.ms=1", "Settings of topic t: TOPIC_AUTHORIZATION_FAILED"),
        ("viewer", "topic delete t --yes", "Topic t: TOPIC_AUTHORIZATION_FAILED"),
        ("viewer", "topic trim t --before end --yes", "Deleting records of t-0: TOPIC_AUTHORIZATION_FAILED"),
        ("viewer", "consume t -e", "Fetching t-0 from offset 0: TOPIC_AUTHORIZATION_FAILED"),
        ("reader", "consume t -e -g g", "Group g: GROUP_AUTHORIZATION_FAILED"),
        ("mute", "consume t -r -e", "No topic matches t"),
        ("mute", "group describe g", "Group g: GROUP_AUTHORIZATION_FAILED"),
        ("mute", "group lag g", "Group g: GROUP_AUTHORIZATION_FAILED"),
        ("viewer", "group seek g --to start", "GROUP_AUTHORIZATION_FAILED"),
        ("viewer", "group seek g --from-group h", "Group h: GROUP_AUTHORIZATION_FAILED"),
        ("viewer", "group delete g --yes", "Group g: GROUP_AUTHORIZATION_FAILED"),
        ("viewer", "group offsets import g {offsets}", "No offset of it was changed."),
        ("viewer", "group offsets delete g --topic t --yes", "GROUP_AUTHORIZATION_FAILED"),
        ("mute", "produce t {values}", "Topic t: TOPIC_AUTHORIZATION_FAILED"),
        ("mute", "produce x {values} --create", "Topic x: TOPIC_AUTHORIZATION_FAILED"),
        ("viewer", "produce t {values} --transactional", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
    ],
)
def test_what_is_not_allowed_is_one_sentence_and_changes_nothing(
    guarded: ottla.Broker, run: Run, tmp_path: Path, user: str, line: str, sentence: str
) -> None:
    (tmp_path / "offsets").write_text("t,0,0\n")
    (tmp_path / "values").write_text("v\n")
    words = line.format(offsets=tmp_path / "offsets", values=tmp_path / "values")
    code, out, err = run(f"{words} {login(guarded, user, user.replace('reader', 'x')[0])}")
    assert (code, out, err.count("\n"), sentence in err) == (1, "", 1, True), err
    with ottla.Admin(**guarded.client_settings(user="root")) as admin:
        assert (admin.list_topics(), len(admin.describe_topics("t")["t"].partitions)) == (["t"], 1)
        assert [found.offset for found in admin.list_group_offsets("g").values()] == [1]
        assert [found.offset for found in admin.list_offsets({("t", 0): -1}).values()] == [1]


def test_a_summary_does_without_the_settings_that_may_not_be_read(guarded: ottla.Broker, run: Run) -> None:
    code, out, err = run(f"topic describe t {login(guarded, 'viewer', 'v')}")
    assert (code, "settings    -" in out, "PARTITION" in out, err) == (0, True, True, "")


@pytest.mark.parametrize("line", ["topic list", "group list", "consume t -e", "consume t -g g -e", "produce t /dev/null"])
def test_a_wrong_login_or_protocol_is_one_sentence(guarded: ottla.Broker, run: Run, line: str) -> None:
    for words, sentence in (
        (login(guarded, "root", "wrong"), "refused the login by PLAIN"),
        (f"-b {guarded.address} {GIVES_UP}", "A listener with SASL needs security.protocol"),
        (f"-b {guarded.address} -X security.protocol=SSL {GIVES_UP}", "it was closed during the TLS handshake"),
        (login(guarded, "root", "r").replace("=PLAIN ", "=SCRAM-SHA-256 "), "SCRAM-SHA-256"),
    ):
        code, out, err = run(f"{line} {words}")
        assert (code, out, err.count("\n"), sentence in err) == (1, "", 1, True), err


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[ottla.Broker]:
    """A broker of the test's own, with a topic t of one record and a group g."""
    with ottla.Broker(num_partitions=1, group_initial_rebalance_delay_ms=0) as broker:
        monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVER", broker.address)
        with ottla.Producer(broker.address) as producer:
            producer.send("t", b"v").result(20)
        with ottla.Admin(broker.address) as admin:
            admin.alter_group_offsets("g", {("t", 0): 1})
        yield broker


def test_an_error_goes_neither_to_standard_output_nor_changes_the_exit_code(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    assert run("topic lst") == (2, "", "")
    sys.stderr.close()
    with contextlib.suppress(OSError), open("/dev/full", "w", buffering=1) as full:  # closing it fails, too
        monkeypatch.setattr("sys.stderr", full)
        assert run("topic lst") == (2, "", "")


def test_a_reader_without_standard_output_commits_nothing(
    broker: ottla.Broker, run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout", None)
    assert main(shlex.split("consume t -e -g new")) == 2
    assert "Standard output is closed" in capsys.readouterr().err
    with ottla.Admin(broker.address) as admin:
        assert [group.group_id for group in admin.list_groups()] == ["g"]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("topic delete t", "t"),
        ("topic trim t --before end", "t"),
        ("group delete g", "g"),
        ("group offsets delete g --topic t", "g"),
    ],
)
def test_a_broker_that_dies_while_the_question_is_asked_is_one_sentence(
    broker: ottla.Broker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, line: str, name: str
) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

        def readline(self) -> str:
            broker.stop()
            return f"{name}\n"

    monkeypatch.setattr("sys.stdin", Terminal())
    assert main(shlex.split(f"{line} {QUICK}")) == 1
    out, err = capsys.readouterr()
    question, sentence = err.split(f"Type {name} to confirm: ")
    assert (out, "This deletes" in question, sentence.startswith("ottla: "), sentence.count("\n")) == ("", True, True, 1)


def test_a_topic_that_is_deleted_while_the_question_is_asked_is_named(
    broker: ottla.Broker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

        def readline(self) -> str:
            with ottla.Admin(broker.address) as admin:
                admin.delete_topics("t")
            return "t\n"

    monkeypatch.setattr("sys.stdin", Terminal())
    for line in ("topic delete t", "topic trim t --before end"):
        assert main(shlex.split(f"{line} {QUICK}")) == 1
        assert "t: UNKNOWN_TOPIC_OR_PARTITION" in capsys.readouterr().err.replace("t-0", "t")
        with ottla.Producer(broker.address) as producer:
            producer.send("t", b"v").result(20)


def process(line: str, **streams: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "ottla", *shlex.split(line)], **streams)  # type: ignore[call-overload,no-any-return]  # streams by name


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_at_the_question_deletes_nothing(broker: ottla.Broker, number: signal.Signals) -> None:
    terminal, inside = pty.openpty()
    with process("topic delete t", stdin=inside, stdout=inside, stderr=inside) as asking:
        os.close(inside)
        text = b""
        while b"to confirm" not in text and select.select([terminal], [], [], 30)[0]:
            text += os.read(terminal, 1000)
        asking.send_signal(number)
        assert asking.wait(20) == -number
    os.close(terminal)
    assert b"Traceback" not in text
    with ottla.Admin(broker.address) as admin:
        assert admin.list_topics() == ["t"]


def test_of_two_that_create_one_topic_at_once_one_is_refused(broker: ottla.Broker) -> None:
    both = [process("topic create x -p 3", stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    found = sorted((*each.communicate(timeout=30), each.returncode) for each in both)
    assert [out for out, _, _ in found] == [b"", b"Topic x is created.\n"]
    assert [code for _, _, code in found] == [1, 0]
    assert found[0][1].startswith(b"ottla: Topic x: TOPIC_ALREADY_EXISTS")


def test_lines_after_the_brokers_death_are_listed_as_lost(
    broker: ottla.Broker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = os.pipe()
    timeouts = "-X delivery.timeout.ms=400 -X request.timeout.ms=300 -X max.block.ms=300"

    def type_lines() -> None:
        os.write(writing, b"first\n")
        with ottla.Admin(broker.address) as admin:
            eventually(lambda: admin.list_offsets({("t", 0): -1})["t", 0].offset == 2)  # type: ignore[index]  # a pair is a place
        broker.stop()
        os.write(writing, b"second\nthird\n")
        os.close(writing)

    thread = threading.Thread(target=type_lines)
    thread.start()
    with open(reading) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert main(shlex.split(f"produce t -v {timeouts} {QUICK}")) == 1
    thread.join()
    out, err = capsys.readouterr()
    assert out == "t-0@1\n"
    assert err.splitlines()[-1].startswith("ottla: Delivered 1 of 3 lines; the others are listed above.")


@pytest.mark.full
def test_a_member_to_which_no_partition_is_assigned_ends_at_the_end(broker: ottla.Broker, run: Run) -> None:
    with ottla.Consumer("t", bootstrap_servers=broker.address, group_id="g", partition_assignment_strategy="sticky") as other:
        eventually(lambda: other.poll(10) or other.assignment())
        stop = threading.Event()

        def read() -> None:
            while not stop.is_set():
                other.poll(50)

        thread = threading.Thread(target=read)
        thread.start()
        try:
            assert run("consume t -g g -e -X partition.assignment.strategy=sticky") == (0, "", "")
        finally:
            stop.set()
            thread.join()
