"""A broker's ZooKeeper session: its beginning, heartbeats and renewal, its requests, and the calls of its watches."""

from __future__ import annotations

import threading
from asyncio import AbstractEventLoop, TimerHandle
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from kazoo.client import KazooState, TransactionRequest
from kazoo.exceptions import KazooException
from kazoo.protocol.serialization import Exists
from kazoo.protocol.states import KeeperState
from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from ottla.cluster.layout import UNKNOWN_USERS
from ottla.net.zookeeper.batch import Ask, ReadMany, RequestBatch
from ottla.net.zookeeper.client import Access, ZooKeeperClient
from ottla.net.zookeeper.handler import ZooKeeperAnswer
from ottla.net.zookeeper.operations import AWAY, Operated, exception_of
from ottla.net.zookeeper.will import LastWill
from ottla.ports import Change, Post, RegistryAway, SessionEvent, Steps

Changed = Callable[[str], None]

HEARTBEATS = 6
"""The number of heartbeats within a session's timeout."""

RENEW_S = 1.0
"""The pause, in s, before a client is replaced that has given up permanently, for example after a refused login."""

SECRET = ("/config/users", "/config/brokers", "/delegation_token/tokens", UNKNOWN_USERS)
OPEN = "/consumers"


class Watcher(NamedTuple):
    """The function that kazoo calls for a watch. Two watchers with the same path and function are equal."""

    path: str
    changed: Changed
    hand_over: Callable[[Callable[[], None]], None]

    def __call__(self, event: object) -> None:
        self.hand_over(partial(self.changed, self.path))


