"""`ottla group` against a broker with real members: tables, JSON, files, exit codes, and nothing changed by a mistake."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import pytest

import ottla
from ottla.cli.group import seek, transfers
from ottla.wire.api.join_group import JoinGroupRequest
from ottla.wire.api.sync_group import SyncGroupRequest
from tests.support.bad_groups import Questioner
from tests.support.commands import Run
from tests.support.waiting import eventually

TIMES = 1_700_000_000_000


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker(num_partitions=2, log_retention_ms=-1, group_initial_rebalance_delay_ms=0) as broker:
        with ottla.Producer(broker.address) as producer:
            for number in range(20):
                producer.send("t", b"%d" % number, partition=number % 2, timestamp_ms=TIMES + number)
            producer.send("u", b"v", partition=0)
        yield broker


@pytest.fixture(autouse=True)
def no_groups_are_left(broker: ottla.Broker) -> Iterator[None]:
    yield
    with ottla.Admin(broker.address) as admin:
        for group in admin.list_groups():
            with contextlib.suppress(ottla.BrokerError):  # a group without offsets can go with its last member meanwhile
                admin.delete_groups(group.group_id)


def rows(found: tuple[int, str, str]) -> list[dict[str, object]]:
    code, out, err = found
    assert (code, err) == (0, "")
    return [json.loads(line) for line in out.splitlines()]


def commit(broker: ottla.Broker, group: str, *offsets: int, topic: str = "t") -> None:
    with ottla.Admin(broker.address) as admin:
        admin.alter_group_offsets(group, {(topic, index): offset for index, offset in enumerate(offsets)})


def committed(broker: ottla.Broker, group: str) -> list[int]:
    with ottla.Admin(broker.address) as admin:
        return [offset.offset for _, offset in sorted(admin.list_group_offsets(group).items())]


@pytest.fixture
def member(broker: ottla.Broker) -> Iterator[ottla.Consumer]:
    with ottla.Consumer(
        "t", bootstrap_servers=broker.address, group_id="g", client_id="reader", group_instance_id="one", enable_auto_commit=False
    ) as consumer:
        eventually(lambda: consumer.poll(10) or len(consumer.assignment()) == 2)
        yield consumer
    with ottla.Admin(broker.address) as admin:  # a static member stays when it is closed
        admin.remove_members("g", None)


@pytest.fixture
def new_member(broker: ottla.Broker) -> Iterator[confluent_kafka.Consumer]:
    settings = {"bootstrap.servers": broker.address, "group.id": "n", "group.protocol": "consumer", "client.id": "new"}
    member = confluent_kafka.Consumer({**settings, "enable.auto.commit": False})
    member.subscribe(["t"])
    eventually(lambda: member.poll(0.01) or len(member.assignment()) == 2)
    yield member
    member.close()


def test_groups_of_both_protocols_are_listed_and_described_with_members_and_lag(
    ottla_: Run, broker: ottla.Broker, member: ottla.Consumer, new_member: confluent_kafka.Consumer
) -> None:
    member.commit({("t", 0): 7, ("t", 1): 10})
    new_member.commit(offsets=[confluent_kafka.TopicPartition("t", 0, 9)], asynchronous=False)
    commit(broker, "idle", 1, topic="u")
    assert rows(ottla_("group list --json")) == [
        {"group": "g", "type": "classic", "protocol": "consumer", "state": "Stable"},
        {"group": "idle", "type": "classic", "protocol": None, "state": "Empty"},
        {"group": "n", "type": "consumer", "protocol": "consumer", "state": "Stable"},
    ]
    assert [row["group"] for row in rows(ottla_("group list --state empty --json"))] == ["idle"]
    assert [row["group"] for row in rows(ottla_("group list '[gn]' --type Consumer --json"))] == ["n"]
    assert ottla_("group list x")[1] == "No group matches.\n"
    [found] = rows(ottla_("group describe g --json"))
    assert (found["state"], found["assignor"], found["lag"], found["epoch"]) == ("Stable", "range", 3, None)
    assert [[each["client"], each["instance"], each["partitions"]] for each in found["members"]] == [  # type: ignore[attr-defined]  # a list of objects
        ["reader", "one", [["t", 0], ["t", 1]]]
    ]
    [found] = rows(ottla_("group describe n --json"))
    assert (found["type"], found["state"], found["assignor"], found["lag"]) == ("consumer", "Stable", "uniform", 1)
    [one, other] = rows(ottla_("group describe n -p --json"))
    assert (one["committed"], one["end"], one["lag"]) == (9, 10, 1)
    assert (other["committed"], other["lag"], other["member"] == one["member"]) == (None, None, True)
    [new] = rows(ottla_("group describe n -m --json"))
    assert (new["client"], new["protocol"], new["epoch"] == found["epoch"]) == ("new", "consumer", True)
    text = ottla_("group describe g n idle")[1]
    assert re.search(r"^state        Stable$", text, re.MULTILINE)
    assert re.search(r"^\S+ +one +reader +\S+ +- +classic +t:0-1$", text, re.MULTILINE)


def test_the_lag_of_a_group_is_by_partition_and_of_all_groups_in_total(ottla_: Run, broker: ottla.Broker) -> None:
    assert ottla_("group lag")[1] == "There are no groups: a consumer with a group id creates one.\n"
    assert ottla_("group list")[1] == "There are no groups: a consumer with a group id creates one.\n"
    commit(broker, "a", 4, 10)
    commit(broker, "b", 0, topic="u")
    assert [(row["topic"], row["partition"], row["lag"]) for row in rows(ottla_("group lag b a --json"))] == [
        ("u", 0, 1), ("t", 0, 6), ("t", 1, 0),
    ]  # fmt: skip
    total = {"group": "a", "state": "Empty", "members": 0, "partitions": 2, "lag": 6, "largest_lag": 6}
    assert rows(ottla_("group lag --json"))[0] == total
    text = ottla_("group lag a b")[1].splitlines()
    assert [line.split() for line in text[-2:]] == [["a", "Empty", "0", "2", "6", "6"], ["b", "Empty", "0", "1", "1", "1"]]


def test_a_group_of_another_classic_protocol_is_described_with_its_members(ottla_: Run, broker: ottla.Broker) -> None:
    worker = Questioner(broker.address)
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="sessioned", metadata=b"opaque")
    body = JoinGroupRequest(
        group_id="workers", session_timeout_ms=30_000, rebalance_timeout_ms=30_000, protocol_type="connect", protocols=[protocol]
    )
    joined = worker.ask(11, 3, body)
    given = SyncGroupRequest.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"not of consumers")
    synced = SyncGroupRequest(group_id="workers", generation_id=1, member_id=joined.member_id, assignments=[given])
    assert worker.ask(14, 2, synced).error_code == 0
    try:
        assert rows(ottla_("group list --json"))[-1] == {
            "group": "workers", "type": "classic", "protocol": "connect", "state": "Stable",
        }  # fmt: skip
        [found] = rows(ottla_("group describe workers --json"))
        assert (found["protocol"], found["assignor"], found["lag"], found["partitions"]) == ("connect", "sessioned", None, [])
        [one] = rows(ottla_("group describe workers -m --json"))
        assert (one["member"], one["client"], one["partitions"]) == (joined.member_id, "bad", [])
        assert "has 1 active member (bad on" in ottla_("group seek workers --to start --topic t")[2]
        assert len(rows(ottla_("group remove-member workers --all --json"))) == 1
        with ottla.Admin(broker.address) as admin:
            assert not admin.describe_group("workers").members
    finally:
        worker.close()


def test_a_deleted_topic_has_no_lag_and_is_left_out_of_a_seek(ottla_: Run, broker: ottla.Broker) -> None:
    with ottla.Admin(broker.address) as admin:
        admin.create_topic("gone", 1)
        commit(broker, "a", 4, 4)
        commit(broker, "a", 0, topic="gone")
        admin.delete_topics("gone")
    assert all(row["lag"] == 6 or row["topic"] == "gone" for row in rows(ottla_("group lag a --json")))
    assert {row["topic"] for row in rows(ottla_("group seek a --to end --json"))} == {"t"}


@pytest.mark.parametrize(
    ("words", "after"),
    [
        ("--to start", [0, 0]),
        ("--to end", [10, 10]),
        ("--to 3", [3, 3]),
        ("--to 99", [10, 10]),
        ("--to -2", [2, 3]),
        ("--to +2", [6, 7]),
        ("--to -20", [0, 0]),
        (f"--to {TIMES + 10}", [5, 5]),
        (f"--to @{TIMES + 11}", [6, 5]),
        ("--to 1s", [10, 10]),
        ("--to start --topic t:1", [4, 0]),
        ("--to end --topic t:0", [10, 5]),
        ("--from-group b", [8, 9]),
        ("--from-group b --topic t:1", [4, 9]),
    ],
)
def test_a_seek_changes_all_offsets_or_those_that_are_named(
    ottla_: Run, broker: ottla.Broker, words: str, after: list[int]
) -> None:
    commit(broker, "a", 4, 5)
    commit(broker, "b", 8, 9)
    planned = rows(ottla_(f"group seek a {words} --dry-run --json"))
    assert committed(broker, "a") == [4, 5]
    assert rows(ottla_(f"group seek a {words} --json")) == planned
    assert committed(broker, "a") == after
    for row in planned:
        index = int(str(row["partition"]))
        assert (row["before"], row["after"], row["lag_after"]) == ([4, 5][index], after[index], 10 - after[index])


def test_a_group_that_is_not_there_yet_gets_offsets_of_a_topic(ottla_: Run, broker: ottla.Broker) -> None:
    assert [row["before"] for row in rows(ottla_("group seek fresh --to end --topic t --json"))] == [None, None]
    assert committed(broker, "fresh") == [10, 10]


def test_a_group_with_members_keeps_its_offsets_and_names_them(
    ottla_: Run, broker: ottla.Broker, member: ottla.Consumer, new_member: confluent_kafka.Consumer, tmp_path: Path
) -> None:
    member.commit({("t", 0): 7})
    (tmp_path / "f").write_text("t,0,1\n")
    host = rows(ottla_("group describe g -m --json"))[0]["host"]
    for line in ("seek g --to start", f"offsets import g {tmp_path}/f", "delete g --yes"):
        refused = f"ottla: Group g has 1 active member (one on {host}): stop them, then try again.\n"
        assert ottla_(f"group {line}") == (1, "", refused)
    assert "has 1 active member (new on" in ottla_("group seek n --to start --topic t")[2]
    code, out, err = ottla_("group offsets delete g --topic t --yes")
    assert (code, out, "GROUP_SUBSCRIBED_TO_TOPIC" in err) == (1, "", True)
    assert committed(broker, "g") == [7]


def test_a_member_that_joins_after_the_check_stops_the_change_with_a_sentence(
    ottla_: Run, broker: ottla.Broker, member: ottla.Consumer, capsys: pytest.CaptureFixture[str]
) -> None:
    member.commit({("t", 0): 7, ("t", 1): 7})
    commit(broker, "a", 4)
    where, start = ottla.TopicPartition("t", 0), ottla.OffsetAndMetadata(0)
    options = argparse.Namespace(dry_run=False, json=True)
    with ottla.Admin(broker.address) as admin, pytest.raises(ottla.KafkaError) as raised:
        seek.change(admin, {"a": {where: start}, "g": {where: start}}, options)
    assert str(raised.value) == (
        "Group g got active members meanwhile: stop them, then try again. No offset of it was changed. Changed before: a."
    )
    assert (committed(broker, "a"), committed(broker, "g")) == ([0], [7, 7])
    assert capsys.readouterr().out == ""


def test_members_are_removed_by_id_instance_or_all(
    ottla_: Run, broker: ottla.Broker, member: ottla.Consumer, new_member: confluent_kafka.Consumer
) -> None:
    before = str(rows(ottla_("group describe g -m --json"))[0]["member"])
    assert [row["partitions"] for row in rows(ottla_("group remove-member g --all --dry-run --json"))] == ["t:0-1"]
    assert [row["member"] for row in rows(ottla_("group remove-member g --instance one --json"))] == [before]
    assert before not in [row["member"] for row in rows(ottla_("group describe g -m --json"))]
    new = str(rows(ottla_("group describe n -m --json"))[0]["member"])
    assert [row["member"] for row in rows(ottla_(f"group remove-member n {new[:10]} --json"))] == [new]
    commit(broker, "a", 4)
    assert ottla_("group remove-member a --all") == (0, "Group a has no members.\n", "")


def test_offsets_go_to_files_and_back(ottla_: Run, broker: ottla.Broker, tmp_path: Path) -> None:
    commit(broker, "a", 4, 5)
    commit(broker, "b", 1, topic="u")
    assert ottla_("group offsets export a") == (0, "t,0,4\nt,1,5\n", "")
    file = tmp_path / "f.csv"
    assert ottla_(f"group offsets export a {file} --and b") == (0, "", f"ottla: wrote 3 offsets to {file}.\n")
    assert file.read_text() == "a,t,0,4\na,t,1,5\nb,u,0,1\n"
    assert [each["offset"] for each in rows(ottla_("group offsets export a --topic t:1 --json"))] == [5]
    assert ottla_("group seek a --to end")[0] == ottla_("group seek b --to start")[0] == 0
    planned = rows(ottla_(f"group offsets import a {file} --dry-run --json"))
    assert [(row["before"], row["after"]) for row in planned] == [(10, 4), (10, 5)]
    assert committed(broker, "a") == [10, 10]
    assert len(rows(ottla_(f"group offsets import {file} --json"))) == 3
    assert (committed(broker, "a"), committed(broker, "b")) == ([4, 5], [1])
    with ottla.Admin(broker.address) as admin:
        admin.alter_group_offsets("a", {("t", 1): ottla.OffsetAndMetadata(6, "note")})
    assert ottla_(f"group offsets export a {file} --json")[0] == 0
    assert ottla_("group seek a --to start")[0] == ottla_(f"group offsets import {file}")[0] == 0
    with ottla.Admin(broker.address) as admin:
        assert admin.list_group_offsets("a")[ottla.TopicPartition("t", 1)] == ottla.OffsetAndMetadata(6, "note")
    assert [path.name for path in tmp_path.iterdir()] == ["f.csv"]


def test_too_much_standard_input_is_refused_and_not_cut_off(
    ottla_: Run, broker: ottla.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(broker, "a", 1)
    monkeypatch.setattr(transfers, "MOST_BYTES", 5)
    monkeypatch.setattr("sys.stdin", io.StringIO("t,0,45\n"))
    code, _, err = ottla_("group offsets import a -")
    assert (code, err) == (1, "ottla: Cannot read standard input: it has more than 5 characters; name a file of offsets.\n")
    assert committed(broker, "a") == [1]


def test_offsets_and_groups_are_deleted_once_confirmed(ottla_: Run, broker: ottla.Broker) -> None:
    commit(broker, "a", 4, 5)
    commit(broker, "a", 0, topic="u")
    for line in ("group delete a", "group offsets delete a --topic u"):
        code, out, err = ottla_(line)
        assert (code, out, "Add --yes" in err) == (2, "", True)
    assert rows(ottla_("group offsets delete a --topic u --dry-run --json")) == [
        {"group": "a", "topic": "u", "partition": 0, "would_be_deleted": 0}
    ]
    assert len(committed(broker, "a")) == 3
    assert ottla_("group offsets delete a --topic u --topic t:0 --yes")[0] == 0
    assert committed(broker, "a") == [5]
    assert ottla_("group delete a --dry-run")[1] == "Group a would be deleted.\n"
    assert ottla_("group delete a --yes") == (0, "Group a is deleted.\n", "")
    assert rows(ottla_("group list --json")) == []


@pytest.mark.parametrize("release", ["0.10.0", "2.3"])
def test_older_releases_have_groups_lag_and_seeks(release: str, ottla_: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with ottla.Broker(release=release, num_partitions=1) as old:
        with ottla.Producer(old.address, enable_idempotence=False) as producer:
            for _ in range(5):
                producer.send("t", b"v")
        commit(old, "a", 2)
        monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVER", old.address)
        assert rows(ottla_("group list --json")) == [{"group": "a", "type": None, "protocol": None, "state": "Empty"}]
        assert [row["lag"] for row in rows(ottla_("group lag a --json"))] == [3]
        assert rows(ottla_("group seek a --to start --json"))[0]["after"] == 0
        code, out, err = ottla_("group offsets delete a --topic t --yes")
        assert (code, out, "needs Kafka 2.4 or newer" in err) == (1, "", True)
        if release == "0.10.0":
            assert "needs Kafka 1.1 or newer" in ottla_("group delete a --yes")[2]


def process(broker: ottla.Broker, line: str, output: int) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "OTTLA_BOOTSTRAP_SERVER": broker.address, "TERM": "xterm", "LINES": "", "COLUMNS": ""}
    words = [sys.executable, "-m", "ottla.cli.main", *shlex.split(line)]
    return subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment, start_new_session=True
    )


def test_a_watched_lag_follows_in_a_pipe_block_by_block(ottla_: Run, broker: ottla.Broker) -> None:
    commit(broker, "a", 4, 5)
    with process(broker, "group lag a --json --watch 0.1", subprocess.PIPE) as running:
        assert running.stdout is not None
        assert json.loads(running.stdout.readline())["lag"] == 6
        commit(broker, "a", 10, 10)
        eventually(lambda: json.loads(running.stdout.readline())["lag"] == 0)  # type: ignore[union-attr]  # it has a pipe
        running.stdout.close()  # as head does
        assert running.wait(20) == 0


def shown(terminal: int, running: subprocess.Popen[bytes], until: Callable[[str], bool]) -> str:
    """Return what a terminal was sent until it is enough; then press Ctrl-C, and hold the process to ending by it."""
    text = ""
    try:
        deadline = time.monotonic() + 30
        while not until(text) and time.monotonic() < deadline:
            if select.select([terminal], [], [], 1)[0]:
                text += os.read(terminal, 65536).decode()
        running.send_signal(signal.SIGINT)
        assert running.wait(20) == -signal.SIGINT
    finally:
        running.kill()
        running.wait()
        os.close(terminal)
    return text


def test_a_watched_group_is_drawn_in_place_until_ctrl_c(ottla_: Run, broker: ottla.Broker) -> None:
    commit(broker, "a", 4, 5)
    terminal, inside = pty.openpty()
    running = process(broker, "group describe a --watch 0.1", inside)
    os.close(inside)
    text = shown(terminal, running, lambda text: text.count("Ctrl-C ends") >= 3)
    frames = re.split(r"\r\x1b\[\d+A", text)
    assert len(frames) >= 3
    assert "Empty" in frames[1]
    assert text.count("\x1b[J") == text.count("Ctrl-C ends")
    assert "\x1b[?" not in text, "no mode of the terminal is changed, so that a kill leaves none behind"


def test_a_broker_that_dies_ends_a_watch_in_a_pipe_with_one_sentence_and_is_shown_on_a_terminal() -> None:
    line = "group lag --watch 0.1 -X default.api.timeout.ms=300 -X reconnect.backoff.max.ms=50"
    terminal, inside = pty.openpty()
    with ottla.Broker() as dying:
        with ottla.Admin(dying.address) as admin:
            admin.create_topic("t", 1)
        commit(dying, "a", 0)
        address = dying.address
        piped, drawn = process(dying, line, subprocess.PIPE), process(dying, line, inside)
        os.close(inside)
        assert piped.stdout is not None
        assert piped.stdout.readline().startswith(b"GROUP")
        assert os.read(terminal, 10)
    with piped:
        rest = piped.stdout.read().decode().splitlines()
        assert piped.wait(20) == 1
    assert [text.startswith("ottla: ") for text in rest].count(True) == 1
    assert rest[-1].startswith("ottla: ")
    text = shown(terminal, drawn, lambda text: address in text)
    last = re.split(r"\r\x1b\[\d+A", text)[-1]
    assert "GROUP" in last, "the last rows stay"
    assert address in last, "with the reason below them, in as many rows as it takes"


@pytest.mark.rows(25, seconds=0.1)
@pytest.mark.parametrize(
    ("line", "code", "sentence"),
    [
        ("list --state sleeping", 2, "'sleeping' is not a state of groups: choose from"),
        ("list --type consumr", 2, "invalid choice: 'consumr': did you mean 'consumer'?"),
        ("list '('", 2, "is not a regular expression"),
        ("describe", 2, "required: GROUP"),
        ("describe none", 1, "There is no group none: `ottla group list` lists the groups."),
        ("describe a none never", 1, "There are no groups none, never"),
        ("describe a --watch 0", 2, "'0' is not a number of seconds from 0.1 to 3,600"),
        ("lag none", 1, "There is no group none"),
        ("lag a --watch soon", 2, "'soon' is not a number of seconds"),
        ("seek a", 2, "one of the arguments --to --from-group is required"),
        ("seek a --to start --from-group b", 2, "not allowed with argument"),
        ("seek a --to beginning", 2, "'beginning' is not start, end, an offset"),
        ("seek a --to start --topic t:x", 2, "'t:x' is not like flights or flights:0,3-5"),
        ("seek a --to start --topic none", 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("seek a --to start --topic t:0,7", 1, "Topic t has no partition 7: it has 2, from 0 to 1."),
        ("seek none --to start", 1, "Group none has no committed offsets: name the topics with --topic."),
        ("seek a --to +1 --topic u", 1, "u-0 has no committed offset to count from"),
        ("seek a --from-group none", 1, "Group none has no committed offsets to continue from"),
        ("seek a --from-group a --topic u", 1, "Group a has no committed offsets of these topics"),
        ("seek a --to start --force", 2, "unknown arguments: --force"),
        ("delete", 2, "required: GROUP"),
        ("delete a", 2, "Add --yes"),
        ("delete a none --yes", 1, "There is no group none"),
        ("remove-member a", 2, "name members, give --instance, or give --all"),
        ("remove-member a m --all", 2, "name members, give --instance, or give --all"),
        ("remove-member none --all", 1, "There is no group none"),
        ("remove-member a nobody", 1, "Group a has no member nobody"),
        ("remove-member a --instance nobody", 1, "Group a has no member with the instance id nobody"),
        ("offsets export none", 1, "There is no group none"),
        ("offsets export a --topic u", 1, "There are no committed offsets of a to export"),
        ("offsets export a /none/file", 1, "Cannot write /none/file: No such file or directory"),
        ("offsets export a {folder}", 1, "Cannot write {folder}: Is a directory"),
        ("offsets import a", 1, "Cannot read a: No such file or directory"),
        ("offsets import a {folder}", 1, "Cannot read {folder}: Is a directory"),
        ("offsets import a -", 1, "Standard input has no offsets"),
        ("offsets import a {folder}/wrong", 1, "wrong, line 2: an offset is a whole number"),
        ("offsets import {folder}/three", 1, "three names no groups: name one before the file"),
        ("offsets import b {folder}/four", 1, "four has no offsets of group b: it is for a."),
        ("offsets import a {folder}/far", 1, "Topic t has no partition 9"),
        ("offsets import a {folder}/lost", 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("offsets delete a", 2, "required: --topic"),
        ("offsets delete a --topic u --yes", 1, "Group a has no committed offsets of u"),
        ("offsets delete a --topic t", 2, "Add --yes"),
        ("offsets delete none --topic t --yes", 1, "There is no group none"),
        ("list -b 127.0.0.1:1 -X default.api.timeout.ms=300", 1, "127.0.0.1:1"),
        ("lag a -X nope=1", 2, "have no setting nope"),
        ("lst", 2, "invalid choice: 'lst': did you mean 'list'?"),
        ("list --json=1", 2, "ignored explicit argument '1'"),
        ("list -b ''", 2, "'' is empty: give a value, or leave the argument out"),
        ("describe ''", 2, "'' is empty"),
        ("describe \udcff", 2, "'\\udcff' is not UTF-8: correct the name"),
        ("describe 'a\nb'", 1, "There is no group a\\nb"),
        ("describe 'a\x9b2Jb'", 1, "There is no group a\\x9b2Jb"),
        ("describe a --watch nan", 2, "'nan' is not a number of seconds"),
        ("describe a none --json", 1, '"exit_code": 1'),
        (f"lag {'n' * 40_000}", 2, "has 40000 bytes, more than a string may have: 32767"),
        ("seek a --to ''", 2, "'' is not start, end, an offset"),
        ("seek a --to 99999999999999999999", 2, "'99999999999999999999' is not start, end"),
        (f"seek a --to +{'9' * 5000}", 2, "is not start, end, an offset"),
        ("seek a --to 99999w", 2, "is not start, end, an offset"),
        ("seek a --to start --topic ''", 2, "'' is not like flights or flights:0,3-5"),
        ("seek a --to start --topic t:1-0", 2, "'1-0' is not a range of partitions"),
        ("seek a --to start --topic t:0-999999999", 2, "is not a range of partitions"),
        ("seek a --to start --topic t --topic none --dry-run", 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("seek '' --to start", 2, "'' is empty"),
        ("seek a --from-group ''", 2, "'' is empty"),
        ("remove-member a ''", 2, "'' is empty"),
        ("remove-member a --instance ''", 2, "'' is empty"),
        ("offsets exprt a", 2, "did you mean 'export'?"),
        ("offsets export a ''", 2, "'' is empty"),
        ("offsets export a /dev/full", 1, "Cannot write /dev/full: No space left on device"),
        ("offsets export a --and none", 1, "There is no group none"),
        ("offsets import a ''", 2, "'' is empty"),
        ("offsets import a /dev/zero", 1, "Cannot read /dev/zero: it has more than"),
        ("offsets import a {folder}/half", 1, "half: it is not UTF-8"),
        ("offsets import a {folder}/empty", 1, "empty has no offsets"),
        ("offsets import a {folder}/broken", 1, "broken, line 2: this is not JSON"),
        (
            "offsets import a {folder}/surrogate",
            1,
            "surrogate, line 1: the group, the topic or the metadata of 't\\ud800' is not UTF-8",
        ),
        ("offsets import a {folder}/large", 1, "OFFSET_METADATA_TOO_LARGE"),
        ("offsets import a {folder}/twice", 1, "twice, line 2: t-0 is there twice"),
        ("offsets import a {folder}/out", 1, "an offset is a whole number from 0 to 9223372036854775807"),
        ("offsets delete a --topic t:7 --yes", 1, "Group a has no committed offsets of t"),
        ("list -b 127.0.0.1:1 -X bootstrap.timeout.ms=1", 1, "Connection refused"),
    ],
)
def test_a_mistake_is_one_sentence_and_changes_nothing(
    ottla_: Run, broker: ottla.Broker, tmp_path: Path, line: str, code: int, sentence: str
) -> None:
    commit(broker, "a", 4, 5)
    files = {
        "wrong": "t,0,1\nt,1,-1\n",
        "three": "t,0,1\n",
        "four": "a,t,0,1\n",
        "far": "t,0,1\nt,9,1\n",
        "lost": "t,0,1\nlost,0,1\n",
        "empty": "",
        "broken": '{"topic": "t", "partition": 0, "offset": 1}\n{"topic": "t",',
        "surrogate": '{"topic": "t\\ud800", "partition": 0, "offset": 1}',
        "large": '{"topic": "t", "partition": 0, "offset": 1, "metadata": "%s"}' % ("x" * 5000),
        "twice": "t,0,1\nt,0,2\n",
        "out": "t,0,9223372036854775808\n",
    }
    (tmp_path / "half").write_bytes("t,0,1\nü".encode()[:-1])
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    found, out, err = ottla_("group " + line.replace("{folder}", str(tmp_path)))
    assert (found, out) == (code, "")
    assert sentence.replace("{folder}", str(tmp_path)) in err
    assert err.startswith(("ottla: ", '{"error": '))
    assert err.count("\n") == 1
    assert committed(broker, "a") == [4, 5]
