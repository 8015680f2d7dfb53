"""The types of callbacks of a consumer. The module calls none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ottla.client.errors import KafkaError
from ottla.client.types import OffsetAndMetadata, TopicPartition

Listener = Callable[[list[TopicPartition]], Awaitable[None] | None]
CommitCallback = Callable[[dict[TopicPartition, OffsetAndMetadata], KafkaError | None], Awaitable[None] | None]
"""A callback of `commit_soon`. It is called with the offsets, and the error if they were not committed."""
