"""A broker in the ZooKeeper of Kafka 0.7: its session there, from its first listening until its stop.

The module connects to the real ZooKeeper; `ottla.kafka07.broker.registration` defines the entries. Every broker's start checks its
listeners here, so that all else is imported by `register`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ottla.broker.releases import Dialect
from ottla.broker.settings import BrokerSettings, SettingError
from ottla.net.server.listeners import Listen
from ottla.net.server.server import Server
from ottla.net.startup.loop_calls import Posts
from ottla.ports import SharedRegistry

CONNECT = "ottla.kafka07.zookeeper.connect"


def check(listen: Sequence[Listen], settings: BrokerSettings) -> None:
    """Raise `SettingError` for settings that no client of 0.6 or 0.7 could use."""
    old = [where for where in listen if where.release.dialect is Dialect.FIRST]
    for where in old:
        if where.spoken.has_sasl:
            raise SettingError(
                f"Listener {where.name} has release {where.release} and {where.spoken.value}, but clients of that release "
                "have no SASL: use PLAINTEXT or SSL."
            )
        if settings.registry_address is not None and where.name == settings.inter_broker_listener:
            raise SettingError(
                f"Listener {where.name} has release {where.release}, which has no requests between brokers: name another "
                "one in inter.broker.listener.name."
            )
    connect = settings.ottla_kafka07_zookeeper_connect
    if connect and not old:
        raise SettingError(f"{CONNECT} is set, and no listener is Kafka 0.7: add one with --listen HOST:PORT,release=0.7.")
    shared = settings.zookeeper_connect
    if connect and shared and _is_same(connect, shared):
        raise SettingError(
            f"{CONNECT} and zookeeper.connect are the same path, where their entries would conflict: use "
            "another path, such as /kafka07."
        )


def _is_same(one: str, other: str) -> bool:
    from ottla.net.zookeeper.address import ZooKeeperAddress

    return ZooKeeperAddress.parse(one) == ZooKeeperAddress.parse(other)


def register(server: Server, addresses: Sequence[Listen], posts: Posts) -> SharedRegistry | None:
    """Begin a session with the configured ZooKeeper; the started broker registers for 0.7 clients once ZooKeeper is reached.

    Return the session's registry, or None if no ZooKeeper is configured. Raises `SettingError`.
    """
    broker = server.broker
    connect = broker.settings.ottla_kafka07_zookeeper_connect
    if not connect:
        return None
    from ottla.kafka07.broker.registration import Registration07
    from ottla.net.startup.cluster_start import advertised_listener, kazoo_needed

    where = next(where for where in addresses if where.release.dialect is Dialect.FIRST)
    _, host, port = advertised_listener(where, broker.settings, "clients")
    with kazoo_needed(CONNECT):
        from ottla.net.zookeeper.registry_factory import sought
    registry = sought(connect, broker.settings.zookeeper_session_timeout_ms, posts)
    registration = Registration07(registry, broker.image, broker.settings_in_force, broker.scheduler, broker.node_id)
    server.complete(partial(registration.begin, host, port))
    return registry
