"""The brokers of a suite that wants several: a cluster of ours, over a file that they share.

Suites that stop and start brokers do it through `docker compose`: a program of that name does it here, found by `PATH` first.
"""

from __future__ import annotations

import socketserver
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from ottla.testing import Cluster
from ottla.testing.cluster import ClusterMember, ClusterSeat, ottla_member
from tests.suites.suite import Suite

STAND_IN = """#!{python}
import socket, sys
with socket.socket(socket.AF_UNIX) as way:
    way.connect("{socket}")
    way.sendall(" ".join(sys.argv[1:]).encode() + b"\\n")
    sys.exit(way.makefile().read() or 0)
"""


class SuiteCluster:
    """A cluster as a peer: one address, and one log.

    Brokers have the racks RACK1, RACK2 …, and say that clients reach them at their suite's ports, if it has any.
    """

    def __init__(self, suite: Suite, home: Path) -> None:
        self._suite = suite
        members = dict.fromkeys(range(1, suite.brokers + 1), self._member)
        self._cluster = Cluster(brokers=suite.brokers, settings=suite.settings, home=home, members=members)
        self._orders = Orders(home, self)

    def __enter__(self) -> Self:
        self._cluster.__enter__()
        self._orders.begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._orders.end()
        self._cluster.__exit__(kind, error, trace)

    def obey(self, order: list[str]) -> None:
        """Do what `docker compose` would: stop or start the broker called kafka-N."""
        match order:
            case ["compose", "stop", name]:
                self._cluster.stop(int(name.removeprefix("kafka-")))
            case ["compose", "start", name]:
                self._cluster.start(int(name.removeprefix("kafka-")))
            case _:
                raise ValueError(f"docker {' '.join(order)} is not stood in for here")

    @property
    def address(self) -> str:
        """HOST:PORT of all brokers."""
        return self._cluster.address

    @property
    def log(self) -> str:
        """What all of them have logged."""
        return "\n".join(member.log for member in self._cluster.members.values())

    def _member(self, seat: ClusterSeat) -> ClusterMember:
        settings = {"broker.rack": f"RACK{seat.node_id}", **seat.settings}
        if self._suite.ports:
            told = seat._replace(port=self._suite.ports[seat.node_id - 1]).listeners()
            settings["advertised.listeners"] = told["advertised.listeners"]
        return ottla_member(seat._replace(settings=settings))


class Orders:
    """Takes a stand-in's orders, one after another, on a thread of its own."""

    def __init__(self, home: Path, cluster: SuiteCluster) -> None:
        self._program = stand_in(home)
        self._way = home / "orders"
        self._cluster = cluster
        self._server: socketserver.UnixStreamServer | None = None

    def begin(self) -> None:
        """Put the program where it is found, and listen to it."""
        obey = self._cluster.obey

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                try:
                    obey(self.rfile.readline().decode().split())
                except Exception as failure:  # whatever it is, whoever gave the order is told
                    self.wfile.write(f"{failure}\n".encode())

        self._program.parent.mkdir(exist_ok=True)
        self._program.write_text(STAND_IN.format(python=sys.executable, socket=self._way))
        self._program.chmod(0o755)
        self._server = socketserver.UnixStreamServer(str(self._way), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def end(self) -> None:
        """Listen no longer."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


def stand_in(home: Path) -> Path:
    """Where the program lies that stands in for Docker, if there is one."""
    return home / "stand-in" / "docker"
