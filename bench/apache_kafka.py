"""A real Apache Kafka on one node, to measure against and to prove expectations with.

Needs Java 17 or newer; the jars come from Maven Central through mvn, once, into a cache that other tools may have filled already.
Knows nothing of Ottla.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

from ottla.testing.cluster import free_port as free_port

VERSION = "4.3.0"
START_S = 240
"""On a machine that has much else to do."""
JVM_OPTIONS = ("-Xms1G", "-Xmx1G", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")

POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>ottla.bench</groupId><artifactId>apache-kafka</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{version}</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{version}</version></dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
</dependencies></project>
"""


class Unavailable(Exception):
    """Apache Kafka cannot be had here; the sentence says what is missing."""


def cache_dir() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


@cache
def _major(program: str) -> str:
    """What this Java calls its version, up to the first dot. Asking starts a Java machine: once in each process."""
    said = subprocess.run([program, "-version"], capture_output=True, text=True, check=False).stderr
    return said.partition('"')[2].split(".")[0].split('"')[0]


def java() -> str:
    """The path of a Java 17 or newer. Raises `Unavailable`."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if not found:
        raise Unavailable("java is not installed")
    major = _major(found)
    if not major.isdigit() or int(major) < 17:
        raise Unavailable(f"Java 17 or newer is needed, but {found} is {major or 'broken'}")
    return found


def class_path(version: str = VERSION) -> str:
    """The class path of the server and of its tools, fetched on first use. Raises `Unavailable`."""
    lib = cache_dir() / "apache-kafka" / version
    if not (lib / ".complete").exists():
        _fetch_jars(lib, version)
    return f"{lib}/*"


def _fetch_jars(lib: Path, version: str) -> None:
    mvn = shutil.which("mvn")
    if not mvn:
        raise Unavailable("mvn is not installed, and Apache Kafka's jars are not in the cache")
    lib.mkdir(parents=True, exist_ok=True)
    (lib / "pom.xml").write_text(POM.format(version=version))
    copy = [mvn, "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={lib}"]
    done = subprocess.run(copy, cwd=lib, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"mvn could not fetch Apache Kafka's jars: {(done.stdout + done.stderr).strip()[:300]}")
    (lib / ".complete").touch()


def answers(host: str, port: int) -> bool:
    """Whether an ApiVersions request gets any answer."""
    try:
        with socket.create_connection((host, port), timeout=5) as connection:
            connection.sendall(b"\x00\x00\x00\x0a\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff")
            return len(connection.recv(4)) > 0
    except OSError:
        return False


class ApacheKafka:
    """A broker and controller in one JVM. A context manager: entering starts it with empty data, leaving removes it.

    `prepare` is called in its process before Java is.
    """

    def __init__(
        self,
        home: Path | str | None = None,
        settings: Mapping[str, object] | None = None,
        *,
        prepare: Callable[[], None] | None = None,
        options: Sequence[str] = JVM_OPTIONS,
        cluster_id: str = "",
    ) -> None:
        """Create a broker, not started yet. Without a `cluster_id` the cluster has one of its own."""
        self._options, self._cluster_id = options, cluster_id
        self.java, self.class_path = java(), class_path()
        self.home = Path(home) if home else Path(tempfile.mkdtemp(prefix="apache-kafka-"))
        self.host, self.port, self.controller_port = "127.0.0.1", free_port(), free_port()
        self.settings = dict(settings or {})
        self.started_in_s = 0.0
        self._prepare = prepare
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("Apache Kafka is not running")
        return self._process.pid

    @property
    def log(self) -> str:
        path = self.home / "kafka.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def configuration(self) -> dict[str, object]:
        return {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@{self.host}:{self.controller_port}",
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://{self.host}:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": self.home / "data",
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            **self.settings,
        }

    def _tool(self, *arguments: str) -> str:
        done = subprocess.run([self.java, "-cp", self.class_path, *arguments], capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unavailable(f"{arguments[0]} failed: {done.stderr.strip()[-300:]}")
        return done.stdout

    def format(self) -> None:
        """Make the data directory; once, before the first start."""
        self.home.mkdir(parents=True, exist_ok=True)
        properties = self.home / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in self.configuration().items()))
        if not (self.home / "data").exists():
            identity = self._cluster_id or self._tool("kafka.tools.StorageTool", "random-uuid").split()[-1]
            self._tool("kafka.tools.StorageTool", "format", "-t", identity, "-c", str(properties))

    def start(self) -> Self:
        """Return once it answers; `started_in_s` says how long that took from the start of its process. Raises `Unavailable`."""
        self.format()
        command = [self.java, *self._options, "-cp", self.class_path, "kafka.Kafka", str(self.home / "server.properties")]
        began = time.monotonic()
        with (self.home / "kafka.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=self._prepare)
        while not answers(self.host, self.port):
            if self._process.poll() is not None or time.monotonic() - began > START_S:
                self.kill()
                raise Unavailable(f"Apache Kafka did not start; its log ends with: {self.log[-1000:]}")
            time.sleep(0.02)
        self.started_in_s = time.monotonic() - began
        return self

    def stop(self, timeout_s: float = 20.0) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self._process.kill()
            self.kill()

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def restart(self, *, kill: bool = False) -> Self:
        if kill:
            self.kill()
        else:
            self.stop()
        return self.start()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()
        shutil.rmtree(self.home, ignore_errors=True)
