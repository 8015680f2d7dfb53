"""The address of a ZooKeeper: `zookeeper://h1:2181,h2:2181/chroot` on the command line. Kafka's settings omit the scheme."""

from __future__ import annotations

import asyncio
import os
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


LOOK_S = 2.0
QUESTION = b"srvr"
"""A command that every ZooKeeper answers unless its operator has disabled the command."""


async def why(address: ZooKeeperAddress, timeout_ms: int, *, has_tls: bool, named_by: str = "--registry") -> str:
    """Return a sentence for users about why no session began within `timeout_ms`.

    `named_by` is the setting that contains the address.
    """
    looks = await asyncio.gather(*(_probe(host, port, has_tls=has_tls) for host, port in address.hosts))
    told = "; ".join(f"{host}:{port} {look}" for (host, port), look in zip(address.hosts, looks, strict=True))
    return f"No session with ZooKeeper began within {timeout_ms} ms: {told}. Start ZooKeeper, or correct {named_by}."


async def _probe(host: str, port: int, *, has_tls: bool) -> str:
    try:
        reader, writer = await asyncio.wait_for(asyncio.open_connection(host, port), LOOK_S)
    except TimeoutError:
        return "does not answer"
    except OSError as error:
        code = error.errno or 0
        return f"is unreachable ({os.strerror(code) if code > 0 else error.strerror or error})"
    try:
        if has_tls:
            return "has no TLS that this broker trusts, or is not a ZooKeeper"
        writer.write(QUESTION)
        said = await asyncio.wait_for(reader.read(4096), LOOK_S)
    except (OSError, TimeoutError):
        return "is not a ZooKeeper"
    finally:
        writer.close()
    if b"not currently serving requests" in said:
        return "serves no clients: a majority of its ensemble must run"
    if b"Zookeeper version" in said or b"not in the whitelist" in said:
        return "is a ZooKeeper that creates no session: see its log"
    return "is not a ZooKeeper"
