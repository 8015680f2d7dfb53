"""`ottla serve --processes`: brokers of one host that share a registry, are started again when they die, and stop together."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from bench.apache_kafka import free_port
from ottla import Admin, Broker, Consumer, Producer
from ottla.cli.main import main
from ottla.net.process.supervisor import CouldNotStart, supervise
from ottla.testing.process import BrokerProcess
from tests.support.waiting import eventually


def two_ports() -> int:
    """The first of two free ports in a row."""
    while True:
        first = free_port()
        with socket.socket() as other:
            if other.connect_ex(("127.0.0.1", first + 1)):
                return first


def processes(host: BrokerProcess) -> dict[int, int]:
    """The process of each broker, as the log says at last."""
    found = re.findall(r"broker (\d+) is ready as process (\d+)", host.log)
    return {int(number): int(pid) for number, pid in found}


def test_a_broker_by_itself_becomes_the_first_of_several_which_go_on_when_one_is_killed_and_stop_together(tmp_path: Path) -> None:
    with Broker(str(tmp_path / "alone")) as alone, Producer(bootstrap_servers=alone.address) as producer:
        producer.send("old", value=b"1")
        producer.flush()
    root = tmp_path / "data"
    assert main(["registry", "copy", str(tmp_path / "alone"), f"sqlite:{root / 'registry'}"]) == 0
    (tmp_path / "alone").rename(root / "1")
    with BrokerProcess(root, port=two_ports(), arguments=["--processes", "2"], start_timeout_s=60) as host:
        assert read("old", host, 1) == {b"1"}
        go_on_when_one_is_killed(host)
        assert host.stop(60) == 0
    assert host.log.count("stopped") == 2
    assert "Traceback" not in host.log
    assert " ERROR " not in host.log


def go_on_when_one_is_killed(host: BrokerProcess) -> None:
    with Admin(bootstrap_servers=host.address) as admin:
        admin.create_topic("t", num_partitions=4)
        brokers = {(node.host, node.port) for node in admin.describe_cluster().nodes}
        assert brokers == {("127.0.0.1", host.port), ("127.0.0.1", host.port + 1)}
    before = processes(host)
    assert before.keys() == {1, 2}
    with Producer(bootstrap_servers=host.address) as producer:
        for number in range(100):
            producer.send("t", value=b"%d" % number, partition=number % 4)
        producer.flush()
        os.kill(before[2], signal.SIGKILL)
        for number in range(100, 200):
            producer.send("t", value=b"%d" % number, partition=number % 4)
        producer.flush()
    eventually(lambda: processes(host)[2] != before[2])
    assert "broker 2 was killed by SIGKILL: restarting it in 0.5 s" in host.log
    assert read("t", host, 200) == {b"%d" % number for number in range(200)}


def read(topic: str, host: BrokerProcess, count: int) -> set[bytes | None]:
    with Consumer(topic, bootstrap_servers=host.address, auto_offset_reset="earliest", group_id="g") as consumer:
        return {record.value for record in islice(consumer, count)}


def test_a_broker_whose_supervisor_is_gone_stops_in_order(tmp_path: Path) -> None:
    where = ["--data-dir", str(tmp_path / "1"), "--registry", f"sqlite:{tmp_path / 'registry'}", "--listen", "127.0.0.1:0"]
    command = [sys.executable, "-m", "ottla", "serve", "--supervised", "--node-id", "1", *where]
    done = subprocess.run(command, check=False, input="", capture_output=True, text=True)
    assert done.returncode == 0
    assert "ottla.net[1]: the parent process of this broker has ended" in done.stderr
    assert done.stderr.rstrip().endswith("stopped")


ANSWERS = ["sh", "-c", "echo answers; exec cat"]


def test_none_is_started_where_one_cannot_be() -> None:
    with pytest.raises(CouldNotStart) as failed:
        asyncio.run(supervise([ANSWERS, ["sh", "-c", "exit 3"]], lambda: pytest.fail("not all of them answer")))
    assert str(failed.value).startswith("Broker 2 ended with exit code 3 before it was ready, so all brokers were stopped")
    assert failed.value.code == 3


def test_who_keeps_dying_is_started_again_after_longer_and_longer() -> None:
    pauses: list[str] = []

    class Noting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            pauses.append(record.getMessage())
            if len(pauses) == 3:
                os.kill(os.getpid(), signal.SIGTERM)

    noting = Noting(logging.WARNING)
    logging.getLogger("ottla.net").addHandler(noting)
    try:
        asyncio.run(supervise([ANSWERS, ["sh", "-c", "echo answers; exit 7"]], lambda: None))
    finally:
        logging.getLogger("ottla.net").removeHandler(noting)
    assert pauses == [f"broker 2 ended with exit code 7: restarting it in {pause} s" for pause in ("0.5", "1", "2")]


@pytest.fixture
def own_log() -> Iterator[None]:
    """A command sets up how Ottla logs: afterwards it is as it was."""
    root = logging.getLogger("ottla")
    handlers, level, propagates = [*root.handlers], root.level, root.propagate
    yield
    root.handlers[:], root.propagate = handlers, propagates
    root.setLevel(level)


@pytest.mark.usefixtures("own_log")
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--processes", "0"], "--processes must be 1 or more"),
        (["--processes", "2", "--node-id", "1"], "leave out --registry, --node-id"),
        (["--processes", "2", "--registry", "zookeeper://z:2181"], "leave out --registry, --node-id"),
        (["--processes", "2", "--listen", "h:65535"], "choose ports up to 65534 that are at least 2 apart."),
        (["--processes", "3", "--listen", "h:1000", "--listen", "h:1002,name=B"], "at least 3 apart."),
    ],
)
def test_what_does_not_go_together_is_refused(
    tmp_path: Path, words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--data-dir", str(tmp_path / "data"), *words]) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


@pytest.mark.usefixtures("own_log")
def test_a_directory_of_more_brokers_or_of_one_by_itself_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Broker(str(tmp_path / "data" / "3")):
        pass
    assert main(["serve", "--data-dir", str(tmp_path / "data"), "--processes", "2"]) == 2
    assert "has data of broker 3, which would not be started: use --processes 3" in capsys.readouterr().err
    assert main(["serve", "--data-dir", str(tmp_path / "data" / "3"), "--processes", "2"]) == 2
    assert "is the data directory of a single broker: choose another" in capsys.readouterr().err


def test_a_host_that_is_not_there_is_named_though_any_port_would_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["serve", "--data-dir", str(tmp_path / "data"), "--processes", "2", "--listen", "nosuchhost.invalid:0"]
    assert main(words) == 1
    assert "Cannot listen on nosuchhost.invalid:0" in capsys.readouterr().err
