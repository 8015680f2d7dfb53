"""The follower's side of a fetch session (KIP-227): the partitions in the leader's session, and the changes to send next.

Depends on the structs of requests and on followed partitions, and neither on time nor on connections.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.replication.fetched_replica import FetchedReplica
from ottla.wire.api.fetch import FetchRequest

NO_SESSION = 0
FIRST_EPOCH, NO_EPOCH = 0, -1
LAST_EPOCH = (1 << 31) - 1
TOPIC_IDS_FROM = 13
Identity = tuple[str | bytes, int]


class FollowerSession:
    """A session. `held` are its partitions by (topic, index). Topics are ids if `uses_ids`, else names."""

    def __init__(self) -> None:
        self.id = NO_SESSION
        self.epoch = FIRST_EPOCH
        self.uses_ids = False
        self.held: dict[Identity, FetchedReplica] = {}
        self._forgotten: dict[Identity, tuple[str, bytes]] = {}

    @property
    def is_full(self) -> bool:
        """Return whether the next request must name all partitions."""
        return self.epoch in (FIRST_EPOCH, NO_EPOCH)

    def begin(self, *, uses_ids: bool) -> None:
        """Begin a new session. The next request names all partitions, and ends the former session if the leader still has it."""
        self.epoch = FIRST_EPOCH
        self.uses_ids = uses_ids
        self.held.clear()
        self._forgotten.clear()

    def answered(self, session_id: int) -> None:
        """Record that the leader accepted the last request in the session `session_id`; 0 means that it gave no session."""
        if self.is_full:
            self.id = session_id
        if self.id == NO_SESSION:
            self.epoch = NO_EPOCH
        else:
            self.epoch = 1 if self.epoch in (NO_EPOCH, LAST_EPOCH) else self.epoch + 1

    def remove(self, followed: FetchedReplica) -> None:
        """Remove a partition from the leader's session."""
        identity = self.identity(followed)
        if self.held.get(identity) is followed:
            del self.held[identity]
            self._forgotten[identity] = followed.replica.topic, followed.topic_id

    def identity(self, followed: FetchedReplica) -> Identity:
        return (followed.topic_id if self.uses_ids else followed.replica.topic), followed.replica.index

    def fill_request(self, named: Iterable[FetchedReplica], request: FetchRequest, max_bytes: int, *, by_epoch: bool) -> None:
        """Set the session in a request, its partitions `named` to add or update, and the partitions to remove."""
        request.session_id, request.session_epoch = self.id, self.epoch
        if self.is_full:
            self.held.clear()
        topics: dict[str, FetchRequest.FetchTopic] = {}
        for followed in named:
            replica, identity = followed.replica, self.identity(followed)
            self.held[identity] = followed
            self._forgotten.pop(identity, None)
            topic = topics.get(replica.topic)
            if topic is None:
                topic = topics[replica.topic] = FetchRequest.FetchTopic(topic=replica.topic, topic_id=followed.topic_id)
                request.topics.append(topic)
            topic.partitions.append(followed.fetch_request(max_bytes, by_epoch=by_epoch))
        forgotten: dict[str, FetchRequest.ForgottenTopic] = {}
        for (_, index), (name, topic_id) in () if self.is_full else self._forgotten.items():
            gone = forgotten.get(name)
            if gone is None:
                gone = forgotten[name] = FetchRequest.ForgottenTopic(topic=name, topic_id=topic_id)
                request.forgotten_topics_data.append(gone)
            gone.partitions.append(index)
        self._forgotten.clear()
