"""Brokers from a static list: `host:port,...` as for any client, or `id:host:port,...` as in Kafka 0.7's `broker.list`."""

from __future__ import annotations

from ottla.client.errors import SettingError
from ottla.client.settings.addresses import parse_servers
from ottla.client.types import Node


def parse_brokers(servers: str) -> list[Node]:
    """Return the brokers of a list. A broker without an id gets its index in the list as id. Raises `SettingError`."""
    words = [word.strip() for word in servers.split(",") if word.strip()]
    brokers: list[Node] = []
    for index, word in enumerate(words):
        first, colon, rest = word.partition(":")
        named = bool(colon) and first.isdecimal() and ":" in rest and not rest.startswith(":")
        ((host, port),) = parse_servers(rest if named else word)
        brokers.append(Node(int(first) if named else index, host, port))
    if len({broker.node_id for broker in brokers}) < len(brokers):
        raise SettingError(f"bootstrap_servers={servers} gives one id to several brokers: write each as id:host:port.")
    return brokers
