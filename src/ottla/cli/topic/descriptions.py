"""The descriptions of topics: `ottla topic list` and `describe`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ottla.cli.command.output import RED, Cell, as_lines, show, size, styled
from ottla.cli.topic.offsets import ranges
from ottla.errors import KafkaError

if TYPE_CHECKING:
    from ottla.cli.topic.offsets import PartitionOffsets
    from ottla.client.admin.topics import ConfigEntry
    from ottla.client.connection.metadata import PartitionInfo, TopicInfo
    from ottla.client.types import TopicPartition
    from ottla.net.client.admin.admin import Admin


def list_topics(admin: Admin, options: argparse.Namespace) -> int:
    pattern = options.pattern
    names = [name for name in admin.list_topics(internal=options.internal) if pattern is None or pattern.fullmatch(name)]
    if options.names:
        for line in as_lines({"topic": name} for name in names) if options.json else names:
            print(line)
        return 0
    if not names and not options.json:
        print("No topic matches." if options.pattern else "There are no topics: `ottla topic create NAME` creates one.")
        return 0
    topics = list(admin.describe_topics(*names).values()) if names else []
    found = _ranges(admin, topics)
    columns = ["topic", "partitions", "replicas", "records", "size", "out of sync"]
    sizes = _sizes(admin, topics)
    rows = [_row(topic, found, sizes, options) for topic in topics]
    if options.rate is not None:
        columns.append("records a second")
        began = time.monotonic()
        time.sleep(options.rate)
        after = _ranges(admin, topics)
        rates = _rates(topics, found, after, time.monotonic() - began)
        rows = [(*row, rate) for row, rate in zip(rows, rates, strict=True)]
    show(columns, rows, as_json=options.json)
    return 0


def _led(topics: Iterable[TopicInfo]) -> list[TopicPartition]:
    from ottla.client.types import TopicPartition

    return [
        TopicPartition(topic.name, each.partition) for topic in topics for each in topic.partitions.values() if each.leader >= 0
    ]


def _ranges(admin: Admin, topics: Iterable[TopicInfo]) -> dict[TopicPartition, PartitionOffsets]:
    return ranges(admin, led) if (led := _led(topics)) else {}


def _sizes(admin: Admin, topics: Iterable[TopicInfo]) -> Mapping[str, int]:
    """Return the size of each topic's replicas in bytes; empty if brokers are too old, or refuse to describe log directories."""
    found = dict.fromkeys((topic.name for topic in topics), 0)
    try:
        for directories in admin.describe_log_dirs(None, _led(topics)).values():
            for directory in directories:
                for where, replica in directory.replicas.items():
                    if where.topic in found:
                        found[where.topic] += replica.size_bytes
    except KafkaError:
        return {}
    return found


def _row(
    topic: TopicInfo, found: Mapping[TopicPartition, PartitionOffsets], sizes: Mapping[str, int], options: argparse.Namespace
) -> tuple[Cell, ...]:
    replicas = max((len(each.replicas) for each in topic.partitions.values()), default=0)
    records = sum(found[where].end - found[where].start for where in _led([topic]))
    behind = sum(_out_of_sync(each) for each in topic.partitions.values())
    in_bytes = sizes.get(topic.name)
    shown: Cell = in_bytes if options.json or in_bytes is None else size(in_bytes)
    return (topic.name, len(topic.partitions), replicas, records, shown, behind)


def _out_of_sync(partition: PartitionInfo) -> int:
    return len(set(partition.replicas) - set(partition.isr))


def _rates(
    topics: Iterable[TopicInfo],
    before: Mapping[TopicPartition, PartitionOffsets],
    after: Mapping[TopicPartition, PartitionOffsets],
    seconds: float,
) -> list[Cell]:
    written = dict.fromkeys((topic.name for topic in topics), 0)
    for where in before.keys() & after.keys():
        written[where.topic] += after[where].end - before[where].end
    return [round(count / seconds, 1) for count in written.values()]


