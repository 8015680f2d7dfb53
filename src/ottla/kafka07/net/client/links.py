"""A Kafka 0.7 cluster: its brokers and their partitions, from a list or from ZooKeeper.

0.7 brokers have no request for metadata. With a static list, the client probes partitions 0, 1, 2 … of a topic with empty fetches:
a broker refuses partitions that it does not have.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Coroutine, Mapping, Sequence

from ottla.client.connection.connection import IntendedBroker
from ottla.client.errors import KafkaError, NotSupported
from ottla.client.metrics.connections import LinkMeter
from ottla.client.settings.clients import COMPRESSIONS, KAFKA07, DiscoverySettings, ProducerSettings
from ottla.client.types import Node
from ottla.kafka07 import wire as kafka07
from ottla.kafka07.client import requests
from ottla.kafka07.client.connection import Connection07, to_frame
from ottla.kafka07.client.directory import Directory07
from ottla.kafka07.client.metadata import describe, parse_brokers
from ottla.kafka07.net.client.zookeeper import finish_steps, open_session
from ottla.net.client.cluster import ClusterLinks
from ottla.net.client.failures import none_reached
from ottla.net.client.link import Link
from ottla.net.client.tasks import Tasks
from ottla.ports import Buffer, SharedRegistry
from ottla.wire import Malformed

PROBED = 16
"""The number of partitions of a topic that one request probes."""
TOPICS_AT_ONCE = 1_000

log = logging.getLogger("ottla.client")


class ClusterLinks07(ClusterLinks):
    """The links to 0.7 brokers. `metadata` has each partition by its combined number (`kafka07.client.partitions`)."""

    def __init__(self, settings: DiscoverySettings, tasks: Tasks | None = None) -> None:
        super().__init__(settings, tasks)
        self._zookeeper = settings.zookeeper_connect
        self._session_timeout_ms = settings.zookeeper_session_timeout_ms
        self._opening: asyncio.Task[SharedRegistry] | None = None
        self._makes_topics = isinstance(settings, ProducerSettings)
        self._codec = COMPRESSIONS[settings.compression_type] if isinstance(settings, ProducerSettings) else 0
        self._brokers = parse_brokers(settings.bootstrap_servers)

    def _link_to(
        self, host: str, port: int, meter: LinkMeter, intended: IntendedBroker | None = None
    ) -> Coroutine[object, None, Link]:
        connection = Connection07(self._codec)
        return Link.open(host, port, None, self.settings.request_timeout_ms, KAFKA07, self._security, connection, meter)

    async def registry(self) -> SharedRegistry:
        """Return the ZooKeeper session. The first call begins the session. Raises `ConnectionFailed`, `Closed`."""
        self._check_open()
        if self._opening is None or (self._opening.done() and (self._opening.cancelled() or self._opening.exception())):
            self._opening = asyncio.ensure_future(open_session(self._zookeeper or "", self._session_timeout_ms))
        return await asyncio.shield(self._opening)

    async def close(self) -> None:
        await super().close()
        if self._opening is None:
            return
        if not self._opening.cancel() and not self._opening.exception():
            await asyncio.to_thread(self._opening.result().close)  # this blocks until the server answers
        await asyncio.gather(self._opening, return_exceptions=True)

    async def refresh(self, topics: Collection[str] | None, *, create: bool = False) -> None:
        """Find the partitions of `topics`, or of all topics if None, and update the metadata. Raises `ConnectionFailed`."""
        if self._zookeeper is not None:
            await self._load(topics, create=create)
        elif topics is not None:
            await self._request_all(topics)
        else:
            raise NotSupported(
                "Brokers of Kafka 0.7 do not tell which topics there are: name them, or give zookeeper_connect, where they stand."
            )

    async def _load(self, topics: Collection[str] | None, *, create: bool) -> None:
        directory = Directory07(await self.registry(), self._on_change)
        self.is_stale = False  # set before the lookup: later changes set it again
        brokers = await finish_steps(directory.brokers())
        counts = await finish_steps(directory.counts(await finish_steps(directory.names()) if topics is None else topics))
        if create and self._makes_topics:  # a broker creates a topic at the first message to it
            unknown = {broker.node_id: 1 for broker in brokers}
            counts = {topic: found or unknown for topic, found in counts.items()}
        self.update_metadata(brokers, counts, whole=topics is None)

    def _on_change(self, path: str) -> None:
        self.is_stale = True

    def update_metadata(self, brokers: Sequence[Node], counts: Mapping[str, Mapping[int, int]], *, whole: bool = False) -> None:
        """Replace the brokers in the metadata, and the partitions of the topics in `counts`; `whole`: drop all other topics."""
        self.metadata.nodes = {}
        self.metadata.update(describe(brokers, counts, {}), whole=whole)

    async def _request_all(self, topics: Collection[str]) -> None:
        """Probe each broker of the static list for partitions of these topics, and update the metadata."""
        self.metadata.nodes = {broker.node_id: broker for broker in self._brokers}
        found: dict[str, dict[int, int]] = {topic: {} for topic in topics}
        refused: dict[str, int] = {}
        failures: list[str] = []
        for broker in self._brokers:
            try:
                for topic, count, code in await self._probe(broker, sorted(topics)):
                    found[topic][broker.node_id] = count
                    if code:
                        refused[topic] = code
            except KafkaError as error:
                failures.append(str(error))
                self._keep(found, broker)
        if len(failures) == len(self._brokers):
            raise none_reached(self.settings.bootstrap_servers, failures)
        for failure in failures:
            log.warning("its partitions are left out unless they are cached: %s", failure)
        self.metadata.update(describe(self._brokers, found, refused))

    def _keep(self, found: dict[str, dict[int, int]], broker: Node) -> None:
        """Keep the partition counts of an unreachable broker as they are in the metadata."""
        for topic, counts in found.items():
            known = [where for where in self.metadata.partitions(topic) if self.metadata.leader(*where) == broker.node_id]
            counts[broker.node_id] = len(known)

    async def _probe(self, broker: Node, topics: list[str]) -> list[tuple[str, int, int]]:
        """Return, for each topic, (topic, number of the broker's partitions, error code of a refused topic or 0)."""
        link = await self.link(broker.node_id)
        counts = dict.fromkeys(topics, 0)
        refused = dict.fromkeys(topics, 0)
        for start in range(0, len(topics), TOPICS_AT_ONCE):
            asked, first = topics[start : start + TOPICS_AT_ONCE], 0
            while asked:
                answer = await self._answer(link, requests.probe(asked, first, PROBED))
                more = []
                for topic, there, code in requests.probe_results(asked, PROBED, answer):
                    counts[topic] += there
                    refused[topic] = code
                    if there == PROBED:
                        more.append(topic)
                asked, first = more, first + PROBED
        return [(topic, counts[topic], refused[topic]) for topic in topics]

    async def _answer(self, link: Link, request: kafka07.MultiFetchRequest07) -> kafka07.MultiFetchResponse07:
        frame: Buffer = await link.answer(link.pass_on([to_frame(request)]), self.settings.request_timeout_ms)
        try:
            return kafka07.decode_response(kafka07.MultiFetchResponse07, frame)
        except Malformed as error:
            raise NotSupported(f"{link.where} does not seem to speak Kafka 0.7 ({error}): leave out api_version.") from error
