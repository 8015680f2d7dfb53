"""The check that a transaction contains the partitions of its records, so that no transaction stays open for ever (KIP-890).

Depends on partitions and transaction coordinators, and on requests only by their version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.broker.coordination.additions import PartitionAdditions
from ottla.broker.partitions.partition import Partition
from ottla.broker.serving.request import Request
from ottla.broker.settings import SettingsInForce
from ottla.coord.transactions.additions import Added, AddPartitions
from ottla.coord.transactions.transaction import NO_PARTITIONS, Partitions, TopicPartition
from ottla.log.producer_state.producers import TransactionToken
from ottla.ports import Steps
from ottla.records.batches.header import HEADER_BYTES, BatchHeader, read_header
from ottla.wire.api.produce import ProduceRequest
from ottla.wire.errors import (
    CONCURRENT_TRANSACTIONS,
    INVALID_PRODUCER_EPOCH,
    INVALID_PRODUCER_ID_MAPPING,
    INVALID_TXN_STATE,
    NONE,
    NOT_ENOUGH_REPLICAS,
    NOT_LEADER_OR_FOLLOWER,
    PRODUCER_FENCED,
    TRANSACTION_ABORTABLE,
)
from ottla.wire.schema import Message

ASKED: Final = 3
"""Upper limit of requests to the coordinator for one request that adds partitions.

A request is repeated if a marker arrives before the coordinator's response, or if the log is truncated. If producers add
partitions themselves, the marker of the previous transaction is already written. A new marker then ends their own transaction.
"""

ABORTABLE_FROM: Final = 11
ADDS_FROM: Final = 12
"""The first version of Produce in which records add their partitions to the transaction."""


@dataclass(slots=True)
class Admission:
    """The result of verifying a request's transactional partitions (`seen`): their errors, and tokens that permit new transactions.

    Responses for the `added` partitions wait until the addition is durable (`TransactionGuard.when_kept`).
    """

    errors: dict[TopicPartition, int] = field(default_factory=dict)
    tokens: dict[Partition, TransactionToken] = field(default_factory=dict)
    added: Partitions = NO_PARTITIONS
    seen: frozenset[Partition] = frozenset()

    def error_of(self, partition: Partition, header: BatchHeader) -> int:
        """Return NONE if a batch may be appended, else the error. A marker can have ended the transaction since its admission.

        NOT_LEADER_OR_FOLLOWER means that this broker became the leader after the admission, so the partition was not verified.
        """
        if not header.is_transactional:
            return NONE
        if partition not in self.seen:
            return NOT_LEADER_OR_FOLLOWER
        return still_admitted(partition, header.producer_id, header.producer_epoch, self.tokens.get(partition))


def still_admitted(partition: Partition, producer_id: int, producer_epoch: int, token: TransactionToken | None) -> int:
    """Return NONE if a producer's transaction is open here, or if its `token` still permits it to begin; else INVALID_TXN_STATE."""
    producers = partition.log.producers
    if producers.is_open(producer_id, producer_epoch):
        return NONE
    return NONE if token is not None and producers.tokens.get(producer_id) is token else INVALID_TXN_STATE


