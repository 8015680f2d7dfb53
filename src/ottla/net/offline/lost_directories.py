"""An operator's acceptance that a broker's data directory is lost, which is stored in a shared registry.

The broker itself leaves the in-sync sets when it starts (`ottla.broker.membership.directory`). This module writes only the
acceptance.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from ottla.broker.membership.directory import in_sync_of
from ottla.broker.membership.membership import NotAMember
from ottla.cluster import layout
from ottla.net.offline.registry_copy import open_session
from ottla.net.startup.loop_calls import complete
from ottla.ports import Change


class AcceptedLoss(NamedTuple):
    """The number of partitions with the broker among their in-sync replicas, and of partitions with no other in-sync replica."""

    in_sync: int
    alone: int


def accept(address: str, node_id: int, given: Mapping[str, str]) -> AcceptedLoss:
    """Allow the broker to start once without its records.

    `given` are settings for the connection to ZooKeeper. Raises `NotAMember`, `StorageFailed` and `SettingError`.
    """
    return asyncio.run(_accept(address, node_id, given))


async def _accept(address: str, node_id: int, given: Mapping[str, str]) -> AcceptedLoss:
    async with open_session(address, given) as registry:
        (member,) = await complete(registry.read([layout.broker_path(node_id)]))
        if member is not None:
            raise NotAMember(
                f"Broker {node_id} is registered in {address}, so its data directory is in use: stop the broker first."
            )
        counted = await complete(in_sync_of(registry, node_id))
        await complete(registry.commit([Change(layout.accepted_loss_path(node_id), b"")]))
        return AcceptedLoss(len(counted), sum(state.isr == (node_id,) for state in counted.values()))
