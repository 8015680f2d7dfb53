"""Fetch sessions (KIP-227): each client's partitions, offsets and last response, so that it receives only changes.

A partition is *quiet* when it was read to its end without an error, and its client has its high watermark and log start offset. It
remains quiet until the client or the partition changes (`changed`). A fetch reads only partitions that are not quiet, so that many
idle partitions cost nothing. Pure: depends on neither logs nor time, and on requests only by their structs.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterable
from operator import attrgetter
from typing import Final

from ottla.wire.api.fetch import FetchRequest, FetchResponse
from ottla.wire.errors import FETCH_SESSION_ID_NOT_FOUND, FETCH_SESSION_TOPIC_ID_ERROR, INVALID_FETCH_SESSION_EPOCH, NONE

NO_SESSION: Final = 0
FIRST_EPOCH: Final = 0
"""The epoch of a full fetch that begins a session."""
NO_EPOCH: Final = -1
"""The epoch of a full fetch without a session. Every full fetch ends the session whose id it contains."""
LAST_EPOCH: Final = (1 << 31) - 1
NEVER_TOLD: Final = -1
SAFE_MS: Final = 120_000
"""Time, in ms, after a session's beginning and after each use in which the session is not evicted."""

MOST_HELD: Final = 100_000
"""Upper limit of partitions in all sessions together. Beyond the limit, no session can begin."""
MOST_HELD_BY_ONE: Final = 20_000
"""Upper limit of partitions in one session. A client with more partitions sends full fetches."""

PartitionKey = Hashable
BrokerIdentity = str | bytes
"""The key of a topic in a session: its id if the session began with version 13 or later, else its name."""
PartitionData = FetchResponse.PartitionData
Rank = tuple[bool, int, int]
"""(whether it is a follower's, partitions, session id). Sessions of the lowest rank are evicted first."""


class Held:
    """One partition in a session: the client's request, with the names of `FetchRequest.FetchPartition`, and its last response.

    `topic` is None until the topic id is found, and then remains even if the topic is deleted. `turn` is the partition's place in
    the order of reading.
    """

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "high_watermark",
        "identity",
        "log_start_offset",
        "partition",
        "partition_max_bytes",
        "topic",
        "topic_id",
        "turn",
    )

    def __init__(self, topic: str | None, topic_id: bytes, partition: int, identity: BrokerIdentity) -> None:
        self.identity = identity
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.turn = 0
        self.high_watermark = NEVER_TOLD
        self.log_start_offset = NEVER_TOLD

    def update(self, part: FetchRequest.FetchPartition) -> None:
        self.fetch_offset = part.fetch_offset
        self.partition_max_bytes = part.partition_max_bytes
        self.current_leader_epoch = part.current_leader_epoch

    @property
    def key(self) -> PartitionKey:
        """Return the key of the corresponding `Partition`."""
        return ("partition", self.topic, self.partition)


class HeldByFollower(Held):
    """A partition that a follower replicates, with the epoch of its last batch and its log start offset.

    `is_in_sync` records whether the follower was in sync at the last fetch.
    """

    __slots__ = ("is_in_sync", "last_fetched_epoch", "start_offset")

    def update(self, part: FetchRequest.FetchPartition) -> None:
        super().update(part)
        self.is_in_sync = False
        self.last_fetched_epoch = part.last_fetched_epoch
        self.start_offset = part.log_start_offset


_turn = attrgetter("turn")


