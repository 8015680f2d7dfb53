"""A real Apache ZooKeeper to test against: one process over a directory that survives being killed.

The jars come from Maven Central through mvn, once, into the user's cache. Tests that need one are skipped without Java.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from bench.apache_kafka import Unavailable, free_port, java
from tests.support.jars import fetch_jars
from tests.support.java import LIGHT

ZOOKEEPER = "3.8.4"
JARS = [
    ("io.dropwizard.metrics", "metrics-core", "4.1.12.1"),
    ("org.xerial.snappy", "snappy-java", "1.1.10.5"),
    ("org.slf4j", "slf4j-simple", "1.7.36"),
]
OTHER_LOGS = ("logback", "slf4j-log4j12")
"""They would log all there is, or nothing."""
START_S = 240
SERVER = "org.apache.zookeeper.server.ZooKeeperServerMain"
TICK_MS = 200
"""Sessions of two ticks and more can be asked for: tests do not wait for those of a real cluster."""


class ZooKeeper:
    """One server over `home`; entering starts it, leaving kills it. Raises `Unavailable`.

    `properties` are Java's own (`java.security.auth.login.config`), `settings` go into zoo.cfg.
    """

    def __init__(
        self,
        home: Path,
        settings: Mapping[str, object] | None = None,
        properties: Mapping[str, object] | None = None,
        release: str = ZOOKEEPER,
    ) -> None:
        self.home = home
        self.port = free_port()
        self._settings = dict(settings or {})
        self._command = [java(), *LIGHT, *(f"-D{name}={value}" for name, value in (properties or {}).items())]
        library = Path(fetch_jars(f"apache-zookeeper/{release}", [("org.apache.zookeeper", "zookeeper", release), *JARS])).parent
        wanted = [str(jar) for jar in library.glob("*.jar") if not jar.name.startswith(OTHER_LOGS)]
        self._command += ["-cp", ":".join(wanted)]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """HOST:PORT."""
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return (self.home / "log").read_text(errors="replace")

    def configuration(self) -> dict[str, object]:
        return {
            "tickTime": TICK_MS,
            "dataDir": self.home / "data",
            "clientPort": self.port,
            "clientPortAddress": "127.0.0.1",
            "admin.enableServer": "false",
            "maxClientCnxns": 0,
            "4lw.commands.whitelist": "*",
            **self._settings,
        }

    def start(self, *, serves: bool = True) -> Self:
        """Return once it serves, or if it is not to, once it says so. What it kept in an earlier life is there."""
        self.home.mkdir(parents=True, exist_ok=True)
        config = self.home / "zoo.cfg"
        config.write_text("".join(f"{name}={value}\n" for name, value in self.configuration().items()))
        is_one_of_many = any(name.startswith("server.") for name in self._settings)
        main = ["org.apache.zookeeper.server.quorum.QuorumPeerMain" if is_one_of_many else SERVER, str(config)]
        with (self.home / "log").open("ab") as out:
            self._process = subprocess.Popen([*self._command, *main], stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        until = time.monotonic() + START_S
        while ("Mode: " if serves else "not currently serving") not in self.ask("srvr"):
            if self._process.poll() is not None or time.monotonic() > until:
                self.kill()
                raise Unavailable(f"ZooKeeper did not start; it said: {self.log[-1000:]}")
            time.sleep(0.02)
        return self

    def ask(self, word: str) -> str:
        """The answer to a word of four letters (ruok, cons, mntr); empty while nobody answers."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
                connection.sendall(word.encode())
                return b"".join(iter(lambda: connection.recv(65536), b"")).decode(errors="replace")
        except OSError:
            return ""

    def pause(self) -> None:
        """Nobody is answered, and no session expires, until `go_on`."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        assert self._process is not None, "it runs"
        self._process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL; what it kept stays."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()


@contextlib.contextmanager
def started(
    home: Path,
    settings: Mapping[str, object] | None = None,
    properties: Mapping[str, object] | None = None,
    *,
    serves: bool = True,
    release: str = ZOOKEEPER,
) -> Iterator[ZooKeeper]:
    """A server while the block runs. Skips the test where there can be none."""
    try:
        server = ZooKeeper(home, settings, properties, release).start(serves=serves)
    except Unavailable as missing:
        pytest.skip(f"no Apache ZooKeeper: {missing}")
    try:
        yield server
    finally:
        server.kill()
