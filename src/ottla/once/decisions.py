"""The decision about a batch, and its record: the list of transactions that form the batch.

Only the last decision of each query or job is in force.
"""

from __future__ import annotations

import json
from enum import Enum
from typing import Any, Final, NamedTuple

from ottla.client.errors import KafkaError
from ottla.client.types import TopicPartition

VERSION: Final = 1


class Handed(NamedTuple):
    """An open transaction with `rows` rows, which the committer must end. Its producer writes nothing more in it.

    `prepared` is the producer id and epoch with which to end a prepared transaction (KIP-939), which has no timeout. It is None for
    a transaction that ends with its own producer id and epoch.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    rows: int
    partitions: tuple[TopicPartition, ...]
    prepared: tuple[int, int] | None = None

    @property
    def ends_as(self) -> tuple[int, int]:
        """Return the producer id and epoch under which the transaction ends."""
        return self.prepared or (self.producer_id, self.producer_epoch)


class BatchVerdict(Enum):
    """What a committer decided about a batch: written or void."""

    WRITTEN = "written"
    VOID = "void"
    """Timeouts aborted all transactions of an earlier decision, so that the batch must be written again."""


class BatchDecision(NamedTuple):
    """The last decided batch. `decided_ms` is the time of the decision, for people (ms since 1970).

    `is_finished` means that all its transactions are committed. Coordinators can then forget them.
    """

    run_id: str
    batch_id: int
    verdict: BatchVerdict
    transactions: tuple[Handed, ...]
    decided_ms: int
    is_finished: bool = False

    @property
    def rows(self) -> int:
        """Return the number of rows in the batch."""
        return sum(each.rows for each in self.transactions)

    def covers(self, batch_id: int) -> bool:
        """Return whether the decision shows that the batch `batch_id`, or a later batch, is written."""
        return self.batch_id > batch_id or (self.batch_id == batch_id and self.verdict is BatchVerdict.WRITTEN)


class UnreadableDecision(KafkaError):
    """Raised for a record of a decision that this version of Ottla cannot read."""


def encode(name: str, decision: BatchDecision) -> tuple[bytes, bytes]:
    """Return the key and value of the record that stores a decision of the query or job `name`."""
    transactions = [
        {
            "transactionalId": each.transactional_id,
            "producerId": each.producer_id,
            "producerEpoch": each.producer_epoch,
            "rows": each.rows,
            "partitions": [list(where) for where in each.partitions],
            **({"prepared": list(each.prepared)} if each.prepared else {}),
        }
        for each in decision.transactions
    ]
    value = {
        "version": VERSION,
        "runId": decision.run_id,
        "batchId": decision.batch_id,
        "verdict": decision.verdict.value,
        "decidedMs": decision.decided_ms,
        "transactions": transactions,
        **({"finished": True} if decision.is_finished else {}),
    }
    return name.encode(), json.dumps(value, separators=(",", ":")).encode()


def decode(key: bytes, value: bytes) -> BatchDecision:
    """Return the decision that a record with this key and value stores. Raises `UnreadableDecision`."""
    try:
        found = json.loads(value)
        if found["version"] > VERSION:
            raise UnreadableDecision(
                f"The decision about {key.decode(errors='replace')} was written by a newer Ottla (version {found['version']}): "
                "run this query or job with that one."
            )
        transactions = tuple(_parse_handed(each) for each in found["transactions"])
        verdict = BatchVerdict(found["verdict"])
        is_finished = found.get("finished") is True
        return BatchDecision(found["runId"], int(found["batchId"]), verdict, transactions, int(found["decidedMs"]), is_finished)
    except (ValueError, KeyError, TypeError) as error:
        raise UnreadableDecision(
            f"The decision about {key.decode(errors='replace')} is damaged, or something else was written into its topic: "
            f"{value[:100]!r}. Name another topic in option decisionTopic, or write the record again by hand."
        ) from error


def _parse_handed(found: dict[str, Any]) -> Handed:
    partitions = tuple(TopicPartition(topic, index) for topic, index in found["partitions"])
    prepared = found.get("prepared")
    return Handed(
        found["transactionalId"],
        found["producerId"],
        found["producerEpoch"],
        found["rows"],
        partitions,
        (int(prepared[0]), int(prepared[1])) if prepared else None,
    )