class FetchSession:
    """One client's fetch session.

    `epoch` is the epoch of the next request; `key` is woken when a partition changes or the session ends. Only the principal
    `owner` can use the session. `outside` are a follower's partitions that can be out of sync. Each fetch reads them, because
    otherwise the follower could never join the ISR.
    """

    __slots__ = (
        "_turns",
        "began_ms",
        "due",
        "epoch",
        "held",
        "id",
        "is_over",
        "key",
        "outside",
        "owner",
        "privileged",
        "ranks",
        "terms",
        "used_ms",
        "uses_ids",
    )

    def __init__(self, session_id: int, owner: str, now_ms: int, *, privileged: bool, uses_ids: bool) -> None:
        self.id = session_id
        self.owner = owner
        self.key = ("fetch session", session_id)
        self.epoch = FIRST_EPOCH + 1
        self.privileged = privileged
        self.uses_ids = uses_ids
        self.is_over = False
        self.held: dict[tuple[str | bytes, int], Held] = {}
        self.due: dict[Held, None] = {}
        self.outside: dict[HeldByFollower, None] | None = None
        self._turns = 0
        self.terms: Hashable = None
        self.began_ms = self.used_ms = now_ms
        self.ranks: tuple[tuple[list[Rank], Rank], ...] = ()

    def in_turn(self) -> list[Held]:
        """Return the partitions to read, least recently returned first, so that every partition gets its share of responses."""
        return sorted(self.due, key=_turn)

    def to_the_end(self, held: Held) -> None:
        """Move a partition to the end of the reading order."""
        self._turns += 1
        held.turn = self._turns

    def find(self, topic: FetchRequest.FetchTopic, index: int) -> Held:
        """Return a partition of the session, as named in a request."""
        return self.held[self.identity(topic), index]

    def identity(self, topic: FetchRequest.FetchTopic | FetchRequest.ForgottenTopic) -> BrokerIdentity:
        return topic.topic_id if self.uses_ids else topic.topic

    def record(self, held: Held, data: PartitionData, until: int) -> bool:
        """Record a partition's data as the client's last response. Return whether the response must contain the partition.

        `until` is the offset at which reading ends.
        """
        has_records = bool(data.records)
        is_news = (
            has_records
            or data.error_code != NONE
            or data.high_watermark != held.high_watermark
            or data.log_start_offset != held.log_start_offset
        )
        held.high_watermark = data.high_watermark
        held.log_start_offset = data.log_start_offset
        if not has_records and not data.error_code and held.fetch_offset >= until:
            self.due.pop(held, None)
        return is_news


