"""The internal topics of streams applications as the brokers create them."""

from __future__ import annotations

from ottla.coord.streams.values import InternalTopic
from ottla.wire.api.create_topics import CreateTopicsRequest


def creatable(topic: InternalTopic) -> CreateTopicsRequest.CreatableTopic:
    """Return the creation of an internal topic. Without a replication factor of its own, it has the brokers' default."""
    return CreateTopicsRequest.CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor or -1,
        configs=[CreateTopicsRequest.CreatableTopicConfig(name=key, value=value) for key, value in topic.configs],
    )
