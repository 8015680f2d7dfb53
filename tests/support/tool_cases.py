"""Commands of Apache Kafka's tools of administration, and what of their output does not depend on the peer or the time."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.acl_cases import ADMIN
from tests.support.toolbox import Said, Toolbox
from tests.support.waiting import eventually

RECORDED = Path(__file__).parents[1] / "interop" / "administration_tools.json"
LOGIN = f"""security.protocol=SASL_PLAINTEXT
sasl.mechanism=PLAIN
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="{ADMIN}" password="{ADMIN}";
"""
HMAC = "{hmac}"
"""Stands for the HMAC of the last token that was created."""
PLAN = "{plan}"
"""Stands for the path of a file with the JSON that follows."""


class Command(NamedTuple):
    """One run of kafka-<tool>. `plan` is the content of the file of an argument `PLAN`.

    A command is repeated until it prints `until`: a broker of KRaft has tokens later than the controller answers.
    """

    tool: str
    arguments: str
    plan: Any = None
    until: str = ""

    def __str__(self) -> str:
        return " ".join((self.tool, self.arguments, *([json.dumps(self.plan)] if self.plan else ())))


def _of(kind: str, name: str) -> str:
    return f"--entity-type {kind} " + (f"--entity-name {name} " if name else "")


def _records(*offsets: tuple[str, int, int]) -> Any:
    wanted = [{"topic": topic, "partition": index, "offset": offset} for topic, index, offset in offsets]
    return {"version": 1, "partitions": wanted}


TOPIC, BROKER, METRICS, GROUP = _of("topics", "t"), _of("brokers", "1"), _of("client-metrics", "s"), _of("groups", "g")
COMMANDS = [
    Command("topics", "--create --topic t --partitions 2 --replication-factor 1"),
    Command("topics", "--create --topic t --partitions 2 --replication-factor 1"),
    Command("topics", "--describe --topic t"),
    Command("topics", "--alter --topic t --partitions 1"),
    Command("topics", "--delete --topic nobody"),
    Command("configs", TOPIC + "--describe"),
    Command("configs", TOPIC + "--alter --add-config flush.ms=1000,cleanup.policy=[compact,delete]"),
    Command("configs", TOPIC + "--describe"),
    Command("configs", TOPIC + "--alter --add-config flush.ms=x"),
    Command("configs", TOPIC + "--alter --add-config nothing=1"),
    Command("configs", TOPIC + "--alter --delete-config nothing"),
    Command("configs", TOPIC + "--alter --delete-config flush.ms --add-config segment.ms=5000"),
    Command("configs", TOPIC + "--describe --all"),
    Command("configs", _of("topics", "nobody") + "--alter --add-config flush.ms=1"),
    Command("configs", _of("topics", "nobody") + "--describe"),
    Command("configs", BROKER + "--describe"),
    Command("configs", BROKER + "--alter --add-config log.cleaner.threads=2"),
    Command("configs", BROKER + "--describe"),
    Command("configs", BROKER + "--alter --add-config log.cleaner.threads=99"),
    Command("configs", BROKER + "--alter --add-config node.id=7"),
    Command("configs", BROKER + "--alter --add-config cordoned.log.dirs=/nowhere"),
    Command("configs", BROKER + "--alter --delete-config log.cleaner.threads"),
    Command("configs", "--entity-type brokers --entity-default --alter --add-config log.cleaner.backoff.ms=1000"),
    Command("configs", "--entity-type brokers --entity-default --describe"),
    Command("configs", "--entity-type brokers --entity-default --alter --delete-config log.cleaner.backoff.ms"),
    Command("configs", _of("broker-loggers", "1") + "--alter --add-config nobody=INFO"),
    Command("configs", _of("broker-loggers", "1") + "--alter --delete-config root"),
    Command("configs", _of("broker-loggers", "1") + "--alter --add-config root=LOUD"),
    Command("configs", METRICS + "--alter --add-config metrics=[a,b],interval.ms=1000,match=[client_id=x]"),
    Command("configs", METRICS + "--describe"),
    Command("configs", METRICS + "--alter --add-config interval.ms=1"),
    Command("configs", METRICS + "--alter --add-config match=[x=y]"),
    Command("configs", "--entity-type client-metrics --describe"),
    Command("client-metrics", "--list"),
    Command("client-metrics", "--alter --name u --metrics a,b --interval 5000 --match client_id=y"),
    Command("client-metrics", "--describe --name u"),
    Command("client-metrics", "--describe --name nobody"),
    Command("client-metrics", "--alter --name u --interval 1"),
    Command("client-metrics", "--delete --name u"),
    Command("client-metrics", "--list"),
    Command("configs", METRICS + "--alter --delete-config metrics,interval.ms,match"),
    Command("client-metrics", "--list"),
    Command("configs", GROUP + "--describe"),
    Command("configs", GROUP + "--alter --add-config consumer.session.timeout.ms=50000"),
    Command("configs", GROUP + "--describe"),
    Command("configs", GROUP + "--describe --all"),
    Command("configs", GROUP + "--alter --add-config consumer.session.timeout.ms=1"),
    Command("configs", GROUP + "--alter --delete-config consumer.session.timeout.ms"),
    Command("configs", "--entity-type groups --describe"),
    Command("log-dirs", "--describe --topic-list t"),
    Command("log-dirs", "--describe --broker-list 1 --topic-list t,nobody"),
    Command("log-dirs", "--describe --broker-list 9"),
    Command("features", "upgrade --feature group.version=1"),
    Command("features", "upgrade --feature group.version=9"),
    Command("features", "upgrade --feature nothing=1"),
    Command("features", "downgrade --feature transaction.version=1"),
    Command("features", "upgrade --feature transaction.version=2"),
    Command("features", "disable --feature nothing"),
    Command("metadata-quorum", "describe --status"),
    Command("metadata-quorum", "describe --replication"),
    Command("cluster", "cluster-id"),
    Command("cluster", "unregister --id 99"),
    Command("delegation-tokens", "--create --max-life-time-period -1 --renewer-principal User:renewer"),
    Command("delegation-tokens", "--describe --owner-principal User:admin", until="tokens : 1"),
    Command("delegation-tokens", "--describe"),
    Command("delegation-tokens", f"--renew --renew-time-period -1 --hmac {HMAC}"),
    Command("delegation-tokens", f"--expire --expiry-time-period -1 --hmac {HMAC}"),
    Command("delegation-tokens", "--describe --owner-principal User:admin", until="tokens : 0"),
    Command("delegation-tokens", f"--renew --renew-time-period -1 --hmac {HMAC}"),
    Command("leader-election", "--election-type preferred --topic t --partition 0"),
    Command("leader-election", "--election-type unclean --topic t --partition 0"),
    Command("leader-election", "--election-type preferred --topic nobody --partition 0"),
    Command("leader-election", "--election-type preferred --all-topic-partitions"),
    Command("delete-records", f"--offset-json-file {PLAN}", _records(("t", 0, 0))),
    Command("delete-records", f"--offset-json-file {PLAN}", _records(("t", 0, 5))),
    Command("delete-records", f"--offset-json-file {PLAN}", _records(("t", 0, 0), ("t", 0, 0))),
    Command("reassign-partitions", "--list"),
    Command("consumer-groups", "--delete --group nobody"),
    Command("consumer-groups", "--describe --group nobody"),
    Command("consumer-groups", "--delete-offsets --group nobody --topic t"),
    Command("transactions", "list"),
    Command("transactions", "describe --transactional-id nobody"),
    Command("transactions", "describe-producers --topic t --partition 0"),
    Command("topics", "--delete --topic t"),
]

VARYING = (
    (r"[A-Za-z0-9+/]{86}==", "HMAC"),
    (r"127\.0\.0\.1:\d+", "ADDRESS"),
    (r"(?m)^\s+at .*\n", ""),
    (r"(?m)^\[[^]]*\] (WARN|INFO|ERROR) .*\n", ""),
    (r"(?m)^\s*ottla\..*\n", ""),
    (r"\d{4}-\d\d-\d\d[T ][\d:.,Z]+", "TIME"),
    (r"\b\d{12,19}\b", "NUMBER"),
    (r"(?m)^retention\.ms=.*$", "retention.ms"),
    (r"(?m)^  retention\.ms=.*$", "retention.ms"),
    (r"(?m)(^1\s+)\S{22}(\s+)\d+(\s+0\s)", r"\1ID\2N\3"),
    (r"--command-config \S+", "--command-config FILE"),
    (r"tokenId : \S{22}", "tokenId"),
    (r"(Invalid update version \d+ for feature \S+\.) .*", r"\1"),
    (r"TopicId: \S{22}", "TopicId"),
    (r"Cluster ID: \S{22}|ClusterId:\s+\S{22}", "Cluster ID"),
    (r"(?m)^\S{22}(\s+)HMAC", r"ID\1HMAC"),
    (r"(HighWatermark|LeaderEpoch|LogEndOffset|\"size\"|MaxFollowerLagTimeMs)(\W+)-?\d+", r"\1\2N"),
    (r"(\"logDir\": ?\"|\"logDir\":\")[^\"]+", r"\1DIRECTORY"),
)
"""Patterns of what differs from run to run, and what stands for it. The tests' brokers have a retention of their own."""

