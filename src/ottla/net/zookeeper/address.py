"""The address of a ZooKeeper: `zookeeper://h1:2181,h2:2181/chroot` on the command line. Kafka's settings omit the scheme."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

from ottla.errors import SettingError

SCHEME = "zookeeper://"
PORT = 2181


class ZooKeeperAddress(NamedTuple):
    """The servers of one ensemble, and the chroot: the path below which all entries are. It is empty, or begins with "/"."""

    hosts: tuple[tuple[str, int], ...]
    chroot: str

    def __str__(self) -> str:
        hosts = ",".join(f"{f'[{host}]' if ':' in host else host}:{port}" for host, port in self.hosts)
        return f"{SCHEME}{hosts}{self.chroot}"

    @classmethod
    def parse(cls, text: str) -> ZooKeeperAddress:
        """Parse an address, with or without the scheme. Raises `SettingError`."""
        hosts, _, chroot = text.strip().removeprefix(SCHEME).partition("/")
        path = "".join(f"/{name}" for name in chroot.split("/") if name)
        try:
            found = tuple(_host(host.strip()) for host in hosts.split(","))
        except ValueError:
            raise SettingError(
                f"{text!r} is not an address of ZooKeeper: write zookeeper://HOST:PORT,HOST:PORT/PATH, such as zookeeper://zk1:2181/kafka."
            ) from None
        return cls(found, path)


def _host(text: str) -> tuple[str, int]:
    split = urlsplit(f"//{text}")
    if not split.hostname or text.endswith(":") or split.path or split.username is not None:
        raise ValueError(text)
    return split.hostname, split.port or PORT
