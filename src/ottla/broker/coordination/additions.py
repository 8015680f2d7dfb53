"""What partitions ask the coordinator of a transaction: to become part of it, or whether they are (KIP-890).

Knows the coordinators of a lone broker, which are its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from ottla.broker.coordination.coordinators import Coordinators
from ottla.broker.coordination.endings import Endings
from ottla.broker.serving.request import Request
from ottla.coord.transactions.inputs import Added, AddPartitions
from ottla.coord.transactions.machine import TransactionMachine
from ottla.coord.transactions.transaction import TopicPartition
from ottla.ports import Now, Steps
from ottla.wire.schema import Message


class Additions:
    """Of a lone broker, whose coordinators are its own."""

    def __init__(self, coordinators: Coordinators[TransactionMachine], endings: Endings) -> None:
        self._coordinators = coordinators
        self._endings = endings

    leaves_early = True
    """Whether an addition may be told before it is stable: whoever asks sees to it, on the same disk."""
    in_produce: Mapping[int, int] = MappingProxyType({})
    """What else Produce tells of errors that only clients of coordinators know."""

    def asked(self, wanted: AddPartitions, request: Request[Message]) -> Steps[Added]:
        """What the coordinator says. It decides about an addition when the end of the transaction before is over."""
        return self._coordinators.asked(wanted.transactional_id, wanted, request)

    def passed(self, transactional_id: str, request: Request[Message]) -> Steps[None]:
        """Wait for the end of the transaction before."""
        return self._endings.passed(transactional_id, request)

    def may_lack(self, transactional_id: str, producer: tuple[int, int], place: TopicPartition, now: Now) -> bool:
        """Whether a partition where a producer's transaction is open may be no part of it, as a power cut leaves it."""
        machine = self._coordinators.machine_of(transactional_id, now)
        return machine is None or machine.lacks(transactional_id, *producer, place)

    def when_kept(self, transactional_id: str, now: Now, told: Callable[[int], None]) -> None:
        """Call `told(error_code)` once what left early is stable, or is known never to be."""
        self._coordinators.when_durable(transactional_id, now, told)
