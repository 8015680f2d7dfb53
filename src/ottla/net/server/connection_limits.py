"""The limits on connections: total and per address (KIP-308), and rates per second (KIP-612). The module uses no sockets."""

from __future__ import annotations

import ipaddress
import logging
import socket
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from ottla.broker.quotas.buckets import TokenBucket
from ottla.broker.settings import SettingsInForce
from ottla.broker.settings.kinds import LARGEST_INT
from ottla.cluster.quotas import CONNECTION_CREATION_RATE, DEFAULT, QuotaEntity

log = logging.getLogger("ottla.net")

Overrides = Sequence[tuple[str, int]]
Key = TypeVar("Key", str, str | None)
EVERY_ADDRESS = QuotaEntity(ip=DEFAULT)
OTHERS_SHARE = 16
MOST_ADDRESSES = 10_000
"""The most addresses whose connection rate is stored. Above it, addresses without recent connections are removed."""

LONGEST_WAIT_MS = 1000
"""The longest pause, in ms, before a connection is accepted or closed. A connection that must wait longer is checked again."""


class ConnectionLimits:
    """The counts of connections by address and listener.

    `room` is the number of connections that the limit of open files allows, whatever the settings say. Without settings, one
    address gets at most fifteen sixteenths of `room`. When `room` connections are open, `make_room()` is called: it closes idle
    connections, and returns whether it closed any. `quotas` has the connection rates of addresses (KIP-612). `now_ms` returns the
    monotonic time. `beside(work)` runs `work` on another thread, because `work` can wait for the network.
    """

    def __init__(
        self,
        settings: SettingsInForce,
        room: int,
        make_room: Callable[[], bool],
        quotas: Mapping[QuotaEntity, Mapping[str, float]],
        now_ms: Callable[[], int],
        beside: Callable[[Callable[[], None]], None] = lambda work: threading.Thread(target=work, daemon=True).start(),
    ) -> None:
        self._settings = settings
        self._beside = beside
        self._room = room
        self._make_room = make_room
        self._by_host: Counter[str] = Counter()
        self._by_listener: Counter[str] = Counter()
        self._rates = ConnectionRates(settings, quotas, now_ms)
        self._overrides: dict[str, int] = {}
        self._lowered: int | None = None
        self._read()
        settings.told.append(self._read)

    def of(self, listener: str) -> ListenerLimits:
        """Return an object that applies these limits to the connections of one listener."""
        return ListenerLimits(self, self._rates, listener)

    def enter(self, host: str, listener: str = "") -> bool:
        """Count one more connection of address `host` on `listener`, and return True. Return False if a limit forbids it."""
        settings = self._settings.value
        most, of_host = min(settings.max_connections, self._room), self._of_host(host)
        of_listener = settings.of_listener(listener).max_connections
        if self._by_host[host] >= of_host:
            sentence = "refused a connection of %s: it has reached max.connections.per.ip (%d)"
            log.warning(sentence, host, of_host, extra={"cause": "max.connections.per.ip"})
            return False
        if self._by_listener[listener] >= of_listener and of_listener < settings.max_connections:
            sentence = "refused a connection of %s: listener %s has reached its max.connections (%d)"
            log.warning(sentence, host, listener, of_listener, extra={"cause": f"max.connections of {listener}"})
            return False
        if self._by_host.total() >= most and not (most and self._make_room()):
            sentence = "refused a connection of %s: %d are open, the limit by max.connections and the open files of this process"
            log.warning(sentence, host, most, extra={"cause": "max.connections"})
            return False
        if not self._rates.enter(host, listener):
            sentence = "delayed and closed a connection of %s: it exceeds its quota connection_creation_rate"
            log.info(sentence, host, extra={"cause": "connection_creation_rate"})
            return False
        self._by_host[host] += 1
        self._by_listener[listener] += 1
        return True

    def leave(self, host: str, listener: str = "") -> None:
        """Subtract a closed connection of address `host` from the counts."""
        self._by_listener[listener] -= 1
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]

    def _of_host(self, host: str) -> int:
        settings = self._settings.value
        of_host = self._overrides.get(host, settings.max_connections_per_ip)
        if of_host == LARGEST_INT and settings.max_connections == LARGEST_INT:
            return self._room - self._room // OTHERS_SHARE
        return of_host

    def _read(self) -> None:
        most = self._settings.value.max_connections
        if self._room < most < LARGEST_INT and most != self._lowered:  # the largest number is Kafka's default, and means no limit
            sentence = (
                "max.connections is %d, and the open files of this process leave room for %d: allow more open files (ulimit -n)"
            )
            log.warning(sentence, most, self._room)
            self._lowered = most
        overrides = self._settings.value.max_connections_per_ip_overrides
        self._overrides = {address: most for host, most in overrides if (address := _address(host)) is not None}
        names = [(host, most) for host, most in overrides if _address(host) is None]
        if names:
            self._beside(partial(self._resolve, overrides, names))

    def _resolve(self, overrides: Overrides, names: Overrides) -> None:
        """Add the addresses of host names to the overrides. Run this on another thread, because a name server can take long."""
        found = {address: most for host, most in names for address in _addresses(host)}
        if self._settings.value.max_connections_per_ip_overrides is overrides:
            self._overrides = found | self._overrides  # one assignment, so that a concurrent count uses one of the two dicts


