"""Kafka 0.6 and 0.7 as an optional part of a broker: the router of their requests, and the positions kept beside logs.

Every broker imports this module, and few have clients of these releases. Therefore the router is imported with the first listener
for them, and so is the code that reads positions.
"""

from __future__ import annotations

from ottla.broker.serving.dialects import DialectParts, Speaks
from ottla.kafka07.log.format import PositionsFormat07


class Dialect07:
    """The protocol of clients before Kafka 0.8; implements `ottla.broker.serving.dialects.FirstDialect`."""

    def __init__(self) -> None:
        self.sidecars = PositionsFormat07()

    def router(self, parts: DialectParts) -> Speaks:
        from ottla.kafka07.broker.context import Context07
        from ottla.kafka07.broker.router import Router07
        from ottla.kafka07.broker.views import Views07

        views = Views07(parts.partitions, parts.scheduler, parts.checks, parts.disk)
        return Router07(Context07(parts, views), parts.changes, parts.quotas)
