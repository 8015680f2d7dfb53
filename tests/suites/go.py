"""Suites that run under `go test`: those of franz-go, kafka-go and sarama.

A module as Go's proxy serves it holds its tests; a copy of it is built and run. Where a suite asks for more than one broker, or for
Docker, the copy is told otherwise: `adapted` lists every such change, and nothing else is changed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.suites.brokers import stand_in
from tests.suites.suite import LIMIT_S, NotHere, Outcomes, adapt, built, tool
from tests.suites.toxiproxy import Toxiproxy

ACTIONS = {"pass": "passed", "fail": "failed", "skip": "skipped"}
SHOWN_LINES = 12
"""How much is shown of what a test says that fails."""


@dataclass(frozen=True)
class GoSuite:
    """A module's tests in `package`. `wanted` (what reaches a broker) and `unwanted` are patterns of `go test`.

    `environment` may say `{address}`. `proxied`: its tests cut their connections, through proxies on ports of their own.
    """

    name: str
    module: str
    version: str
    package: str = "."
    wanted: str = ""
    unwanted: str = ""
    tags: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, object] = field(default_factory=dict)
    port: int = 0
    release: str | None = "4.3"
    brokers: int = 1
    ports: Sequence[int] = ()
    adapted: Mapping[str, str] = field(default_factory=dict)
    proxied: bool = False

    def prepare(self, home: Path, checkout: Path | None) -> None:
        go = tool("go", "install Go 1.24 or newer")
        source = checkout or self._downloaded(go)
        shutil.copytree(source, home / "module", ignore=shutil.ignore_patterns(".git"))
        for path in (home / "module").rglob("*"):
            path.chmod(path.stat().st_mode | 0o200)  # what Go downloads is read-only
        adapt(home / "module" / self.package, "*_test.go", self.adapted)
        if self.proxied:
            built([go, "install", f"{Toxiproxy.MODULE}@{Toxiproxy.VERSION}"], home, {"GOBIN": str(home / "bin"), "GOFLAGS": ""})
        build = [go, "test", "-c", "-mod=mod", "-o", str(home / "tests"), *(("-tags", self.tags) if self.tags else ())]
        built([*build, f"./{self.package}"], home / "module")

    def run(self, home: Path, address: str, only: str) -> Outcomes:
        pattern = only or self.wanted
        command = [str(home / "tests"), "-test.v=test2json", f"-test.timeout={LIMIT_S - 60}s"]
        command += [f"-test.run={pattern}"] if pattern else []
        command += [f"-test.skip={self.unwanted}"] if self.unwanted else []
        with ExitStack() as held:
            told = {name: value.format(address=address) for name, value in self.environment.items()}
            told["PATH"] = f"{stand_in(home).parent}{os.pathsep}{os.environ['PATH']}"
            if self.proxied:
                told |= held.enter_context(Toxiproxy(home / "bin" / "server", address))
            output = held.enter_context((home / "output").open("w+b"))
            folder = home / "module" / self.package
            subprocess.run(
                command, cwd=folder, env={**os.environ, **told}, stdout=output, stderr=output, timeout=LIMIT_S, check=False
            )
        return self._read(home / "output")

    def _downloaded(self, go: str) -> Path:
        command = [go, "mod", "download", "-json", f"{self.module}@{self.version}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        told = json.loads(done.stdout or "{}")
        if done.returncode or "Dir" not in told:
            raise NotHere(f"{self.module} {self.version} could not be downloaded ({told.get('Error', done.stderr)[-200:]}).")
        return Path(told["Dir"])

    def _read(self, output: Path) -> Outcomes:
        converter = [tool("go", "install Go"), "tool", "test2json"]
        with output.open("rb") as said:
            done = subprocess.run(converter, stdin=said, capture_output=True, text=True, check=False)
        found: Outcomes = {}
        outputs: dict[str, list[str]] = defaultdict(list)
        for event in map(json.loads, done.stdout.splitlines()):
            test, action = event.get("Test"), event["Action"]
            if test and action == "output":
                outputs[test].append(event["Output"])
            elif test and action in ACTIONS:
                found[test] = ACTIONS[action]
        for test in (test for test, outcome in found.items() if outcome == "failed"):
            print(f"{self.name} {test}:\n" + "".join(outputs[test][-SHOWN_LINES:]))
        return found


FRANZ_GO = GoSuite(
    "franz-go",
    "github.com/twmb/franz-go",
    "v1.22.2",
    package="pkg/kgo",
    wanted="^Test(848Regex|AddRemove|Client_|Consume(MaxDecompress|Regex|Topic)|DirectPartition|Group(ETL|Simple)|HookPoll|Issue[0-9]|IssueFetch|IssueProduce|Pause|Ping|Pooling|UnknownGroup|ShareGroup)",
    unwanted="Txn",
    environment={"KGO_SEEDS": "{address}", "KGO_TEST_RF": "1", "KGO_TEST_RECORDS": "20000"},
)

KAFKA_GO = GoSuite(
    "kafka-go",
    "github.com/segmentio/kafka-go",
    "v0.4.51",
    wanted="^Test(Client|Conn|Reader|Writer|ConsumerGroup(With|$)|Dialer|CloseLeaves|BatchDont|Rebalance|OffsetFetch|ReadPartitions|Alter|Describe.*Scram|Unsupported|ErrorCannot)",
    # Those of commits ask for the coordinator in a way that this release of kafka-go does not survive, whatever the broker.
    unwanted="TestReaderConsumerGroup/.*commit.*",
    environment={"KAFKA_VERSION": "3.7.0"},
    settings={
        "node.id": 1,
        "advertised.listeners": "PLAINTEXT://localhost:9092",
        "message.max.bytes": 200_000_000,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "super.users": "User:ANONYMOUS",
    },
    port=9092,
)

SARAMA = GoSuite(
    "sarama",
    "github.com/IBM/sarama",
    "v1.61.1",
    wanted="^TestFunc",
    tags="functional",
    environment={"KAFKA_VERSION": "4.3.0"},
    settings={"advertised.listeners": "PLAINTEXT://127.0.0.1:29091"},
    adapted={r"ReplicationFactor: 3": "ReplicationFactor: 1"},
    proxied=True,
)

FRANZ_GO_CLUSTER = replace(
    FRANZ_GO, name="franz-go-cluster", brokers=3, release=None, environment={**FRANZ_GO.environment, "KGO_TEST_RF": "3"}
)

SARAMA_CLUSTER = replace(
    SARAMA,
    name="sarama-cluster",
    brokers=5,
    ports=Toxiproxy.PORTS,
    release=None,
    settings={
        "default.replication.factor": 2,
        "offsets.topic.replication.factor": 2,
        "transaction.state.log.replication.factor": 2,
        "transaction.state.log.min.isr": 1,
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": 0,
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    },
    adapted={},
)