class ConnectionRates:
    """The rates of accepted connections: of all listeners together, of each listener, and of each address."""

    def __init__(
        self, settings: SettingsInForce, quotas: Mapping[QuotaEntity, Mapping[str, float]], now_ms: Callable[[], int]
    ) -> None:
        self._settings = settings
        self._quotas = quotas
        self._now_ms = now_ms
        self._of_listeners: dict[str | None, TokenBucket] = {}
        self._of_hosts: dict[str, TokenBucket] = {}

    @property
    def known_addresses(self) -> int:
        """Return the number of addresses whose connection rate is stored."""
        return len(self._of_hosts)

    def wait_ms(self, listener: str) -> int:
        """Return the time, in ms, for which no connection may be accepted. New connections wait in the operating system's queue."""
        now_ms = self._now_ms()
        buckets = [self._of_all(now_ms), self._of_listener(listener, now_ms)]
        return min(LONGEST_WAIT_MS, max(0 if bucket is None else bucket.wait_ms(now_ms) for bucket in buckets))

    def enter(self, host: str, listener: str) -> bool:
        """Count an accepted connection, and return True. Return False if the connection exceeds its address's rate."""
        now_ms = self._now_ms()
        bucket = self._of_host(host, now_ms)
        if bucket is not None and bucket.wait_ms(now_ms):
            return False
        for one in (bucket, self._of_all(now_ms), self._of_listener(listener, now_ms)):
            if one is not None:
                one.use(1, now_ms)
        return True

    def held_ms(self, host: str) -> int:
        """Return the time, in ms, for which a refused connection is kept open, so that its client does not retry at once."""
        now_ms = self._now_ms()
        bucket = self._of_host(host, now_ms)
        return 0 if bucket is None else min(LONGEST_WAIT_MS, bucket.wait_ms(now_ms))

    def _of_all(self, now_ms: int) -> TokenBucket | None:
        return self._update_bucket(self._of_listeners, None, self._settings.value.max_connection_creation_rate, now_ms)

    def _of_listener(self, listener: str, now_ms: int) -> TokenBucket | None:
        settings = self._settings.value
        rate = settings.of_listener(listener).max_connection_creation_rate
        return (
            None
            if rate == settings.max_connection_creation_rate
            else self._update_bucket(self._of_listeners, listener, rate, now_ms)
        )

    def _of_host(self, host: str, now_ms: int) -> TokenBucket | None:
        found = self._quotas.get(QuotaEntity(ip=host), {}).get(CONNECTION_CREATION_RATE)
        rate = self._quotas.get(EVERY_ADDRESS, {}).get(CONNECTION_CREATION_RATE) if found is None else found
        if rate is None:
            return None
        if self.known_addresses >= MOST_ADDRESSES:
            self._of_hosts = {each: bucket for each, bucket in self._of_hosts.items() if bucket.tokens(now_ms) < bucket.most}
            if self.known_addresses >= MOST_ADDRESSES:
                self._of_hosts.clear()
        return self._update_bucket(self._of_hosts, host, rate, now_ms)

    def _update_bucket(self, buckets: dict[Key, TokenBucket], key: Key, rate: float, now_ms: int) -> TokenBucket | None:
        if rate >= LARGEST_INT:
            return None
        settings = self._settings.value
        most = max(1.0, rate * settings.quota_window_size_seconds * max(1, settings.quota_window_num - 1))
        bucket = buckets.get(key)
        if bucket is None or (bucket.per_second, bucket.most) != (rate, most):
            bucket = buckets[key] = TokenBucket(rate, most, now_ms)
        return bucket


class ListenerLimits:
    """The connection limits for one listener: the methods of `ConnectionLimits` and `ConnectionRates` with this listener's name."""

    def __init__(self, limits: ConnectionLimits, rates: ConnectionRates, listener: str) -> None:
        self._limits = limits
        self._rates = rates
        self._listener = listener

    def enter(self, host: str) -> bool:
        """Count one more connection of address `host`, and return True. Return False if a limit forbids the connection."""
        return self._limits.enter(host, self._listener)

    def leave(self, host: str) -> None:
        """Subtract a closed connection of address `host` from the counts."""
        self._limits.leave(host, self._listener)

    def wait_ms(self) -> int:
        """Return the time, in ms, for which no connection may be accepted, or 0 if one may be accepted now."""
        return self._rates.wait_ms(self._listener)

    def held_ms(self, host: str) -> int:
        """Return the time, in ms, for which a refused connection of address `host` is kept open before it is closed."""
        return self._rates.held_ms(host)


def _address(host: str) -> str | None:
    """Return an address in the form in which connections report it, or None if `host` is a host name."""
    try:
        return str(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        return None


def _addresses(host: str) -> set[str]:
    """Return the current addresses of a host name."""
    try:
        return {str(address[0]) for *_, address in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError) as error:
        log.warning("max.connections.per.ip.overrides names %s, which is not a known host: %s", host, error)
        return set()
