"""A network of its own for each broker of a cluster, whose cables are pulled out: packets are lost, in one direction or both.

A namespace of the kernel for each, all on one bridge with this host, where clients and the registry are. A way is cut by a wrong
address of the other's network card: the kernel sends again, backs off and gives up, as it does where a switch is broken.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final, Self

from ottla.testing.port_forwarding import REGISTRY

NOBODYS_CARD: Final = "02:00:00:00:00:00"
CLONE_NEWNET: Final = 0x40000000
HERE, REGISTRYS = 254, 253
"""The last numbers of this host's addresses: that at which brokers reach clients, and the registry's."""


class NoNamespaces(Exception):
    """The machine, or the user, lets none be made; the text says why."""


class Namespaces:
    """All ways of a cluster. A context manager: entering makes the bridge, leaving takes all away. Entering raises `NoNamespaces`.

    The registry has to listen at all addresses of this host.
    """

    def __init__(self) -> None:
        number = os.getpid()
        self._name = f"ottla{number}"
        self._net = f"10.{192 + (number >> 8) % 64}.{number % 256}"
        self._nodes: set[int] = set()
        self._stack = ExitStack()
        self._library = ctypes.CDLL(None, use_errno=True)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            _ip("link", "add", self._name, "type", "bridge")
            stack.callback(_ip, "link", "del", self._name)
            for last in (HERE, REGISTRYS):
                _ip("address", "add", f"{self._net}.{last}/24", "dev", self._name)
            _ip("link", "set", self._name, "up")
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def host(self, node_id: int) -> str:
        """A broker's own address in its own namespace."""
        if node_id == REGISTRY:
            return f"{self._net}.{REGISTRYS}"
        if node_id not in self._nodes:
            self._make(node_id)
        return f"{self._net}.{node_id}"

    def _make(self, node_id: int) -> None:
        """A namespace whose network card has a cable to the bridge."""
        self._nodes.add(node_id)
        name, cable = self._namespace(node_id), f"{self._name}-{node_id}"
        _ip("netns", "add", name)
        self._stack.callback(_ip, "netns", "del", name)
        _ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", name)
        self._stack.callback(_ip, "link", "del", cable)
        _ip("link", "set", cable, "master", self._name, "up")
        _ip("-n", name, "address", "add", f"{self._net}.{node_id}/24", "dev", "eth0")
        for card in ("lo", "eth0"):
            _ip("-n", name, "link", "set", card, "up")

    def _namespace(self, node_id: int) -> str:
        return f"{self._name}-{node_id}"

    def prepare(self, node_id: int) -> Callable[[], None]:
        """Moves a process into a broker's namespace."""
        self.host(node_id)
        path, setns = f"/var/run/netns/{self._namespace(node_id)}", self._library.setns

        def enter() -> None:
            space = os.open(path, os.O_RDONLY)
            if setns(space, CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), path)
            os.close(space)

        return enter

    def lead(self, target: int, host: str, port: int, *, source: int | None = None) -> int:
        """Every port leads to itself."""
        return port

    def cut(self, source: int, target: int) -> None:
        """Nothing that `source` sends arrives at `target`."""
        self._change(source, target, ["neighbour", "replace"], ["lladdr", NOBODYS_CARD, "nud", "permanent"], ["rule", "add"])

    def mend(self, source: int, target: int) -> None:
        """Let everything through again."""
        self._change(source, target, ["neighbour", "del"], [], ["rule", "del"])

    def _change(self, source: int, target: int, card: list[str], as_what: list[str], rule: list[str]) -> None:
        """The registry shares its card with clients, so that what it sends is dropped by its address."""
        if source == REGISTRY:
            _ip(*rule, "from", self.host(REGISTRY), "to", self.host(target), "blackhole")
        else:
            _ip("-n", self._namespace(source), *card, self.host(target), *as_what, "dev", "eth0")


def why_not() -> str:
    """What stands against namespaces here; empty if nothing does."""
    try:
        with Namespaces() as spaces:
            spaces.host(1)
    except NoNamespaces as reason:
        return str(reason)
    return ""


def _ip(*words: str) -> None:
    """Raises `NoNamespaces`."""
    try:
        subprocess.run(["ip", *words], check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise NoNamespaces("the command ip is not there: install iproute2") from None
    except subprocess.CalledProcessError as refused:
        raise NoNamespaces(f"ip {' '.join(words)}: {refused.stderr.strip()}") from None
