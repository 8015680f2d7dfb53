"""What an administrator does in a morning: topics, settings, offsets of a group, and a look at the cluster."""

from __future__ import annotations

import asyncio
import sys

import ottla
from ottla.client.types import LATEST_TIMESTAMP


def chores(admin: ottla.Admin, topic: str) -> list[str]:
    cluster = admin.describe_cluster()
    brokers: list[ottla.Node] = list(cluster.nodes)
    admin.create_topics([ottla.NewTopic(topic, 2, configs={"retention.ms": 3_600_000})])
    if not _create(admin, topic):
        print(f"topic {topic} exists", file=sys.stderr)
    resource = ottla.ConfigResource.topic(topic)
    admin.alter_configs(resource, set={"cleanup.policy": "compact"}, delete=["retention.ms"])
    entry: ottla.ConfigEntry = admin.describe_configs(resource)["cleanup.policy"]
    assert entry.value == "compact"
    admin.create_partitions({topic: 3})
    info: ottla.TopicInfo = admin.describe_topics(topic)[topic]
    where = ottla.TopicPartition(topic, 0)
    end: ottla.OffsetAndTimestamp = admin.list_offsets({where: LATEST_TIMESTAMP})[where]
    admin.alter_group_offsets("chores", {where: end.offset, (topic, 1): ottla.OffsetAndMetadata(0, "by hand")})
    committed = admin.list_group_offsets("chores")
    lines = [f"{topic}-{number}" for number in sorted(info.partitions)]
    lines += [f"broker {broker.node_id} at {broker.host}:{broker.port}" for broker in brokers]
    lines += [f"{each.topic}-{each.partition}: {offset.offset}" for each, offset in sorted(committed.items())]
    groups: list[str] = [group.group_id for group in admin.list_groups(states=["Empty"])]
    admin.delete_groups(*groups)
    return lines


def _create(admin: ottla.Admin, topic: str) -> bool:
    try:
        admin.create_topic(topic, 2)
    except ottla.BrokerError as error:
        if error.name != "TOPIC_ALREADY_EXISTS":
            raise
        return False
    return True


async def remove(address: str, topic: str) -> bool:
    async with ottla.AsyncAdmin(address) as admin:
        await admin.delete_topics(topic)
        return topic not in await admin.list_topics()


def main(address: str, topic: str = "chores") -> list[str]:
    with ottla.Admin(address, request_timeout_ms=20_000) as admin:
        lines = chores(admin, topic)
    assert asyncio.run(remove(address, topic))
    return lines


if __name__ == "__main__":
    print("\n".join(main(sys.argv[1])))