class ZooKeeperSession:
    """The ZooKeeper sessions of this broker, one after another.

    All methods but `close` run on the broker's thread, on which `post` schedules calls. With `are_secured`, only this broker's
    login may change the entries that it creates, and read the secret ones.
    """

    def __init__(
        self, access: Access, loop: AbstractEventLoop, post: Post, *, are_secured: bool, will: LastWill | None = None
    ) -> None:
        self.told: list[Callable[[SessionEvent], None]] = []
        self.timeout_ms = access.timeout_ms
        """The session timeout in ms: the requested one, then the one to which the server agreed."""
        self.lives_until_ms = 0
        """The monotonic time, in ms, before which the session cannot expire: that of the last answered request plus the timeout."""
        self.is_login_refused = False
        self.root = access.address.chroot
        self._access = access
        self._loop = loop
        self._post = post
        self._are_secured = are_secured
        self._will = will
        self._heard: deque[ZooKeeperAnswer | Callable[[], None]] = deque()
        self._is_posted = False
        self._is_closed = threading.Event()
        self._quitting = threading.Lock()
        self._quitted: ZooKeeperClient | None = None
        self._has_session = False
        self._is_reached = False
        self._next_beat: TimerHandle | None = None
        self.client = self._make_client()

    def start(self) -> None:
        """Begin to connect. The callbacks of `on_session` report the result."""
        self.client.start_async()

    def close(self) -> None:
        """End the session. This blocks until the server answers. Any thread may call this."""
        self._is_closed.set()
        self._is_reached = False
        self.lives_until_ms = 0
        self._quit(self.client)
        if self._will is not None:
            self._will.revoke()

    def abandon(self) -> None:
        """Give up before a session has begun. This does not wait for the server."""
        self._is_closed.set()
        threading.Thread(target=self.close, name="ottla-zookeeper", daemon=True).start()

    def read(self, kind: Any, path: str, changed: Changed | None = None) -> ZooKeeperAnswer:
        """Read an entry by a request of kazoo's class `kind`: GetData, GetChildren or Exists. With `changed`, set a watch."""
        watcher = None if changed is None else Watcher(path, changed, self._enqueue)
        return self.client.send(kind(self._at(path), watcher))

    @property
    def reads_many(self) -> bool:
        """Return whether the server supports `read_many`, as servers since 3.6 do."""
        return self.client.reads_many

    def read_many(self, kind: Any, paths: Sequence[str]) -> ZooKeeperAnswer:
        """Read up to `PATHS_AT_ONCE` entries as requests of kazoo's class `kind` do: GetData or GetChildren."""
        return self.client.send(ReadMany(kind.type, [self._at(path) for path in paths]))

    def _at(self, path: str) -> str:
        """Return the path of an entry on the server, which begins with the chroot."""
        return (self.root + path).rstrip("/") or "/"

    def request(self, asks: Sequence[Ask]) -> Steps[list[ZooKeeperAnswer]]:
        """Send requests, and return their answers. Raises `RegistryAway` if any request was not answered."""
        if not asks:
            return []
        if not self._is_reached:
            raise RegistryAway("the registry", "ZooKeeper is unreachable")
        answers = yield from RequestBatch(asks).steps()
        for answer in answers:
            if isinstance(answer.error, AWAY):
                raise exception_of("the registry", answer.error)
        return answers

    def transact(self, wanted: Sequence[Operated]) -> ZooKeeperAnswer:
        transaction = self.client.transaction()
        for kind, path, of, value, version in wanted:
            at = self.root + path
            match kind:
                case "create":
                    change = of if isinstance(of, Change) else Change(path, b"")
                    transaction.create(at, value, self._rights(path), ephemeral=change.ephemeral, sequence=change.sequential)
                    unset_if_empty(transaction)
                case "set":
                    transaction.set_data(at, value, version)
                case "delete":
                    transaction.delete(at, version)
                case _:
                    transaction.check(at, version)
        answer: ZooKeeperAnswer = transaction.commit_async()
        return answer

    def make(self, at: str) -> ZooKeeperAnswer:
        """Create an entry without a value. `at` is a path on the server, in or above the chroot."""
        transaction = self.client.transaction()
        transaction.create(at, b"", self._rights(at.removeprefix(self.root)))
        unset_if_empty(transaction)
        answer: ZooKeeperAnswer = transaction.commit_async()
        return answer

    def _rights(self, path: str) -> list[ACL]:
        """Return the ACL that Kafka sets on an entry with this path."""
        if not self._are_secured or path == OPEN:
            return [*OPEN_ACL_UNSAFE]
        return [*CREATOR_ALL_ACL, *(() if path.startswith(SECRET) else READ_ACL_UNSAFE)]

    def _make_client(self) -> ZooKeeperClient:
        client = ZooKeeperClient(self._access, self._enqueue)

        def listen(state: Any) -> None:
            self._enqueue(partial(self._on_state, client, state, client.client_state, client.agreed_timeout_ms))

        client.add_listener(listen)
        return client

    def _enqueue(self, heard: ZooKeeperAnswer | Callable[[], None]) -> None:
        """Queue a call for the broker's thread, where the calls run in order. This is called on kazoo's thread."""
        self._heard.append(heard)
        if not self._is_posted and not self._is_closed.is_set():
            self._is_posted = True
            self._post(self._notify)

    def _notify(self) -> None:
        self._is_posted = False  # reset before the queue is read, so that calls queued later are posted again
        while self._heard:
            heard = self._heard.popleft()
            if not isinstance(heard, ZooKeeperAnswer):
                heard()
                continue
            if self._has_session and not self._is_closed.is_set() and not isinstance(heard.error, AWAY):
                self.lives_until_ms = max(self.lives_until_ms, heard.asked_ms + self.timeout_ms)
            if heard.told is not None:
                heard.told(heard)

    def _on_state(self, client: ZooKeeperClient, state: str, exactly: str, agreed_timeout_ms: int) -> None:
        """Handle a state change of kazoo's client: connected, disconnected, or without a session."""
        if client is not self.client or self._is_closed.is_set():
            return
        if state == KazooState.CONNECTED:
            self.timeout_ms = agreed_timeout_ms
            if self._will is not None and client.client_id is not None:
                self._will.write(client.client_id, agreed_timeout_ms)
            self._beat()
            return
        was_reached, self._is_reached = self._is_reached, False
        if self._next_beat is not None:
            self._next_beat.cancel()
        if state == KazooState.SUSPENDED:
            if was_reached:
                self._announce(SessionEvent.AWAY)
            return
        self.lives_until_ms = 0
        self._has_session = False
        self.is_login_refused = exactly == KeeperState.AUTH_FAILED
        if exactly in (KeeperState.AUTH_FAILED, KeeperState.CLOSED):
            threading.Thread(target=self._end, args=(client,), name="ottla-zookeeper", daemon=True).start()
        self._announce(SessionEvent.ENDED)

    def _announce(self, event: SessionEvent) -> None:
        for told in self.told:
            told(event)

    def _beat(self) -> None:
        """Send a heartbeat request periodically. Each answer proves that the session lives for at least another timeout."""
        if not self._is_closed.is_set():
            if self._will is not None:
                self._will.restart()
            self.read(Exists, "").told = self._beaten
            self._next_beat = self._loop.call_later(self.timeout_ms / HEARTBEATS / 1000, self._beat)

    def _beaten(self, answer: ZooKeeperAnswer) -> None:
        """Handle the first answer on a connection, which proves that the server accepted the login.

        Kazoo reports a connection before the login.
        """
        if answer.error is not None or self._is_reached:
            return
        self._is_reached = True
        event = SessionEvent.BACK if self._has_session else SessionEvent.BEGUN
        self._has_session = True
        self.lives_until_ms = max(self.lives_until_ms, answer.asked_ms + self.timeout_ms)
        self._announce(event)

    def _end(self, client: ZooKeeperClient) -> None:
        """Replace a client that has given up. This runs on its own thread, because ending a client takes time."""
        self._quit(client)
        if not self._is_closed.wait(RENEW_S):
            self._post(self._begin_anew)

    def _quit(self, client: ZooKeeperClient) -> None:
        """End a client, unless this was done before. If the server does not answer, the session ends after its timeout."""
        with self._quitting:
            if client is not self._quitted:
                self._quitted = client
                with suppress(KazooException, OSError):
                    client.stop()
                    client.close()

    def _begin_anew(self) -> None:
        self.client = self._make_client()
        self.client.start_async()


def unset_if_empty(transaction: TransactionRequest) -> None:
    """Remove the value of the transaction's last operation if it is empty, because Kafka exits at an empty JSON value."""
    last = transaction.operations[-1]
    if not last.data:
        transaction.operations[-1] = last._replace(data=None)
