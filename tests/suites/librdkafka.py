"""librdkafka's own tests, built from the sources that its Node package carries: each is a run of its test program.

Those that need no broker, or a mock of one, are left out: they test the client alone. So are those of TLS and of SASL, which want a
broker set up for them, and those of share groups, which are not served.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from tests.suites.suite import NotHere, Outcomes, built, tool, unpack

TEST = re.compile(r"^    _TEST\((\w+),\s*([^,)]*)", re.MULTILINE)
ELSEWHERE = re.compile(r"ssl|sasl|oauthbearer|_auth|reauthentication|share_consumer|mock|_local|unittests|telemetry")
SEVERAL = re.compile(r"fetch_from_follower")
"""Tests that are of several brokers alone."""
REPLICAS = re.compile(r"(test_create_topic_wait_exists\(\w+, \w+, \w+,) 3,")
SUMMARY = re.compile(r"^\|\s*(\d{4}_\w+)\s*\|\s*(PASSED|FAILED|SKIPPED)", re.MULTILINE)
COLOURS = re.compile(r"\x1b\[[0-9;]*m|\x1b\(B")
LIMIT_S = 600
AT_ONCE = 3


@dataclass(frozen=True)
class Librdkafka:
    """The package `source` of the npm registry holds librdkafka's whole source, tests included."""

    name: str = "librdkafka"
    source: str = "@confluentinc/kafka-javascript@1.10.1"
    settings: Mapping[str, object] = field(
        default_factory=lambda: {
            "num.partitions": 4,
            "group.initial.rebalance.delay.ms": 500,
            "group.min.session.timeout.ms": 1000,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
            "super.users": "User:ANONYMOUS",
        }
    )
    port: int = 0
    release: str | None = "4.3"
    brokers: int = 1
    ports: Sequence[int] = ()

    @property
    def version(self) -> str:
        return f"of {self.source}"

    def prepare(self, home: Path, checkout: Path | None) -> None:
        make = tool("make", "install a C compiler and make")
        tool("g++", "install a C++ compiler")
        if checkout is None:
            self._download(home)
        else:
            shutil.copytree(checkout, home / "librdkafka", ignore=shutil.ignore_patterns(".git"))
        folder = home / "librdkafka"
        if self.brokers == 1:
            _fit_one_broker(folder / "tests" / "0103-transactions.c")
        built(["./configure", "--disable-curl"], folder)
        built([make, "-j2", "libs"], folder)
        built([make, "-j2", "-C", "tests", "build"], folder)

    def run(self, home: Path, address: str, only: str) -> Outcomes:
        folder = home / "librdkafka" / "tests"
        (folder / "test.conf").write_text(f"metadata.broker.list={address}\ntest.topic.random=true\ntest.timeout.multiplier=2\n")
        wanted = [test for test in _tests((folder / "test.c").read_text()) if only in test]
        wanted = [test for test in wanted if self.brokers > 1 or not SEVERAL.search(test)]
        numbers = sorted({test.partition("_")[0] for test in wanted})
        with ThreadPoolExecutor(AT_ONCE) as pool:
            told: Outcomes = {}
            for outcomes in pool.map(partial(_run, folder), numbers):
                told |= outcomes
        return {test: told.get(test, "failed") for test in wanted}

    def _download(self, home: Path) -> None:
        npm = tool("npm", "install Node.js, or give --checkout PATH of librdkafka")
        built([npm, "pack", "--silent", self.source], home)
        for archive in home.glob("*.tgz"):
            unpack(archive.read_bytes(), "package", home)
        if not (home / "package" / "deps" / "librdkafka" / "tests").is_dir():
            raise NotHere(f"{self.source} has no sources of librdkafka: give --checkout PATH.")
        (home / "package" / "deps" / "librdkafka").rename(home / "librdkafka")


def _fit_one_broker(program: Path) -> None:
    """Let a test make its topics with one replica: it wants three brokers, and uses none but the leaders."""
    text = program.read_text()
    program.write_text(REPLICAS.sub(r"\1 1,", text))


def _run(folder: Path, number: str) -> Outcomes:
    """Run the tests of one number; a program that crashes tells of none."""
    libraries = f"{folder.parent / 'src'}:{folder.parent / 'src-cpp'}"
    told = {"TESTS": number, "TEST_KAFKA_VERSION": "4.3.0", "TEST_LEVEL": "1", "LD_LIBRARY_PATH": libraries}
    path = folder / f"{number}.log"
    with path.open("wb") as said, suppress(subprocess.TimeoutExpired):
        command = ["./test-runner", "-p1", "-L"]
        subprocess.run(command, cwd=folder, env={**os.environ, **told}, stdout=said, stderr=said, timeout=LIMIT_S, check=False)
    text = COLOURS.sub("", path.read_text(errors="replace"))
    outcomes = {test: outcome.lower() for test, outcome in SUMMARY.findall(text)}
    if "failed" in outcomes.values() or not outcomes:
        print(
            f"librdkafka {number}:\n" + "\n".join(line for line in text.splitlines() if "FAIL" in line or "ASSERT" in line)[-1500:]
        )
    return outcomes


def _tests(program: str) -> Iterator[str]:
    """The tests that the program's table lists, without those that need no broker or one that is not served yet."""
    for name, flags in TEST.findall(program):
        is_local = any(flag in flags for flag in ("LOCAL", "MANUAL", "KNOWN_ISSUE"))
        if not is_local and not ELSEWHERE.search(name):
            yield name


LIBRDKAFKA = Librdkafka()

LIBRDKAFKA_CLUSTER = replace(
    LIBRDKAFKA,
    name="librdkafka-cluster",
    brokers=3,
    release=None,
    settings={**LIBRDKAFKA.settings, "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"},
)
