"""The driver of a client's pushes of metrics (KIP-714) over connections that the client has already opened.

If no connected broker announces the requests, the driver waits and sends nothing.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Mapping
from contextlib import suppress

from ottla.client.connection.versions import GET_TELEMETRY_SUBSCRIPTIONS
from ottla.client.errors import Closed, KafkaError, NotSupported, SettingError, TimedOut, broker_error
from ottla.client.metrics.telemetry import GetSubscription, TelemetryPusher, Wait
from ottla.client.settings.clients import ClientSettings, ConsumerSettings, ProducerSettings, ShareConsumerSettings
from ottla.net.client.cluster import ClusterLinks, now_ms
from ottla.net.client.link import Link
from ottla.wire.api.push_telemetry import PushTelemetryResponse
from ottla.wire.schema import Message

LAST_PUSH_MS = 1_000
"""The time limit, in ms, of the push at the end of a client."""

log = logging.getLogger("ottla.client")


class TelemetryDriver:
    """The pushes of one client, from `begin` to `close`. Use it only on the client's event loop."""

    def __init__(self, cluster: ClusterLinks, settings: ClientSettings) -> None:
        self._cluster = cluster
        self._settings = settings
        self._pusher = TelemetryPusher(resource_of(settings), random.random, time.time_ns() // 1_000_000)
        self._opened = asyncio.Event()
        self._settled = asyncio.Event()
        """Set once the client has an instance id, or will get none."""
        self._closed = False
        self._refusal: KafkaError | None = None
        """The last error with which a broker answered."""
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Push metrics from now on, unless the settings forbid it or the brokers are of 0.7."""
        if self._settings.enable_metrics_push and not self._settings.is_of_0_7:
            self._cluster.when_opened = self._opened.set
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            await self._push_until_over()
        finally:
            self._settled.set()

    async def _push_until_over(self) -> None:
        while not self._pusher.is_over:
            step = self._pusher.next_step(now_ms())
            if isinstance(step, Wait):
                await asyncio.sleep(max(1, step.until_ms - now_ms()) / 1000)
            elif (link := self._link()) is None:
                self._opened.clear()
                await self._opened.wait()
            else:
                request = step.request if isinstance(step, GetSubscription) else self._push_request()
                if request is not None:
                    await self._send(link, request)

    def _link(self) -> Link | None:
        return self._cluster.open_link(GET_TELEMETRY_SUBSCRIPTIONS)

    def _push_request(self, *, terminating: bool = False) -> Message | None:
        request = self._pusher.push_request(self._cluster.snapshot(), terminating=terminating)
        if request is None:
            log.warning("metrics were not pushed, because they are larger than the broker's telemetry.max.bytes")
            self._pusher.skip(now_ms())
        return request

    async def _send(self, link: Link, request: Message, timeout_ms: int | None = None) -> None:
        try:
            answer = await link.request(request, timeout_ms or self._settings.request_timeout_ms)
        except KafkaError as error:
            log.debug("the broker at %s did not take metrics: %s", link.where, error)
            self._pusher.skip(now_ms())
            return
        if answer.error_code:
            self._refusal = broker_error(answer.error_code, f"The broker at {link.where} refused metrics")
            log.debug("%s", self._refusal)
        if isinstance(answer, PushTelemetryResponse):
            self._pusher.on_pushed(answer.error_code, now_ms())
            return
        self._pusher.on_subscription(answer, now_ms())
        if self._pusher.instance_text is not None:
            self._settled.set()

    async def instance_id(self, timeout_ms: int) -> str:
        """Return the client instance id. Raises `SettingError`, `NotSupported`, `TimedOut`, or another `KafkaError`."""
        if self._task is None:
            raise SettingError("Only a client that pushes metrics has an instance id: set enable_metrics_push=True.")
        if self._pusher.instance_text is None and self._link() is None:
            link = await self._cluster.retry(self._cluster.any_link, timeout_ms=timeout_ms)
            if link.version(GET_TELEMETRY_SUBSCRIPTIONS) < 0:
                raise NotSupported(
                    "The broker assigns no client instance ids: it has no subscriptions to clients' metrics (KIP-714)."
                )
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._settled.wait()
        except TimeoutError:
            last = "" if self._refusal is None else f" The last answer: {self._refusal}"
            raise TimedOut(f"No broker assigned a client instance id within {timeout_ms} ms.{last}") from None
        if (instance_id := self._pusher.instance_text) is None:
            raise Closed() if self._closed or self._refusal is None else self._refusal.with_traceback(None)
        return instance_id

    async def close(self) -> None:
        """Push the last metrics, if a broker wants them and is connected, and stop."""
        self._closed = True
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        link = self._link()
        if link is not None and self._pusher.has_subscription:
            request = self._push_request(terminating=True)
            if request is not None:
                with suppress(KafkaError):
                    await self._send(link, request, LAST_PUSH_MS)


def resource_of(settings: ClientSettings) -> Mapping[str, str]:
    """Return the attributes of a client in its telemetry."""
    found: dict[str, str | None] = {}
    if isinstance(settings, ConsumerSettings):
        found = {
            "client_rack": settings.client_rack,
            "group_id": settings.group_id,
            "group_instance_id": settings.group_instance_id,
        }
    elif isinstance(settings, ShareConsumerSettings):
        found = {"client_rack": settings.client_rack, "group_id": settings.group_id}
    elif isinstance(settings, ProducerSettings):
        found = {"transactional_id": settings.transactional_id}
    return {name: value for name, value in found.items() if value is not None}
