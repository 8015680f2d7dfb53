"""What can be seen of a broker from outside: its memory, its partitions, and whether it keeps what it acknowledged."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from ottla.wire.api.metadata import MetadataRequest, MetadataResponse
from ottla.wire.framing import FrameHeader, decode_response, encode_request
from tests.siege.innocent import NUMBER, VALUE_BYTES, Sample
from tests.support.frames import METADATA, Raw

METADATA_VERSION = 8
LOOK_S = 20.0
TOPICS_S = 60.0
FETCH_BYTES = 8 << 20
BATCH_SIZE = struct.Struct(">qi")


def forget_peak(pid: int) -> None:
    """Let the peak of the process's memory begin anew."""
    with suppress(OSError):
        Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak_mb(pid: int) -> float | None:
    """The most memory that was resident since; None if the process is gone, or was never one of ours."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    found = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(found[0]) * 1024 / 1e6 if found else None


def offline(address: str) -> list[str]:
    """The partitions that nobody leads, of all topics. Raises OSError, EOFError."""
    return [
        f"{topic.name}-{partition.partition_index}"
        for topic in topics(address, None)
        for partition in topic.partitions
        if partition.leader_id < 0 or partition.error_code
    ]


def missing(address: str, names: Sequence[str]) -> list[str]:
    """Which of these topics are not there yet, or without a leader. Raises OSError, EOFError."""
    return [
        str(topic.name)
        for topic in topics(address, names)
        if topic.error_code or any(partition.leader_id < 0 for partition in topic.partitions)
    ]


def topics(address: str, names: Sequence[str] | None) -> list[MetadataResponse.MetadataResponseTopic]:
    """What is told of these topics, or of all. Raises OSError, EOFError."""
    wanted = None if names is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    body = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
    with Raw(address, timeout_s=LOOK_S) as raw:
        raw.send(b"".join(encode_request(FrameHeader(METADATA, METADATA_VERSION, 1, "siege"), body)))
        answer = decode_response(METADATA, METADATA_VERSION, raw.frame())[1]
    assert isinstance(answer, MetadataResponse)
    return answer.topics


def wait_for_topics(address: str, names: Sequence[str]) -> None:
    """Return once each is there and led by somebody: Apache Kafka answers before. Raises OSError, EOFError, TimeoutError."""
    deadline = time.monotonic() + TOPICS_S
    while left := missing(address, names):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(left)} topics were not there {TOPICS_S:.0f} s after they were created")
        time.sleep(0.05)


def lost(address: str, topic: str, samples: Iterable[Sample]) -> list[int]:
    """The numbers of acknowledged records that are not in the topic. Raises OSError, EOFError."""
    acknowledged = {sample.number for sample in samples if sample.is_good}
    with Raw(address, timeout_s=LOOK_S) as raw:
        end, at = raw.latest_offset(topic), 0
        while at < end:
            code, _, records = raw.fetch(topic, at, max_bytes=FETCH_BYTES)
            numbers, following = read_numbers(records)
            if code or following <= at:
                break
            acknowledged -= numbers
            at = following
    return sorted(acknowledged)


def read_numbers(records: bytes) -> tuple[set[int], int]:
    """The numbers in batches of one record each, and the offset behind the last whole one (-1 without any)."""
    numbers, position, following = set(), 0, -1
    while len(records) - position >= BATCH_SIZE.size:
        offset, length = BATCH_SIZE.unpack_from(records, position)
        end = position + BATCH_SIZE.size + length
        if end > len(records):
            break
        numbers.add(NUMBER.unpack_from(records, end - 1 - VALUE_BYTES)[0])
        position, following = end, offset + 1
    return numbers, following
