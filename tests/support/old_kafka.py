"""Apache Kafka of long ago, with the ZooKeeper it needs, to ask what its clients are used to.

The jars come from Maven Central through mvn, once, into the user's cache. They run on Java 17; 0.10 and 0.11 want an extra jar for
what Java has since dropped.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from bench.apache_kafka import START_S, Unavailable, free_port, java
from tests.support.jars import fetch_jars

JVM = (
    "-Xmx256m",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
)
SESSION_MS, TICK_MS = 300_000, "20000"
"""A busy machine can hold a broker up for longer than its session of 6 s; ZooKeeper allows sessions of 2 to 20 ticks."""
LOGGING = """log4j.rootLogger=WARN, C
log4j.appender.C=org.apache.log4j.ConsoleAppender
log4j.appender.C.layout=org.apache.log4j.PatternLayout
log4j.appender.C.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


@dataclass(frozen=True, slots=True)
class Release:
    """One release: its full version, and the Scala that it was built for."""

    version: str
    scala: str = "2.11"
    needs_jaxb: bool = False
    needs_log4j: bool = False

    def jars(self) -> list[tuple[str, str, str]]:
        """(group, artifact, version) of each jar to begin from."""
        named = [("org.apache.kafka", f"kafka_{self.scala}", self.version)]
        named += [("javax.xml.bind", "jaxb-api", "2.3.1")] if self.needs_jaxb else []
        return [*named, ("org.slf4j", "slf4j-log4j12", "1.7.25")] if self.needs_log4j else named


RELEASES: Mapping[str, Release] = {
    "0.8.2": Release("0.8.2.2"),
    "0.9.0": Release("0.9.0.1"),
    "0.10.2": Release("0.10.2.2", needs_jaxb=True),
    "0.11.0": Release("0.11.0.3", needs_jaxb=True),
    "2.8": Release("2.8.2", "2.13"),
}
"""The releases that tests start, by the name under which Ottla emulates them."""
LAST_WITH_ZOOKEEPER = "3.9"
STARTABLE: Mapping[str, Release] = {
    **RELEASES,
    "1.1": Release("1.1.1", needs_log4j=True),
    LAST_WITH_ZOOKEEPER: Release("3.9.1", "2.13"),
}
"""The same, and those that only tests of clients and of commands start."""


class OldKafka:
    """A broker of an old release and its ZooKeeper, over empty directories below `home`; raises `Unavailable`."""

    def __init__(self, release: str, home: Path, settings: Mapping[str, object] | None = None) -> None:
        self.release, self.home, self.settings = release, home, dict(settings or {})
        self.java = java()
        self.class_path = fetch_jars(f"apache-kafka-old/kafka-{STARTABLE[release].version}", STARTABLE[release].jars())
        self.port, self.zookeeper_port = free_port(), free_port()
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        return self._processes[-1].pid

    @property
    def log(self) -> str:
        return "".join(path.read_text(errors="replace") for path in sorted(self.home.glob("*.out")))

    def configuration(self) -> dict[str, object]:
        return {
            "broker.id": 0,
            "port": self.port,
            "host.name": "127.0.0.1",
            "advertised.host.name": "127.0.0.1",
            "listeners": f"PLAINTEXT://{self.address}",
            "log.dirs": self.home / "logs",
            "zookeeper.connect": f"127.0.0.1:{self.zookeeper_port}",
            "zookeeper.session.timeout.ms": SESSION_MS,
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 4,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 4,
            "controlled.shutdown.enable": "false",
            "group.initial.rebalance.delay.ms": 0,
            **self.settings,
        }

    def start(self) -> Self:
        """Return once the broker knows that it is one; bounded by `START_S`. Raises `Unavailable`."""
        self.home.mkdir(parents=True, exist_ok=True)
        (self.home / "log4j.properties").write_text(LOGGING)
        lines = (f"{name}={value}\n" for name, value in self.configuration().items())
        (self.home / "server.properties").write_text("".join(lines))
        keeper = (
            "org.apache.zookeeper.server.ZooKeeperServerMain",
            str(self.zookeeper_port),
            str(self.home / "zookeeper"),
            TICK_MS,
        )
        self._run("zookeeper", *keeper)
        self._wait_for(self.zookeeper_port, _listens)
        return self._start_broker()

    def _start_broker(self) -> Self:
        self._run("kafka", "kafka.Kafka", str(self.home / "server.properties"))
        self._wait_for(self.port, _knows_itself)
        return self

    def restart(self, *, kill: bool = False) -> Self:
        """Stop the broker alone, or kill it, and start it again on its data."""
        broker = self._processes.pop()
        if kill:
            broker.kill()
        else:
            broker.terminate()
        broker.wait(60)
        if kill:
            self._end_session()
        return self._start_broker()

    def _end_session(self) -> None:
        """Remove the entries of a killed broker, which does not start while they are there, up to the timeout of its session."""
        client = KazooClient(f"127.0.0.1:{self.zookeeper_port}")
        client.start()
        try:
            for path in (f"/brokers/ids/{self.configuration()['broker.id']}", "/controller"):
                with contextlib.suppress(NoNodeError):
                    client.delete(path)
        finally:
            client.stop()
            client.close()

    def _run(self, name: str, *arguments: str) -> None:
        logging = f"-Dlog4j.configuration=file:{self.home / 'log4j.properties'}"
        command = [self.java, *JVM, logging, "-Dzookeeper.admin.enableServer=false", "-cp", self.class_path, *arguments]
        with (self.home / f"{name}.out").open("ab") as out:
            self._processes.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=self.home))

    def _wait_for(self, port: int, ready: Callable[[int], bool]) -> None:
        until = time.monotonic() + START_S
        while not ready(port):
            if self._processes[-1].poll() is not None or time.monotonic() > until:
                said = self.log[-1000:]
                self.stop()
                raise Unavailable(f"Apache Kafka {self.release} did not start; it said: {said}")
            time.sleep(0.05)

    def stop(self) -> None:
        """End both processes. What they kept is of no use to anyone, so they are killed."""
        while self._processes:
            process = self._processes.pop()
            process.kill()
            process.wait()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def _knows_itself(port: int) -> bool:
    """Whether asking for the topic `here` is answered with any broker: at first it is not, and topics cannot be made."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(b"\0\0\0\x14\0\x03\0\0\0\0\0\1\xff\xff\0\0\0\1\0\4here")
            answer = connection.recv(12)
        return len(answer) == 12 and int.from_bytes(answer[8:], "big") > 0
    except OSError:
        return False


@contextlib.contextmanager
def started(release: str, home: Path, settings: Mapping[str, object] | None = None) -> Iterator[OldKafka]:
    """A broker of `release` while the block runs. Skips the test where it cannot be had."""
    try:
        broker = OldKafka(release, home / "kafka", settings).start()
    except Unavailable as missing:
        pytest.skip(f"no Apache Kafka {release}: {missing}")
    try:
        yield broker
    finally:
        broker.stop()
