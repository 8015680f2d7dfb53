"""Batches of a task, read directly from files of the partition's leader. Its data directory must be on this machine.

Brokers return the leader and the topic id once; planning has determined the range that may be read. If anything cannot be read,
`StorageFailed` is raised, and the task fetches the rest from brokers.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from ottla.client.consumer.visible_batches import AbortedTransaction, visible
from ottla.client.settings.clients import ConsumerSettings
from ottla.client.types import TopicPartition
from ottla.log.check.live_reader import LiveBatches, LiveReader
from ottla.log.names import PARTITION_METADATA
from ottla.net.disk.read_only_files import SeenFiles
from ottla.ports import StorageFailed
from ottla.spark.brokers import Brokers
from ottla.spark.read_plan import Range

META = "meta.properties"
NO_TOPIC_ID = bytes(16)
MOST_KNOWN = 10_000


class LedBy(NamedTuple):
    """The owner of a partition: its leader's id, the cluster id, and the topic id (16 zero bytes if brokers have no topic ids)."""

    cluster_id: str
    node_id: int
    topic_id: bytes


_owners: dict[tuple[str, TopicPartition], LedBy] = {}
"""The leaders that this process has looked up, by bootstrap servers and partition."""


class StoredBatches:
    """The batches of a range of offsets, read from the log directory in `directories` that has the partition.

    `next_offset` is the offset after the last batch that was read.
    """

    def __init__(self, directories: Sequence[str], settings: ConsumerSettings, work: Range) -> None:
        self._directories = directories
        self._settings = settings
        self._work = work
        self.next_offset = work.start

    def runs(self) -> Iterator[memoryview]:
        """Yield runs of whole readable batches. Raises `StorageFailed`."""
        files, name = self._found(), _name(self._work)
        level = self._settings.read_committed
        reader = LiveReader(files, name, self._work.start, self._work.end, read_committed=level)
        for chunk in reader.chunks():
            yield from _visible(chunk)
            self.next_offset = reader.next_offset

    def _found(self) -> SeenFiles:
        known = (self._settings.bootstrap_servers, TopicPartition(self._work.topic, self._work.partition))
        if (owner := _owners.get(known)) is not None:
            with suppress(StorageFailed):  # the partition may have another leader now, or be of a new topic
                return _find(self._directories, _name(self._work), owner)
        with Brokers(self._settings) as brokers:
            owner = LedBy(*brokers.owner(known[1]))
        if len(_owners) >= MOST_KNOWN:
            _owners.clear()
        _owners[known] = owner
        return _find(self._directories, _name(self._work), owner)


def _name(work: Range) -> str:
    return f"{work.topic}-{work.partition}"


def _visible(chunk: LiveBatches) -> Sequence[memoryview]:
    if chunk.is_plain:
        return (chunk.records,)
    return visible(chunk.records, [AbortedTransaction(each.producer_id, each.first_offset) for each in chunk.aborted]).pieces


def _find(directories: Sequence[str], name: str, owner: LedBy) -> SeenFiles:
    """Return the directory of the partition in the leader's data directory. Raises `StorageFailed`."""
    reasons = []
    for directory in directories:
        files = SeenFiles(directory)
        try:
            _check(files, directory, name, owner)
        except StorageFailed as failure:
            reasons.append(str(failure))
        else:
            return files
    raise StorageFailed(name, "; ".join(reasons))


def _check(files: SeenFiles, directory: str, name: str, owner: LedBy) -> None:
    meta = _pairs(files.read_file(META), "=")
    found = (meta.get("cluster.id", ""), meta.get("node.id", meta.get("broker.id", "")))
    if found != (owner.cluster_id, str(owner.node_id)):
        sentence = f"it is that of node {found[1]} of cluster {found[0]}, and {name} is led by node {owner.node_id} of cluster"
        raise StorageFailed(directory, f"{sentence} {owner.cluster_id}")
    if owner.topic_id == NO_TOPIC_ID or PARTITION_METADATA not in files.names(name):
        return
    wanted = base64.urlsafe_b64encode(owner.topic_id).decode().rstrip("=")
    topic_id = _pairs(files.read_file(f"{name}/{PARTITION_METADATA}"), ":").get("topic_id")
    if topic_id != wanted:
        raise StorageFailed(f"{directory}/{name}", f"it is of the topic with id {topic_id}, not {wanted}")


def _pairs(data: bytes, mark: str) -> dict[str, str]:
    lines = (line.partition(mark) for line in data.decode(errors="replace").splitlines())
    return {name.strip(): value.strip() for name, _, value in lines}