class FetchSessions:
    """All fetch sessions of a broker, and the partitions in them.

    `random_bytes` generates ids; `wake` receives the keys of sessions whose waiting fetch must read again; `name_of` returns topic
    names.
    """

    def __init__(
        self,
        random_bytes: Callable[[int], bytes],
        wake: Callable[[tuple[str, int]], None],
        name_of: Callable[[bytes], str | None],
    ) -> None:
        self._random_bytes = random_bytes
        self._wake = wake
        self._name_of = name_of
        self._sessions: dict[int, FetchSession] = {}  # least recently used first
        self._watched: dict[PartitionKey, dict[Held, FetchSession]] = {}
        self._held = 0
        self._for_all: list[Rank] = []
        self._for_privileged: list[Rank] = []

    def __len__(self) -> int:
        return len(self._sessions)

    def mark_changed(self, key: PartitionKey) -> None:
        """Mark a changed partition to be read again in all sessions."""
        watched = self._watched.get(key)
        if watched:
            for held, session in watched.items():
                session.due[held] = None
                self._wake(session.key)

    def begin(self, owner: str, size: int, slots: int, now_ms: int, *, privileged: bool, uses_ids: bool) -> FetchSession | None:
        """Return a new session for `size` partitions; None if all `slots` have sessions of higher rank."""
        if size > MOST_HELD_BY_ONE or self._held + size > MOST_HELD:
            return None
        if len(self._sessions) >= slots and not self._make_room(privileged, size, now_ms):
            return None
        session = FetchSession(self._new_id(), owner, now_ms, privileged=privileged, uses_ids=uses_ids)
        self._sessions[session.id] = session
        return session

    def resume(self, session_id: int, owner: str, epoch: int, *, uses_ids: bool) -> FetchSession | int:
        """Return the session that an incremental request continues, or an error code. Change nothing."""
        session = self._sessions.get(session_id)
        if session is None or session.owner != owner:
            return FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return INVALID_FETCH_SESSION_EPOCH
        return session if session.uses_ids == uses_ids else FETCH_SESSION_TOPIC_ID_ERROR

    def update(
        self,
        session: FetchSession,
        asked: Iterable[FetchRequest.FetchTopic],
        forgotten: Iterable[FetchRequest.ForgottenTopic],
        terms: Hashable,
    ) -> None:
        """Apply a request to a session. If `terms` differ from the last request's, all partitions are read.

        A session with more than `MOST_HELD_BY_ONE` partitions ends.
        """
        for topic in asked:
            identity = session.identity(topic)
            for part in topic.partitions:
                held = session.held.get((identity, part.partition)) or self._hold(session, topic, part.partition)
                held.update(part)
                session.due[held] = None
                if isinstance(held, HeldByFollower) and session.outside is not None:
                    session.outside[held] = None
        for gone in forgotten:
            for index in gone.partitions:
                self._forget(session, session.held.pop((session.identity(gone), index), None))
        if session.outside:
            session.outside = {held: None for held in session.outside if not held.is_in_sync}
            session.due.update(dict.fromkeys(session.outside))
        if terms != session.terms:
            session.terms = terms
            session.due.update(dict.fromkeys(session.held.values()))
        if len(session.held) > MOST_HELD_BY_ONE or self._held > MOST_HELD:
            self.end(session.id)

    def advance(self, session: FetchSession, now_ms: int) -> None:
        """Advance the epoch of the session after an incremental request."""
        session.epoch = 1 if session.epoch == LAST_EPOCH else session.epoch + 1
        self.touch(session, now_ms)

    def find_name(self, session: FetchSession, held: Held) -> None:
        """Set the topic name of a partition by its topic id, if the topic exists by now."""
        held.topic = self._name_of(held.topic_id)
        self._watch(session, held)

    def end_own(self, session_id: int, owner: str) -> None:
        """End a session on request of a client, if the session belongs to `owner`."""
        session = self._sessions.get(session_id)
        if session is not None and session.owner == owner:
            self.end(session_id)

    def end(self, session_id: int) -> None:
        """End a session if it exists. A fetch that waits in the session is answered."""
        session = self._sessions.pop(session_id, None)
        if session is None:
            return
        self._unrank(session)
        for held in session.held.values():
            self._forget(session, held)
        session.due = dict.fromkeys(session.held.values())
        session.is_over = True
        self._wake(session.key)

    def touch(self, session: FetchSession, now_ms: int) -> None:
        """Record the use of a session with its current partitions."""
        self._sessions[session.id] = self._sessions.pop(session.id)
        session.used_ms = now_ms
        rank = (session.privileged, len(session.held), session.id)
        is_old = now_ms - session.began_ms > SAFE_MS
        lists = [self._for_all] if is_old else []
        if is_old or not session.privileged:
            lists.append(self._for_privileged)
        if len(session.ranks) == len(lists) and all(known == rank for _, known in session.ranks):
            return
        self._unrank(session)
        session.ranks = tuple((ranks, rank) for ranks in lists)
        for ranks in lists:
            insort(ranks, rank)

    def _make_room(self, privileged: bool, size: int, now_ms: int) -> bool:
        """End a session that is unused for long, or ranks below the new one. Return whether this made room."""
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        if now_ms - oldest.used_ms > SAFE_MS:
            self.end(oldest.id)
            return True
        ranks = self._for_privileged if privileged else self._for_all
        if not ranks or (privileged, size, 0) < ranks[0]:
            return False
        self.end(ranks[0][2])
        return True

    def _unrank(self, session: FetchSession) -> None:
        for ranks, rank in session.ranks:
            del ranks[bisect_left(ranks, rank)]
        session.ranks = ()

    def _hold(self, session: FetchSession, topic: FetchRequest.FetchTopic, index: int) -> Held:
        name = self._name_of(topic.topic_id) if session.uses_ids else topic.topic
        identity = session.identity(topic)
        kind = Held if session.outside is None else HeldByFollower
        held = session.held[identity, index] = kind(name, topic.topic_id, index, identity)
        self._held += not session.is_over
        session.to_the_end(held)
        self._watch(session, held)
        return held

    def _watch(self, session: FetchSession, held: Held) -> None:
        if held.topic is not None and not session.is_over:
            self._watched.setdefault(held.key, {})[held] = session

    def _forget(self, session: FetchSession, held: Held | None) -> None:
        if held is None:
            return
        session.due.pop(held, None)
        if isinstance(held, HeldByFollower) and session.outside is not None:
            session.outside.pop(held, None)
        self._held -= not session.is_over
        watchers = self._watched.get(held.key)
        if watchers is not None:
            watchers.pop(held, None)
            if not watchers:
                del self._watched[held.key]

    def _new_id(self) -> int:
        while True:
            session_id = int.from_bytes(self._random_bytes(4), "big") & LAST_EPOCH
            if session_id != NO_SESSION and session_id not in self._sessions:
                return session_id
