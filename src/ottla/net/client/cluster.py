"""A cluster over asyncio links: open connections, fresh metadata, and retries when leaders or coordinators move.

Requests that can wait long at the broker (fetches, joins) have links of their own, so that other requests do not wait behind them.
The name of a link's purpose is its `lane`.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from typing import NamedTuple, TypeVar

from ottla.client.connection.connection import ADDRESSED_HELLO_VERSION, AnswerBody, IntendedBroker
from ottla.client.connection.metadata import NO_LEADER, Metadata, metadata_request, metadata_request_by_id
from ottla.client.connection.metadata_recovery import MetadataRecovery
from ottla.client.connection.retry_pauses import JITTER, RetryPauses
from ottla.client.connection.versions import API_VERSIONS
from ottla.client.errors import (
    AuthenticationFailed,
    BrokerError,
    Closed,
    ConnectionFailed,
    KafkaError,
    TimedOut,
    UnknownTopic,
    pause_ms,
    raise_for,
)
from ottla.client.metrics.connections import ConnectionMetrics, LinkMeter
from ottla.client.metrics.registry import MetricsRegistry, MetricsSnapshot
from ottla.client.metrics.samples import Sampling
from ottla.client.settings.addresses import parse_servers
from ottla.client.settings.clients import ClientSettings
from ottla.client.types import TopicPartition
from ottla.net.client.failures import must_rebootstrap, none_reached, other_broker
from ottla.net.client.link import Link, security_of
from ottla.net.client.tasks import Tasks
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.errors import LEADER_NOT_AVAILABLE, REBOOTSTRAP_REQUIRED
from ottla.wire.schema import Message

CONTROL, FETCH_LANE, GROUP_LANE = "control", "fetch", "group"
Result = TypeVar("Result")

log = logging.getLogger("ottla.client")

LINES_AT_ONCE = 4
"""The number of changes of one broker that can be logged within a short time, however often its connections break."""
REGAINED_MS = 15_000
"""The time, in ms, after which one more change of a broker can be logged."""


class Backoff(NamedTuple):
    """The pause before the last connection attempt, and the time in ms before which no other attempt begins."""

    pause_ms: int
    until_ms: int


NO_BACKOFF = Backoff(0, 0)


class ConnectionLog:
    """The last logged state of each broker, by address. A client that retries each second logs only the first failure.

    Changes beyond `LINES_AT_ONCE` are not logged at once, but at a later attempt to connect, if the state still differs.
    """

    def __init__(self, client_id: str | None) -> None:
        self._client_id = client_id or "client"
        self._reached: dict[str, bool] = {}
        self._reached_any = self._has_warned = False
        self._spent_ms: dict[str, int] = {}
        """Address -> the time, in ms, from which `LINES_AT_ONCE` changes can be logged again."""

    def log_connected(self, where: str, now_ms: int) -> None:
        """Log that a broker is connected, unless this was the last line about the broker."""
        self._reached_any = True
        if self._is_change(where, now_ms, reached=True):
            log.info("%s: connected to %s", self._client_id, where)

    def log_lost(self, where: str, error: BaseException, now_ms: int) -> None:
        """Log that a broker is unreachable or its connection broke, unless this was the last line about the broker."""
        if self._is_change(where, now_ms, reached=False):
            sequel = "; it is tried again" if getattr(error, "retriable", True) else ""
            log.info("%s: %s%s", self._client_id, str(error).rstrip("."), sequel)

    def log_unreachable(self, error: BaseException) -> None:
        """Warn that no broker has been reached since the client was created, the first time."""
        if not self._reached_any and not self._has_warned:
            self._has_warned = True
            log.warning("%s: %s Calls try again until their time limits.", self._client_id, error)

    def log_closed(self, kind: str) -> None:
        """Log that the client is closed."""
        log.info("%s: the %s is closed", self._client_id, kind.replace("-", " "))

    def _is_change(self, where: str, now_ms: int, *, reached: bool) -> bool:
        if self._reached.get(where) == reached:
            return False
        spent_ms = max(now_ms, self._spent_ms.get(where, now_ms)) + REGAINED_MS
        if spent_ms - now_ms > LINES_AT_ONCE * REGAINED_MS:
            return False
        self._spent_ms[where] = spent_ms
        self._reached[where] = reached
        return True


def now_ms() -> int:
    """Return the time in ms of the monotonic clock, which all deadlines use."""
    return int(time.monotonic() * 1000)


class ClusterLinks:
    """The connections of a client to brokers, by purpose (`lane`) and node id. Each is opened when it is first needed."""

    def __init__(self, settings: ClientSettings, tasks: Tasks | None = None, *, whole_tries: bool = False) -> None:
        """Create a cluster's links, not connected yet. `tasks` run the refreshes of metadata in the background.

        With `whole_tries`, a call can finish its last try after its timeout. Each request of this try has its own timeout, so that
        all bootstrap servers are tried even if the first is silent.
        """
        self.metadata = Metadata()
        self.is_stale = False
        """Whether metadata is known to be outdated."""
        self.settings = settings
        self._pauses = RetryPauses(settings.retry_backoff_ms, settings.retry_backoff_max_ms)
        self._security = security_of(settings)
        self._recovery = MetadataRecovery(
            parse_servers(settings.bootstrap_servers),
            settings.metadata_recovery_strategy,
            settings.metadata_recovery_rebootstrap_trigger_ms,
        )
        self._checks_brokers = False
        """Whether the cluster's brokers check that they are the intended ones (KIP-1242)."""
        self._links: dict[tuple[str, int], asyncio.Future[Link]] = {}
        self._firsts: list[asyncio.Future[Link]] = []
        """Links to bootstrap servers, whose node ids are unknown."""
        self._asked_last: Link | None = None
        self._unhelpful: set[str] = set()
        """The addresses of brokers to avoid, because their last answers failed with retriable errors. Perhaps they are isolated."""
        self._backoffs: dict[str, Backoff] = {}
        """Address -> the pause before the next attempt to connect, after attempts that failed."""
        self._tasks = tasks
        self._whole_tries = whole_tries
        self._refreshing: asyncio.Task[None] | None = None
        self._wanted: set[str] = set()
        self._log = ConnectionLog(settings.client_id)
        self.when_opened: Callable[[], None] | None = None
        """A callback without arguments that is called after each connection that was opened."""
        sampling = Sampling(settings.metrics_sample_window_ms, settings.metrics_num_samples)
        self.metrics = MetricsRegistry(settings.client_id, settings.KIND, sampling, now_ms())
        self.connections = ConnectionMetrics(self.metrics)
        self.refreshed_ms = now_ms()
        """The time of the last answer with metadata, in ms."""
        self._closed = False

    async def close(self) -> None:
        if not self._closed:
            self._log.log_closed(self.settings.KIND)
        self._closed = True
        await asyncio.gather(*(opening for opening in self._drop_links(Closed()) if opening.cancel()), return_exceptions=True)
        # Transports call `connection_lost` in the next iteration of the loop.
        await asyncio.sleep(0)

    def _drop_links(self, error: KafkaError | None = None) -> list[asyncio.Future[Link]]:
        """Close all links with this error, each that is still being opened once it is open. Return the latter."""
        openings = [*self._links.values(), *self._firsts]
        self._links.clear()
        self._firsts.clear()
        opening = [each for each in openings if not each.done()]
        for each in openings:
            if each.done():
                _close(each, error)
            else:
                each.add_done_callback(_close)
        return opening

    def _rebootstrap(self) -> None:
        """Forget all brokers and close their links, so that the next request goes to a bootstrap server."""
        log.info("%s: bootstrapping again from %s", self.settings.client_id or "client", self.settings.bootstrap_servers)
        self.metadata.forget_brokers()
        self._unhelpful.clear()
        self._recovery.record_answer()
        self._drop_links()

    def snapshot(self) -> MetricsSnapshot:
        """Return the client's metrics now."""
        return self.metrics.snapshot(time.monotonic() * 1000, time.time_ns() // 1_000_000)

    async def link(self, node_id: int, lane: str = CONTROL) -> Link:
        """Return the link to the broker `node_id`, opened if necessary. Raises `ConnectionFailed`, `TimedOut`, `Closed`."""
        self._check_open()
        key = (lane, node_id)
        opening = self._links.get(key)
        if opening is None or opening.done():
            if opening is not None and (link := _link_of(opening)) is not None:
                return link
            opening = self._links[key] = asyncio.ensure_future(self._open(node_id))
            opening.add_done_callback(_link_of)
        return await self._opened_by(opening)

    def open_link_to(self, node_id: int) -> Link | None:
        """Return the link to the broker `node_id` if it is open. Otherwise use `link`, which opens it."""
        opening = self._links.get((CONTROL, node_id))
        return None if opening is None or self._closed else _link_of(opening)

    async def _opened_by(self, opening: asyncio.Future[Link]) -> Link:
        """Return the link that a task opens, for one of its callers. Raises `Closed` if the client is closed meanwhile."""
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if opening.cancelled() and task is not None and not task.cancelling():
                self._check_open()
            raise

    async def _open(self, node_id: int) -> Link:
        node = self.metadata.nodes.get(node_id)
        if node is None:
            raise ConnectionFailed(f"Broker {node_id} is not in the cluster's metadata.")
        intended = IntendedBroker(self.metadata.cluster_id, node_id) if self._checks_brokers else None
        try:
            return await self._connected(node.host, node.port, node_id, intended)
        except BrokerError as error:
            if error.code != REBOOTSTRAP_REQUIRED:
                raise
            if self._recovery.is_enabled:
                self._rebootstrap()
            where, cluster_id = f"{node.host}:{node.port}", self.metadata.cluster_id
            raise other_broker(where, node_id, cluster_id, recovers=self._recovery.is_enabled) from None

    async def _connected(self, host: str, port: int, node_id: int, intended: IntendedBroker | None = None) -> Link:
        """Open a link, after a pause that doubles with each failed attempt up to `reconnect_backoff_max_ms` (KIP-144)."""
        where = f"{host}:{port}"
        await asyncio.sleep(self._rest_ms(where) / 1000)
        try:
            link = await self._open_logged(host, port, node_id, intended)
        except KafkaError:
            settings, before = self.settings, self._backoffs.get(where, NO_BACKOFF)
            pause = min(max(settings.reconnect_backoff_ms, before.pause_ms * 2), settings.reconnect_backoff_max_ms)
            # Clients that lost a broker together come back at different times.
            self._backoffs[where] = Backoff(pause, now_ms() + round(pause * random.uniform(1 - JITTER, 1 + JITTER)))
            raise
        self._backoffs.pop(where, None)
        self._checks_brokers = link.version(API_VERSIONS) >= ADDRESSED_HELLO_VERSION
        return link

    def _rest_ms(self, where: str) -> int:
        """Return the time in ms until the client may connect to this address again."""
        return max(0, self._backoffs.get(where, NO_BACKOFF).until_ms - now_ms())

    async def _open_logged(self, host: str, port: int, node_id: int, intended: IntendedBroker | None) -> Link:
        """Open a link to `host` and `port`. Log and count whether it was opened, and later when it breaks."""
        where = f"{host}:{port}"

        def on_lost(error: BaseException) -> None:
            if not self._closed:
                self._log.log_lost(where, error, now_ms())

        try:
            meter = self.connections.meter(node_id)
            link = await self._link_to(host, port, meter, intended)
        except KafkaError as error:
            if isinstance(error, AuthenticationFailed):
                self.connections.on_refused(now_ms())
            on_lost(error)
            raise
        self.connections.on_opened(meter, now_ms(), is_secured=self._security is not None)
        link.when_ended = lambda: self.connections.on_closed(meter, now_ms())
        link.when_renewed = lambda latency_ms: self.connections.on_renewed(latency_ms, now_ms())
        self._log.log_connected(where, now_ms())
        link.when_broken = on_lost
        if self.when_opened is not None:
            self.when_opened()
        return link

    def _check_open(self) -> None:
        if self._closed:
            raise Closed()

    def open_link(self, api_key: int) -> Link | None:
        """Return an open link, not for fetches or groups, to a broker that serves an API, or None if there is none."""
        quick = (opening for (lane, _), opening in self._links.items() if lane == CONTROL)
        opened = (_link_of(opening) for opening in (*quick, *self._firsts))
        return next((link for link in opened if link is not None and link.version(api_key) >= 0), None)

    async def any_link(self) -> Link:
        """Return a link to any broker, preferably to a broker whose last answer did not fail. Raises `ConnectionFailed`."""
        self._check_open()
        link = self._open_link()
        if link is None:
            self._firsts = [opening for opening in self._firsts if not opening.done() or _link_of(opening) is not None]
            opening = next((opening for opening in self._firsts if not opening.done()), None)
            if opening is None:
                opening = asyncio.ensure_future(self._open_first())
                opening.add_done_callback(_link_of)  # reads its error, which nobody does if all callers have gone
                self._firsts.append(opening)
            link = await self._opened_by(opening)
        self._asked_last = link
        return link

    def _open_link(self) -> Link | None:
        # Behind a held fetch or JoinGroup, an answer could take minutes.
        quick = (opening for (lane, _), opening in self._links.items() if lane == CONTROL)
        opened = (_link_of(opening) for opening in (*quick, *self._firsts))
        return next((link for link in opened if link is not None and link.where not in self._unhelpful), None)

    async def _open_first(self) -> Link:
        failures = []
        known = self.metadata.nodes.values()
        addresses = self._recovery.addresses(known)
        for host, port in sorted(addresses, key=lambda address: self._rest_ms(f"{address[0]}:{address[1]}")):
            if f"{host}:{port}" in self._unhelpful:
                continue
            try:
                return await self._connected(host, port, self._node_at(host, port))
            except AuthenticationFailed:
                raise
            except KafkaError as error:
                failures.append(str(error))
        if self._unhelpful:
            self._unhelpful.clear()
            return self._open_link() or await self._open_first()
        is_bootstrapped = self._recovery.is_enabled or not known
        unreachable = none_reached(self.settings.bootstrap_servers, failures, is_bootstrapped=is_bootstrapped)
        self._log.log_unreachable(unreachable)
        raise unreachable

    def _node_at(self, host: str, port: int) -> int:
        """Return the node id of the broker at an address; of a bootstrap server without one a number below 0, as in Kafka."""
        found = (node_id for node_id, node in self.metadata.nodes.items() if (node.host, node.port) == (host, port))
        bootstrap = self._recovery.bootstrap
        return next(found, -1 - bootstrap.index((host, port)) if (host, port) in bootstrap else -1)

    def _link_to(self, host: str, port: int, meter: LinkMeter, intended: IntendedBroker | None) -> Coroutine[object, None, Link]:
        settings = self.settings
        return Link.open(
            host,
            port,
            settings.client_id,
            settings.request_timeout_ms,
            settings.api_version,
            self._security,
            meter=meter,
            intended=intended,
        )

    async def request(self, node_id: int, body: Message, *, lane: str = CONTROL, timeout_ms: int | None = None) -> AnswerBody:
        """Send one request to one broker, without retries."""
        link = await self.link(node_id, lane)
        return await link.request(body, timeout_ms or self.settings.request_timeout_ms)

    async def request_any(self, body: Message) -> AnswerBody:
        """Send one request to any broker, without retries."""
        link = await self.any_link()
        return await link.request(body, self.settings.request_timeout_ms)

    async def request_each(self, body: Message, node_ids: Sequence[int] | None = None) -> dict[int, AnswerBody]:
        """Return the answers of these brokers, by node id, without retries. None means all brokers in fresh metadata.

        A broker that is not in the metadata raises an error that is not retriable.
        """
        await self.refresh([])
        live = sorted(self.metadata.nodes)
        nodes = live if node_ids is None else node_ids
        if unknown := [node_id for node_id in nodes if node_id not in self.metadata.nodes]:
            raise KafkaError(f"There is no broker {unknown[0]} now: the cluster has {', '.join(map(str, live))}.")
        answers = await asyncio.gather(*(self.request(node_id, body) for node_id in nodes))
        return dict(zip(nodes, answers, strict=True))

    async def controller(self) -> Link:
        """Return the link to the controller in fresh metadata; to any broker while there is no controller."""
        await self.refresh([])
        node_id = self.metadata.controller_id
        return await (self.any_link() if node_id < 0 else self.link(node_id))

    async def refresh(self, topics: Collection[str] | None, *, create: bool = False) -> None:
        """Request the metadata of `topics`; None means of all topics."""
        await self._refresh(metadata_request(topics, allow_auto_topic_creation=create), whole=topics is None)

    async def refresh_by_id(self, topic_ids: Collection[bytes]) -> None:
        """Request the metadata of topics by their ids. Topics that do not exist are left out."""
        await self._refresh(metadata_request_by_id(topic_ids), whole=False)

    async def _refresh(self, request: MetadataRequest, *, whole: bool) -> None:
        if self._recovery.is_due(now_ms()):
            self._rebootstrap()
        try:
            answer = await self.request_any(request)
        except KafkaError:
            self._recovery.record_failure(now_ms())
            raise
        if answer.error_code == REBOOTSTRAP_REQUIRED:
            if self._recovery.is_enabled:
                self._rebootstrap()
            raise must_rebootstrap(self.settings.bootstrap_servers, recovers=self._recovery.is_enabled)
        raise_for(answer.error_code, "Requesting metadata")
        self._recovery.record_answer()
        if (sentence := self.metadata.describe_other_cluster(answer)) is not None:
            log.warning(sentence)
        self.metadata.update(answer, whole=whole)
        self.refreshed_ms = now_ms()

    def refresh_soon(self, topics: Iterable[str], then: Callable[[], None], failed: Callable[[KafkaError], None]) -> None:
        """Request the metadata of `topics` in the background, and repeat the request until it is answered.

        Only one request is in flight at a time. `then` is called after each answer. `failed` is called with an error that is not
        retriable.
        """
        assert self._tasks is not None
        self._wanted.update(topics)
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = self._tasks.spawn(self._refresh_wanted(then, failed))

    async def _refresh_wanted(self, then: Callable[[], None], failed: Callable[[KafkaError], None]) -> None:
        while self._wanted:
            topics = sorted(self._wanted)
            try:
                await self.refresh(topics)
            except KafkaError as error:
                if not error.retriable:
                    self._wanted.clear()
                    failed(error)
                    return
            else:
                self._wanted.difference_update(topics)
                then()
            await asyncio.sleep(self.settings.retry_backoff_ms / 1000)

    async def ensure(self, topics: Collection[str], *, create: bool = False, timeout_ms: int | None = None) -> None:
        """Return once metadata contains all `topics` with their partitions. Raises `UnknownTopic`, `TimedOut`, …"""
        missing = self.metadata.find_missing(topics)
        if missing:
            await self.retry(lambda: self._find(missing, create), timeout_ms=timeout_ms, must_exist=not create)

    async def confirm(self, topics: Collection[str] | None) -> None:
        """Refresh the metadata of `topics` (None: of all). Raises `UnknownTopic` at once for a topic that does not exist."""

        async def refresh() -> None:
            await self.refresh(topics)
            self.metadata.check(topics or ())

        await self.retry(refresh, must_exist=True)

    async def _find(self, topics: Collection[str], create: bool) -> None:
        await self.refresh(topics, create=create)
        self.metadata.check(topics)

    async def leader(self, where: TopicPartition) -> int:
        """Return the node id of a partition's leader.

        Raises LEADER_NOT_AVAILABLE (retriable) if metadata has no leader even after a refresh.
        """
        if self.metadata.leader(*where) == NO_LEADER:
            await self.refresh([where.topic])
        node_id = self.metadata.leader(*where)
        if node_id == NO_LEADER:
            raise_for(self.metadata.partition_error(*where) or LEADER_NOT_AVAILABLE, f"{where.topic}-{where.partition}")
        return node_id

    async def retry(
        self,
        call: Callable[[], Awaitable[Result]],
        *,
        timeout_ms: int | None = None,
        topics: Collection[str] = (),
        must_exist: bool = False,
    ) -> Result:
        """Return the result of `call()`. After a retriable error, call it again, until `timeout_ms` (default_api_timeout_ms).

        The pauses in between grow. Then the last error is raised. Metadata of `topics` is refreshed before each repetition. With
        `must_exist`, a missing topic raises at once. Connections that fail before any broker has answered are retried until
        `bootstrap_timeout_ms`.
        """
        allowed_ms = self.settings.default_api_timeout_ms if timeout_ms is None else timeout_ms
        deadline = now_ms() + allowed_ms
        before: KafkaError | None = None
        tries = 0
        while True:
            tries += 1
            try:
                async with asyncio.timeout(None if self._whole_tries else max(0, deadline - now_ms()) / 1000 + 0.001):
                    if before is not None and topics:
                        await self._try_refresh(topics)
                    return await call()
            except KafkaError as error:
                missing = must_exist and isinstance(error, UnknownTopic)
                left_ms = deadline - now_ms()
                if self.settings.bootstrap_timeout_ms and isinstance(error, ConnectionFailed) and not self.metadata.nodes:
                    left_ms -= max(0, allowed_ms - self.settings.bootstrap_timeout_ms)
                pause = pause_ms(error, self._pauses.after(tries, left_ms, random.random()))
                if missing or not error.retriable or pause > left_ms:
                    raise
                before = error
                if self._asked_last is not None:
                    self._unhelpful.add(self._asked_last.where)
            except TimeoutError:
                why = self._throttle_text() if before is None else f" The try before: {before}"
                raise TimedOut(f"No broker answered within {allowed_ms} ms.{why}") from before
            await asyncio.sleep(pause / 1000)

    def _throttle_text(self) -> str:
        """Return a sentence about the broker that throttles this client for the longest time; empty if no broker does."""
        links = [link for link in map(_link_of, (*self._links.values(), *self._firsts)) if link is not None]
        rest_ms, where = max(((link.rest_ms, link.where) for link in links), default=(0, ""))
        if not rest_ms:
            return ""
        return f" {where} throttles this client for {rest_ms} ms more by a quota: wait, or raise the quota."

    async def _try_refresh(self, topics: Collection[str]) -> None:
        try:
            await self.refresh(topics)
        except KafkaError as error:
            if not error.retriable:
                raise


def _close(opening: asyncio.Future[Link], error: KafkaError | None = None) -> None:
    """Close the link of a finished opening with this error, if it was opened."""
    if (link := _link_of(opening)) is not None:
        link.close(error)


def _link_of(opening: asyncio.Future[Link]) -> Link | None:
    """Return the link that was opened, or None while it is opening, and after it failed or closed."""
    if not opening.done() or opening.cancelled() or opening.exception() is not None or opening.result().closed:
        return None
    return opening.result()
