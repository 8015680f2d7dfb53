"""The broker services for transaction coordinators: settings, producer ids, and partitions that accept markers.

Contains no rules of transactions: `ottla.coord.transactions` decides, `coordinators` routes requests, and `markers` writes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.coordination.coordinators import CoordinatorKind, CoordinatorRooms, Coordinators
from ottla.broker.coordination.markers import TransactionMarkers
from ottla.broker.coordination.replay import stored_records
from ottla.broker.partitions.partition import Partition
from ottla.broker.scheduler import Waits
from ottla.broker.serving.request import Request
from ottla.broker.settings import SettingsInForce
from ottla.broker.topics.features import Features
from ottla.cluster.features import TRANSACTION_VERSION
from ottla.cluster.names import TRANSACTIONS_TOPIC
from ottla.coord.runtime.shard import Shard
from ottla.coord.transactions.additions import Added, AddPartitions
from ottla.coord.transactions.transaction import NO_PARTITIONS, Forgotten, Opened, Stored, with_opened
from ottla.ports import Now, Steps
from ottla.wire.schema import Message

if TYPE_CHECKING:
    from ottla.coord.transactions.inputs import MarkersWritten, TransactionSettings
    from ottla.coord.transactions.machine import TransactionMachine

log = logging.getLogger("ottla.broker")


class TransactionShards(Coordinators["TransactionMachine"]):
    """The transaction coordinators of this broker."""


class TransactionCoordinators:
    """The transaction coordinators (`coordinators`), and their updates. `markers` executes their orders.

    The modules of machines are imported with the first coordinator, because many brokers never have one.
    """

    def __init__(
        self,
        rooms: CoordinatorRooms,
        settings: SettingsInForce,
        features: Features,
        new_producer_id: Callable[[], int | None],
        markers: TransactionMarkers,
        *,
        is_alone: bool,
    ) -> None:
        """Create the transaction coordinators. `is_alone`: all partitions of the cluster are on this broker, on one disk."""
        kind = CoordinatorKind(
            TRANSACTIONS_TOPIC, self._new_machine, self._read, _refuse, loaded=self._on_load, carry_out=self._execute
        )
        self.coordinators = TransactionShards(kind, rooms)
        self._ends = Waits(rooms.scheduler)
        self._scheduler = rooms.scheduler
        self._settings = settings
        self._features = features
        self._new_producer_id = new_producer_id
        self._markers = markers
        self._partitions = rooms.partitions
        self.is_alone = is_alone
        self._opened: Opened | None = None
        self._has_begun = False
        settings.told.append(self._settings_changed)
        features.told.append(self._settings_changed)

    def load(self) -> None:
        """Replay every partition of `__transaction_state`, and continue open and ending transactions."""
        self.coordinators.load_at_once()
        self._opened, self._has_begun = None, True

    def add(self, part: AddPartitions, request: Request[Message]) -> Steps[Added]:
        """Add partitions to a transaction, and return the coordinator's result once the id's previous transaction has ended."""
        yield from self.wait_for_markers(part.transactional_id, request)
        return (yield from self.coordinators.request_steps(part.transactional_id, part, request))

    def wait_for_markers(self, transactional_id: str, request: Request[Message]) -> Steps[None]:
        """Wait until no markers of this id are being written; then the coordinator accepts a new transaction.

        The reply to EndTxn is sent before the markers are written, so a producer's next records can arrive before the markers.
        Kafka's brokers also delay them, because a refused producer backs off for much longer. The time limit is
        add.partitions.to.txn.retry.backoff.max.ms.
        """
        if self._is_ending(transactional_id):
            until_ms = self._scheduler.now().mono_ms + self._settings.value.add_partitions_to_txn_retry_backoff_max_ms
            yield from self._ends.until(lambda: not self._is_ending(transactional_id), until_ms, transactional_id)
            request.now = self._scheduler.now()

    def _is_ending(self, transactional_id: str) -> bool:
        machine = self.coordinators.machine_of(transactional_id)
        return machine is not None and machine.is_ending(transactional_id)

    def _open_in_partitions(self) -> Opened:
        """Return the partitions with open transactions, by producer id and epoch."""
        opened: Opened = {}
        for partition in self._partitions:
            if partition.offline is not None:
                continue
            producers = partition.log.producers
            for producer_id in producers.open_transactions:
                key = producer_id, producers.by_id[producer_id].epoch
                opened[key] = opened.get(key, NO_PARTITIONS) | {(partition.topic, partition.index)}
        return opened

    def _read(self, partition: Partition) -> Iterator[Stored]:
        """Yield the stored records. Then yield corrected states of transactions that lack a partition in which they are open.

        Only a single broker needs corrections: in a larger cluster, additions are replicated before any record is written.
        """
        from ottla.coord.transactions.records import TransactionReader

        stored = stored_records(partition, TransactionReader())
        if not self.is_alone:
            yield from stored
            return
        if self._opened is None or self._has_begun:
            self._opened = self._open_in_partitions()
        opened = self._opened
        latest: dict[str, Stored] = {}
        for record in stored:
            yield record
            if opened:
                latest[record.transactional_id] = record
        now_ms = self._scheduler.now().wall_ms
        for known in latest.values():
            found = known if isinstance(known, Forgotten) else with_opened(known, opened, now_ms)
            if found is not known:
                sentence = "%s: the transaction of %s is open, which this log lacks after a power cut: it continues"
                log.info(sentence, partition, known.transactional_id)
                yield found

    def _new_machine(self) -> TransactionMachine:
        from ottla.coord.transactions.machine import TransactionMachine

        return TransactionMachine(self._transaction_settings(), self._new_producer_id, self.coordinators.weight)

    def _on_load(self, shard: Shard[TransactionMachine], index: int, now: Now) -> None:
        if shard.machine.by_id:
            log.info("%s: %d transactional ids, %d open", shard.name, len(shard.machine.by_id), len(shard.machine.ongoing))

    def _execute(self, partition: Partition, shard: Shard[TransactionMachine], order: object) -> None:
        from ottla.coord.transactions.inputs import MarkersWritten, WriteMarkers

        assert isinstance(order, WriteMarkers), "coordinators of transactions order markers"
        written = MarkersWritten(order.transactional_id, order.producer_id, order.producer_epoch)
        self._markers.write(order, partition.leader_epoch, partial(self._complete, shard, written), lambda: shard.is_loaded)

    def _complete(self, shard: Shard[TransactionMachine], written: MarkersWritten) -> None:
        shard.submit(written, self._scheduler.now())
        self._ends.notify(written.transactional_id)

    def _settings_changed(self) -> None:
        """Apply changed transaction settings from the next decision on."""
        for shard in self.coordinators.shards:
            shard.machine.configure(self._transaction_settings())

    def _transaction_settings(self) -> TransactionSettings:
        from ottla.coord.transactions.inputs import TransactionSettings

        return self._settings.part(TransactionSettings, transaction_version=self._features.level(TRANSACTION_VERSION))


def _refuse(body: object, error_code: int) -> object:
    """Return the reply to a request that no coordinator decides."""
    from ottla.coord.transactions.inputs import refuse

    return refuse(body, error_code)
