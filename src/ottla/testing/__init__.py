"""A broker for tests: in this process (`Broker`), or as a process of its own that can be stopped, killed and restarted; or several.

Knows how to start what `ottla.net` and `ottla.cli` offer, and nothing of how they work. Importing it loads neither the broker nor
pytest; the fixtures live in `ottla.testing.plugin`, which pytest finds by itself once Ottla is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.testing.cluster import Cluster, NotYet
from ottla.testing.process import BrokerProcess, DidNotStart

if TYPE_CHECKING:
    from ottla import Broker

__all__ = ["Broker", "BrokerProcess", "Cluster", "DidNotStart", "NotYet"]


def __getattr__(name: str) -> object:
    if name == "Broker":
        import ottla

        return ottla.Broker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
