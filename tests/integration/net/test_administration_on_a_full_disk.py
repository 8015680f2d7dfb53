"""Changes of settings, subscriptions and loggers on a full disk, and a flood of clients' metrics."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ottla.testing import BrokerProcess
from ottla.wire.errors import KAFKA_STORAGE_ERROR, NONE
from tests.support.bad_groups import Questioner
from tests.support.disks import fill, small_disk
from tests.support.memory import resident_mb
from tests.support.messages import request

pytestmark = pytest.mark.full(seconds=8)
TOPIC, LOGGERS, METRICS, GROUP = 2, 8, 16, 32
LONG = ",".join(f"m{number:05}" for number in range(2000))
SESSION = "consumer.session.timeout.ms"
FLOOD, PUSH_BYTES = 1200, 100_000


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    home = tmp_path / "disk"
    with small_disk(home, size_bytes=64 << 20), BrokerProcess(home / "data", {"log.segment.bytes": 1 << 20}) as broker:
        yield broker


class Asked:
    """Requests to one broker."""

    def __init__(self, questioner: Questioner) -> None:
        self._questioner = questioner

    def ask(self, api: int, version: int, **values: Any) -> Any:
        return self._questioner.ask(api, version, request(api, version, **values))

    def alter(self, kind: int, name: str, key: str, value: str) -> int:
        configs = [{"name": key, "config_operation": 0, "value": value}]
        resources = [{"resource_type": kind, "resource_name": name, "configs": configs}]
        code: int = self.ask(44, 1, resources=resources).responses[0].error_code
        return code

    def value(self, kind: int, name: str, key: str) -> str:
        resources = [{"resource_type": kind, "resource_name": name, "configuration_keys": [key]}]
        value: str = self.ask(32, 4, resources=resources).results[0].configs[0].value
        return value

    def listed(self, kind: int) -> set[str]:
        return {one.resource_name for one in self.ask(74, 1, resource_types=[kind]).config_resources}


@pytest.mark.expects_errors("a change of topics was refused", "No space left", "database or disk is full")
def test_changes_are_made_or_refused_and_what_was_made_outlives_a_restart(broker: BrokerProcess) -> None:
    with closing(Questioner(broker.address)) as questioner:
        asked = Asked(questioner)
        asked.ask(19, 5, topics=[{"name": "t", "num_partitions": 1, "replication_factor": 1}], timeout_ms=5000)
        filler = broker.data_dir.with_name("filler")
        fill(filler)
        changes = ((METRICS, "s", "metrics", LONG), (GROUP, "g", SESSION, "50000"))
        made: dict[int, set[str]] = {METRICS: set(), GROUP: set()}
        refused: set[int] = set()
        for number in range(2000):
            for kind, name, key, value in changes:
                code = asked.alter(kind, f"{name}{number}", key, value)
                assert code in (NONE, KAFKA_STORAGE_ERROR)
                (refused.add(kind) if code else made[kind].add(f"{name}{number}"))
            if refused == {METRICS, GROUP}:
                break
        assert refused == {METRICS, GROUP}
        assert asked.alter(LOGGERS, "1", "root", "ERROR") == NONE
        assert asked.value(LOGGERS, "1", "root") == "ERROR"
        assert {kind: asked.listed(kind) for kind in made} == made
        filler.unlink()
        assert asked.alter(TOPIC, "t", "flush.ms", "7") == NONE
    broker.restart(kill=True)
    with closing(Questioner(broker.address)) as questioner:
        asked = Asked(questioner)
        assert {kind: asked.listed(kind) for kind in made} == made
        assert asked.value(TOPIC, "t", "flush.ms") == "7"
        assert asked.value(LOGGERS, "1", "root") != "ERROR"


def test_a_flood_of_metrics_takes_bounded_memory(broker: BrokerProcess) -> None:
    with closing(Questioner(broker.address)) as questioner:
        asked = Asked(questioner)
        before_mb = resident_mb(broker.pid)
        for _ in range(FLOOD):
            subscribed = asked.ask(71, 0, client_instance_id=os.urandom(16))
            push = {"client_instance_id": subscribed.client_instance_id, "subscription_id": subscribed.subscription_id}
            assert asked.ask(72, 0, **push, compression_type=4, metrics=os.urandom(PUSH_BYTES)).error_code == NONE
        grown_mb = resident_mb(broker.pid) - before_mb
    assert grown_mb < FLOOD * PUSH_BYTES / 1_000_000 * 0.75
