"""Volatile events of share groups, which are lost when the coordinator restarts, the orders to the broker, and its inputs.

Values only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ottla.wire.api.alter_share_group_offsets import AlterShareGroupOffsetsResponse
from ottla.wire.api.delete_share_group_offsets import DeleteShareGroupOffsetsResponse
from ottla.wire.errors import NONE
from ottla.wire.schema import Uuid


class ShareTopicsRefreshed(NamedTuple):
    """A group has checked its subscribed topics for changes."""

    group_id: str


class InitializationBegun(NamedTuple):
    """The state of some partitions of these topics is being initialized since `mono_ms`."""

    group_id: str
    topic_ids: tuple[Uuid, ...]
    mono_ms: int


class ShareAssignmentBegun(NamedTuple):
    """The assignment of a large group began. `token` distinguishes it from another one."""

    group_id: str
    token: int


class ShareAssignmentEnded(NamedTuple):
    """The assignment of a large group ended."""

    group_id: str


ShareEvent = ShareTopicsRefreshed | InitializationBegun | ShareAssignmentBegun | ShareAssignmentEnded


class StatePlace(NamedTuple):
    """One share partition of a group, and the offset at which it starts; -1 if a setting of the group decides that."""

    topic_id: Uuid
    partition: int
    start_offset: int = -1


class InitializeShares(NamedTuple):
    """An order: initialize the state of these share partitions, then submit `SharesInitialized`."""

    group_id: str
    state_epoch: int
    places: tuple[StatePlace, ...]


class DeleteShares(NamedTuple):
    """An order: delete the state of these share partitions, whose group no longer exists."""

    group_id: str
    places: tuple[StatePlace, ...]


class ShareStateQuery(NamedTuple):
    """An input: return the initialized share partitions of a group, as `SharePlaces`."""

    group_id: str


class SharePlaces(NamedTuple):
    """The reply to `ShareStateQuery`."""

    places: tuple[StatePlace, ...] = ()
    error_code: int = NONE


class ShareStateDeletion(NamedTuple):
    """An input: a group is to be deleted, after the state of its share partitions. The reply is `DeletingShares`."""

    group_id: str


class AlteringShares(NamedTuple):
    """The reply to AlterShareGroupOffsets: the response so far, and the places to initialize with `state_epoch`."""

    response: AlterShareGroupOffsetsResponse
    state_epoch: int = 0
    places: tuple[StatePlace, ...] = ()


class DeletingShares(NamedTuple):
    """The share partitions whose state must be deleted now, and for DeleteShareGroupOffsets the response so far."""

    places: tuple[StatePlace, ...] = ()
    error_code: int = NONE
    response: DeleteShareGroupOffsetsResponse | None = None


class SharesDeleted(NamedTuple):
    """An input: the state of all partitions of these topics was deleted. The reply is an error code."""

    group_id: str
    topic_ids: tuple[Uuid, ...]


class SharesInitialized(NamedTuple):
    """An input: the result of an initialization, as one error code for each place. The reply is an error code."""

    group_id: str
    places: tuple[StatePlace, ...]
    error_codes: Sequence[int]
