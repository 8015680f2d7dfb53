"""The driver's door to the brokers: which partitions there are, and where they begin and end. Blocking; opened when first used."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Self

from ottla.client.errors import KafkaError, UnknownTopic, raise_for
from ottla.client.fetching import FetchLimits, FetchPosition, fetch_request
from ottla.client.list_offsets import list_offsets_request, read_list_offsets
from ottla.client.metadata import TopicInfo
from ottla.client.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition
from ottla.client.versions import FETCH, LIST_OFFSETS
from ottla.net.client.blocking_cluster import BlockingCluster
from ottla.net.client.blocking_link import BlockingLink
from ottla.spark.client_settings import ClientSettings
from ottla.spark.errors import OptionError
from ottla.spark.options import Subscription
from ottla.spark.planning import PartitionOffsets, names
from ottla.wire.api.fetch import FetchResponse

logger = logging.getLogger("ottla.spark")


class Brokers:
    """A context manager and a `planning.Lookup`. What partitions there are is kept for `partitions_kept_s` seconds."""

    def __init__(self, client: ClientSettings, *, partitions_kept_s: float = 0.0) -> None:
        self._client = client
        self._cluster = BlockingCluster(client)
        self._kept_s = partitions_kept_s
        self._known: tuple[float, list[TopicPartition]] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._cluster.close()

    def partitions(self, subscription: Subscription, *, fresh: bool = False) -> list[TopicPartition]:
        """The partitions of a subscription that exist. Raises `OptionError` where it names a topic or partition that does not."""
        now = time.monotonic()
        if fresh or self._known is None or now - self._known[0] > self._kept_s:
            self._known = now, self._look_up(subscription)
        return self._known[1]

    def _look_up(self, subscription: Subscription) -> list[TopicPartition]:
        if subscription.pattern is not None:
            pattern = re.compile(subscription.pattern)
            found = self._cluster.retried(lambda: self._matching(pattern))
            return sorted(TopicPartition(topic.name, index) for topic in found for index in topic.partitions)
        topics = subscription.topics or {where.topic for where in subscription.partitions}
        self._cluster.retried(lambda: self._refresh(topics))
        there = sorted(where for topic in topics for where in self._cluster.metadata.partitions(topic))
        if not subscription.partitions:
            return there
        missing = [where for where in subscription.partitions if where not in there]
        if missing:
            raise OptionError(f"Option assign names {names(missing)}, and there is no such partition: name others or add it first.")
        return list(subscription.partitions)

    def _matching(self, pattern: re.Pattern[str]) -> list[TopicInfo]:
        self._cluster.refresh(None)
        known = self._cluster.metadata.topics.values()
        found = [topic for topic in known if not topic.is_internal and pattern.fullmatch(topic.name)]
        # One that was left out because its partitions are not told now would count as deleted.
        self._cluster.metadata.check(topic.name for topic in found)
        return found

    def _refresh(self, topics: Iterable[str]) -> None:
        topics = list(topics)
        self._cluster.refresh(topics)
        for topic in topics:
            try:
                self._cluster.metadata.check([topic])
            except UnknownTopic as error:
                sentence = f"There is no topic {topic}: create it first, or name another in option subscribe."
                raise OptionError(sentence) from error

    def earliest(self, partitions: Iterable[TopicPartition]) -> PartitionOffsets:
        return self._ask(dict.fromkeys(partitions, EARLIEST_TIMESTAMP))

    def latest(self, partitions: Iterable[TopicPartition]) -> PartitionOffsets:
        return self._ask(dict.fromkeys(partitions, LATEST_TIMESTAMP))

    def at_times(self, timestamps_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return {where: None if offset < 0 else offset for where, offset in self._ask(timestamps_ms).items()}

    def wait_for_records(self, ends: PartitionOffsets, timeout_ms: int) -> None:
        """Return once a partition may hold something from its offset in `ends` on, or after `timeout_ms`.

        What goes wrong ends the wait no sooner: the next question about offsets tells it.
        """
        deadline = time.monotonic() + timeout_ms / 1000
        try:
            if self._poll(ends, timeout_ms):
                return
        except KafkaError as error:
            logger.debug("waiting for records: %s", error)
        time.sleep(max(0.0, deadline - time.monotonic()))

    def _poll(self, ends: PartitionOffsets, max_wait_ms: int) -> bool:
        """Whether some broker had records within `max_wait_ms`: it gathers none, and sends the first batch at most."""
        limits = FetchLimits(1, 1, fetch_max_wait_ms=max_wait_ms, read_committed=self._client.read_committed)
        by_link: dict[BlockingLink, dict[TopicPartition, FetchPosition]] = {}
        for where, offset in ends.items():
            wanted = FetchPosition(offset, self._cluster.metadata.leader_epoch(*where))
            by_link.setdefault(self._cluster.leader_link(where), {})[where] = wanted
        asked = [(link, link.send(FETCH, fetch_request(part, limits))) for link, part in by_link.items()]
        answers: list[FetchResponse] = [link.wait(token) for link, token in asked]
        return any(part.records for answer in answers for topic in answer.responses for part in topic.partitions)

    def _ask(self, wanted: Mapping[TopicPartition, int]) -> PartitionOffsets:
        found: PartitionOffsets = {}
        if wanted:
            topics = {where.topic for where in wanted}
            self._cluster.retried(lambda: self._ask_leaders(wanted, found), topics)
        return found

    def _ask_leaders(self, wanted: Mapping[TopicPartition, int], found: PartitionOffsets) -> None:
        by_link: dict[BlockingLink, dict[TopicPartition, int]] = {}
        for where in wanted.keys() - found.keys():
            by_link.setdefault(self._cluster.leader_link(where), {})[where] = wanted[where]
        timeout_ms = self._client.request_timeout_ms
        for link, part in by_link.items():
            request = list_offsets_request(part, read_committed=self._client.read_committed, timeout_ms=timeout_ms)
            for where, code, offset in read_list_offsets(link.ask(LIST_OFFSETS, request)):
                raise_for(code, f"Offsets of {names([where])}")
                found[where] = offset.offset
