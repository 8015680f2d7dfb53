"""The parts of clients that depend on the release of the brokers.

Kafka 0.7 has its own, an optional package that is imported when needed.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from ottla.client.connection.metadata import Metadata
from ottla.client.producer.partitioner import Partitioner
from ottla.client.settings.clients import ConsumerSettings, DiscoverySettings, ProducerSettings
from ottla.net.client.cluster import ClusterLinks
from ottla.net.client.tasks import Tasks

if TYPE_CHECKING:
    from ottla.kafka07.net.client.membership import MembershipDriver07
    from ottla.net.client.consumer.membership_driver import MembershipDriver

    GroupMember = MembershipDriver | MembershipDriver07


def links_to(settings: DiscoverySettings, tasks: Tasks) -> ClusterLinks:
    """Return the links to the cluster, for the settings of a producer or consumer."""
    if not settings.is_of_0_7:
        return ClusterLinks(settings, tasks)
    from ottla.kafka07.net.client.links import ClusterLinks07

    return ClusterLinks07(settings, tasks)


def group_member(cluster: ClusterLinks, settings: ConsumerSettings, tasks: Tasks, **callbacks: Any) -> GroupMember:
    """Return the driver of a consumer's membership in its group."""
    if not settings.is_of_0_7:
        from ottla.net.client.consumer.membership_driver import MembershipDriver  # here, because producers do not need it

        return MembershipDriver(cluster, settings, tasks, **callbacks)
    from ottla.kafka07.net.client.links import ClusterLinks07
    from ottla.kafka07.net.client.membership import MembershipDriver07

    assert isinstance(cluster, ClusterLinks07), "`links_to` made it for these settings"
    # A 0.7 member stays in its group however long its user works, and sends no requests to measure.
    del callbacks["handed_out"], callbacks["metrics"]
    return MembershipDriver07(cluster, settings, tasks, **callbacks)


def partitioner_of(settings: ProducerSettings, metadata: Metadata) -> Partitioner:
    """Return a producer's partitioner."""
    if not settings.is_of_0_7:
        return Partitioner(random.randrange)
    from ottla.kafka07.client.partitions import Partitioner07

    return Partitioner07(random.randrange, metadata)
