"""Groups of every kind that live all the time: their members are processes of their own, and are killed now and then."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from bench.apache_kafka import java
from tests.support.java import LIGHT
from tests.torture.groups_member import SESSION_MS

JAVA = "java"


class Group(NamedTuple):
    """`members`: the kinds of `groups_member`, or Java's with its protocol; `is_static`: each has a name that outlives it."""

    name: str
    topic: str
    members: tuple[str, ...]
    is_static: bool = False


GROUPS = (
    Group("classic", "plain", ("confluent-kafka", "kafka-python", "aiokafka", "ottla")),
    Group("consumer", "stamped", ("confluent-kafka-consumer", "java consumer")),
    Group("static", "plain", ("confluent-kafka", "ottla"), is_static=True),
    Group("classic-java", "java", ("java classic",)),
)


class Member:
    """One process, started again when it ends."""

    def __init__(self, group: Group, number: int, home: Path, address: str, class_path: str | None) -> None:
        self.group, self.kind = group, group.members[number]
        self._instance = f"{group.name}-{number}" if group.is_static else ""
        self._notes = home / f"{group.name}-{number}-{self.kind.replace(' ', '-')}"
        self._command = self._java(address, class_path) if class_path and self.kind.startswith(JAVA) else self._python(address)
        self._process = self._start()

    def _python(self, address: str) -> list[str]:
        what = [self.group.topic, self.group.name, *([self._instance] if self._instance else [])]
        return [sys.executable, "-m", "tests.torture.groups_member", self.kind, address, f"{self._notes}.notes", *what]

    def _java(self, address: str, class_path: str) -> list[str]:
        protocol = self.kind.split()[1]
        tool = [java(), *LIGHT, "-cp", class_path, "org.apache.kafka.tools.VerifiableConsumer", "--bootstrap-server", address]
        session = ["--session-timeout", str(SESSION_MS)] if protocol == "classic" else []
        return [*tool, "--topic", self.group.topic, "--group-id", self.group.name, "--group-protocol", protocol, *session]

    def _start(self) -> subprocess.Popen[bytes]:
        with open(f"{self._notes}.log", "ab") as log:
            return subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log)

    def mend(self) -> bool:
        """Start it again if it has ended by itself; whether it had."""
        if self._process.poll() is None:
            return False
        self._process = self._start()
        return True

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._process = self._start()

    def ask_to_end(self) -> None:
        self._process.terminate()

    def end(self, deadline: float) -> None:
        try:
            self._process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Members:
    """All members of all groups. Without a `class_path` of Java's there are none of its."""

    def __init__(self, home: Path, address: str, class_path: str | None) -> None:
        wanted = [(group, number) for group in GROUPS for number, kind in enumerate(group.members)]
        wanted = [(group, number) for group, number in wanted if class_path or not group.members[number].startswith(JAVA)]
        self._members = [Member(group, number, home, address, class_path) for group, number in wanted]
        self.groups = {group.name: group.topic for group, _ in wanted}
        self.ended: Counter[str] = Counter()

    def mend(self) -> None:
        self.ended.update(member.kind for member in self._members if member.mend())

    def kill_one(self, choice: random.Random) -> None:
        choice.choice(self._members).kill()

    def stop(self) -> None:
        for member in self._members:
            member.ask_to_end()
        deadline = time.monotonic() + 20
        for member in self._members:
            member.end(deadline)
