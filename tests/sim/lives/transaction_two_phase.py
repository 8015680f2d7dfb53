"""A simulated producer whose transactions an outside coordinator decides about, together with something else (KIP-939).

What it has decided to commit is committed by this life of the producer or a later one. Knows what the outside coordinator keeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ottla.client.types import TopicPartition
from ottla.coord.transactions.transaction import NO_EPOCH, NO_PRODUCER_ID
from ottla.sim.world import World
from ottla.wire.api.init_producer_id import InitProducerIdRequest
from tests.sim.lives.transaction_clients import ClientEnded, Script
from tests.sim.lives.transaction_ledger import SimTransaction, TransactionLedger
from tests.sim.lives.transaction_producer import ProducerWish, SimWriter
from tests.sim.seeds import Violation

INIT_VERSION = 6
DIES = 0.2
"""How often it dies between a decision and its end: a later life has to finish it."""
NOTHING_OPEN = (NO_PRODUCER_ID, NO_EPOCH)


@dataclass(slots=True)
class OutsideDecision:
    """What an outside coordinator keeps for a transactional id, and never loses. Only its `owner` may change it.

    `prepared` is to be committed; `producer` are the producer id and epoch of its records.
    """

    owner: str = ""
    prepared: SimTransaction | None = None
    producer: tuple[int, int] = NOTHING_OPEN


class SimPreparingWriter(SimWriter):
    """One that decides outside what becomes of its transactions, and finishes what earlier lives have decided."""

    def __init__(
        self,
        world: World,
        connect: Any,
        ledger: TransactionLedger,
        wish: ProducerWish,
        places: Sequence[TopicPartition],
        most: int,
        decision: OutsideDecision,
    ) -> None:
        self._decision = decision
        super().__init__(world, connect, ledger, wish, places, most)

    def init_request(self) -> tuple[int, InitProducerIdRequest]:
        body = InitProducerIdRequest(
            transactional_id=self.wish.transactional_id,
            transaction_timeout_ms=self.wish.timeout_ms,
            enable_2pc=True,
            keep_prepared_txn=True,
        )
        return INIT_VERSION, body

    def take_up(self) -> Script:
        """Take the decision over, and only then the transactional id: what an earlier life prepares afterwards is refused."""
        decision = self._decision
        decision.owner = self.name
        response = yield from self.initialise()
        kept = (response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch)
        left = decision.prepared
        if kept != NOTHING_OPEN:
            if left is not None and decision.producer != kept:
                raise Violation(f"prepared stays: {left.name} of {decision.producer} was to be committed, and {kept} is open")
            yield from self.dawdle()
            self._check_owner()  # the answer may have taken so long that a later life has decided otherwise
            yield from self.decide(left or SimTransaction("of an earlier life"), commits=left is not None)
        self.after_end()

    def before_end(self, transaction: SimTransaction, *, commits: bool) -> None:
        self._check_owner()
        if not commits:
            return
        transaction.is_prepared = True
        self._decision.prepared = transaction
        self._decision.producer = (self.producer_id, self.producer_epoch)
        if self.world.chance(DIES):
            raise ClientEnded("it died with a decision that nobody else has heard of")

    def after_end(self) -> None:
        self._check_owner()
        self._decision.prepared = None

    def _check_owner(self) -> None:
        if self._decision.owner != self.name:
            raise ClientEnded("another has taken over the decision")
