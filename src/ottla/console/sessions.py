"""The sessions of browsers: a cookie, a token against forged requests, and for logged-in users a cluster session of their own.

Credentials are in memory only, within the settings of a session's clients.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Iterator

from ottla.console.cluster_session import ClusterSession
from ottla.console.config import ConsoleConfig
from ottla.console.declarations import PageRefused
from ottla.errors import KafkaError

COOKIE = "ottla_console"
MOST_SESSIONS = 2_000
"""The number of sessions of each kind, with and without a login. Beyond it, the one that was unused for the longest time ends.

A program without cookies begins a session with each request, which therefore ends no login, and a login ends no begun one.
"""
LASTS_S = 12 * 3600.0
"""The time, in s, after which an unused login ends."""
LOGIN_S = 10.0
"""The time, in s, for which a login waits for the cluster."""
LOGINS_AT_ONCE = 8
"""The number of logins that are checked at the same time, so that guesses of passwords do not fill the brokers."""

log = logging.getLogger("ottla.console")


class BrowserSession:
    """One browser. `user` is the name that it logged in by, empty without a login."""

    def __init__(self, cluster: ClusterSession | None, user: str = "") -> None:
        self.key = secrets.token_urlsafe(32)
        self.csrf = secrets.token_urlsafe(32)
        self.cluster = cluster
        self.user = user
        self.notice = ""
        """The sentence about the last action, which the next page shows once."""
        self.streams = 0
        self.has_ended = False
        self.last_use_s = time.monotonic()

    def check_token(self, given: object) -> None:
        """Raise `PageRefused` unless the form came from a page of this session."""
        if not (isinstance(given, str) and hmac.compare_digest(given.encode(), self.csrf.encode())):
            raise PageRefused(403, "This form does not belong to this session: load the page again, then send it.")

    def pop_notice(self) -> str:
        """Return the sentence about the last action, and forget it."""
        notice, self.notice = self.notice, ""
        return notice


class BrowserSessions:
    """All sessions by the value of their cookie. Without logins, all browsers share one cluster session."""

    def __init__(self, config: ConsoleConfig) -> None:
        self._config = config
        self._shared = None if config.needs_login else ClusterSession(config, config.client)
        self.of_programs = None if self._shared is None else BrowserSession(self._shared)
        """The session of all programs without a cookie at a console without logins: they change nothing in it."""
        self._anonymous: OrderedDict[str, BrowserSession] = OrderedDict()
        self._users: OrderedDict[str, BrowserSession] = OrderedDict()
        self._ended: list[BrowserSession] = []
        """Sessions whose connections are still to be closed."""
        self._logins = asyncio.Semaphore(LOGINS_AT_ONCE)

    def __len__(self) -> int:
        return len(self._anonymous) + len(self._users)

    def find(self, key: str | None) -> BrowserSession | None:
        """Return the session of a cookie's value, None for an unknown or an expired one."""
        session = self._users.get(key or "") or self._anonymous.get(key or "")
        if session is None:
            return None
        if time.monotonic() - session.last_use_s > LASTS_S:
            self._drop(session)
            return None
        session.last_use_s = time.monotonic()
        self._kind_of(session).move_to_end(session.key)
        return session

    def begin(self) -> BrowserSession:
        """Begin a session of a browser that has not logged in."""
        return self._add(BrowserSession(self._shared))

    async def log_in(self, mechanism: str, name: str, password: str) -> BrowserSession:
        """Begin the session of a user whose credentials the cluster accepts. Raises `KafkaError`."""
        cluster = ClusterSession(self._config, self._config.client_of(mechanism, name, password))
        async with self._logins:
            try:
                await cluster.query(lambda admin: admin.describe_cluster(), LOGIN_S)
            except KafkaError:
                await cluster.close()
                raise
        session = self._add(BrowserSession(cluster, name or "a token"))
        log.info("%s logged in", printable(session.user))
        await self._close_ended()
        return session

    async def end(self, session: BrowserSession) -> None:
        """End a session, and close the connections of its user."""
        self._drop(session)
        await self._close_ended()

    async def tidy(self) -> None:
        """Close the connections that nobody uses, and end the sessions beyond the limits."""
        for session in [*self._anonymous.values(), *self._users.values()]:
            if time.monotonic() - session.last_use_s > LASTS_S:
                self._drop(session)
        await self._close_ended()
        for cluster in list(self._clusters()):
            if cluster.is_idle:
                await cluster.close()

    async def close(self) -> None:
        """Close all connections."""
        for cluster in list(self._clusters()):
            await cluster.end()
        self._anonymous.clear()
        self._users.clear()
        await self._close_ended()

    def _drop(self, session: BrowserSession) -> None:
        session.has_ended = True
        self._kind_of(session).pop(session.key, None)
        if session.cluster is not None and session.cluster is not self._shared:
            self._ended.append(session)

    async def _close_ended(self) -> None:
        ended, self._ended = self._ended, []
        for session in ended:
            if session.cluster is not None:
                await session.cluster.end()

    def _kind_of(self, session: BrowserSession) -> OrderedDict[str, BrowserSession]:
        return self._users if session.user else self._anonymous

    def _add(self, session: BrowserSession) -> BrowserSession:
        same_kind = self._kind_of(session)
        same_kind[session.key] = session
        while len(same_kind) > MOST_SESSIONS:
            self._drop(next(iter(same_kind.values())))
        return session

    def _clusters(self) -> Iterator[ClusterSession]:
        if self._shared is not None:
            yield self._shared
        for session in self._users.values():
            if session.cluster is not None:
                yield session.cluster


def printable(name: str) -> str:
    """Return a name for a log line. A name with unprintable characters is escaped as in Python."""
    return name if name.isprintable() else ascii(name)
