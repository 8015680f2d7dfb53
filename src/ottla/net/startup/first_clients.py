"""The loader of the package `ottla.kafka07`, the optional part of brokers for clients of Kafka 0.6 and 0.7.

Without the package, the broker works for all other clients, and refuses listeners of these releases.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.broker.releases import Dialect
from ottla.broker.serving.dialects import FirstDialect
from ottla.broker.settings import BrokerSettings, SettingError
from ottla.log.sidecars import SidecarFormat
from ottla.net.server.listeners import Listen
from ottla.net.server.server import Server
from ottla.net.startup.loop_calls import Posts
from ottla.ports import SharedRegistry


def first_dialect() -> FirstDialect | None:
    """Return the part of a broker that serves clients of Kafka 0.6 and 0.7, or None without the package."""
    try:
        from ottla.kafka07.broker.dialect import Dialect07
    except ModuleNotFoundError:
        return None
    return Dialect07()


def sidecars() -> SidecarFormat | None:
    """Return the format of the files beside a log's segments for clients of Kafka 0.6 and 0.7, or None without the package."""
    found = first_dialect()
    return None if found is None else found.sidecars


def check(listen: Sequence[Listen], settings: BrokerSettings) -> None:
    """Raise `SettingError` for listeners and settings with which clients of Kafka 0.6 or 0.7 cannot work.

    Without the package, raise it for every listener of these releases.
    """
    try:
        from ottla.kafka07.net.registration import check as check07
    except ModuleNotFoundError:
        old = [where for where in listen if where.release.dialect is Dialect.FIRST]
        if old:
            sentence = "which this installation of Ottla cannot serve: install it whole, or leave the listener out"
            raise SettingError(f"Listener {old[0].name} is to be Kafka {old[0].release}, {sentence}.") from None
    else:
        check07(listen, settings)


def register(server: Server, addresses: Sequence[Listen], posts: Posts) -> SharedRegistry | None:
    """Register the broker for clients of Kafka 0.7 if a ZooKeeper is configured for them.

    Return the session of the registration, or None without such a ZooKeeper. Raises `SettingError`.
    """
    if not server.broker.settings.ottla_kafka07_zookeeper_connect:
        return None
    from ottla.kafka07.net.registration import register as registered07

    return registered07(server, addresses, posts)
