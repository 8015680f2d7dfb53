"""A cluster over blocking links: metadata, leaders, and requests that are tried again when a leader moved. For one thread.

Every call ends within `request_timeout_ms` of retries, with its answer or with the last error met.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from ottla.client.addresses import parse_servers
from ottla.client.errors import ConnectionFailed, KafkaError, UnknownTopic, raise_for
from ottla.client.metadata import NO_LEADER, Metadata, metadata_request
from ottla.client.types import TopicPartition
from ottla.client.versions import METADATA
from ottla.net.client.blocking_link import BlockingLink
from ottla.net.client.failures import none_reached
from ottla.wire.errors import LEADER_NOT_AVAILABLE
from ottla.wire.schema import Message

RETRY_PAUSE_S = 0.1
Result = TypeVar("Result")


class Addressed(Protocol):
    """The settings needed to reach a cluster."""

    @property
    def bootstrap_servers(self) -> str: ...
    @property
    def client_id(self) -> str: ...
    @property
    def request_timeout_ms(self) -> int: ...


class BlockingCluster:
    """Links by node id, opened when first needed. A context manager."""

    def __init__(self, settings: Addressed) -> None:
        self.metadata = Metadata()
        self._settings = settings
        self._bootstrap = parse_servers(settings.bootstrap_servers)
        self._links: dict[int, BlockingLink] = {}
        self._first: BlockingLink | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        for link in (*self._links.values(), *((self._first,) if self._first else ())):
            link.close()
        self._links.clear()
        self._first = None

    def _open(self, host: str, port: int) -> BlockingLink:
        return BlockingLink(host, port, self._settings.client_id, self._settings.request_timeout_ms)

    def any_link(self) -> BlockingLink:
        """A link to some broker: one that is open, or the first bootstrap server that answers."""
        for link in (*self._links.values(), self._first):
            if link is not None and not link.closed:
                return link
        failures = []
        known = [(node.host, node.port) for node in self.metadata.nodes.values()]
        for host, port in dict.fromkeys(self._bootstrap + known):
            try:
                self._first = self._open(host, port)
            except KafkaError as error:
                failures.append(str(error))
            else:
                return self._first
        raise none_reached(self._settings.bootstrap_servers, failures)

    def link(self, node_id: int) -> BlockingLink:
        """The link to one broker that metadata knows."""
        link = self._links.get(node_id)
        if link is None or link.closed:
            node = self.metadata.nodes.get(node_id)
            if node is None:
                raise ConnectionFailed(f"Broker {node_id} is not among those that metadata names.")
            link = self._links[node_id] = self._open(node.host, node.port)
        return link

    def leader_link(self, where: TopicPartition) -> BlockingLink:
        """The link to the leader of a partition. Raises LEADER_NOT_AVAILABLE (retriable) while there is none."""
        if self.metadata.leader(*where) == NO_LEADER:
            self.refresh([where.topic])
        node_id = self.metadata.leader(*where)
        if node_id == NO_LEADER:
            raise_for(self.metadata.partition_error(*where) or LEADER_NOT_AVAILABLE, f"{where.topic}-{where.partition}")
        return self.link(node_id)

    def refresh(self, topics: Collection[str] | None, *, create: bool = False) -> None:
        """Ask for metadata anew, of some topics or (None) of all; with `create` the broker may make those that do not exist."""
        answer = self.any_link().ask(METADATA, metadata_request(topics, allow_auto_topic_creation=create))
        self.metadata.update(answer, whole=topics is None)

    def retried(self, call: Callable[[], Result], topics: Collection[str] = (), *, must_exist: bool = False) -> Result:
        """`call()`, again after retriable errors and with fresh metadata of `topics`, until `request_timeout_ms` have passed.

        With `must_exist`, a topic that is not there is an error at once: Kafka counts that as retriable, as it may come.
        """
        deadline = time.monotonic() + self._settings.request_timeout_ms / 1000
        while True:
            try:
                return call()
            except KafkaError as error:
                if (
                    not error.retriable
                    or (must_exist and isinstance(error, UnknownTopic))
                    or time.monotonic() + RETRY_PAUSE_S > deadline
                ):
                    raise
            time.sleep(RETRY_PAUSE_S)
            if topics:
                self._try_refresh(topics)

    def _try_refresh(self, topics: Collection[str]) -> None:
        try:
            self.refresh(topics)
        except KafkaError as error:
            if not error.retriable:
                raise

    def ask_any(self, api_key: int, body: Message) -> Any:
        """A request that every broker answers alike."""
        return self.retried(lambda: self.any_link().ask(api_key, body))
