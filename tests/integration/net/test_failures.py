"""Two kinds of failure: a mistake in deciding a request costs that request, any other ends the broker; neither is silent."""

from __future__ import annotations

import logging
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import pytest

import ottla
from ottla.broker.partitions.partition import Partition
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.serving import router
from ottla.broker.serving.purgatory import Purgatory
from ottla.log.checkpoints import CLEAN_SHUTDOWN
from ottla.net.disk import sync_workers
from ottla.net.disk.space_release import Janitor
from ottla.net.server.outbox import Outbox
from ottla.testing import BrokerProcess
from ottla.wire.errors import UNKNOWN_SERVER_ERROR
from tests.support.frames import API_VERSIONS, LIST_OFFSETS, Batch, Raw, array, list_offsets_v1, request, string

DELETE_TOPICS = 20


class Mistake(Exception):
    """What nobody foresaw."""


def mistaken(*args: object, **kwargs: object) -> NoReturn:
    raise Mistake("nobody foresaw it")


def entries(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """The log from errors on."""
    return [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.expects_errors("met a bug in Ottla")
def test_a_mistake_in_deciding_a_request_costs_that_request_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with ottla.Broker() as broker, Raw(broker.address) as client, Raw(broker.address) as other:
        client.create_topic("t")
        with monkeypatch.context() as patch:
            patch.setattr(router.Router, "_call", mistaken)
            reply = client.ask(LIST_OFFSETS, 1, list_offsets_v1("t", 3, -1))
        assert reply.number("i") == 1
        assert reply.string() == "t"
        assert reply.next_records("iih") == (1, 3, UNKNOWN_SERVER_ERROR)
        assert broker.unexpected == 1
        assert other.is_served()
        assert client.latest_offset("t") == 0
        (entry,) = entries(caplog)
        assert entry.exc_info is not None
        assert isinstance(entry.exc_info[1], Mistake)
        assert request(LIST_OFFSETS, 1, 2, list_offsets_v1("t", 3, -1))[4:].hex() in entry.getMessage()


@pytest.mark.expects_errors("met a bug in Ottla")
def test_a_mistake_in_how_answers_are_made_closes_a_connection_and_ends_nothing() -> None:
    with ottla.Broker() as broker:
        assert broker._running is not None
        made = broker._running.broker._router
        with Raw(broker.address) as client:
            made.encode_by(mistaken)
            client.send(request(API_VERSIONS, 0, 1))
            assert client.is_closed()
            made.encode_by(made.encode)
        with Raw(broker.address) as other:
            assert other.is_served()


@pytest.mark.expects_errors("met a bug in Ottla")
def test_of_a_long_request_that_met_a_mistake_the_log_shows_the_first_200_bytes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with ottla.Broker() as broker, Raw(broker.address) as client:
        monkeypatch.setattr(router.Router, "_call", mistaken)
        client.ask(LIST_OFFSETS, 1, list_offsets_v1("t" * 249, 3, -1))
    (entry,) = entries(caplog)
    sent = request(LIST_OFFSETS, 1, 1, list_offsets_v1("t" * 249, 3, -1))[4:]
    assert sent[:200].hex() in entry.getMessage()
    assert sent[:201].hex() not in entry.getMessage()


@pytest.mark.expects_errors("met a bug in Ottla")
def test_a_mistake_in_reading_a_request_closes_its_connection_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with ottla.Broker() as broker, Raw(broker.address) as client, Raw(broker.address) as other:
        with monkeypatch.context() as patch:
            patch.setattr(router, "decode_body", mistaken)
            client.send(request(API_VERSIONS, 0, 1))
            assert client.is_closed()
        assert broker.unexpected == 1
        assert other.is_served()
    assert len(entries(caplog)) == 1


def produce(_broker: ottla.Broker, client: Raw) -> None:
    """What the mistakes below are met by; most of them come before its answer."""
    client.create_topic("t")
    client.produce("t", Batch().encode())


def call(broker: ottla.Broker, _client: Raw) -> None:
    assert broker._background is not None
    broker._background.call(mistaken)


def delete(_broker: ottla.Broker, client: Raw) -> None:
    client.create_topic("t")
    client.ask(DELETE_TOPICS, 1, array(string("t")) + struct.pack(">i", 1000))


MISTAKES: dict[str, tuple[object, str, Callable[[ottla.Broker, Raw], None]]] = {
    "after an append": (Partition, "must_sync", produce),
    "in a bundle": (Purgatory, "evaluate_woken", produce),
    "in a completion": (Partition, "record_sync", produce),
    "in a timer": (Partitions, "retain", produce),
    "in a callback": (None, "", call),
    "on the thread that syncs": (sync_workers, "_sync_each", produce),
    "on the thread that removes": (Janitor, "_remove_tree", delete),
    "when a reply leaves": (Outbox, "put", produce),
}


def see_the_end(broker: ottla.Broker, idle: Raw, caplog: pytest.LogCaptureFixture) -> None:
    """See that everybody hears of a mistake that ends the broker."""
    assert idle.is_closed()
    (entry,) = entries(caplog)
    assert entry.exc_info is not None
    assert isinstance(entry.exc_info[1], Mistake)
    assert "Start it again" in entry.getMessage()
    with pytest.raises(ottla.BrokerFailed):
        _ = broker.address
    with pytest.raises(ottla.BrokerFailed) as caught:
        broker.stop()
    assert isinstance(caught.value.__cause__, Mistake)
    broker.stop()


@pytest.mark.expects_errors("met a bug in Ottla")
@pytest.mark.parametrize("where", MISTAKES)
def test_a_mistake_that_could_lose_data_ends_the_broker(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    owner, name, provoke = MISTAKES[where]
    with ottla.Broker(str(tmp_path)) as broker, Raw(broker.address) as client:
        client.create_topic("kept")
        assert client.produce("kept", Batch().encode()) == (0, 0)
    broker = ottla.Broker(str(tmp_path), log_retention_check_interval_ms=100).start()
    with Raw(broker.address) as idle, Raw(broker.address) as client, monkeypatch.context() as patch:
        if owner is not None:
            patch.setattr(owner, name, mistaken)
        with suppress(EOFError, ConnectionError):  # the broker may end before it answers
            provoke(broker, client)
        see_the_end(broker, idle, caplog)
    caplog.clear()
    assert not (tmp_path / CLEAN_SHUTDOWN).exists()
    with ottla.Broker(str(tmp_path)) as again, Raw(again.address) as client:
        assert client.latest_offset("kept") == 1
    assert entries(caplog) == []


MISTAKEN_SERVE = """
import sys
from ottla.broker.partitions.partitions import Partitions
from ottla.cli.main import main

def mistaken(self, now):
    raise IndexError("nobody foresaw it")

Partitions.retain = mistaken
sys.exit(main(sys.argv[1:]))
"""


def test_a_served_broker_that_a_mistake_ends_says_so_once_and_exits_with_70(tmp_path: Path) -> None:
    command = ["serve", "--data-dir", str(tmp_path), "--listen", "127.0.0.1:0", "--set", "log.retention.check.interval.ms=50"]
    done = subprocess.run([sys.executable, "-c", MISTAKEN_SERVE, *command], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 70
    assert done.stderr.count("Traceback") == 1
    assert done.stderr.count("IndexError: nobody foresaw it") == 1
    assert done.stderr.count("Start it again") == 1
    assert "ottla: The broker ended because of a bug in it" in done.stderr
    assert not (tmp_path / CLEAN_SHUTDOWN).exists()


def test_a_peer_that_is_gone_before_anybody_looks_hurts_nobody(caplog: pytest.LogCaptureFixture) -> None:
    with ottla.Broker() as broker, Raw(broker.address) as client:
        host, _, port = broker.address.rpartition(":")
        for _ in range(50):
            peer = socket.create_connection((host, int(port)))
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            peer.close()
        assert client.is_served()
        assert entries(caplog) == []


def test_a_peer_that_breaks_its_connection_under_many_replies_leaves_no_line_of_asyncio(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker, Raw(broker.address) as other:
        for _ in range(5):
            peer = Raw(broker.address)
            peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            peer.send(b"".join(request(API_VERSIONS, 0, number) for number in range(4000)))
            peer.close()
            assert other.is_served()
    assert all(" ottla" in line for line in broker.log.splitlines()), broker.log
