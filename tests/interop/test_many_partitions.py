"""A broker with many partitions: what idle ones cost, and how many files it holds open."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

import pytest

from ottla import Admin, Producer
from ottla.testing import BrokerProcess
from tests.support.memory import resident_mb

TOPICS, PER_TOPIC = 20, 100
MOST_BYTES = 4352
"""Bytes of resident memory that a partition's log, its image and its state in the controller take together."""


def steady_mb(pid: int) -> float:
    """Return the resident memory of a broker once its imports in the background are over."""
    while True:
        before_mb = resident_mb(pid)
        time.sleep(0.5)
        if abs((after_mb := resident_mb(pid)) - before_mb) < 0.05:
            return after_mb


def open_files(pid: int) -> list[str]:
    """Return the paths of the files that a process has open, without those that it closes meanwhile."""
    names = list[str]()
    for handle in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            names.append(os.readlink(handle))
    return names


def test_an_idle_partition_costs_less_than_4_and_a_quarter_kb(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        before_mb = steady_mb(broker.pid)
        with Admin(bootstrap_servers=broker.address) as admin:
            for number in range(TOPICS):
                admin.create_topic(f"topic-{number}", PER_TOPIC, 1)
        broker.restart()
        grown = (steady_mb(broker.pid) - before_mb) * 1e6
    assert grown / (TOPICS * PER_TOPIC) < MOST_BYTES


@pytest.mark.rows(1, seconds=3)
@pytest.mark.parametrize("most", [16, 64])
def test_files_that_are_open_are_as_many_as_the_setting_says(tmp_path: Path, most: int) -> None:
    partitions = 200
    with BrokerProcess(tmp_path / "data", {"ottla.max.open.files": most}) as broker:
        with Admin(bootstrap_servers=broker.address) as admin:
            admin.create_topic("t", partitions, 1)
        with Producer(bootstrap_servers=broker.address, acks="1") as producer:
            for number in range(partitions):
                producer.send("t", b"value", partition=number)
            producer.flush()
        logs = [name for name in open_files(broker.pid) if name.endswith((".log", "index"))]
    assert 0 < len(logs) <= most + 2
