"""The records in flight of some share groups, read in slices from the share partitions that this broker leads.

Reading changes nothing, so that an exception costs the request alone.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from ottla.broker.share.share_partitions import SharePartitions
from ottla.ports import Steps
from ottla.share.in_flight_rows import GroupInFlight, InFlightQuery, InFlightReader, RunBudget
from ottla.wire.errors import error_name

log = logging.getLogger("ottla.broker")

LED_AT_ONCE: Final = 500
"""The share partitions that are compared with the queries between two pauses."""


def read_in_flight(shares: SharePartitions, queries: Sequence[InFlightQuery], now_ms: int) -> Steps[dict[str, GroupInFlight]]:
    """Return the records in flight of each query's group, by group id. Nothing is returned after an unexpected exception."""
    budget = RunBudget()
    readers = {query.group_id: InFlightReader(query, now_ms, budget) for query in queries}
    try:
        yield from _read(shares, readers)
    except Exception:
        log.exception("records in flight could not be read; please report these lines", extra={"cause": "records in flight"})
        return {}
    return {group_id: reader.found for group_id, reader in readers.items()}


def _read(shares: SharePartitions, readers: dict[str, InFlightReader]) -> Steps[None]:
    for number, led in enumerate(list(shares), 1):
        group_id, topic = led.key[0], led.partition.topic
        reader = readers.get(group_id)
        if reader is not None and topic in reader.query.topics and not led.is_dropped:
            if led.failure is None:
                yield from reader.read(topic, led.machine)
            else:
                reader.found.failures[topic, led.partition.index] = error_name(led.failure[0])
        elif number % LED_AT_ONCE == 0:
            yield None
