"""Apache Kafka's brokers of ZooKeeper mode as members of a cluster, beside Ottla's or alone."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Self

from bench.apache_kafka import Unavailable, answers, java
from ottla.testing.cluster import INTERNAL, ClusterMember, ClusterSeat
from tests.support.jars import LOGGING, fetch_jars

START_S = 240
STILL_THERE = "KeeperErrorCode = NodeExists"
JVM = ("-Xms128M", "-Xmx384M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
SMALL = {
    "num.network.threads": 2,
    "num.io.threads": 2,
    "log.cleaner.threads": 1,
    "broker.id.generation.enable": "false",
    "zookeeper.connection.timeout.ms": 60_000,  # else the session's: a start on a busy machine gives up after so long
}


class KafkaMember:
    """One broker of a release over a seat's directory. Raises `Unavailable`."""

    def __init__(self, seat: ClusterSeat, version: str, jvm: tuple[str, ...] = JVM) -> None:
        self.seat = seat
        config = seat.home / "server.properties"
        self._command = [java(), *jvm, "-cp", kafka_jars(version), "kafka.Kafka", str(config)]
        self._process: subprocess.Popen[bytes] | None = None

    def configuration(self) -> dict[str, object]:
        seat = self.seat
        return {
            **SMALL,
            "listeners": f"PLAINTEXT://{seat.host}:{seat.port},{INTERNAL}://{seat.host}:{seat.internal_port}",
            **seat.listeners(),
            **seat.settings,
            "broker.id": seat.node_id,
            "zookeeper.connect": seat.registry,
            "log.dirs": seat.home / "data",
        }

    @property
    def address(self) -> str:
        """HOST:PORT for clients."""
        return f"{self.seat.host}:{self.seat.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "it runs"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        path = self.seat.home / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def start(self) -> Self:
        """Return once it answers.

        The entry of its last life is there until that session ends. Kafka gives up when it finds it, and is started again.
        """
        self.seat.home.mkdir(parents=True, exist_ok=True)
        lines = (f"{name}={value}\n" for name, value in self.configuration().items())
        (self.seat.home / "server.properties").write_text("".join(lines))
        until = time.monotonic() + START_S
        while not self._started(until):
            pass
        return self

    def _started(self, until: float) -> bool:
        """Whether it answers; not if its entry is there. Raises `Unavailable`."""
        before = len(self.log)
        with (self.seat.home / "log").open("ab") as out:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, preexec_fn=self.seat.prepare
            )
        while not answers(self.seat.host, self.seat.port):
            late = time.monotonic() > until
            if not self.is_running and not late and STILL_THERE in self.log[before:]:
                return False
            if not self.is_running or late:
                self.kill()
                raise Unavailable(f"Apache Kafka did not start; it said: {self.log[-2000:]}")
            time.sleep(0.1)
        return True

    def stop(self, timeout_s: float = 60.0) -> int:
        """SIGTERM: a controlled shutdown. Returns the exit code, Java's 143."""
        if self._process is None:
            return 0
        self._process.terminate()
        try:
            return self._process.wait(timeout_s)
        finally:
            self.kill()

    def kill(self) -> None:
        """SIGKILL."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def pause(self) -> None:
        """SIGSTOP."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)


def kafka_jars(version: str) -> str:
    """The class path of a release. Raises `Unavailable`."""
    return fetch_jars(f"apache-kafka/zk-{version}", [("org.apache.kafka", "kafka_2.13", version), LOGGING])


def kafka_member(version: str) -> Callable[[ClusterSeat], ClusterMember]:
    """What makes brokers of a release."""
    return lambda seat: KafkaMember(seat, version)
