"""Apache Kafka's tools move replicas between the log directories of a broker: kafka-reassign-partitions and kafka-log-dirs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import ottla
from tests.support.toolbox import Toolbox
from tests.support.waiting import eventually

pytestmark = [pytest.mark.java, pytest.mark.full]

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


def test_kafkas_tools_move_replicas_between_directories(tmp_path: Path, toolbox: Toolbox) -> None:
    data, other = tmp_path / "data", tmp_path / "other"
    with ottla.Broker(str(data), log_dirs=str(other)) as broker:
        with ottla.Admin(broker.address) as admin, ottla.Producer(broker.address) as producer:
            admin.create_topic("t", 2)
            for future in [producer.send("t", bytes(1000), partition=number % 2) for number in range(600)]:
                future.result(30)
            tool = toolbox.at(broker.address)
            found = described(tool("log-dirs", "--describe", "--topic-list", "t"))
            assert found == {(str(data), "t-0"): False, (str(other), "t-1"): False}
            plan = tmp_path / "plan.json"
            moved = {"topic": "t", "partition": 0, "replicas": [1], "log_dirs": [str(other)]}
            plan.write_text(json.dumps({"version": 1, "partitions": [moved]}))
            arguments = ("reassign-partitions", "--reassignment-json-file", str(plan))
            said = tool(*arguments, "--execute", "--replica-alter-log-dirs-throttle", "100000")
            assert f"Successfully started moving log directory to {other} for replica t-0 with broker 1" in said
            found = described(tool("log-dirs", "--describe", "--topic-list", "t"))
            assert found[str(other), "t-0"], "it is a future one"
            assert "is still in progress" in tool(*arguments, "--verify", "--preserve-throttles")
            assert admin.describe_broker_configs(1)[RATE].value == "100000"
            eventually(lambda: (other / "t-0").is_dir(), timeout_s=60)
            assert "completed successfully" in tool(*arguments, "--verify")
            assert RATE not in admin.describe_broker_configs(1), "the throttle is removed at the end"
            found = described(tool("log-dirs", "--describe", "--topic-list", "t"))
            assert found == {(str(other), "t-0"): False, (str(other), "t-1"): False}
        with ottla.Consumer("t", bootstrap_servers=broker.address, auto_offset_reset="earliest") as consumer:
            read = 0
            while read < 600:
                read += len(consumer.poll(5000))


def described(said: str) -> dict[tuple[str, str], Any]:
    """(log directory, partition) -> whether the replica is a future one, from what kafka-log-dirs printed."""
    (line,) = (line for line in said.splitlines() if line.startswith("{"))
    return {
        (directory["logDir"], partition["partition"]): partition["isFuture"]
        for broker in json.loads(line)["brokers"]
        for directory in broker["logDirs"]
        for partition in directory["partitions"]
    }
