"""Enforcement of client quotas: each client's use, and its throttle time (KIP-13, KIP-124, KIP-599).

Of all quotas that match a user and a client id, the most specific quota applies (KIP-55). An idle client accumulates the quota
of at most one window (`quota.window.size.seconds`), and a new client starts with almost none. Over a longer time, a client's
rate is at most its quota. Controller mutations accumulate over all windows, as in Kafka. Depends on the cluster image and on
settings, and neither on requests nor on connections.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from ottla.broker.quotas.buckets import TokenBucket
from ottla.broker.settings import SettingsInForce
from ottla.cluster.image import ClusterImage
from ottla.cluster.quotas import CONSUMER_BYTE_RATE, CONTROLLER_MUTATION_RATE, DEFAULT, OF_CLIENTS, REQUEST_PERCENTAGE, QuotaEntity
from ottla.ports import Now

MOST_KNOWN: Final = 10_000
"""Upper limit of clients per quota type. Beyond it, clients without a debt are removed first, then the oldest."""

LEAST_SHARE: Final = 10
"""A new client starts with 1/n of a window's quota. A consumer that has accumulated less may still read 1/n."""

MS: Final = 1000
PERCENT_OF_NS: Final = 100 / 1_000_000_000


class Bound(NamedTuple):
    """A quota per second, and its owner. Clients with the same `owner` share the quota."""

    per_second: float
    owner: QuotaEntity


def bound_of(quotas: Mapping[QuotaEntity, float], user: str, client_id: str) -> Bound | None:
    """Return the quota of a user and client id; None if no quota applies.

    A default quota applies to each user or client id separately. An empty name matches no quota.
    """
    for entity in _candidates(user, client_id):
        found = quotas.get(entity)
        if found is not None:
            owner = QuotaEntity(None if entity.user is None else user, None if entity.client_id is None else client_id)
            return Bound(found, owner)
    return None


def _candidates(user: str, client_id: str) -> list[QuotaEntity]:
    """Return the entities that match, most specific first."""
    of_users = [user, DEFAULT] if user else []
    of_clients = [client_id, DEFAULT] if client_id else []
    found: list[QuotaEntity] = []
    for one in of_users:
        found += [QuotaEntity(one, client) for client in of_clients]
        found.append(QuotaEntity(one))
    return found + [QuotaEntity(None, client) for client in of_clients]


