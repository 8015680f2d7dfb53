"""Apache Kafka's command-line tools of several releases, one after another in one Java machine (`tests/interop/java/Toolbox`)."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import pytest

from bench.apache_kafka import VERSION, Unavailable, class_path, java
from tests.support.jars import LOGGING, SOURCES, compile_java, fetch_jars
from tests.support.java import LIGHT

SINCE_4: Mapping[str, str] = {
    "acls": "org.apache.kafka.tools.AclCommand",
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "cluster": "org.apache.kafka.tools.ClusterTool",
    "configs": "kafka.admin.ConfigCommand",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "features": "org.apache.kafka.tools.FeatureCommand",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "replica-verification": "org.apache.kafka.tools.ReplicaVerificationTool",
    "topics": "org.apache.kafka.tools.TopicCommand",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
}
"""The class behind each kafka-<name>."""
IN_3_9 = {
    **SINCE_4,
    "acls": "kafka.admin.AclCommand",
    "broker-api-versions": "kafka.admin.BrokerApiVersionsCommand",
    "cluster": "kafka.tools.ClusterTool",
}
IN_2_8 = {
    "configs": "kafka.admin.ConfigCommand",
    "preferred-replica-election": "kafka.admin.PreferredReplicaLeaderElectionCommand",
    "reassign-partitions": "kafka.admin.ReassignPartitionsCommand",
    "topics": "kafka.admin.TopicCommand",
}
IN_BROKER = "2.8.2"
"""A release whose tools are in the jar of its broker, and can go straight to ZooKeeper."""
SINCE_4_3 = {
    **SINCE_4,
    "groups": "org.apache.kafka.tools.GroupsCommand",
    "share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
}
TOOLS = {VERSION: SINCE_4_3, "3.9.1": IN_3_9, IN_BROKER: IN_2_8}
END = "\4"


class Said(NamedTuple):
    """What a tool wrote to either stream, and its exit code."""

    text: str
    code: int


def libraries(version: str) -> str:
    """The class path of a release's tools. Raises `Unavailable`."""
    if version == VERSION:
        return class_path()
    if version == IN_BROKER:
        return fetch_jars(f"apache-kafka/zk-{version}", [("org.apache.kafka", "kafka_2.13", version), LOGGING])
    jars = [("org.apache.kafka", "kafka_2.13", version), ("org.apache.kafka", "kafka-tools", version), LOGGING]
    library = Path(fetch_jars(f"apache-kafka/tools-{version}", jars)).parent
    return ":".join(str(jar) for jar in library.glob("*.jar") if not jar.name.startswith("slf4j-reload4j"))  # it logs all there is


class Toolbox:
    """The tools of one release; entering starts their Java machine, leaving ends it. Raises `Unavailable`."""

    def __init__(self, version: str, home: Path) -> None:
        self._tools = TOOLS[version]
        home.mkdir(parents=True, exist_ok=True)
        self._command = [java(), *LIGHT, "-cp", compile_java([SOURCES / "Toolbox.java"], libraries(version), home)]
        self._process: subprocess.Popen[str] | None = None

    def run(self, tool: str, *arguments: str) -> Said:
        """Run kafka-<tool>, and return when it has ended."""
        process = self._process
        assert process is not None, "it was entered"
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\t".join((self._tools[tool], *arguments)) + "\n")
        process.stdin.flush()
        lines: list[str] = []
        for line in process.stdout:
            if line.startswith(END):
                return Said("".join(lines), int(line.removeprefix(END)))
            lines.append(line)
        raise AssertionError("Java ended:\n" + "".join(lines))

    def at(self, address: str) -> Callable[..., str]:
        """What runs kafka-<tool> on the broker at `address`: (tool, *arguments, fails=False) -> what it said."""
        return lambda tool, *arguments, fails=False: checked(self.run(tool, "--bootstrap-server", address, *arguments), fails=fails)

    def command(self, tool: str, *arguments: str) -> list[str]:
        """What runs a tool in a Java machine of its own: one that goes on until it is ended."""
        return [*self._command, self._tools[tool], *arguments]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [*self._command, "Toolbox"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


def opened(version: str, home: Path) -> Iterator[Toolbox]:
    """The tools of a release, for a fixture. Skips the test where they cannot be had."""
    try:
        toolbox = Toolbox(version, home)
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka's tools cannot run: {missing}")
    with toolbox:
        yield toolbox


def checked(said: Said, *, fails: bool = False) -> str:
    """What a tool said, that was to end well or to fail."""
    assert (said.code != 0) == fails, said.text
    return said.text
