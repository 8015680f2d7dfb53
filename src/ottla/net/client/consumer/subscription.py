"""The topics that one consumer subscribes to, by name or by pattern, and the refreshes of their metadata."""

from __future__ import annotations

import asyncio
import logging
import re
from contextlib import suppress

from ottla.client.errors import KafkaError, SettingError
from ottla.client.settings.clients import ConsumerSettings
from ottla.client.types import SubscriptionPattern, TopicPartition
from ottla.net.client.cluster import ClusterLinks, now_ms
from ottla.net.client.consumer.assignment import AssignmentDriver
from ottla.net.client.consumer.membership_driver import CLASSIC_PATTERN, MembershipDriver

MISSING_PAUSE_MS = 1_000
"""The interval, in ms, of metadata refreshes while a subscribed topic does not exist."""

log = logging.getLogger("ottla.client")


class SubscriptionDriver:
    """The subscription of one consumer. Use it only on the consumer's event loop."""

    def __init__(self, settings: ConsumerSettings, cluster: ClusterLinks, assignment: AssignmentDriver) -> None:
        self._settings = settings
        self._cluster = cluster
        self._assignment = assignment
        self.topics: list[str] = []
        self._pattern: re.Pattern[str] | None = None
        self._coordinator_pattern: SubscriptionPattern | None = None
        """The pattern that the coordinator resolves, or None."""
        self._counts: dict[str, int] = {}
        """The partition counts of the topics when they were last subscribed to."""
        self._missing: set[str] = set()

    @property
    def is_empty(self) -> bool:
        return not (self.topics or self._pattern or self._coordinator_pattern)

    def all_topics(self) -> set[str]:
        """Return the subscribed topics; with a pattern that the coordinator resolves, the topics of assigned partitions."""
        if self._coordinator_pattern is not None:
            return {where.topic for where in self._assignment.partitions()}
        return set(self.topics)

    def clear(self) -> None:
        self.topics, self._pattern, self._coordinator_pattern = [], None, None

    def subscribe_by_coordinator(self, pattern: SubscriptionPattern) -> None:
        """Subscribe to the topics that the group's coordinator finds for `pattern`. Raises `SettingError`, `NotSupported`."""
        member = self._assignment.member
        if not isinstance(member, MembershipDriver) or self._settings.group_protocol == "classic":
            raise SettingError(CLASSIC_PATTERN)
        member.subscribe([], regex=pattern.pattern)
        self.topics, self._pattern, self._coordinator_pattern = [], None, pattern
        self._counts = {}
        self._assignment.refused = None

    async def subscribe(self, topics: tuple[str, ...], pattern: re.Pattern[str] | None) -> None:
        """Subscribe to topics, or to all topics whose whole name matches `pattern`.

        Raises `KafkaError`. If brokers return no metadata, the old subscription stays.
        """
        if pattern is not None:
            await self._cluster.retry(lambda: self._cluster.refresh(None))
            topics = tuple(self._matching_topics(pattern))
        else:
            create = self._settings.allow_auto_create_topics
            await self._cluster.retry(lambda: self._cluster.refresh(topics, create=create))
        self._pattern, self._coordinator_pattern = pattern, None
        self._assignment.refused = None
        await self._set_topics(sorted(set(topics)))

    def _matching_topics(self, pattern: re.Pattern[str]) -> list[str]:
        known = self._cluster.metadata.topics.values()
        return sorted(topic.name for topic in known if pattern.fullmatch(topic.name) and not topic.is_internal)

    async def _set_topics(self, topics: list[str]) -> None:
        self.topics = topics
        self._counts = {topic: self._cluster.metadata.partition_count(topic) for topic in topics}
        if self._assignment.member is not None:
            self._assignment.member.subscribe(topics, self._pattern.pattern if self._pattern is not None else None)
        else:
            await self._cluster.ensure(topics, create=self._settings.allow_auto_create_topics)
            partitions: list[TopicPartition] = [where for topic in topics for where in self._cluster.metadata.partitions(topic)]
            await self._assignment.replace(partitions)

    async def keep_metadata_fresh(self) -> None:
        """Refresh metadata every `metadata_max_age_ms`, and more often while a topic is missing."""
        asked_ms, age_ms = now_ms(), self._settings.metadata_max_age_ms
        while True:
            await asyncio.sleep(min(MISSING_PAUSE_MS, age_ms) / 1000)
            if self._missing_topics() or self._cluster.is_stale or now_ms() - asked_ms >= age_ms:
                asked_ms = now_ms()
                with suppress(KafkaError):
                    await self._cluster.refresh(None if self._pattern else sorted({*self.topics, *self._assigned_counts()}))
                    await self._notice_changes()

    def _missing_topics(self) -> set[str]:
        missing = set(self._cluster.metadata.find_missing(self.topics))
        for topic in sorted(missing - self._missing):
            log.warning("topic %s does not exist: it is read once it is created", topic)
        self._missing = missing
        return missing

    async def _notice_changes(self) -> None:
        if self._assignment.refused is not None or self._coordinator_pattern is not None:
            return
        topics = self._matching_topics(self._pattern) if self._pattern else self.topics
        # The leader compares with the counts of its assignment, which another broker's metadata can have given.
        before = self._counts | self._assigned_counts()
        counts = {topic: self._cluster.metadata.partition_count(topic) for topic in {*topics, *before}}
        if topics != self.topics:
            await self._set_topics(topics)
        elif counts != before and self._assignment.member is not None:
            self._counts = {topic: counts[topic] for topic in topics}
            self._assignment.member.rejoin()
        elif counts != before:
            await self._set_topics(topics)

    def _assigned_counts(self) -> dict[str, int]:
        member = self._assignment.member
        return dict(member.assigned_counts) if member is not None else {}