class KindOfQuota:
    """All quotas of one type. Clients with the same quota owner share a bucket. With `has_saved`, new buckets are full."""

    def __init__(self, *, has_saved: bool = False) -> None:
        self._has_saved = has_saved
        self.bounds: dict[QuotaEntity, float] = {}
        self.window_s = 1.0
        self._buckets: dict[QuotaEntity, TokenBucket] = {}
        self._known: dict[tuple[str, str], TokenBucket | None] = {}

    def load(self, quotas: Mapping[QuotaEntity, float], window_s: float) -> None:
        """Apply quotas. Clients whose quota is unchanged keep their savings or debt."""
        self.bounds = dict(quotas)
        self.window_s = window_s
        self._known.clear()

    def bucket(self, user: str, client_id: str, now_ms: int) -> TokenBucket | None:
        """Return the bucket of a client; None without a quota."""
        if not self.bounds:
            return None
        try:
            return self._known[user, client_id]
        except KeyError:
            if len(self._known) >= MOST_KNOWN:
                self._forget(now_ms)
            bucket = self._known[user, client_id] = self._find(user, client_id, now_ms)
            return bucket

    def _find(self, user: str, client_id: str, now_ms: int) -> TokenBucket | None:
        bound = bound_of(self.bounds, user, client_id)
        if bound is None:
            return None
        most = bound.per_second * self.window_s
        bucket = self._buckets.get(bound.owner)
        if bucket is None or (bucket.per_second, bucket.most) != (bound.per_second, most):
            bucket = self._buckets[bound.owner] = TokenBucket(bound.per_second, most, now_ms, self._at_first(most))
        return bucket

    def _at_first(self, most: float) -> float:
        return most if self._has_saved else most / LEAST_SHARE

    def _forget(self, now_ms: int) -> None:
        self._known.clear()
        owing = [(owner, bucket) for owner, bucket in self._buckets.items() if bucket.tokens(now_ms) < self._at_first(bucket.most)]
        self._buckets = dict(owing[-MOST_KNOWN // 2 :])


class Client(NamedTuple):
    """A client to which quotas apply: the principal of its connection, such as User:alice, and the client id of a request."""

    principal: str
    id: str

    @property
    def user(self) -> str:
        return self.principal.partition(":")[2]


class ClientQuotas:
    """The usage of client quotas on this broker. `is_on` is True if any quotas exist.

    The callbacks in `told` are called after each change of quotas.
    """

    def __init__(self, image: ClusterImage, settings: SettingsInForce, now: Callable[[], Now]) -> None:
        self.is_on = False
        self.told: list[Callable[[], None]] = []
        self._image = image
        self._settings = settings
        self._now = now
        self._kinds = {key: KindOfQuota(has_saved=key == CONTROLLER_MUTATION_RATE) for key in OF_CLIENTS}

    def load(self) -> None:
        """Apply the quotas of the cluster image."""
        for key, kind in self._kinds.items():
            found = {entity: quotas[key] for entity, quotas in self._image.quotas.items() if key in quotas}
            kind.load(found, self._saved_s(key))
        self.is_on = any(kind.bounds for kind in self._kinds.values())
        for tell in self.told:
            tell()

    @property
    def counts_time(self) -> bool:
        """Return whether any request quota exists."""
        return bool(self._kinds[REQUEST_PERCENTAGE].bounds)

    def debt_ms(self, key: str, client: Client) -> int:
        """Return the throttle time of a client, in ms; 0 if it is within its quota."""
        bucket, now_ms = self._bucket(key, client)
        return 0 if bucket is None else bucket.debt_ms(now_ms)

    def request_debt_ms(self, client: Client) -> int:
        """Return the throttle time for the request quota, in ms: at most one window, as in Kafka."""
        kind = self._kinds[REQUEST_PERCENTAGE]
        return min(self.debt_ms(REQUEST_PERCENTAGE, client), round(kind.window_s * MS)) if kind.bounds else 0

    def use(self, key: str, client: Client, amount: float) -> None:
        bucket, now_ms = self._bucket(key, client)
        if bucket is not None:
            bucket.use(amount, now_ms)

    def use_time(self, client: Client, used_ns: int) -> None:
        """Record a client's use of the broker's thread, in ns."""
        self.use(REQUEST_PERCENTAGE, client, used_ns * PERCENT_OF_NS)

    def has_to_rest(self, principal: str, client_id: str | None) -> bool:
        """Return whether a consumer has exhausted its quota and must receive no records now."""
        return self.debt_ms(CONSUMER_BYTE_RATE, Client(principal, client_id or "")) > 0

    def readable(self, principal: str, client_id: str | None, most: int) -> int:
        """Return how many of `most` bytes a consumer may read at once."""
        bucket, now_ms = self._bucket(CONSUMER_BYTE_RATE, Client(principal, client_id or ""))
        return most if bucket is None else max(1, min(most, int(max(bucket.tokens(now_ms), bucket.most / LEAST_SHARE))))

    def admits(self, principal: str, client_id: str | None, partitions: int, *, is_strict: bool) -> bool:
        """Count the creation or deletion of partitions toward the client's quota, and return whether the quota permits it.

        Return True even above the quota unless `is_strict`.
        """
        client = Client(principal, client_id or "")
        if is_strict and self.debt_ms(CONTROLLER_MUTATION_RATE, client):
            return False
        self.use(CONTROLLER_MUTATION_RATE, client, partitions)
        return True

    def _bucket(self, key: str, client: Client) -> tuple[TokenBucket | None, int]:
        now_ms = self._now().mono_ms
        return self._kinds[key].bucket(client.user, client.id, now_ms), now_ms

    def _saved_s(self, key: str) -> float:
        settings = self._settings.value
        if key == CONTROLLER_MUTATION_RATE:
            return settings.controller_quota_window_num * settings.controller_quota_window_size_seconds
        return settings.quota_window_size_seconds
