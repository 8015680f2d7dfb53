"""The identity of this broker: its id and its cluster id, which never change while it runs."""

from __future__ import annotations

from typing import NamedTuple


class BrokerIdentity(NamedTuple):
    """The id of a broker and of its cluster."""

    node_id: int
    cluster_id: str
