"""A user's connection to the cluster: an admin client, answers with deadlines and their last values, and samples.

It is what views get. It is made at its first use and closed after some idle minutes, then made again when it is next needed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from ottla.client.connection.metadata import TopicInfo
from ottla.client.errors import Closed, ConnectionFailed, TimedOut
from ottla.console.broker_watch import BrokerWatch, now_ms
from ottla.console.config import ConsoleConfig
from ottla.console.declarations import DEADLINE_S, Part
from ottla.console.samples import ClusterSamples
from ottla.errors import KafkaError
from ottla.net.client.admin.async_admin import AsyncAdmin

Answer = TypeVar("Answer")

log = logging.getLogger("ottla.console")

IDLE_S = 900.0
"""The time, in s, after which the connections of a session that nobody uses are closed."""
WATCHED_S = 30.0
"""The time, in s, after the last use in which brokers are still watched and offsets sampled."""
WATCH_EVERY_S = 1.0
TOPICS_FOR_S, TOPICS_AT_MOST_S = 2.0, 6.0
"""The times, in s, for which the list of all topics is used again, and for which it is used while a new one is loaded."""
MOST_KEPT = 256
"""The number of last answers that a session keeps."""
FIRST_SAMPLE_S = 0.5
"""The time, in s, for which a page waits for the first samples."""
CLIENT: Mapping[str, Any] = {
    "client_id": "ottla-console",
    "request_timeout_ms": 3_000,
    "default_api_timeout_ms": 3_000,
    "bootstrap_timeout_ms": 3_000,
    "reconnect_backoff_max_ms": 1_000,
}
"""The settings of the console's clients, which those of the user override."""


