"""Asks the leaders of partitions, each about those that it leads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from ottla.client.errors import raise_for
from ottla.client.types import TopicPartition
from ottla.net.client.cluster import Cluster
from ottla.wire.errors import LEADER_NOT_AVAILABLE, UNKNOWN_SERVER_ERROR
from ottla.wire.schema import Message

Wanted = TypeVar("Wanted")
Found = TypeVar("Found")
Response = TypeVar("Response", bound=Message)


async def ask_leaders(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, Wanted],
    api_key: int,
    request: Callable[[Mapping[TopicPartition, Wanted]], Message],
    read: Callable[[Response], Iterable[tuple[TopicPartition, int, Found]]],
    doing: str,
) -> dict[TopicPartition, Found]:
    """What the leaders of all partitions `wanted` answer; asked again while leaders move.

    `request` makes one for some of the partitions, `read` gives (partition, error code, what was found) from its answer. Raises
    `UnknownTopic` or another `KafkaError`, whose text begins with `doing`.
    """
    found: dict[TopicPartition, Found] = {}

    async def ask_for_rest() -> None:
        todo = [where for where in wanted if where not in found]
        for node_id, group in (await _by_leader(cluster, todo, doing)).items():
            answer = await cluster.ask(node_id, api_key, request({where: wanted[where] for where in group}))
            for where, error_code, value in read(answer):
                if error_code:
                    cluster.metadata.forget_leader(*where)
                raise_for(error_code, f"{doing} {where.topic}-{where.partition}")
                found[where] = value
        for where in wanted.keys() - found.keys():
            raise_for(UNKNOWN_SERVER_ERROR, f"{doing} {where.topic}-{where.partition}", "The broker's answer leaves it out.")

    topics = sorted({where.topic for where in wanted})
    await cluster.ensure(topics)
    await cluster.retried(ask_for_rest, topics=topics)
    return found


async def _by_leader(cluster: Cluster, partitions: list[TopicPartition], doing: str) -> dict[int, list[TopicPartition]]:
    grouped, leaderless = cluster.metadata.by_leader(partitions)
    if leaderless:
        await cluster.refresh(sorted({where.topic for where in leaderless}))
        grouped, leaderless = cluster.metadata.by_leader(partitions)
    if leaderless:
        code = cluster.metadata.partition_error(*leaderless[0])
        raise_for(code or LEADER_NOT_AVAILABLE, f"{doing} {leaderless[0].topic}-{leaderless[0].partition}")
    return grouped
