"""The client instances that request subscriptions to metrics, and the last metrics that each has pushed (KIP-714).

Metrics are kept as compressed bytes, in memory only: `ottla.client.metrics.bytes` limits all of them together. An instance that was
dropped gets the same subscription id again, so that its client continues without a new subscription.
"""

from __future__ import annotations

import logging
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ottla.broker.settings import SettingError, SettingsInForce
from ottla.broker.telemetry.subscriptions import MetricsSubscription, Subscribed, combine, subscription
from ottla.cluster.image import ClusterImage
from ottla.ports import Now
from ottla.wire.errors import (
    INVALID_REQUEST,
    NONE,
    TELEMETRY_TOO_LARGE,
    THROTTLING_QUOTA_EXCEEDED,
    UNKNOWN_SUBSCRIPTION_ID,
    UNSUPPORTED_COMPRESSION_TYPE,
)

log = logging.getLogger("ottla.broker")

NO_INSTANCE: Final = bytes(16)
RESERVED: Final = (NO_INSTANCE, bytes(15) + b"\1")
COMPRESSION_TYPES: Final = (4, 3, 1, 2)
"""Accepted compression types, the preferred one first: zstd, lz4, gzip, snappy. Metrics may also come without compression (0)."""
MOST_INSTANCES: Final = 2000
"""The most client instances that are remembered."""
LONGEST_SHOWN: Final = 249
"""The most characters of a client's names that are remembered."""
FORGOTTEN_AFTER: Final = 3
"""The push intervals without a request after which an instance is no longer listed."""
GETS_AT_ONCE: Final = (UNKNOWN_SUBSCRIPTION_ID, UNSUPPORTED_COMPRESSION_TYPE)
"""Errors of a push after which the client may ask for its subscription before the push interval has passed."""


class MetricsClient(NamedTuple):
    """The properties of the client of a request to which metrics subscriptions are compared."""

    client_id: str
    software_name: str
    software_version: str
    host: str
    port: int

    def shorten(self) -> MetricsClient:
        """Return the client with its names cut off at a limit, because each name can have 32 KB."""
        client_id, name, version = self.client_id[:LONGEST_SHOWN], self.software_name, self.software_version
        return MetricsClient(client_id, name[:LONGEST_SHOWN], version[:LONGEST_SHOWN], self.host, self.port)

    def properties(self, instance_id: str) -> Mapping[str, str]:
        return {
            "client_instance_id": instance_id,
            "client_id": self.client_id,
            "client_software_name": self.software_name,
            "client_software_version": self.software_version,
            "client_source_address": self.host,
            "client_source_port": str(self.port),
        }


class Pushed(NamedTuple):
    """The metrics that a client sent in one push, unchanged in OTLP format. `wall_ms` is the wall time of the push."""

    wall_ms: int
    compression_type: int
    metrics: bytes


class Push(NamedTuple):
    """The fields of a PushTelemetry request."""

    subscription_id: int
    is_terminating: bool
    compression_type: int
    metrics: bytes


@dataclass(slots=True)
class ClientInstance:
    """A client instance, and its last push. Times of requests are values of `mono_ms`, None before the first."""

    instance_id: bytes
    client: MetricsClient
    subscribed: Subscribed
    made_of: object
    """The cluster's subscriptions from which `subscribed` was computed."""
    get_ms: int | None = None
    push_ms: int | None = None
    seen_ms: int = 0
    last_error: int = NONE
    is_terminating: bool = False
    pushes: int = 0
    pushed: Pushed | None = field(default=None, repr=False)

    def may_get(self, now_ms: int) -> bool:
        """Return whether the client instance may get its subscription now, and if so, record this request.

        It may if the push interval has passed since its last accepted request.
        """
        times = [at for at in (self.get_ms, self.push_ms) if at is not None]
        if times and now_ms - max(times) < self.subscribed.interval_ms:
            return False
        self.get_ms = now_ms
        return True

    def may_push(self, now_ms: int) -> bool:
        """Return whether the client instance may push metrics now.

        It may push once after it got a subscription, and then once in each push interval.
        """
        is_first = self.push_ms is None or (self.get_ms is not None and self.get_ms > self.push_ms)
        if not is_first and self.push_ms is not None and now_ms - self.push_ms < self.subscribed.interval_ms:
            return False
        self.push_ms = now_ms
        return True


