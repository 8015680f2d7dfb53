"""Inputs, results, orders and settings of the share coordinator, and error results of undecided inputs. Values only."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple

from ottla.coord.share_state.batches import StateBatch
from ottla.values import dataclass
from ottla.wire.errors import ERRORS, NONE

MINUTE_MS: Final = 60_000
ID_BYTES: Final = 16
MOST_BATCHES: Final = 250
"""The most state batches of one write. A coordinator takes about a millisecond for them."""
_KEY: Final = re.compile(r"(.+):([A-Za-z0-9_-]{22})(?:==)?:([+-]?[0-9]{1,18})", re.DOTALL)


class SharePartitionKey(NamedTuple):
    """A share partition: a partition of a topic, as one share group consumes it."""

    group_id: str
    topic_id: bytes
    partition: int

    @lru_cache(1_000)  # noqa: B019  # keys are values, and few are kept
    def coordinator_key(self) -> str:
        """Return the key that determines the coordinator: group id, topic id in base64, and partition, joined by colons."""
        return f"{self.group_id}:{urlsafe_b64encode(self.topic_id).decode().rstrip('=')}:{self.partition}"


def parse_coordinator_key(text: str) -> SharePartitionKey | None:
    """Parse the key of a FindCoordinator request; None if it is malformed. Only the group id can contain colons."""
    matched = _KEY.fullmatch(text.rstrip(":"))
    if matched is None:
        return None
    group_id, topic, partition = matched.groups()
    topic_id = urlsafe_b64decode(f"{topic}==")
    index = int(partition)
    if not group_id.strip() or len(topic_id) != ID_BYTES or not -(1 << 31) <= index < 1 << 31:
        return None
    return SharePartitionKey(group_id, topic_id, index)


class InitializeState(NamedTuple):
    """The first state of a share partition, or a new one in a later state epoch. A start offset of -1 is not known yet."""

    topic_id: bytes
    partition: int
    state_epoch: int
    start_offset: int


class ReadState(NamedTuple):
    """A question for the state of a share partition. A newer leader epoch fences writes of earlier leaders."""

    topic_id: bytes
    partition: int
    leader_epoch: int


class WriteState(NamedTuple):
    """Changes of a share partition's state. A start offset of -1 leaves it unchanged."""

    topic_id: bytes
    partition: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: Sequence[StateBatch]


def divide_write(write: WriteState) -> list[WriteState]:
    """Return the writes that together have all batches of one write, each with at most `MOST_BATCHES`.

    If some of them do not end after they begin, the write is refused before anything is stored.
    """
    batches = write.batches
    if len(batches) <= MOST_BATCHES:
        return [write]
    reversed_one = next((batch for batch in batches if batch[1] < batch[0]), None)
    if reversed_one is not None:
        return [write._replace(batches=(reversed_one,))]
    return [write._replace(batches=batches[at : at + MOST_BATCHES]) for at in range(0, len(batches), MOST_BATCHES)]


class DeleteState(NamedTuple):
    """The deletion of a share partition's state."""

    topic_id: bytes
    partition: int


SharePlace = InitializeState | ReadState | WriteState | DeleteState


class StateResult(NamedTuple):
    """The result for one share partition. An operation sets only the fields that its response has."""

    error_code: int = NONE
    error_message: str | None = None
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = 0
    delivery_complete_count: int = -1
    batches: tuple[StateBatch, ...] = ()


class StateOperation(Enum):
    """The operations on the states of share partitions, with Kafka's names in error messages."""

    INITIALIZE = "initialize share group state"
    READ = "read share group state"
    WRITE = "write share group state"
    DELETE = "delete share group state"
    READ_SUMMARY = "read share group state summary"


class StateRequest(NamedTuple):
    """An input: one operation on share partitions of a group. The reply is a list of `StateResult`, one for each place."""

    operation: StateOperation
    group_id: str
    places: Sequence[SharePlace]


class DeletedTopics(NamedTuple):
    """An input: topics were deleted. Share partitions of these ids are deleted in steps. The reply is a `StatesDeleted`."""

    topic_ids: frozenset[bytes]


class StatesDeleted(NamedTuple):
    """The result of one step of `DeletedTopics`. With `are_more`, the broker repeats the input."""

    error_code: int
    are_more: bool = False


class PruneLog(NamedTuple):
    """An order: delete all records below `offset`, which later snapshots replace."""

    offset: int


class Chore(Enum):
    """The timers of a share coordinator."""

    SNAPSHOTS = "snapshots of cold partitions"
    PRUNING = "pruning of the log"


@dataclass(frozen=True, slots=True)
class ShareStateSettings:
    """The settings of a share coordinator, with the names and defaults of the broker's settings."""

    share_coordinator_snapshot_update_records_per_snapshot: int = 500
    share_coordinator_cold_partition_snapshot_interval_ms: int = 5 * MINUTE_MS
    share_coordinator_state_topic_prune_interval_ms: int = 5 * MINUTE_MS
    ottla_max_share_state_bytes: int = 64 << 20


def refuse(body: object, error_code: int) -> object:
    """Return the reply to an input with `error_code`."""
    if isinstance(body, StateRequest):
        message = f"Unable to {body.operation.value}: {ERRORS[error_code].sentence}"
        return [StateResult(error_code, message)] * len(body.places)
    assert isinstance(body, DeletedTopics), "there are two inputs with replies"
    return StatesDeleted(error_code)
