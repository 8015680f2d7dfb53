"""Requests to the leaders of partitions. Each leader gets the partitions that it leads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

from ottla.client.errors import broker_error, raise_for
from ottla.client.types import TopicPartition
from ottla.net.client.cluster import ClusterLinks
from ottla.wire.errors import LEADER_NOT_AVAILABLE, UNKNOWN_SERVER_ERROR
from ottla.wire.schema import Message

Wanted = TypeVar("Wanted")
Found = TypeVar("Found")
Response = TypeVar("Response", bound=Message)


async def request_leaders(
    cluster: ClusterLinks,
    wanted: Mapping[TopicPartition, Wanted],
    request: Callable[[Mapping[TopicPartition, Wanted]], Message],
    read: Callable[[Response], Iterable[tuple[TopicPartition, int, Found]]],
    doing: str,
    *,
    received: Callable[[TopicPartition, Found], None] = lambda where, value: None,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, Found]:
    """Return the leaders' answers for all `wanted` partitions; retry while leaders move.

    `request` builds a request for some of the partitions, and `read` yields (partition, error code, result) from its answer.
    `received` is called with each result as soon as it arrives, because the other results can take long. After `timeout_ms`
    (default_api_timeout_ms) there is no further try; 0 allows one try. Raises `UnknownTopic` or another `KafkaError`, whose text
    begins with `doing`.
    """
    found: dict[TopicPartition, Found] = {}

    async def request_rest() -> None:
        todo = [where for where in wanted if where not in found]
        grouped, leaderless = await _by_leader(cluster, todo)
        refused = [(where, cluster.metadata.partition_error(*where) or LEADER_NOT_AVAILABLE) for where in leaderless]

        async def query_leader(node_id: int, group: list[TopicPartition]) -> None:
            answer = await cluster.request(node_id, request({where: wanted[where] for where in group}))
            for where, error_code, value in read(answer):
                if error_code:
                    cluster.metadata.forget_leader(*where)
                    refused.append((where, error_code))
                else:
                    found[where] = value
                    received(where, value)

        await _await_all(query_leader(*each) for each in grouped.items())
        _raise_refusal(refused, doing)
        for where in wanted.keys() - found.keys():
            raise_for(UNKNOWN_SERVER_ERROR, f"{doing} {where.topic}-{where.partition}", "The broker's answer leaves it out.")

    topics = sorted({where.topic for where in wanted})
    await cluster.ensure(topics, timeout_ms=timeout_ms)
    await cluster.retry(request_rest, topics=topics, timeout_ms=timeout_ms)
    return found


async def _await_all(calls: Iterable[Awaitable[None]]) -> None:
    """Await all calls at once, so that a leader that cannot be reached keeps no other waiting. Then raise the first failure."""
    for failure in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(failure, BaseException):
            raise failure


def _raise_refusal(refused: Iterable[tuple[TopicPartition, int]], doing: str) -> None:
    """Raise the error of one of the partitions, if there are any. Errors that are not retriable come first."""
    errors = (broker_error(code, f"{doing} {where.topic}-{where.partition}") for where, code in refused)
    error = min(errors, key=lambda error: error.retriable, default=None)
    if error is not None:
        raise error


async def _by_leader(
    cluster: ClusterLinks, partitions: list[TopicPartition]
) -> tuple[dict[int, list[TopicPartition]], list[TopicPartition]]:
    """Return partitions by their leaders, and the partitions without a leader.

    Metadata of partitions without a leader is refreshed once.
    """
    grouped, leaderless = cluster.metadata.by_leader(partitions)
    if leaderless:
        await cluster.refresh(sorted({where.topic for where in leaderless}))
        grouped, leaderless = cluster.metadata.by_leader(partitions)
    return grouped, leaderless
