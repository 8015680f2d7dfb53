"""What an admin client reports about a cluster. The module sends nothing."""

from __future__ import annotations

from typing import NamedTuple

from ottla.client.types import Node


class ClusterDescription(NamedTuple):
    """The brokers of a cluster. `controller_id` is the id that brokers report as the controller's, or -1 while they report none."""

    cluster_id: str | None
    controller_id: int
    nodes: list[Node]
