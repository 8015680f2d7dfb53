"""Speed of codecs and records, each figure beside other people's in the same run: `make bench-wire`; bench/RESULTS-wire.md.

What we encode, each peer decodes to its own value and encodes again, so all work on the same bytes. Versions are the newest that
the peers know; aiokafka knows older ones, and is measured in its own newest.
"""

from __future__ import annotations

import io
import os
import platform
import subprocess
import sys
import tempfile
import timeit
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bench import records
from ottla.wire import decode, encode
from ottla.wire.api.fetch import FetchRequest, FetchResponse
from ottla.wire.api.join_group import JoinGroupRequest
from ottla.wire.api.metadata import MetadataResponse
from ottla.wire.api.offset_commit import OffsetCommitRequest
from ottla.wire.api.produce import ProduceRequest, ProduceResponse
from ottla.wire.schema import Message

_TOPIC_ID = bytes(range(16))


class Case(NamedTuple):
    name: str
    message: Message
    version: int
    aiokafka: tuple[str, int]  # module, newest version


_MEMBER = "consumer-1-4b8f9f0e-2b7d-4b8e-9f0e-2b7d4b8e9f0e"


def metadata_response() -> Message:
    of = MetadataResponse

    def partition(index: int) -> MetadataResponse.MetadataResponsePartition:
        nodes = [0, 1, 2]
        return of.MetadataResponsePartition(
            partition_index=index, leader_id=index % 3, leader_epoch=7, replica_nodes=nodes, isr_nodes=nodes
        )

    brokers = [of.MetadataResponseBroker(node_id=i, host=f"broker-{i}.example.org", port=9092) for i in range(3)]
    partitions = [partition(i) for i in range(10)]
    topics = [of.MetadataResponseTopic(name=f"topic-{i}", topic_id=_TOPIC_ID, partitions=partitions) for i in range(100)]
    return of(brokers=brokers, cluster_id="wL3zn6hLSwuXkUHaVuAXDA", controller_id=1, topics=topics)


def produce_request() -> Message:
    of = ProduceRequest
    partition = of.PartitionProduceData(index=3, records=bytes(170))
    return of(acks=-1, timeout_ms=30_000, topic_data=[of.TopicProduceData(name="flights", partition_data=[partition])])


def produce_response() -> Message:
    of = ProduceResponse
    partition = of.PartitionProduceResponse(index=3, base_offset=123_456)
    return of(responses=[of.TopicProduceResponse(name="flights", partition_responses=[partition])])


def fetch_request() -> Message:
    of = FetchRequest
    partitions = [of.FetchPartition(partition=i, fetch_offset=9) for i in range(6)]
    return of(max_wait_ms=500, min_bytes=1, topics=[of.FetchTopic(topic="flights", partitions=partitions)])


def fetch_response() -> Message:
    of = FetchResponse
    partitions = [of.PartitionData(partition_index=i, high_watermark=99, records=bytes(1024)) for i in range(6)]
    return of(responses=[of.FetchableTopicResponse(topic="flights", partitions=partitions)])


def offset_commit_request() -> Message:
    of = OffsetCommitRequest
    partitions = [of.OffsetCommitRequestPartition(partition_index=i, committed_offset=5) for i in range(6)]
    topics = [of.OffsetCommitRequestTopic(name="flights", partitions=partitions)]
    return of(group_id="pipeline", generation_id_or_member_epoch=4, member_id=_MEMBER, topics=topics)


def join_group_request() -> Message:
    of = JoinGroupRequest
    return of(
        group_id="pipeline",
        session_timeout_ms=45_000,
        rebalance_timeout_ms=300_000,
        member_id=_MEMBER,
        protocol_type="consumer",
        protocols=[of.JoinGroupRequestProtocol(name=name, metadata=bytes(60)) for name in ("range", "cooperative-sticky")],
    )


CASES = (
    Case("Metadata response, 100 topics of 10", metadata_response(), 12, ("metadata", 5)),
    Case("Produce request, 1 partition", produce_request(), 9, ("produce", 8)),
    Case("Produce response, 1 partition", produce_response(), 9, ("produce", 8)),
    Case("Fetch request, 6 partitions", fetch_request(), 12, ("fetch", 11)),
    Case("Fetch response, 6 partitions of 1 KB", fetch_response(), 12, ("fetch", 11)),
    Case("OffsetCommit request, 6 partitions", offset_commit_request(), 8, ("commit", 3)),
    Case("JoinGroup request, 2 protocols", join_group_request(), 9, ("group", 5)),
)


Codec = tuple[Callable[[], Any], Callable[[], Any]]
"""Encode and decode of one case, without arguments."""


def ours(case: Case, version: int) -> Codec:
    data = encode(case.message, version)
    msg = decode(type(case.message), version, data)
    return lambda: encode(msg, version), lambda: decode(type(msg), version, data)


def kio(case: Case, version: int) -> Codec:
    from kio.index import load_payload_module
    from kio.serial import entity_reader, entity_writer
    from kio.static.constants import EntityType

    name = type(case.message).__name__
    kind: Any = EntityType.request if name.endswith("Request") else EntityType.response
    entity = getattr(load_payload_module(case.message.WIRE.key, version, kind), name)
    read, write = entity_reader(entity), entity_writer(entity)
    data = encode(case.message, version)
    value = read(data, 0)[0]

    def put() -> bytes:
        out = io.BytesIO()
        write(out, value)
        return out.getvalue()

    assert put() == data
    return put, lambda: read(data, 0)


