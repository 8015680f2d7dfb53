"""Share sessions (KIP-932): the partitions that each member of a share group fetches from this broker, and the session's epoch.

A session belongs to a group, a member and a connection. Each request of the member names the next epoch, and only changes of the
partitions. A partition is *due* until a fetch has found nothing in it that the member can acquire; it becomes due again when the
share partition changes. A fetch reads only partitions that are due, so that many idle ones cost nothing. Pure: depends on neither
logs nor time, and on requests only by their structs.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from operator import attrgetter
from typing import Final

from ottla.wire.errors import (
    INVALID_REQUEST,
    INVALID_SHARE_SESSION_EPOCH,
    NONE,
    SHARE_SESSION_LIMIT_REACHED,
    SHARE_SESSION_NOT_FOUND,
)

FIRST_EPOCH: Final = 0
"""The epoch of a fetch that begins a session, and ends the member's earlier one."""
FINAL_EPOCH: Final = -1
"""The epoch of a request that ends its session and releases the acquired records."""
LAST_EPOCH: Final = (1 << 31) - 1
"""After this epoch, the next one is 1."""

MOST_HELD: Final = 100_000
"""Upper limit of partitions in all share sessions together."""
MOST_HELD_BY_ONE: Final = 20_000
"""Upper limit of partitions in one share session."""

PlaceKey = tuple[bytes, int]
"""(topic id, partition)"""


class SharedPlace:
    """One partition in a share session. `turn` is its place in the order of reading."""

    __slots__ = ("key", "topic", "turn")

    def __init__(self, key: PlaceKey, turn: int) -> None:
        self.key = key
        self.topic: str | None = None
        """The topic's name, set by the reader."""
        self.turn = turn


_turn = attrgetter("turn")


class ShareSession:
    """One member's share session. `epoch` is the epoch of the next request, and `key` is woken when a partition becomes due.

    `unreported` are the partitions that the next response must contain: new ones, and those with an error in the last response.
    """

    __slots__ = ("_turns", "connection_id", "due", "epoch", "group_id", "held", "is_over", "key", "member_id", "unreported")

    def __init__(self, group_id: str, member_id: str, connection_id: int) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.connection_id = connection_id
        self.key: Hashable = ("share session", group_id, member_id)
        self.epoch = FIRST_EPOCH + 1
        self.is_over = False
        self.held: dict[PlaceKey, SharedPlace] = {}
        self.due: dict[SharedPlace, None] = {}
        self.unreported: dict[SharedPlace, None] = {}
        self._turns = 0

    def in_turn(self) -> list[SharedPlace]:
        """Return the partitions to read. The partition that has waited longest for records is first."""
        due = self.due
        return list(due) if len(due) < 2 else sorted(due, key=_turn)

    def add(self, key: PlaceKey) -> None:
        """Add a partition that the session does not have."""
        self._turns += 1
        place = self.held[key] = SharedPlace(key, self._turns)
        self.due[place] = self.unreported[place] = None

    def remove(self, key: PlaceKey) -> SharedPlace | None:
        """Remove a partition and return it; None if the session does not have it."""
        place = self.held.pop(key, None)
        if place is not None:
            self.due.pop(place, None)
            self.unreported.pop(place, None)
        return place

    def record(self, place: SharedPlace, error_code: int) -> None:
        """Record that the response contains a partition without records. An error is repeated until it is over."""
        if error_code:
            self.unreported[place] = None
            self._move_to_end(place)
        else:
            self.unreported.pop(place, None)

    def record_records(self, place: SharedPlace) -> None:
        """Record that the response contains records of a partition, whose turn is then over."""
        self.unreported.pop(place, None)
        self._move_to_end(place)

    def _move_to_end(self, place: SharedPlace) -> None:
        self._turns += 1
        place.turn = self._turns


class ShareSessions:
    """All share sessions of a broker. `evicted` counts those that ended because their connection closed."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[str, str], ShareSession] = {}
        self._by_connection: dict[int, dict[ShareSession, None]] = {}
        self._by_group: dict[str, int] = {}
        self.held = 0
        """The number of partitions in all sessions."""
        self.evicted = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[ShareSession]:
        return iter(self._sessions.values())

    @property
    def connections(self) -> int:
        """Return the number of connections that have sessions."""
        return len(self._by_connection)

    def members(self, group_id: str) -> int:
        """Return the number of sessions of a group."""
        return self._by_group.get(group_id, 0)

    def find(self, group_id: str, member_id: str) -> ShareSession | None:
        return self._sessions.get((group_id, member_id))

    def begin(self, group_id: str, member_id: str, connection_id: int, size: int, most: int) -> ShareSession | int:
        """Return a new session of a member for `size` partitions, or an error code. The member has none: see `end`."""
        assert (group_id, member_id) not in self._sessions, "an earlier session is ended first"
        if len(self._sessions) >= most or size > MOST_HELD_BY_ONE or self.held + size > MOST_HELD:
            return SHARE_SESSION_LIMIT_REACHED
        session = self._sessions[group_id, member_id] = ShareSession(group_id, member_id, connection_id)
        self._by_connection.setdefault(connection_id, {})[session] = None
        self._by_group[group_id] = self._by_group.get(group_id, 0) + 1
        return session

    def resume(self, group_id: str, member_id: str, epoch: int) -> ShareSession | int:
        """Return the session that a request of this epoch continues or ends, or an error code. Change nothing."""
        session = self._sessions.get((group_id, member_id))
        if session is None:
            return SHARE_SESSION_NOT_FOUND
        return session if epoch in (session.epoch, FINAL_EPOCH) else INVALID_SHARE_SESSION_EPOCH

    def advance(self, session: ShareSession) -> None:
        """Advance the session's epoch after a request that continues it."""
        session.epoch = 1 if session.epoch == LAST_EPOCH else session.epoch + 1

    def size_error(self, session: ShareSession, named: int) -> int:
        """Return INVALID_REQUEST if a session could get too large by `named` more partitions, else NONE."""
        is_too_large = len(session.held) + named > MOST_HELD_BY_ONE or self.held + named > MOST_HELD
        return INVALID_REQUEST if is_too_large else NONE

    def add(self, session: ShareSession, keys: Iterable[PlaceKey]) -> None:
        """Add partitions that a session does not have, each once."""
        before = len(session.held)
        for key in keys:
            session.add(key)
        self.held += len(session.held) - before

    def remove(self, session: ShareSession, keys: Iterable[PlaceKey]) -> list[SharedPlace]:
        """Remove partitions from a session, and return those that it had."""
        removed = [place for place in map(session.remove, keys) if place is not None]
        self.held -= 0 if session.is_over else len(removed)
        return removed

    def end(self, session: ShareSession) -> None:
        """End a session. It keeps its partitions, whose acquired records its owner releases."""
        if session.is_over:
            return
        session.is_over = True
        del self._sessions[session.group_id, session.member_id]
        self.held -= len(session.held)
        of_connection = self._by_connection[session.connection_id]
        del of_connection[session]
        if not of_connection:
            del self._by_connection[session.connection_id]
        self._by_group[session.group_id] -= 1
        if not self._by_group[session.group_id]:
            del self._by_group[session.group_id]

    def evict(self, session: ShareSession) -> None:
        """End a session because its connection has closed."""
        self.evicted += 1
        self.end(session)

    def of_connection(self, connection_id: int) -> list[ShareSession]:
        """Return the sessions that a connection has begun."""
        return list(self._by_connection.get(connection_id, ()))
