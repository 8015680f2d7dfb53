"""Who this broker is: its number and its cluster, which never change while it runs."""

from __future__ import annotations

from typing import NamedTuple


class BrokerIdentity(NamedTuple):
    """One broker of one cluster."""

    node_id: int
    cluster_id: str
