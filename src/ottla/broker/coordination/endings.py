"""Waits of requests that begin a transaction for the end of the previous transaction.

Depends on the transaction coordinators, and neither on requests nor on logs. The reply to EndTxn is sent before the markers are
written, so a producer's next records can arrive before the markers. Kafka's brokers also delay them, because a refused
producer backs off for much longer.
"""

from __future__ import annotations

from functools import partial

from ottla.broker.coordination.coordinators import Coordinators
from ottla.broker.scheduler import Scheduler
from ottla.broker.serving.request import Request
from ottla.broker.settings import SettingsInForce
from ottla.coord.transactions.machine import TransactionMachine
from ottla.ports import Done, Steps
from ottla.wire.schema import Message


class Endings:
    """The waits by transactional id. The time limit is add.partitions.to.txn.retry.backoff.max.ms."""

    def __init__(self, coordinators: Coordinators[TransactionMachine], scheduler: Scheduler, settings: SettingsInForce) -> None:
        self._coordinators = coordinators
        self._settings = settings
        self._scheduler = scheduler
        self._waiting: dict[str, list[Done]] = {}

    def passed(self, transactional_id: str, request: Request[Message]) -> Steps[None]:
        """Wait until no markers of this id are being written, or until the limit, when the coordinator refuses the request."""
        if not self._is_ending(transactional_id):
            return
        until_ms = self._scheduler.now().mono_ms + self._settings.value.add_partitions_to_txn_retry_backoff_max_ms
        while self._is_ending(transactional_id) and self._scheduler.now().mono_ms < until_ms:
            yield partial(self._wait, transactional_id, until_ms)
        request.now = self._scheduler.now()

    def completed(self, transactional_id: str) -> None:
        """Resume the waits for this transactional id, because its transaction has ended."""
        waiting = self._waiting.pop(transactional_id, None)
        if waiting is not None:
            self._scheduler.cancel((self, transactional_id))
            for done in waiting:
                done(None)

    def _is_ending(self, transactional_id: str) -> bool:
        machine = self._coordinators.machine_of(transactional_id)
        return machine is not None and machine.is_ending(transactional_id)

    def _wait(self, transactional_id: str, until_ms: int, done: Done) -> None:
        waiting = self._waiting.get(transactional_id)
        if waiting is not None:
            waiting.append(done)
            return
        self._waiting[transactional_id] = [done]
        self._scheduler.at((self, transactional_id), until_ms, lambda now: self.completed(transactional_id))