def describe(admin: Admin, options: argparse.Namespace) -> int:
    """Print the summary, partitions and settings of topics. Return 1 if a partition has no leader, or replicas out of sync."""
    from ottla.client.types import TopicPartition

    topics = admin.describe_topics(*dict.fromkeys(options.names))
    found = {} if options.configs and not options.partitions else _ranges(admin, topics.values())
    for number, topic in enumerate(topics.values()):
        partitions = [topic.partitions[index] for index in sorted(topic.partitions)]
        placed = [(each, found.get(TopicPartition(topic.name, each.partition))) for each in partitions]
        configs = _configs(admin, topic.name, options)
        if options.json:
            _describe_as_json(topic, placed, configs, options)
        else:
            if number:
                print()
            _describe_as_text(topic, placed, configs, options)
    return int(any(each.leader < 0 or _out_of_sync(each) for topic in topics.values() for each in topic.partitions.values()))


def _configs(admin: Admin, topic: str, options: argparse.Namespace) -> Mapping[str, ConfigEntry] | None:
    """Return the settings that are to be printed; None if the summary must do without, as brokers refuse or lack them."""
    if options.partitions and not options.configs:
        return {}
    try:
        return admin.describe_topic_configs(topic)
    except KafkaError as error:
        if options.configs or error.retriable:
            raise
        return None


Placed = tuple["PartitionInfo", "PartitionOffsets | None"]


def _describe_as_text(
    topic: TopicInfo, placed: list[Placed], configs: Mapping[str, ConfigEntry] | None, options: argparse.Namespace
) -> None:
    from ottla.client.admin.topics import DYNAMIC_TOPIC_SOURCE

    is_whole = not (options.partitions or options.configs)
    if is_whole:
        summary: dict[str, Cell] = {
            "topic": topic.name,
            "topic id": _id(topic.topic_id) if any(topic.topic_id) else None,
            "partitions": len(placed),
            "replicas": max((len(each.replicas) for each, _ in placed), default=0),
            "records": sum(found.end - found.start for _, found in placed if found is not None),
            **({"settings": None} if configs is None else {}),
        }
        for name, value in summary.items():
            print(f"{name:10}  {'-' if value is None else value}")
        print()
    if is_whole or options.partitions:
        columns = ("partition", "leader", "epoch", "replicas", "isr", "start", "end")
        show(columns, [_partition_row(each, found) for each, found in placed], as_json=False)
    if is_whole or options.configs:
        shown = [entry for entry in (configs or {}).values() if options.configs or entry.source == DYNAMIC_TOPIC_SOURCE]
        if shown:
            if is_whole or options.partitions:
                print()
            rows = [(entry.name, "[hidden]" if entry.is_sensitive else entry.value, entry.source_name) for entry in shown]
            show(("setting", "value", "source"), sorted(rows), as_json=False)


def _partition_row(each: PartitionInfo, found: PartitionOffsets | None) -> tuple[Cell, ...]:
    leader: Cell = each.leader if each.leader >= 0 else styled("none", RED)
    isr = ",".join(map(str, each.isr))
    nodes = (",".join(map(str, each.replicas)), styled(isr, RED) if _out_of_sync(each) else isr)
    return (each.partition, leader, each.leader_epoch, *nodes, *(found or (None, None)))


def _describe_as_json(
    topic: TopicInfo, placed: list[Placed], configs: Mapping[str, ConfigEntry] | None, options: argparse.Namespace
) -> None:
    from ottla.client.admin.topics import DYNAMIC_TOPIC_SOURCE

    partitions: list[dict[str, object]] = [
        {
            "topic": topic.name,
            "partition": each.partition,
            "leader": each.leader if each.leader >= 0 else None,
            "leader_epoch": each.leader_epoch,
            "replicas": each.replicas,
            "isr": each.isr,
            "start": found.start if found else None,
            "end": found.end if found else None,
        }
        for each, found in placed
    ]
    settings: list[dict[str, object]] = [
        {"topic": topic.name, "setting": entry.name, "value": entry.value, "source": entry.source_name}
        for entry in (configs or {}).values()
    ]
    if options.partitions or options.configs:
        rows = (partitions if options.partitions else []) + (settings if options.configs else [])
    else:
        changed = (
            None
            if configs is None
            else {entry.name: entry.value for entry in configs.values() if entry.source == DYNAMIC_TOPIC_SOURCE}
        )
        rows = [{"topic": topic.name, "topic_id": _id(topic.topic_id), "partitions": partitions, "configs": changed}]
    for line in as_lines(rows):
        print(line)


def _id(topic_id: bytes) -> str:
    """Return a topic id as Kafka's tools print it: base64 for URLs, without padding."""
    from base64 import urlsafe_b64encode

    return urlsafe_b64encode(topic_id).decode().rstrip("=")
