"""Who may connect: so many connections in all, and so many of one address (KIP-308). Counts, and knows no sockets."""

from __future__ import annotations

import ipaddress
import logging
import socket
from collections import Counter
from collections.abc import Callable

from ottla.broker.settings import SettingsInForce
from ottla.broker.settings.kinds import LARGEST_INT

log = logging.getLogger("ottla.net")


class ConnectionLimits:
    """Counts connections by their address. `room` is how many the open files of this process allow, whatever the settings say.

    `make_room()` is asked when all are taken; it tells whether one of them was given up.
    """

    def __init__(self, settings: SettingsInForce, room: int, make_room: Callable[[], bool]) -> None:
        self._settings = settings
        self._room = room
        self._make_room = make_room
        self._by_host: Counter[str] = Counter()
        self._overrides: dict[str, int] = {}
        self._lowered: int | None = None
        self._read()
        settings.told.append(self._read)

    def enter(self, host: str) -> bool:
        """Whether one more connection of this address is taken in; it counts from now on."""
        settings = self._settings.value
        most, of_host = min(settings.max_connections, self._room), self._overrides.get(host, settings.max_connections_per_ip)
        if self._by_host[host] >= of_host:
            sentence = "refused a connection of %s: it has as many as max.connections.per.ip allows (%d)"
            log.warning(sentence, host, of_host, extra={"cause": "max.connections.per.ip"})
            return False
        if self._by_host.total() >= most and not (most and self._make_room()):
            sentence = (
                "refused a connection of %s: %d are open, as many as max.connections and the open files of this process allow"
            )
            log.warning(sentence, host, most, extra={"cause": "max.connections"})
            return False
        self._by_host[host] += 1
        return True

    def leave(self, host: str) -> None:
        """One connection of this address is gone."""
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]

    def _read(self) -> None:
        most = self._settings.value.max_connections
        if self._room < most < LARGEST_INT and most != self._lowered:  # the largest number is Kafka's default, and sets no limit
            sentence = (
                "max.connections is %d, and the open files of this process leave room for %d: allow more open files (ulimit -n)"
            )
            log.warning(sentence, most, self._room)
            self._lowered = most
        overrides = self._settings.value.max_connections_per_ip_overrides
        self._overrides = {address: most for host, most in overrides for address in _addresses(host)}


def _addresses(host: str) -> set[str]:
    """The addresses that a host's name stands for now; an address stands for itself."""
    try:
        return {str(ipaddress.ip_address(host))}
    except ValueError:
        pass
    try:
        return {str(address[0]) for *_, address in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except OSError as error:
        log.warning("max.connections.per.ip.overrides names %s, which is no host that is known: %s", host, error)
        return set()
