"""node-rdkafka's end-to-end tests, which its Node package carries, under mocha. It is librdkafka behind Node's own streams."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import ottla
from tests.suites.suite import LIMIT_S, NotHere, Outcomes, built, tool

TOPICS = ("test", "test2")


@dataclass(frozen=True)
class NodeRdkafka:
    """The package is compiled where it is installed, librdkafka included: that takes minutes."""

    name: str = "node-rdkafka"
    version: str = "3.6.1"
    settings: Mapping[str, object] = field(default_factory=lambda: {"num.partitions": 1, "group.initial.rebalance.delay.ms": 0})
    port: int = 0
    release: str | None = "4.3"
    brokers: int = 1
    ports: Sequence[int] = ()

    def prepare(self, home: Path, checkout: Path | None) -> None:
        npm = tool("npm", "install Node.js")
        source = str(checkout) if checkout else f"node-rdkafka@{self.version}"
        built([npm, "init", "--yes"], home)
        built([npm, "install", "--silent", "--no-audit", "--no-fund", source, "mocha@10"], home)
        if not self._tests(home):
            raise NotHere(f"{source} has no end-to-end tests: check out its repository at that release, and give --checkout PATH.")

    def run(self, home: Path, address: str, only: str) -> Outcomes:
        with ottla.Admin(address) as admin:
            for topic in TOPICS:  # as their own set-up makes them; a reader of what is new must not come before the topic
                admin.create_topic(topic, num_partitions=1)
        command = [
            "node_modules/.bin/mocha",
            "--exit",
            "--timeout",
            "60000",
            "--reporter",
            "json",
            "--reporter-option",
            "output=told.json",
        ]
        command += [*(("--grep", only) if only else ()), *self._tests(home)]
        subprocess.run(command, cwd=home, env={**os.environ, "KAFKA_HOST": address}, timeout=LIMIT_S, check=False)
        told = json.loads((home / "told.json").read_text(encoding="utf-8"))
        return {
            test["fullTitle"]: outcome
            for kind, outcome in (("passes", "passed"), ("pending", "skipped"), ("failures", "failed"))
            for test in told[kind]
        }

    def _tests(self, home: Path) -> list[str]:
        return sorted(str(path.relative_to(home)) for path in (home / "node_modules" / "node-rdkafka" / "e2e").glob("*.spec.js"))


NODE_RDKAFKA = NodeRdkafka()
