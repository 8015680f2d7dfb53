"""Brokers for tests: one in this process (`Broker`), one as a process that can be stopped, killed and restarted, or a cluster.

They use only the interfaces of `ottla.net` and `ottla.cli`. Importing this package loads neither the broker nor pytest. The
fixtures are in `ottla.testing.plugin`. pytest loads that module automatically if Ottla is installed.
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
