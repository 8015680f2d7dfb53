"""Networks of their own for the brokers of a cluster, which lose packets in one direction or both, and no client's."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from ottla.testing.port_forwarding import REGISTRY
from tests.support.namespaces import Namespaces, why_not

PATIENCE_S = 60
ECHO = """
import socket, sys
listener = socket.create_server((sys.argv[1], 7))
print("ready", flush=True)
for number in range(3):
    connection, _ = listener.accept()
    connection.sendall(connection.recv(100))
"""
ASK = """
import socket, sys
connection = socket.create_connection((sys.argv[1], 7), timeout=float(sys.argv[2]))
connection.sendall(b"hello")
print(connection.recv(100).decode())
"""


@pytest.fixture
def spaces() -> Iterator[Namespaces]:
    if reason := why_not():
        pytest.skip(f"no network namespaces: {reason}")
    with Namespaces() as spaces:
        yield spaces


@pytest.fixture
def echo(spaces: Namespaces) -> Iterator[str]:
    """Where broker 2 answers."""
    command = [sys.executable, "-c", ECHO, spaces.host(2)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=spaces.prepare(2)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield spaces.host(2)
        process.kill()


def heard(spaces: Namespaces, node_id: int, address: str, timeout_s: float = PATIENCE_S) -> str:
    """What a broker is answered at an address; nothing if no answer comes in time."""
    command = [sys.executable, "-c", ASK, address, str(timeout_s)]
    return subprocess.run(command, capture_output=True, text=True, preexec_fn=spaces.prepare(node_id)).stdout.strip()


@pytest.mark.parametrize("way", [(1, 2), (2, 1)])
def test_a_way_that_is_cut_loses_what_is_sent_until_it_is_mended(spaces: Namespaces, echo: str, way: tuple[int, int]) -> None:
    assert heard(spaces, 1, echo) == "hello"
    spaces.cut(*way)
    assert heard(spaces, 1, echo, timeout_s=0.5) == ""
    with socket.create_connection((echo, 7), timeout=PATIENCE_S) as client:
        client.sendall(b"a client")
        assert client.recv(100) == b"a client"
    spaces.mend(*way)
    assert heard(spaces, 1, echo) == "hello"


@pytest.mark.parametrize("way", [(1, REGISTRY), (REGISTRY, 1)])
def test_the_registry_is_cut_off_from_one_broker_alone(spaces: Namespaces, way: tuple[int, int]) -> None:
    with socket.create_server(("0.0.0.0", 0)) as registry:
        address = (spaces.host(REGISTRY), registry.getsockname()[1])
        program = f"import socket; socket.create_connection({address}, timeout=0.5); print('reached')"

        def reached(node_id: int) -> bool:
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, preexec_fn=spaces.prepare(node_id))
            return done.stdout == b"reached\n"

        assert reached(1)
        spaces.cut(*way)
        assert not reached(1)
        assert reached(2)
        spaces.mend(*way)
        assert reached(1)
