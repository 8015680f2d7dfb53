"""The brokers of Kafka 0.7: from a static list, and with their partitions as today's metadata, in which each partition's leader is
its only broker.

A list is `host:port,...` as for any client, or `id:host:port,...` as in Kafka 0.7's `broker.list`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.client.errors import SettingError
from ottla.client.settings.addresses import parse_servers
from ottla.client.types import Node
from ottla.kafka07.client.partitions import BrokerPartition
from ottla.wire import errors as codes
from ottla.wire.api.metadata import MetadataResponse

Counts = Mapping[int, int]
"""broker id -> number of a topic's partitions on the broker"""


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


def describe(brokers: Iterable[Node], topics: Mapping[str, Counts], refused: Mapping[str, int]) -> MetadataResponse:
    """Return the metadata in the format of newer brokers. `refused` maps unusable topics to error codes."""
    broker = MetadataResponse.MetadataResponseBroker
    topic = MetadataResponse.MetadataResponseTopic
    return MetadataResponse(
        brokers=[broker(node_id=node.node_id, host=node.host, port=node.port) for node in brokers],
        topics=[
            *(topic(error_code=code, name=name, partitions=[]) for name, code in refused.items()),
            *(_topic(name, counts) for name, counts in topics.items() if name not in refused),
        ],
    )


def _topic(name: str, counts: Counts) -> MetadataResponse.MetadataResponseTopic:
    partition = MetadataResponse.MetadataResponsePartition
    found = [
        partition(
            error_code=codes.NONE,
            partition_index=BrokerPartition(broker_id, index).number,
            leader_id=broker_id,
            replica_nodes=[broker_id],
            isr_nodes=[broker_id],
        )
        for broker_id, count in sorted(counts.items())
        for index in range(count)
    ]
    code = codes.NONE if found else codes.UNKNOWN_TOPIC_OR_PARTITION
    return MetadataResponse.MetadataResponseTopic(error_code=code, name=name, partitions=found)
