"""Exactly once with Apache Kafka's own programs: a Java copy loop, Kafka Streams, and a source of Kafka Connect, killed at work."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.apache_kafka import class_path, free_port
from tests.support import jars
from tests.support.clients.confluent import Confluent
from tests.support.java_programs import PATIENCE_S, Committed, connect_worker, create_connector, file_source, had, running, write
from tests.support.peers import Peer, start_peer
from tests.support.waiting import eventually

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(240)]
SETTINGS: dict[str, object] = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 500}
"""What a killed program has left open is ended soon."""


@pytest.fixture
def killable(peer_name: str, tmp_path: Path) -> Iterator[Peer]:
    """A broker of the test's own, to kill."""
    with start_peer(peer_name, tmp_path, SETTINGS) as peer:
        yield peer


@pytest.mark.full(seconds=14)
def test_a_word_count_of_kafka_streams_goes_on_from_its_restored_store(killable: Peer, tmp_path: Path) -> None:
    command = had(lambda: jars.program("WordCount", jars.streams(), tmp_path / "classes"))
    for topic in ("lines", "counts"):
        Confluent(killable.address).create_topic(topic, 2)
    log, state, wanted = tmp_path / "streams.log", tmp_path / "state", Counter[str]()
    counts = Committed(killable.address, "counts")
    for life in range(3):
        lines = [f"again life{life} word{number % 3}" for number in range(20)]
        write(killable.address, "lines", lines)
        wanted.update(word for line in lines for word in line.split())
        with running([*command, killable.address, str(state), "lines", "counts"], log) as program:
            if life == 1:
                killable.restart(kill=True)
            counts.wait_for(wanted.total(), program, log)
        shutil.rmtree(state)  # so that the next life has the counts from their changelog
    counts.close()
    for word, count in wanted.items():
        assert [value for key, value in counts.pairs if key == word] == [str(number) for number in range(1, count + 1)]
    assert "Exception" not in log.read_text().replace("DisconnectException", "")


def copier(broker: Peer, home: Path, life: str) -> list[str]:
    command = had(lambda: jars.program("Copier", class_path(), home / "classes"))
    return [*command, broker.address, str(home / f"{life}.notes"), life, "copier", "copier", "classic", "originals", "copies"]


def test_a_java_loop_that_is_killed_with_its_broker_copies_each_record_once(killable: Peer, tmp_path: Path) -> None:
    for topic in ("originals", "copies"):
        Confluent(killable.address).create_topic(topic, 2)
    log, wanted = tmp_path / "copier.log", list[str]()
    copies = Committed(killable.address, "copies")
    for life in ("first", "second"):
        more = [f"{life}-{number}" for number in range(400)]
        wanted += more
        write(killable.address, "originals", more)
        with running(copier(killable, tmp_path, life), log) as program:
            copies.wait_for(len(wanted) - 300, program, log)
            killable.restart(kill=True)
            copies.wait_for(len(wanted) - 100, program, log)
    with running(copier(killable, tmp_path, "last"), log) as program:
        copies.wait_for(len(wanted), program, log)
    copies.close()
    assert sorted(value.split()[-1] for _, value in copies.pairs) == sorted(wanted)


@pytest.mark.full(seconds=19)
def test_a_source_of_kafka_connect_that_is_killed_writes_each_line_once(killable: Peer, tmp_path: Path) -> None:
    port, file, log = free_port(), tmp_path / "lines.txt", tmp_path / "connect.log"
    command = had(lambda: connect_worker(killable.address, tmp_path, port))
    Confluent(killable.address).create_topic("lines")
    file.touch()
    lines, wanted = Committed(killable.address, "lines"), list[str]()
    for life in range(2):
        with running(command, log) as program:
            if life == 0:
                eventually(
                    lambda: create_connector(port, "lines", file_source(file, "lines")),
                    timeout_s=PATIENCE_S,
                    what="the worker takes a connector",
                )
            for part in range(3):
                more = [f"line {life} {part} {number}" for number in range(50)]
                wanted += more
                with file.open("a") as out:
                    out.writelines(f"{line}\n" for line in more)
                if life == 1 and part == 1:
                    killable.restart(kill=True)
                lines.wait_for(len(wanted) - 20 * (part == 2), program, log)
    with running(command, log) as program:
        lines.wait_for(len(wanted), program, log)
    lines.close()
    assert [value for _, value in lines.pairs] == wanted
