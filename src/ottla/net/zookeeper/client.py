"""A client of kazoo's as a broker needs it: without threads for callbacks, and with the timeout that the server agreed to.

Knows kazoo; knows no paths.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from typing import Any, NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import EXCEPTIONS, AuthFailedError, ConnectionDropped
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import SASL, Connect
from kazoo.retry import KazooRetry

from ottla.net.zookeeper.address import ZooKeeperAddress
from ottla.net.zookeeper.digest_md5 import DigestMd5
from ottla.net.zookeeper.handler import InOrder, ZooKeeperAnswer

FIRST_RETRY_S, LONGEST_RETRY_S = 0.05, 1.0
CONNECT_S = 3.0
"""A server that does not begin a session in so long is left for the next."""

MOST_STEPS = 8
"""Of a login."""


class Access(NamedTuple):
    """How a client reaches ZooKeeper. `login` makes a new login, for each connection."""

    address: ZooKeeperAddress
    timeout_ms: int
    secure: Callable[[], ssl.SSLContext] | None = None
    login: Callable[[], DigestMd5] | None = None


class AgreedConnection(ConnectionHandler):  # type: ignore[misc]  # kazoo has no types
    """Kazoo's connection, which keeps what the server said to the session's timeout, and logs in without further libraries."""

    agreed_timeout_ms = 0

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        result = super()._invoke(min(timeout, CONNECT_S), request, xid)
        if isinstance(request, Connect):
            self.agreed_timeout_ms = result[0].time_out
        return result

    def _authenticate_with_sasl(self, host: str, timeout: float) -> None:
        """Kazoo calls this on each new connection of a client that has a login."""
        login = self.sasl_options["login"]()
        challenge = b""
        for number in range(1, MOST_STEPS):
            try:
                answer = login.step(challenge)
            except (ValueError, LookupError) as error:
                raise AuthFailedError(str(error)) from error
            if answer is None:
                return
            self._submit(SASL(answer), timeout, number)
            try:
                header, buffer, offset = self._read_header(timeout)
            except ConnectionDropped as error:  # so ZooKeeper refuses a login
                raise AuthFailedError("the server closed the connection") from error
            if header.err:
                raise EXCEPTIONS[header.err]()
            challenge, _ = SASL.deserialize(buffer, offset)
        raise AuthFailedError("the server does not come to an end")


class ZooKeeperClient(KazooClient):  # type: ignore[misc]  # kazoo has no types
    """One session, or one after another. `answered` and listeners are called on kazoo's thread."""

    def __init__(self, access: Access, answered: Callable[[ZooKeeperAnswer], None]) -> None:
        seconds = access.timeout_ms / 1000
        retry = KazooRetry(max_tries=-1, delay=FIRST_RETRY_S, max_delay=LONGEST_RETRY_S)
        hosts, _, _ = str(access.address._replace(chroot="")).removeprefix("zookeeper://").partition("/")
        super().__init__(
            hosts=hosts,
            timeout=seconds,
            handler=InOrder(answered, access.secure, min(seconds, CONNECT_S)),
            connection_retry=retry,
            logger=_logger(),
        )
        options = None if access.login is None else {"login": access.login}
        self._connection = AgreedConnection(self, self._conn_retry.copy(), logger=self.logger, sasl_options=options)

    @property
    def agreed_timeout_ms(self) -> int:
        timeout_ms: int = self._connection.agreed_timeout_ms
        return timeout_ms


def _logger() -> logging.Logger:
    """Kazoo's own lines are for debugging: what people need to know of a session, the broker says."""
    logger = logging.getLogger("ottla.zookeeper")
    logger.setLevel(logging.DEBUG if logging.getLogger("ottla").isEnabledFor(logging.DEBUG) else logging.CRITICAL)
    return logger