class TransactionGuard:
    """Verifies transactions at their coordinators, before the first records of each transaction in a partition."""

    def __init__(self, additions: PartitionAdditions, settings: SettingsInForce) -> None:
        self._additions = additions
        self.ended = additions.ended
        self._settings = settings

    def admit(self, request: Request[ProduceRequest], parts: Iterable[tuple[Partition, Any]]) -> Steps[Admission]:
        """Verify or add the partitions in which records begin a transaction. `parts` are pairs of a partition and its records."""
        parts = list(parts)
        admission = Admission(seen=frozenset([partition for partition, _ in parts]))
        adds = request.version >= ADDS_FROM
        if adds:  # first, because the end of a transaction removes existing tokens
            yield from self.ended(request.body.transactional_id or "", request)
        written = [(partition, header) for partition, records in parts if (header := _header(records)) is not None]
        producers = {(header.producer_id, header.producer_epoch) for _, header in written}
        if len(producers) > 1:
            admission.errors = {(partition.topic, partition.index): INVALID_PRODUCER_ID_MAPPING for partition, _ in written}
        if len(producers) != 1:
            return admission
        [(producer_id, producer_epoch)] = producers
        own: dict[TopicPartition, Partition] = {}
        for partition, header in written:
            place, known = (partition.topic, partition.index), partition.log.producers
            if known.is_fenced(producer_id, producer_epoch):
                admission.errors[place] = INVALID_PRODUCER_EPOCH
            elif self._must_verify(request, partition, header):
                admission.tokens[partition] = known.token(producer_id)
                own[place] = partition
        if not own or (not adds and not self._settings.value.transaction_partition_verification_enable):
            return admission
        wanted = AddPartitions(
            request.body.transactional_id or "",
            producer_id,
            producer_epoch,
            frozenset(own),
            transaction_version=2 if adds else 0,
            verify_only=not adds,
            leaves_early=adds and self._additions.leaves_early,
        )
        added = yield from self.add(wanted, request, own, admission.tokens)
        if added.error_code or added.absent:
            codes = {place: self._error_of_version(added.error_of(place, TRANSACTION_ABORTABLE), request.version) for place in own}
            admission.errors |= {place: error_code for place, error_code in codes.items() if error_code}
        if wanted.leaves_early and not added.error_code:
            admission.added = frozenset(own)
        return admission

    def add(
        self,
        wanted: AddPartitions,
        request: Request[Message],
        own: Mapping[TopicPartition, Partition],
        tokens: dict[Partition, TransactionToken],
    ) -> Steps[Added]:
        """Send the addition `wanted` to the transaction's coordinator, and return its result.

        If a transaction marker arrived meanwhile, repeat the request, at most `ASKED` times in total.
        """
        producer, left = (wanted.producer_id, wanted.producer_epoch), 1 if wanted.verify_only else ASKED
        while True:
            added: Added = yield from self._additions.add(wanted, request)
            left -= 1
            ended = [part for part in own.values() if not added.error_code and still_admitted(part, *producer, tokens[part])]
            if not ended or not left:
                return added
            tokens.update((partition, partition.log.producers.token(wanted.producer_id)) for partition in ended)

    def _must_verify(self, request: Request[ProduceRequest], partition: Partition, header: BatchHeader) -> bool:
        """Return whether the coordinator must verify a batch.

        This is so if no transaction is open here, or if the coordinator can lack this partition: a power failure can preserve the
        records of a transaction but not the addition of its partition. A partition that is offline when the coordinator starts is
        not added again.
        """
        if not partition.log.producers.is_open(header.producer_id, header.producer_epoch):
            return True
        if request.version < ADDS_FROM:
            return False
        producer, place = (header.producer_id, header.producer_epoch), (partition.topic, partition.index)
        return self._additions.may_lack(request.body.transactional_id or "", producer, place)

    def when_kept(self, request: Request[ProduceRequest], told: Callable[[int], None]) -> None:
        """Call `told(error_code)` once the added partitions are durable in the transaction, or the addition has failed.

        Records can be durable before. The coordinator then finds them at startup (`coord.transactions.transaction`).
        """
        self._additions.when_durable(request.body.transactional_id or "", told)

    def _error_of_version(self, error_code: int, version: int) -> int:
        """Return the equivalent of a coordinator's error code for this version of Produce."""
        if error_code == PRODUCER_FENCED:
            return INVALID_PRODUCER_EPOCH
        if error_code == TRANSACTION_ABORTABLE and version < ABORTABLE_FROM:
            return INVALID_TXN_STATE
        if error_code == CONCURRENT_TRANSACTIONS and version < ADDS_FROM:
            return NOT_ENOUGH_REPLICAS  # older producers do not retry CONCURRENT_TRANSACTIONS, as in Kafka
        return self._additions.in_produce.get(error_code, error_code)


def _header(records: Any) -> BatchHeader | None:
    """Return the header of a transactional batch; None for other records, which need no transaction or are refused later."""
    if records is None or len(records) < HEADER_BYTES:
        return None
    header = read_header(records)
    return header if header.is_transactional and header.producer_id >= 0 else None