OTHER_NAMES = {"cluster": "--config", "leader-election": "--admin.config"}
"""Names of the option with the client's settings."""


class Tools:
    """Runs commands on the broker at `port` as its administrator."""

    def __init__(self, toolbox: Toolbox, port: int, home: Path) -> None:
        self._toolbox = toolbox
        self._address = f"127.0.0.1:{port}"
        self._home = home
        self._hmac = ""
        self._login = home / "login.properties"
        self._login.write_text(LOGIN, encoding="utf-8")

    def _ended(self, command: Command, words: list[str]) -> Said | None:
        said = self._toolbox.run(command.tool, *words)
        return said if command.until in said.text else None

    def answer(self, command: Command) -> list[str]:
        """Return the exit code and the lines that a command prints."""
        plan = self._home / "plan.json"
        plan.write_text(json.dumps(command.plan), encoding="utf-8")
        words = command.arguments.replace(HMAC, self._hmac).replace(PLAN, str(plan)).split()
        at = ["--bootstrap-server", self._address]
        login = [OTHER_NAMES.get(command.tool, "--command-config"), str(self._login)]
        words = [words[0], *at, *login, *words[1:]] if command.tool == "cluster" else [*at, *login, *words]
        said = eventually(lambda: self._ended(command, words), what=str(command))
        assert said is not None
        found = re.search(r"[A-Za-z0-9+/]{86}==", said.text)
        self._hmac = found[0] if found else self._hmac
        text = said.text
        for pattern, instead in VARYING:
            text = re.sub(pattern, instead, text)
        return [f"exit {said.code}", *(" ".join(line.split()) for line in text.splitlines() if line.strip())]


DIFFERENT = {
    "configs --entity-type brokers --entity-name 1 --alter --add-config log.cleaner.threads=99": "one sentence for all pools",
    "configs --entity-type brokers --entity-name 1 --alter --add-config cordoned.log.dirs=/nowhere": "no 'requirement failed'",
    "metadata-quorum describe --status": "there is no listener of controllers",
}
"""Commands whose output differs in other words than an advice behind Kafka's, with the reason."""


def is_as(ours: list[str], kafkas: list[str], command: str) -> bool:
    """Return whether a command printed what it prints with Apache Kafka; behind a line, Ottla may say what to do."""
    if command in DIFFERENT:
        return ours[0] == kafkas[0] and len(ours) == len(kafkas) and ours != kafkas
    return len(ours) == len(kafkas) and all(
        one == kafka or one.startswith(kafka.rstrip(".")) for one, kafka in zip(ours, kafkas, strict=True)
    )
