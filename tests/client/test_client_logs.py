"""What clients log: each change of their state once at INFO, requests at DEBUG, and nothing each second."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.testing.process import BrokerProcess
from tests.support.peers import Peer
from tests.support.waiting import eventually


def test_a_broker_that_is_lost_is_logged_once_though_it_is_tried_again_and_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ottla.client")
    with BrokerProcess(tmp_path / "data") as process:
        with ottla.Producer(process.address, delivery_timeout_ms=1_500, reconnect_backoff_max_ms=50, client_id="me") as producer:
            producer.send("t", b"0").result(20)
            process.kill()
            with pytest.raises(ottla.TimedOut):
                producer.send("t", b"1").result(20)
        lines = [line for line in caplog.messages if line.startswith("me: ")]
    assert lines[0] == f"me: connected to {process.address}"
    assert len(lines) == 3
    assert lines[1].endswith("; it is tried again")
    assert lines[2] == "me: the producer is closed"


def test_the_first_call_warns_once_of_brokers_that_are_away(caplog: pytest.LogCaptureFixture) -> None:
    with (
        pytest.raises(ottla.ConnectionFailed),
        ottla.Producer("127.0.0.1:1", client_id="me", max_block_ms=300, reconnect_backoff_max_ms=50) as producer,
    ):
        producer.send("flights", b"v")
    (line,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert line.getMessage().startswith("me: None of bootstrap_servers=127.0.0.1:1 could be reached")
    assert line.getMessage().endswith("Calls try again until their time limits.")


def test_a_day_in_the_life_of_a_consumer_is_logged_by_its_changes(
    broker: Peer, topic: str, unique: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ottla.client")
    group = unique("group")
    with ottla.Producer(broker.address, client_id="writes") as producer:
        producer.send(topic, b"v", partition=0).result(20)
    with ottla.Consumer(
        topic,
        bootstrap_servers=broker.address,
        group_id=group,
        client_id="reads",
        auto_offset_reset="earliest",
        auto_commit_interval_ms=10,
        heartbeat_interval_ms=20,
        fetch_max_wait_ms=10,
        metadata_max_age_ms=50,
    ) as consumer:
        assert consumer.poll(20_000)
        begun = len(caplog.messages)
        for _ in range(30):
            consumer.poll(10)
        assert caplog.messages[begun:] == []  # fetches, heartbeats, commits and metadata change nothing
    expected = [
        f"writes: connected to {broker.address}",
        "writes: the producer is closed",
        f"reads: connected to {broker.address}",
        f"group {group}: broker 1 is the coordinator",
        f"group {group}: member ",
        f"group {group}: this consumer reads {topic}-0, {topic}-1, {topic}-2",
        f"group {group}: this consumer no longer reads {topic}-0, {topic}-1, {topic}-2",
        f"group {group}: member ",
        "reads: the consumer is closed",
    ]
    assert len(caplog.messages) == len(expected)
    assert all(line.startswith(start) for line, start in zip(caplog.messages, expected, strict=True)), caplog.messages


def test_a_rebalance_is_logged_by_those_whom_it_concerns(
    broker: Peer, topic: str, unique: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ottla.client")
    group = unique("group")
    with ottla.Consumer(topic, bootstrap_servers=broker.address, group_id=group) as consumer:
        eventually(lambda: consumer.poll(50) is not None and consumer.assignment(), what="an assignment")
    for text in (f"group {group}: member ", f"reads {topic}-0, {topic}-1, {topic}-2", f"no longer reads {topic}-0"):
        assert [line for line in caplog.messages if text in line]


def test_a_consumer_that_is_not_polled_says_why_it_leaves(
    broker: Peer, topic: str, unique: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    settings: dict[str, Any] = {"group_id": unique("group"), "max_poll_interval_ms": 300, "heartbeat_interval_ms": 50}
    with ottla.Consumer(topic, bootstrap_servers=broker.address, **settings) as consumer:
        eventually(lambda: consumer.poll(50) is not None and consumer.assignment(), what="an assignment")
        eventually(lambda: [line for line in caplog.messages if "max_poll_interval_ms=300" in line], what="the warning")
    levels = {record.levelno for record in caplog.records if "max_poll_interval_ms=300" in record.getMessage()}
    assert levels == {logging.WARNING}


def test_a_fence_is_logged(broker: Peer, topic: str, unique: Callable[[str], str], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ottla.client")
    name = unique("transactional")
    with (
        ottla.Producer(broker.address, transactional_id=name) as old,
        ottla.Producer(broker.address, transactional_id=name) as new,
    ):
        old.begin_transaction()
        old.send(topic, b"v").result(20)
        new.init_transactions()
        with pytest.raises(ottla.ProducerFenced):
            old.commit_transaction()
    assert len([line for line in caplog.messages if line.startswith(f"transactional id {name}: producer id")]) == 2
    assert [record.levelname for record in caplog.records if "Another producer" in record.message] == ["WARNING"]


def test_requests_are_logged_for_those_who_debug(broker: Peer, topic: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "ottla.client")
    with ottla.Producer(broker.address) as producer:
        producer.send(topic, b"secret").result(20)
    assert [line for line in caplog.messages if line.startswith(f"{broker.address}: Produce v") and " was answered after " in line]
    assert "secret" not in caplog.text
