"""The broker under test: Ottla as a process, or a real Apache Kafka for the same behaviours."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol, Self

import pytest

from bench.apache_kafka import ApacheKafka, Unavailable
from ottla.testing import BrokerProcess
from tests.support.elsewhere import RELEASES_OF_PEERS, UNASKED
from tests.support.old_kafka import started
from tests.support.watched import served


class Peer(Protocol):
    """What tests may do to a broker."""

    @property
    def address(self) -> str: ...
    @property
    def pid(self) -> int: ...
    @property
    def log(self) -> str: ...
    def restart(self, *, kill: bool = False) -> Self: ...


QUICK = {"group.initial.rebalance.delay.ms": 200}
"""Served brokers wait three seconds for a group's first members; no test has that time.

With none at all, kafka-python 3.0 may be left without partitions, on Apache Kafka as on Ottla (on busy cores, about one join in ten
on either): it asks for metadata a tenth of a second late, leads the group before it knows its topic, and joins again when it does;
and where a call of poll() ends before the answer to its SyncGroup has come, it takes no notice of that answer.
"""

GROUPS_STAY: dict[str, object] = {"offsets.retention.check.interval.ms": 600_000}
"""Kafka's default, for tests that ask for groups without offsets or members: else they are looked for each second, and go."""


def start_peer(name: str, home: Path, settings: dict[str, object] | None = None) -> AbstractContextManager[Peer]:
    """A broker over an empty directory below `home`. Skips the test where Apache Kafka cannot be had."""
    wanted = served({**QUICK, **(settings or {})})
    if name == "ottla":
        return BrokerProcess(home / "data", wanted)
    if release := RELEASES_OF_PEERS.get(name):
        wanted = {"broker.id": 1, "delete.topic.enable": "true", **wanted}
        if release in UNASKED:  # there, topics are made by their first use, and records do not stay for ever
            wanted |= {"num.partitions": 3, "log.retention.ms": (1 << 31) - 1}
        return started(release, home, wanted)
    try:
        return ApacheKafka(home / "kafka", wanted)
    except Unavailable as missing:
        pytest.skip(f"no Apache Kafka: {missing}")