class ClientMetrics:
    """The client instances that use this broker for metrics (KIP-714). The order is by their last requests, oldest first."""

    def __init__(self, image: ClusterImage, settings: SettingsInForce, random_bytes: Callable[[int], bytes]) -> None:
        self._image = image
        self._settings = settings
        self._random_bytes = random_bytes
        self._instances: dict[bytes, ClientInstance] = {}
        self._with_metrics: dict[bytes, ClientInstance] = {}
        """Those that have pushed, the one with the oldest push first."""
        self._bytes = 0
        self._subscriptions: list[MetricsSubscription] = []
        self._made_of: object = None

    @property
    def max_bytes(self) -> int:
        """Return the largest size of one push, in bytes."""
        return self._settings.value.telemetry_max_bytes

    def subscribe(self, instance_id: bytes, client: MetricsClient, now: Now) -> tuple[int, ClientInstance]:
        """Return an error code, and the client instance with its subscription. The zero id stands for a new instance."""
        while instance_id == NO_INSTANCE:
            drawn = self._random_bytes(16)
            instance_id = NO_INSTANCE if drawn in RESERVED else drawn
        instance = self._instance(instance_id, client, now)
        if not instance.may_get(now.mono_ms) and instance.last_error not in GETS_AT_ONCE:
            return THROTTLING_QUOTA_EXCEEDED, instance
        instance.last_error = NONE
        return NONE, instance

    def push(self, instance_id: bytes, client: MetricsClient, push: Push, now: Now) -> int:
        """Store the metrics of a push in place of the last metrics of the instance, and return an error code."""
        if instance_id in RESERVED:
            return INVALID_REQUEST
        instance = self._instance(instance_id, client, now)
        error_code = self._refusal(instance, push, now.mono_ms)
        instance.is_terminating = push.is_terminating
        if error_code:
            instance.last_error = error_code
            return error_code
        instance.pushes += 1
        if push.metrics:
            self._keep(instance, Pushed(now.wall_ms, push.compression_type, push.metrics))
        return NONE

    def recent(self, now: Now) -> list[ClientInstance]:
        """Return the instances that sent a request within the last `FORGOTTEN_AFTER` push intervals, the latest one last."""
        return [
            each for each in self._instances.values() if now.mono_ms - each.seen_ms <= FORGOTTEN_AFTER * each.subscribed.interval_ms
        ]

    def find(self, instance_id: bytes) -> ClientInstance | None:
        return self._instances.get(instance_id)

    def _refusal(self, instance: ClientInstance, push: Push, now_ms: int) -> int:
        if instance.is_terminating:
            return INVALID_REQUEST
        if not instance.may_push(now_ms) and not push.is_terminating:
            return THROTTLING_QUOTA_EXCEEDED
        if push.subscription_id != instance.subscribed.subscription_id:
            return UNKNOWN_SUBSCRIPTION_ID
        if push.compression_type != 0 and push.compression_type not in COMPRESSION_TYPES:
            return UNSUPPORTED_COMPRESSION_TYPE
        return TELEMETRY_TOO_LARGE if len(push.metrics) > self.max_bytes else NONE

    def _instance(self, instance_id: bytes, client: MetricsClient, now: Now) -> ClientInstance:
        """Return the client instance with this id. Create it again if it is new, or if the subscriptions have changed."""
        subscriptions = self._subscribed_to()
        instance = self._instances.pop(instance_id, None)
        if instance is None or instance.made_of is not self._made_of:
            wanted = combine(instance_id, client.properties(uuid_text(instance_id)), subscriptions)
            before, instance = instance, ClientInstance(instance_id, client, wanted, self._made_of)
            if before is not None:
                instance.pushes = before.pushes
                self._replace(before, instance)
        instance.client, instance.seen_ms = client.shorten(), now.mono_ms
        self._instances[instance_id] = instance
        if len(self._instances) > MOST_INSTANCES:
            oldest = next(iter(self._instances))
            self._drop_metrics(self._instances.pop(oldest))
        return instance

    @property
    def has_subscriptions(self) -> bool:
        """Return whether the cluster has any subscription to clients' metrics."""
        return bool(self._image.client_metrics)

    def _subscribed_to(self) -> list[MetricsSubscription]:
        """Return the cluster's subscriptions, parsed once for each change of them. Invalid ones are logged and match no client."""
        if self._made_of is not self._image.client_metrics:
            self._made_of, self._subscriptions = self._image.client_metrics, []
            for name, texts in sorted(self._image.client_metrics.items()):
                try:
                    self._subscriptions.append(subscription(name, texts))
                except SettingError as error:
                    log.error("the subscription %s to client metrics is ignored: %s Set it again, or delete it.", name, error)
        return self._subscriptions

    def _keep(self, instance: ClientInstance, pushed: Pushed) -> None:
        self._drop_metrics(instance)
        instance.pushed = pushed
        self._with_metrics[instance.instance_id] = instance
        self._bytes += len(pushed.metrics)
        while self._bytes > self._settings.value.ottla_client_metrics_bytes:
            self._drop_metrics(next(iter(self._with_metrics.values())))

    def _replace(self, before: ClientInstance, after: ClientInstance) -> None:
        """Give the last metrics of the client instance `before`, with their time, to its replacement `after`."""
        if before.instance_id in self._with_metrics:
            after.pushed = before.pushed
            self._with_metrics[before.instance_id] = after

    def _drop_metrics(self, instance: ClientInstance) -> None:
        if self._with_metrics.pop(instance.instance_id, None) is not None and instance.pushed is not None:
            self._bytes -= len(instance.pushed.metrics)
            instance.pushed = None


def uuid_text(uuid: bytes) -> str:
    """Return a UUID as Kafka prints it: in URL-safe base64 without padding."""
    return urlsafe_b64encode(uuid).decode().rstrip("=")
