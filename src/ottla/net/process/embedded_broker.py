"""A whole broker inside the calling process, on its own thread: for tests, notebooks and small programs."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ottla.broker.releases import TODAY, UnknownRelease, find
from ottla.broker.settings import BrokerSettings
from ottla.client.arguments import several, short_repr
from ottla.errors import SettingError
from ottla.net.client.background import BackgroundLoop
from ottla.net.process.embedded_security import Gatekeeper
from ottla.net.server.listeners import PLAINTEXT, Listen
from ottla.net.startup.start import Running, start

if TYPE_CHECKING:
    from typing import Unpack

    from ottla.coord.consumer.assign import Assignor
    from ottla.net.process.broker_keywords import BrokerKeywords
    from ottla.net.server.metrics_source import MetricsSource

MOST_PORT = 65_535

EMBEDDED = {"group.initial.rebalance.delay.ms": "0", "ottla.journal.bytes": str(1 << 20)}
"""The settings of an embedded broker that differ from those of a served one: tests wait for nothing, and write few zeros."""

IN_CLUSTER = {"controlled.shutdown.retry.backoff.ms": "200"}
"""The settings of an embedded broker in a cluster, which must not retry for long if it is the last one to stop."""


class Broker:
    """A Kafka broker in this process, started by `with`: by default on a free port and in a temporary directory.

        with ottla.Broker() as broker:
            producer = SomeKafkaClient(broker.address)

    A `data_dir` that the caller gives is kept after the broker's end. `release`, such as "0.9.0", makes the broker behave as that
    release of Apache Kafka, with its versions, errors and defaults. `assignors` of consumer groups are names of built-in assignors,
    or objects of yours (`coord.consumer.assign`). Further keyword arguments are Kafka's broker settings with underscores
    (`num_partitions=3`). Raises `SettingError` for a setting, a release or an assignor that is unknown or refused.

    With `users` (passwords by name) clients log in by PLAIN. With `tls` they use TLS, with a certificate made for this broker alone
    (`pip install 'ottla[testing]'`); `ca_file` is its authority's certificate. `client_settings` returns the matching client
    settings:

        with ottla.Broker(users={"alice": "secret"}, tls=True) as broker, ottla.Producer(**broker.client_settings()) as producer:

    With `zookeeper_connect="host:port/path"` and a `node_id` the broker joins a cluster.

    Starting raises `DataDirectoryError` or `CannotListen`, and in a cluster `NotAMember`. A bug in Ottla that could cause a loss of
    data ends the broker. `address`, `restart()`, `stop()` and the end of the `with` then raise `BrokerFailed`, whose cause is the
    bug's exception.

    The broker does not change the process's settings of the garbage collector. With Python's defaults, a request with very many
    names can stop the process for a tenth of a second. `gc.freeze()` and a higher `gc.set_threshold` avoid this pause; `ottla
    serve` uses both.
    """

    def __init__(
        self,
        data_dir: str | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        release: str | None = None,
        assignors: Sequence[str | Assignor] | None = None,
        users: Mapping[str, str] | None = None,
        tls: bool = False,
        **settings: Unpack[BrokerKeywords],
    ) -> None:
        if data_dir is not None and not isinstance(data_dir, str | os.PathLike):
            hint = "settings are keyword arguments with underscores for dots"
            raise TypeError(f"data_dir is a path, not {short_repr(data_dir)}: {hint}.")
        if not isinstance(port, int) or not 0 <= port <= MOST_PORT:
            raise SettingError(f"port is a whole number from 0 to {MOST_PORT}, not {short_repr(port)}.")
        try:
            be = TODAY if release is None else find(release)
        except UnknownRelease as error:
            raise SettingError(str(error)) from None
        given = {name.replace("_", "."): str(value) for name, value in settings.items()}
        self._guard = Gatekeeper(users, tls=tls)
        patience = IN_CLUSTER if "zookeeper.connect" in given else {}
        self._given = be.settings() | EMBEDDED | patience | given
        BrokerSettings.parse(self._given)
        security = self._guard.security
        self._listen = Listen(host, port, security.value if security else PLAINTEXT, be, security)
        self._assignors = None if assignors is None else several("assignors", assignors)
        self._data_dir = None if data_dir is None else os.path.abspath(data_dir)
        """An absolute path, so that the process can change its working directory while the broker runs."""
        self._temporary = data_dir is None
        self._background: BackgroundLoop | None = None
        self._running: Running | None = None
        self._turn = threading.RLock()
        """Held while any thread starts or stops the broker."""
        self._process = os.getpid()

    @property
    def address(self) -> str:
        """Return the broker's address "host:port", for a client's `bootstrap_servers`. Raises `RuntimeError` unless it runs."""
        running = self._running
        if running is None:
            raise RuntimeError("The broker is not running: use it in a with statement, or call start() first.")
        running.check()
        return str(running.addresses[0])

    @property
    def ca_file(self) -> str | None:
        """Return the path of the CA certificate (PEM) that clients must trust; None unless a broker with `tls` runs."""
        return self._guard.ca_file

    def client_settings(self, words: str = "ottla", *, user: str | None = None) -> dict[str, Any]:
        """Return a client's settings for this broker: addresses, certificates and login.

        `user` is one of `users`; None means the first one. `words` selects the client whose setting names are used: ottla,
        confluent (also other clients with librdkafka), kafka-python, aiokafka, java, or spark, whose options begin with `kafka.`.
        Raises `ValueError` for an unknown `words` or `user`, and the exceptions of `address`.
        """
        return self._guard.client_settings(self.address, words, user)

    @property
    def unexpected(self) -> int:
        """Return the number of requests that were refused since the start because of a bug in Ottla. The log has each exception."""
        running = self._running
        return 0 if running is None else running.server.door.unexpected

    def metrics(self) -> MetricsSource:
        """Return a source of the running broker's metrics, which any thread may use until the broker stops.

        Requests and syncs are measured only with `ottla_metrics_enable=True`. Raises the exceptions of `address`.
        """
        _, running = self.address, self._running
        assert running is not None, "it has an address"
        return running.metrics()

    @property
    def data_dir(self) -> str | None:
        """Return the data directory. A temporary directory exists only while the broker runs; at other times return None for it."""
        return self._data_dir

    def start(self) -> Self:
        """Start the broker, and return once it serves requests. Raises `RuntimeError` in a forked child, where it cannot run."""
        if self._is_forked:
            raise RuntimeError("The broker belongs to the process that created it: create another one in a forked child.")
        with self._turn:
            if self._running is None:
                self._begin()
        return self

    def _begin(self) -> None:
        if self._data_dir is None:
            self._data_dir = tempfile.mkdtemp(prefix="ottla-")
        self._background = BackgroundLoop("ottla-broker")
        try:
            settings = BrokerSettings.parse(self._given | self._guard.settings(self._listen.host))
            self._running = self._background.run(start(self._data_dir, [self._listen], settings, self._assignors))
        except BaseException:
            self.stop()
            raise
        self._listen = self._running.addresses[0]

    @property
    def _is_forked(self) -> bool:
        """Return whether this process is a forked child. The broker's thread and files belong to the parent."""
        return os.getpid() != self._process

    def stop(self) -> None:
        """Stop cleanly, and remove a temporary data directory. In a forked child, do nothing.

        Raises `BrokerFailed` if a bug ended the broker before this call.
        """
        if self._is_forked:
            return
        with self._turn:
            try:
                self._halt()
            finally:
                self._guard.end()
                if self._temporary and self._data_dir is not None:
                    shutil.rmtree(self._data_dir, ignore_errors=True)
                    self._data_dir = None

    def restart(self) -> Self:
        """Stop the broker, and start it again at the same address on the same data. Connected clients must reconnect."""
        with self._turn:
            if not self._is_forked:
                self._halt()
            return self.start()

    def _halt(self) -> None:
        running, self._running = self._running, None
        try:
            if running is not None and self._background is not None:
                self._background.run(running.stop())
        finally:
            if self._background is not None:
                self._background.stop()
            self._background = None
        if running is not None:
            running.check()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()