class ClusterSession:
    """The cluster as one user sees it."""

    def __init__(self, config: ConsoleConfig, client: Mapping[str, Any]) -> None:
        """Create a session. `client` are the keyword arguments of its clients."""
        self.config = config
        self.settings = {**CLIENT, **client}
        self.changed = asyncio.Event()
        """Set, and replaced by a new event, when live pages should be refreshed at once."""
        self.closers: list[Callable[[], Awaitable[None]]] = []
        """Functions of parts of pages with connections of their own, which close these."""
        self._admin: AsyncAdmin | None = None
        self._has_ended = False
        self._last_use_s = time.monotonic()
        self._kept: OrderedDict[str, Part[Any]] = OrderedDict()
        self._topics: asyncio.Future[dict[str, TopicInfo]] | None = None
        self._topics_s = 0.0
        """When the topics were loaded."""
        self._last_topics: dict[str, TopicInfo] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._deadlines: set[asyncio.Timeout] = set()
        """The deadlines of the calls that wait for brokers."""
        self.watch = BrokerWatch(self._react)
        self.samples = ClusterSamples()

    def nudge(self) -> None:
        """Refresh all live pages of this session now."""
        self.changed.set()
        self.changed = asyncio.Event()

    async def query(self, call: Callable[[AsyncAdmin], Awaitable[Answer]], seconds: float = DEADLINE_S) -> Answer:
        """Return the answer to a call of the admin client. Raises `KafkaError`, `TimedOut` among them."""
        self._begin_use()
        return await self._query(call, seconds)

    async def _query(self, call: Callable[[AsyncAdmin], Awaitable[Answer]], seconds: float = DEADLINE_S) -> Answer:
        admin = await self._client()
        if self.watch.trouble:  # the watch finds out within a second that a broker answers again
            raise ConnectionFailed(self.watch.trouble)
        try:
            async with asyncio.timeout(seconds) as deadline:
                self._deadlines.add(deadline)
                return await call(admin)
        except TimeoutError as error:
            if isinstance(error, KafkaError):
                raise
            sentence = self.watch.trouble or f"The cluster has not answered within {seconds:g} s: the page tries again."
            raise TimedOut(sentence) from None
        finally:
            self._deadlines.discard(deadline)

    def _react(self) -> None:
        """End all calls at once if no broker answers any more, and refresh the live pages."""
        if self.watch.trouble:
            for deadline in self._deadlines:
                if not deadline.expired():
                    deadline.reschedule(asyncio.get_running_loop().time())
        self.nudge()

    def _begin_use(self) -> None:
        """Record a use, and begin to watch brokers and to sample offsets."""
        self._last_use_s = time.monotonic()
        if not self._tasks:
            self._tasks = [asyncio.create_task(self._repeat(self._watch_brokers)), asyncio.create_task(self._repeat(self._sample))]

    async def _client(self) -> AsyncAdmin:
        if self._has_ended:
            raise Closed("This session has ended: log in again.")
        if self._admin is None:
            self._admin = AsyncAdmin(**self.settings)
        return await self._admin.start()

    async def part(
        self, key: str, call: Callable[[AsyncAdmin], Awaitable[Answer]], seconds: float = DEADLINE_S, *, is_needed: bool = False
    ) -> Part[Answer]:
        """Return the answer to a call as a part of a page, or after a failure the last answer with the same `key`.

        Without any answer, the part has the sentence of the failure. With `is_needed`, raise the `KafkaError`.
        """
        try:
            found: Part[Answer] = Part(await self.query(call, seconds), as_of_ms=now_ms())
        except KafkaError as error:
            known = self._kept.get(key)
            if known is None and is_needed:
                raise
            return Part(None, str(error)) if known is None else Part(known.value, str(error), known.as_of_ms)
        self._kept[key] = found
        self._kept.move_to_end(key)
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return found

    async def topics(self) -> dict[str, TopicInfo]:
        """Return all topics by name, internal ones too, at most `TOPICS_FOR_S` old, or the last known ones if no broker answers.

        Raises `KafkaError` if none are known. `watch.trouble` says whether brokers answer.
        """
        self._begin_use()
        try:
            return await self._all_topics()
        except (ConnectionFailed, TimedOut):
            if self._last_topics is None:
                raise
            return self._last_topics

    async def _all_topics(self) -> dict[str, TopicInfo]:
        """Return all topics. Callers at the same time share one request and its outcome.

        A list that is not old yet is returned at once, while a new one is loaded: a large cluster's takes its time.
        """
        loading, age_s = self._topics, time.monotonic() - self._topics_s
        if loading is None or (loading.done() and age_s > TOPICS_FOR_S):
            loading = self._topics = asyncio.ensure_future(self._query(lambda admin: admin.describe_all_topics(internal=True)))
            loading.add_done_callback(self._record_topics)
        if self._last_topics is not None and age_s < TOPICS_AT_MOST_S and not loading.done():
            return self._last_topics
        return await asyncio.shield(loading)

    def _record_topics(self, loading: asyncio.Future[dict[str, TopicInfo]]) -> None:
        has_failed = loading.cancelled() or loading.exception() is not None
        if self._topics is not loading:  # it was forgotten meanwhile
            return
        if has_failed:
            self._topics = None
        else:
            self._last_topics, self._topics_s = loading.result(), time.monotonic()

    @property
    def troubles(self) -> list[str]:
        """Return a sentence for each part of the pages that may be wrong: brokers that do not answer, and samples that failed."""
        return [*([self.watch.trouble] if self.watch.trouble else []), *dict.fromkeys(self.samples.troubles.values())]

    def forget_topics(self) -> None:
        """Request the list of topics anew at its next use, because this console has changed it."""
        self._topics, self._topics_s = None, 0.0

    async def read_samples(self) -> ClusterSamples:
        """Return the samples. Wait a moment for the first ones."""
        self._begin_use()
        try:
            async with asyncio.timeout(FIRST_SAMPLE_S):
                await self.samples.sampled.wait()
        except TimeoutError:
            log.debug("the first samples are not there yet")
        return self.samples

    async def read_brokers(self) -> BrokerWatch:
        """Return the states of brokers. Ask for them if nobody has yet."""
        self._begin_use()
        if not self.watch.brokers:
            await self._watch_brokers()
        return self.watch

    @property
    def is_idle(self) -> bool:
        """Return whether nobody has used the session for long."""
        return time.monotonic() - self._last_use_s > IDLE_S

    async def close(self) -> None:
        """Close the connections. The next use opens them again."""
        for closer in self.closers:
            await closer()
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        admin, self._admin = self._admin, None
        if admin is not None:
            await admin.close()

    async def end(self) -> None:
        """Close the connections for good."""
        self._has_ended = True
        await self.close()
        self.nudge()

    async def _repeat(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do work each second while the session is in use."""
        while True:
            if time.monotonic() - self._last_use_s < WATCHED_S:
                try:
                    await work()
                except KafkaError as error:  # the pages that need the result report it
                    log.debug("%s", error)
            await asyncio.sleep(WATCH_EVERY_S)

    async def _watch_brokers(self) -> None:
        await self.watch.check(await self._client())

    async def _sample(self) -> None:
        await self.samples.sample(await self._client(), await self._all_topics())
