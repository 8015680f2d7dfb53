"""Transactions whose end an outside coordinator decides (KIP-939): each state, and what may be asked there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.init_producer_id import InitProducerIdRequest
from ottla.wire.errors import CONCURRENT_TRANSACTIONS, NONE, error_name
from tests.support.transaction_cases import PASSING, TIMEOUT_MS, WHO, Case, Producer, Transactions, relative

NEWEST = 6
TWO_PHASE = "two-phase "
STATES = (
    "unknown",
    "empty",
    "ongoing",
    f"{TWO_PHASE}empty",
    f"{TWO_PHASE}empty anew",
    f"{TWO_PHASE}ongoing",
    f"{TWO_PHASE}ongoing with epochs",
    f"{TWO_PHASE}committed with epochs",
    f"{TWO_PHASE}aborted",
    f"{TWO_PHASE}fenced",
)
ASKED = (
    "InitProducerId 4",
    "InitProducerId 6",
    "InitProducerId 6, endless",
    "InitProducerId 6, two-phase",
    "InitProducerId 6, two-phase, no timeout",
    "InitProducerId 6, two-phase, endless",
    "AddPartitionsToTxn 3",
    "EndTxn 4, commit",
    "EndTxn 5, commit",
    "EndTxn 5, abort",
    "TxnOffsetCommit 5",
    "Produce 12",
)
KEPT = ("InitProducerId 6, two-phase, kept", "InitProducerId 6, kept")
NAMELESS = (
    "InitProducerId 6, two-phase, without id",
    "InitProducerId 6, two-phase, empty id",
    "InitProducerId 6, kept, without id",
)


def cases() -> Iterator[Case]:
    for state in STATES:
        for asked in (*ASKED, *KEPT):
            for who in WHO:
                if who in ("nobody", "half of nobody") and not asked.startswith("InitProducerId"):
                    continue
                if state == "unknown" and who not in ("itself", "nobody"):
                    continue
                yield Case(state, asked, who)
    for asked in NAMELESS:
        for who in ("nobody", "itself"):
            yield Case("unknown", asked, who)


class TwoPhase(Transactions):
    """The same with producers that ask for two phases, in those states that say so."""

    _enables = False

    def __init__(self, address: str, run: str) -> None:
        super().__init__(address, run)
        self.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["any"]), 4)  # makes the topic of groups' offsets

    def brought_to(self, state: str, name: str) -> Producer:
        self._enables = state.startswith(TWO_PHASE)
        return super().brought_to(state.removeprefix(TWO_PHASE), name)

    def _init(self, name: str) -> Producer:
        if not self._enables:
            return super()._init(name)
        got: list[Producer] = []

        def act() -> int:
            body = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=TIMEOUT_MS, enable_2pc=True)
            response = self.ask(body, NEWEST)
            got.append((response.producer_id, response.producer_epoch))
            return int(response.error_code)

        assert self._patiently(act, (*PASSING, CONCURRENT_TRANSACTIONS)) == NONE
        return got[-1]

    def _initproducerid(self, name: str, asked: str, who: Producer, known: Producer) -> list[Any]:
        words = asked.split(", ")
        if words[0] != f"InitProducerId {NEWEST}":
            return super()._initproducerid(name, asked, who, known)
        body = InitProducerIdRequest(
            transactional_id=None if "without id" in words else "" if "empty id" in words else name,
            transaction_timeout_ms=0 if "no timeout" in words else 2**31 - 1 if "endless" in words else TIMEOUT_MS,
            producer_id=who[0],
            producer_epoch=who[1],
            enable_2pc="two-phase" in words,
            keep_prepared_txn="kept" in words,
        )
        response = self.ask(body, NEWEST)
        ongoing = relative((response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch), known)
        under_way = ongoing if response.ongoing_txn_producer_id >= 0 else []
        if response.error_code:
            return [error_name(response.error_code), response.producer_id, response.producer_epoch, *under_way]
        return ["NONE", *relative((response.producer_id, response.producer_epoch), known), *under_way]
