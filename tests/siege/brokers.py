"""The brokers that are besieged, as processes seen from outside. Knows how each is started and stopped, and where its log is."""

from __future__ import annotations

import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import psutil

from bench.apache_kafka import VERSION, ApacheKafka, free_port
from ottla.testing import BrokerProcess
from tests.siege.attack import Attack
from tests.support.secured import HOST, SCRAM_USERS, Certificates, plain_users

STOP_S = 20.0
SECOND = "ATTACKED"
"""The name of the listener that is attacked, where it is one of its own."""


def secured(security: str, home: Path) -> dict[str, object]:
    """The settings of a listener of this security protocol."""
    made: dict[str, object] = {}
    if security.endswith("SSL"):
        home.mkdir(parents=True, exist_ok=True)
        made |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": Certificates(home).server}
    if security.startswith("SASL"):
        prefix = f"listener.name.{SECOND.lower()}"
        made[f"{prefix}.sasl.enabled.mechanisms"] = "PLAIN,SCRAM-SHA-512"
        made[f"{prefix}.plain.sasl.jaas.config"] = plain_users({"alice": "secret"})
        made[f"{prefix}.scram-sha-512.sasl.jaas.config"] = SCRAM_USERS
    return made


class Besieged(Protocol):
    """One broker at a time, with empty data at each `start`."""

    name: str
    starts_quickly: bool
    """Whether each attack may have a broker of its own: no warm-up is lost with it."""

    def start(self, attack: Attack) -> None: ...
    def stop(self) -> float | None:
        """Seconds from SIGTERM to a good end; None if it had to be killed, or ended badly."""
        ...

    @property
    def address(self) -> str: ...
    @property
    def attacked(self) -> str:
        """Where the attack is made: the same, unless it is one on a listener of its own."""
        ...

    @property
    def pid(self) -> int: ...
    @property
    def log(self) -> bytes: ...
    @property
    def is_running(self) -> bool: ...


def limiting(open_files: tuple[int, int] | None) -> Callable[[], None] | None:
    """What a new process calls to limit its open files."""
    return partial(resource.setrlimit, resource.RLIMIT_NOFILE, open_files) if open_files else None


class BrokerOfOurs(Protocol):
    """A broker in a process that this one started."""

    @property
    def address(self) -> str: ...
    @property
    def pid(self) -> int: ...


B = TypeVar("B", bound=BrokerOfOurs)


class Started(Generic[B]):
    """What is the same of every broker that is started here."""

    def __init__(self) -> None:
        self._broker: B | None = None
        self._second = ""

    @property
    def attacked(self) -> str:
        return self._second or self.address

    @property
    def _started(self) -> B:
        if self._broker is None:
            raise RuntimeError("start the broker first")
        return self._broker

    @property
    def address(self) -> str:
        return self._started.address

    @property
    def pid(self) -> int:
        return self._started.pid


class BesiegedOttla(Started[BrokerProcess]):
    """`ottla serve`, with default settings unless the attack has some."""

    name = "Ottla"
    starts_quickly = True

    def __init__(self) -> None:
        super().__init__()
        self._home = Path(tempfile.mkdtemp(prefix="ottla-siege-"))
        self._count = 0

    @property
    def is_running(self) -> bool:
        return self._broker is not None and self._broker.is_running

    @property
    def log(self) -> bytes:
        path = self._started.log_path
        return path.read_bytes() if path.exists() else b""

    def start(self, attack: Attack) -> None:
        self._count += 1
        self._second = f"{HOST}:{free_port()}" if attack.security else ""
        self._broker = BrokerProcess(
            self._home / f"data-{self._count}",
            {**attack.settings, **secured(attack.security, self._home)},
            release=attack.release,
            prepare=limiting(attack.open_files),
            arguments=["--listen", f"{self._second},security={attack.security},name={SECOND}"] if self._second else [],
        )
        self._broker.start()

    def stop(self) -> float | None:
        broker, self._broker = self._started, None
        began = time.perf_counter()
        try:
            code = broker.stop(STOP_S)
        except subprocess.TimeoutExpired:
            code = -1
        took_s = time.perf_counter() - began
        shutil.rmtree(broker.data_dir, ignore_errors=True)
        return None if code else took_s


class BesiegedKafka(Started[ApacheKafka]):
    """Apache Kafka with the JVM options of `bench.apache_kafka`."""

    name = f"Apache Kafka {VERSION}"
    starts_quickly = False

    @property
    def is_running(self) -> bool:
        return self._broker is not None and psutil.pid_exists(self._broker.pid)

    @property
    def log(self) -> bytes:
        return self._started.log.encode()

    def start(self, attack: Attack) -> None:
        kafka = self._broker = ApacheKafka(settings=attack.settings, prepare=limiting(attack.open_files))
        self._second = f"{HOST}:{free_port()}" if attack.security else ""
        if self._second:
            addresses = f"PLAINTEXT://{kafka.address},{SECOND}://{self._second}"
            kafka.settings = {
                **kafka.settings,
                **secured(attack.security, kafka.home),
                "listeners": f"{addresses},CONTROLLER://{HOST}:{kafka.controller_port}",
                "advertised.listeners": addresses,
                "listener.security.protocol.map": f"CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,{SECOND}:{attack.security}",
            }
        kafka.start()

    def stop(self) -> float | None:
        kafka, self._broker = self._started, None
        kafka.kill()  # an orderly stop of thousands of partitions takes its time, and tells nothing of an attack
        shutil.rmtree(kafka.home, ignore_errors=True)
        return 0.0


class Given:
    """A broker that somebody else started: it is neither stopped nor looked into."""

    starts_quickly = False
    pid = 0
    log = b""
    is_running = True

    def __init__(self, address: str) -> None:
        host = address.rpartition(":")[0]
        if host not in ("127.0.0.1", "localhost"):
            raise ValueError(f"{host} may be another machine: a siege is for 127.0.0.1 alone")
        self.name = self.address = self.attacked = address

    def start(self, attack: Attack) -> None:
        return

    def stop(self) -> float | None:
        return 0.0
