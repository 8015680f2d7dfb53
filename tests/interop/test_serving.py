"""`ottla serve` as people and programs see it: one line, readable logs, settings from a file and the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import ottla
from bench.apache_kafka import free_port
from ottla.records import kernel
from ottla.testing import BrokerProcess
from tests.support.frames import METADATA, Raw, metadata_v1
from tests.support.waiting import eventually

UNKNOWN_TOPIC_OR_PARTITION = 3


def topic_error(broker: BrokerProcess, topic: str) -> tuple[int, int]:
    """(error code, number of partitions) of a topic that Metadata of version 1 is asked for."""
    with Raw(broker.address) as raw:
        reply = raw.ask(METADATA, 1, metadata_v1(topic))
        for _ in range(reply.number("i")):
            reply.number("i")
            reply.string()
            reply.number("i")
            reply.string()
        reply.number("i")
        assert reply.number("i") == 1
        code = reply.number("h")
        assert reply.string() == topic
        reply.number("b")
        return code, reply.number("i")


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGHUP])
def test_it_prints_one_line_and_ends_with_code_0(tmp_path: Path, by: signal.Signals) -> None:
    command = BrokerProcess(tmp_path / "data").command()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        process.send_signal(by)
        rest = process.stdout.read()
    assert "answers at 127.0.0.1:" in first
    assert rest == ""
    assert process.returncode == 0


def ignore_hangup() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def answers(port: int) -> bool:
    try:
        with ottla.Admin(f"127.0.0.1:{port}") as admin:
            return admin.list_topics() == []
    except ottla.ConnectionFailed:
        return False


def test_it_outlives_its_terminal_under_nohup(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", prepare=ignore_hangup) as broker:
        os.kill(broker.pid, signal.SIGHUP)
        assert topic_error(broker, "t") == (0, 1), "it serves on"


def test_a_full_disk_below_what_it_prints_keeps_no_broker_from_serving(tmp_path: Path) -> None:
    port = free_port()
    command = BrokerProcess(tmp_path / "data", port=port).command()
    with open("/dev/full", "w") as full, subprocess.Popen(command, stdout=full, stderr=full) as process:
        eventually(lambda: answers(port), what="the broker answers")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


@pytest.mark.parametrize("form", ["text", "json"])
def test_log_lines_are_for_people_or_for_programs(tmp_path: Path, form: str) -> None:
    with BrokerProcess(tmp_path / "data", arguments=["--log-format", form]) as broker, Raw(broker.address) as raw:
        raw.send(b"\xff\xff\xff\xff")
        assert raw.is_closed()
    lines = [line for line in broker.log.splitlines() if "closed the connection" in line]
    assert len(lines) == 1
    if form == "json":
        entries = [json.loads(line) for line in broker.log.splitlines()]
        assert {"time", "level", "logger", "message"} <= entries[0].keys()
    else:
        assert lines[0].startswith("20")


def test_the_command_line_overrules_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("# a comment\nnum.partitions=2\ngroup.initial.rebalance.delay.ms=0\n")
    with BrokerProcess(tmp_path / "a", arguments=["--config", str(file)]) as broker:
        topic_error(broker, "auto")
        assert topic_error(broker, "auto") == (0, 2)
    with BrokerProcess(tmp_path / "b", {"num.partitions": 7}, arguments=["--config", str(file)]) as broker:
        topic_error(broker, "auto")
        assert topic_error(broker, "auto") == (0, 7)


def test_topics_are_not_created_by_asking_where_that_is_switched_off(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", {"auto.create.topics.enable": "false"}) as broker:
        assert topic_error(broker, "absent") == (UNKNOWN_TOPIC_OR_PARTITION, 0)


def test_a_topic_with_an_impossible_name_is_not_created(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        assert topic_error(broker, "not/a/topic") == (17, 0)


def test_a_request_may_be_as_large_as_the_setting_says_and_no_larger(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", {"socket.request.max.bytes": 1000}) as broker:
        with Raw(broker.address) as raw:
            raw.send((1001).to_bytes(4, "big"))
            assert raw.is_closed()
        with Raw(broker.address) as raw:
            raw.send((1000).to_bytes(4, "big"))
            assert not raw.is_closed(0.3), "it waits for the rest"


def test_help_tells_of_every_option() -> None:
    told = subprocess.run([sys.executable, "-m", "ottla", "serve", "--help"], capture_output=True, text=True, check=True).stdout
    assert {"--data-dir", "--listen", "--set", "--config", "--log-format"} <= set(told.replace("[", " ").split())


@pytest.mark.parametrize("words", [["serve", "--data-dir", "data", "--config"], ["decode", "--file"]], ids=["serve", "decode"])
def test_ctrl_c_before_it_has_begun_is_no_traceback(tmp_path: Path, words: list[str]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)  # who reads it waits for more, and so has not begun for as long as this test wants
    command = [sys.executable, "-m", "ottla", *words, str(pipe)]
    with (
        subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process,
        pipe.open("w"),
    ):
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (-signal.SIGINT, "", "")


def test_it_says_once_that_the_kernel_is_not_compiled(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        pass
    assert broker.log.count("runs uncompiled") == (0 if kernel.COMPILED else 1)


def test_it_says_once_which_settings_have_no_effect(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", {"num.io.threads": 4, "num.network.threads": 2}) as broker:
        pass
    lines = [line for line in broker.log.splitlines() if "have no effect" in line]
    assert len(lines) == 1
    assert lines[0].endswith("num.io.threads, num.network.threads")
