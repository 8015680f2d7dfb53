"""The Java and Scala clients of old releases: fetched, compiled once for each release, and run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from bench.apache_kafka import Unavailable, java
from tests.support.jars import compile_java, fetch_jars
from tests.support.old_kafka import JVM

SOURCES = Path(__file__).with_name("java")
CLIENTS = {
    "0.8.2.2": ("OldProducer", "ScalaClients"),
    "0.9.0.1": ("OldProducer", "OldConsumer"),
    "0.10.2.2": ("OldProducer", "OldConsumer"),
    "0.11.0.3": ("OldProducer", "OldConsumer"),
    "1.1.1": ("OldProducer", "OldConsumer"),
    "2.8.2": ("OldProducer", "OldConsumer"),
}
"""The programs that each release's libraries can be compiled with: the first that had a consumer of the new kind is 0.9."""
SCALA = frozenset({"0.8.2.2"})


class JavaClients:
    """The programs of one release. Raises `Unavailable`."""

    def __init__(self, release: str, home: Path) -> None:
        artifact = "kafka_2.11" if release in SCALA else "kafka-clients"
        self.java = java()
        logging = [] if release in SCALA else [("org.slf4j", "slf4j-nop", "1.7.36")]
        jars = fetch_jars(f"apache-kafka-old/{artifact}-{release}", [("org.apache.kafka", artifact, release), *logging])
        sources = [SOURCES / f"{name}.java" for name in CLIENTS[release]]
        self.class_path = compile_java(sources, jars, home, release=8)

    def run(self, program: str, *arguments: str) -> list[list[str]]:
        """The fields of each line that it printed. Fails the test when the program fails, and shows what it said."""
        command = [self.java, *JVM, "-cp", self.class_path, program, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=90)
        assert done.returncode == 0, f"{program} {arguments} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        return [line.split("\t") for line in done.stdout.splitlines() if not line.startswith("log4j:")]


def java_clients(release: str, home: Path) -> JavaClients:
    """The programs of a release; skips the test where they cannot be had."""
    try:
        return JavaClients(release, home)
    except Unavailable as missing:
        pytest.skip(f"no Java clients of {release}: {missing}")
