"""The coordinator of a group or a transactional id: its lookup, requests to it, and a new lookup after it has moved."""

from __future__ import annotations

import logging

from ottla.client.connection.connection import AnswerBody
from ottla.client.connection.versions import FIND_COORDINATOR, OFFSET_COMMIT
from ottla.client.errors import KafkaError, raise_for
from ottla.net.client.cluster import CONTROL, ClusterLinks
from ottla.net.client.link import Link
from ottla.wire import errors as codes
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.schema import Message

log = logging.getLogger("ottla.client")

GROUP, TRANSACTION = 0, 1
NOUNS = {GROUP: "Group", TRANSACTION: "Transactional id"}
COORDINATOR_GONE = frozenset({codes.NOT_COORDINATOR, codes.COORDINATOR_NOT_AVAILABLE})


async def find_coordinator(cluster: ClusterLinks, key: str, key_type: int) -> int:
    """Return the node id of the coordinator of `key`, a group or a transactional id. Raises `KafkaError`.

    Until 0.8.1, brokers store offsets in ZooKeeper and have no coordinators: any broker serves a group.
    """
    if key_type == GROUP:
        link = await cluster.any_link()
        if link.version(FIND_COORDINATOR) < 0 <= link.version(OFFSET_COMMIT):
            if not cluster.metadata.nodes:
                await cluster.refresh([])
            if not cluster.metadata.nodes:
                raise_for(codes.COORDINATOR_NOT_AVAILABLE, f"Group {key}")
            return min(cluster.metadata.nodes)
    answer = await cluster.request_any(FindCoordinatorRequest(coordinator_keys=[key], key_type=key_type))
    found = answer.coordinators[0] if answer.coordinators else answer  # before Kafka 3.0, the answer has one coordinator
    raise_for(found.error_code, f"{NOUNS[key_type]} {key}", found.error_message)
    cluster.metadata.set_address(found.node_id, found.host, found.port)
    node_id: int = found.node_id
    return node_id


class Coordinator:
    """The coordinator of one group or transactional id. A request is never retried. After a retriable error, the next can
    succeed.
    """

    def __init__(self, cluster: ClusterLinks, key: str, key_type: int) -> None:
        self._cluster = cluster
        self._key, self._key_type = key, key_type
        self._node_id: int | None = None
        self._logged_id: int | None = None

    def forget(self) -> None:
        """Remove the stored coordinator, so that the next request looks it up again."""
        self._node_id = None

    async def link(self, lane: str = CONTROL) -> Link:
        """Return the link to the coordinator. Raises `KafkaError`."""
        if self._node_id is None:
            self._node_id = await find_coordinator(self._cluster, self._key, self._key_type)
            if self._node_id != self._logged_id:
                self._logged_id = self._node_id
                log.info("%s %s: broker %d is the coordinator", NOUNS[self._key_type].lower(), self._key, self._node_id)
        try:
            return await self._cluster.link(self._node_id, lane)
        except KafkaError:
            self.forget()
            raise

    async def request(
        self, body: Message, most: int | None = None, *, lane: str = CONTROL, timeout_ms: int | None = None
    ) -> AnswerBody:
        """Return the coordinator's answer to a request in at most version `most`. Raises `KafkaError`."""
        link = await self.link(lane)
        try:
            return await link.request(body, timeout_ms or self._cluster.settings.request_timeout_ms, most)
        except KafkaError:
            self.forget()
            raise

    def check(self, code: int, context: str) -> None:
        """Raise the exception for the error code `code` of an answer, unless it is 0.

        If the code says that the coordinator has moved, the next request looks it up again.
        """
        if code in COORDINATOR_GONE:
            self.forget()
        raise_for(code, context)