def kafka_python(case: Case, version: int) -> Codec:
    from tests.unit.wire import peers

    peer = peers._kafka_python_classes()[type(case.message).__name__]
    data = encode(case.message, version)
    value = peer.decode(data, version=version)
    value._header = None
    assert bytes(value.encode(version=version)) == data
    return lambda: value.encode(version=version), lambda: peer.decode(data, version=version)


def aiokafka(case: Case, version: int) -> Codec:
    import importlib

    module = importlib.import_module(f"aiokafka.protocol.{case.aiokafka[0]}")
    peer = getattr(module, f"{type(case.message).__name__}_v{version}")
    data = encode(case.message, version)
    value = peer.decode(data)
    assert value.encode() == data
    return value.encode, lambda: peer.decode(data)


def seconds(*calls: Callable[[], Any]) -> list[float]:
    """The best time of each call, measured in turn so that a busy moment hits all."""
    numbers = [max(1, int(0.01 * 3 / min(timeit.repeat(call, number=3, repeat=3)))) for call in calls]
    rounds = [[timeit.timeit(call, number=number) / number for call, number in zip(calls, numbers, strict=True)] for _ in range(15)]
    return [min(column) for column in zip(*rounds, strict=True)]


PEERS: tuple[tuple[str, Callable[[Case, int], Codec]], ...] = (("kio", kio), ("kafka-python", kafka_python), ("aiokafka", aiokafka))
WANTED = {
    "encode": {"kio": 4.0, "kafka-python": 4.0, "aiokafka": 5.0},
    "decode": {"kio": 1.0, "kafka-python": 2.5, "aiokafka": 2.5},
}
IMPORT_MS, FETCH_RESPONSE_MB = 40, 2
PAGE = Path(__file__).with_name("RESULTS-wire.md")


def shown(ratio: float, wanted: float) -> str:
    """A ratio to a peer, in bold where it falls short."""
    return f"{ratio:.1f}" if ratio >= wanted else f"**{ratio:.1f}**"


def rows() -> Iterator[list[str]]:
    for case in CASES:
        for way, what in enumerate(("encode", "decode")):
            newest, older = ours(case, case.version)[way], ours(case, case.aiokafka[1])[way]
            calls = [codec(case, case.aiokafka[1] if name == "aiokafka" else case.version)[way] for name, codec in PEERS]
            mine, mine_older, *theirs = seconds(newest, older, *calls)
            ratios = [
                shown(time / (mine_older if name == "aiokafka" else mine), WANTED[what][name])
                for (name, _), time in zip(PEERS, theirs, strict=True)
            ]
            yield [f"{case.name}, {what}", f"{mine * 1e6:.2f} µs", *ratios]


IMPORTS = """
import time; start = time.process_time()
from ottla.wire import decode, encode
from ottla.wire.api.fetch import FetchRequest, FetchResponse
from ottla.wire.api.metadata import MetadataRequest, MetadataResponse
from ottla.wire.api.produce import ProduceRequest, ProduceResponse
for cls in ProduceRequest, ProduceResponse, FetchRequest, FetchResponse, MetadataRequest, MetadataResponse:
    version = cls.WIRE.flexible.start
    decode(cls, version, encode(cls(), version))
print(time.process_time() - start)
"""


def import_ms() -> float:
    """Importing and the first Produce, Fetch and Metadata codecs, both ways, in a new interpreter.

    Bytecode is kept from the first run on, as it is wherever a package is installed.
    """
    with tempfile.TemporaryDirectory() as folder:
        kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        command = [sys.executable, "-X", f"pycache_prefix={folder}", "-c", IMPORTS]
        runs = [float(subprocess.run(command, env=kept, capture_output=True, check=True, text=True).stdout) for _ in range(10)]
    return min(runs) * 1000


def wire_lines() -> Iterator[str]:
    yield "| message | Ottla | kio ÷ Ottla | kafka-python ÷ Ottla | aiokafka ÷ Ottla |"
    yield "|---|---|---|---|---|"
    for row in rows():
        yield f"| {' | '.join(row)} |"
    for what, wanted in WANTED.items():
        asked = ", ".join(f"{name} ≥ {ratio:g}" for name, ratio in wanted.items())
        yield f"\nTo reach, {what}: {asked}. What falls short is bold." if what == "encode" else f"To reach, {what}: {asked}."
    took = import_ms()
    verdict = "reached" if took <= IMPORT_MS else "**missed**"
    yield f"\nImport and first Produce, Fetch and Metadata codecs: {took:.0f} ms (≤ {IMPORT_MS} ms: {verdict})."


def record_lines() -> Iterator[str]:
    yield "| records | unit | Ottla | beside | | ratio | to reach |"
    yield "|---|---|---|---|---|---|---|"
    for one in records.figures():
        beside = "" if one.theirs is None else f"{one.theirs:.3g}"
        ratio = "" if one.ratio is None else f"{one.ratio:.2f}"
        yield f"| {one.name} | {one.unit} | {one.ours:.3g} | {one.beside} | {beside} | {ratio} | {one.verdict} |"
    taken = records.fetch_response_mb()
    verdict = "reached" if taken < FETCH_RESPONSE_MB else "**missed**"
    yield f"\nDecoding a fetch response of 100 MB takes {taken:.3f} MB beyond its buffer (< {FETCH_RESPONSE_MB} MB: {verdict})."


def machine() -> str:
    return f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}"


def main() -> None:
    """Print each line as it is measured, then write the page."""
    head = f"""# What `make bench-wire` measured last

{machine()}. Figures differ from machine to machine and from hour to hour, so that only the ratios of one run count.
"""
    said = [head]
    for lines in (wire_lines(), iter([""]), record_lines()):
        for line in lines:
            print(line, flush=True)
            said.append(line)
    PAGE.write_text("\n".join(said) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
