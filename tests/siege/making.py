"""What attacks are made of: topics that are there before, batches that are small and open large, requests by the name of an API."""

from __future__ import annotations

from collections.abc import Iterable

from bench.raw import batch
from ottla.records.batches.builder import build
from ottla.records.batches.header import LOG_OVERHEAD_BYTES, write_crc
from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.api.produce import ProduceRequest
from tests.siege.looks import wait_for_topics
from tests.siege.site import Site, framed

NOW_MS = 1_780_000_000_000
TOPICS_AT_ONCE = 500
NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
Creatable = CreateTopicsRequest.CreatableTopic
Named = MetadataRequest.MetadataRequestTopic
Data = ProduceRequest.PartitionProduceData
TopicData = ProduceRequest.TopicProduceData


def create_topic(site: Site, name: str, partitions: int = 1, **configs: str) -> None:
    """A topic with settings, by Kafka's names with underscores. Raises RuntimeError."""
    settings = [CreateTopicsRequest.CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    _create(site, [Creatable(name=name, num_partitions=partitions, replication_factor=1, configs=settings)])


def create_many_topics(site: Site, count: int) -> list[str]:
    """So many topics of one partition; their names. Raises RuntimeError."""
    names = [site.named(number) for number in range(count)]
    for start in range(0, count, TOPICS_AT_ONCE):
        some = names[start : start + TOPICS_AT_ONCE]
        _create(site, [Creatable(name=name, num_partitions=1, replication_factor=1) for name in some])
    return names


def _create(site: Site, topics: list[Creatable]) -> None:
    answer = site.ask(CreateTopicsRequest(topics=topics, timeout_ms=60_000), 4)
    if codes := {topic.error_code for topic in answer.topics} - {0, 36}:
        raise RuntimeError(f"topics could not be created: error {sorted(codes)}")
    wait_for_topics(site.address, [topic.name for topic in topics])


def metadata(names: Iterable[str] | None, *, version: int = 4, creates: bool = False, client_id: str = "s") -> bytes:
    """A request for these topics, or for all."""
    wanted = None if names is None else [Named(name=name) for name in names]
    allow = creates or version < 4  # before, it could not be said
    return framed(MetadataRequest(topics=wanted, allow_auto_topic_creation=allow), version, client_id)


def produce(topic: str, records: bytes, *, partition: int = 0, acks: int = 1, version: int = 7) -> bytes:
    """A request with one batch."""
    return produce_many(topic, [(partition, records)], acks=acks, version=version)


def produce_many(topic: str, data: Iterable[tuple[int, bytes]], *, acks: int = 1, version: int = 7) -> bytes:
    """A request with batches for these partitions."""
    parts = [Data(index=partition, records=records) for partition, records in data]
    topics = [TopicData(name=topic, partition_data=parts)]
    return framed(ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=topics), version)


def bomb(codec: int, opened_bytes: int) -> bytes:
    """A batch of one record of so many zeros."""
    return bytes(build(None, [bytes(opened_bytes)], NOW_MS, codec=codec))


def resealed(data: bytes) -> bytes:
    """A batch that was changed behind its header's first fields, with the length and the checksum that it needs."""
    out = bytearray(data)
    out[8:12] = (len(out) - LOG_OVERHEAD_BYTES).to_bytes(4, "big")
    write_crc(out, 0, len(out))
    return bytes(out)


def one_record(size: int = 100) -> bytes:
    """An ordinary batch of one record."""
    return batch(bytes(size))


def send_all(site: Site, frames: Iterable[bytes]) -> None:
    """Send these requests one after another, each when the one before is answered, before an attack begins. Raises OSError."""
    with site.connect() as connection:
        answers = connection.makefile("rb")
        for frame in frames:
            connection.sendall(frame)
            answers.read(int.from_bytes(answers.read(4), "big"))
