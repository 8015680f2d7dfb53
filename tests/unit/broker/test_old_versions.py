"""The versions before Kafka 0.11, and what clients of that time rely on in them: formats, cuts, acks, offsets in a registry."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.releases import find
from ottla.broker.serving.purgatory import DelayedReply
from ottla.broker.serving.request import Close
from ottla.cluster.layout import consumer_offset_path
from ottla.records.batches.builder import build
from ottla.records.batches.columns import open_batches
from ottla.records.batches.header import read_header
from ottla.records.batches.record import Record
from ottla.records.compression import codecs
from ottla.records.message_sets.legacy import open_message_set, wrapper
from ottla.wire.api.fetch import FetchResponse
from ottla.wire.api.produce import ProduceResponse
from ottla.wire.errors import (
    CORRUPT_MESSAGE,
    INVALID_REQUIRED_ACKS,
    INVALID_TIMESTAMP,
    MESSAGE_TOO_LARGE,
    NONE,
    OFFSET_METADATA_TOO_LARGE,
    OFFSET_OUT_OF_RANGE,
    REQUEST_TIMED_OUT,
    UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSUPPORTED_COMPRESSION_TYPE,
)
from tests.old.message_sets import message, plain, wrapped
from tests.support.machine import Machine
from tests.support.messages import request

PRODUCE, FETCH, LIST_OFFSETS, METADATA, OFFSET_COMMIT, OFFSET_FETCH = 0, 1, 2, 3, 8, 9
HOUR_MS = 3_600_000


def machine_with(*topics: str, release: str | None = None, **settings: object) -> Machine:
    machine = Machine(**settings)
    if release is not None:
        machine.peer.release = find(release)
    for topic in topics:
        for _ in range(2):
            machine.ask(METADATA, 0, request(METADATA, 0, topics=[{"name": topic}]))
    return machine


def create(machine: Machine, topic: str, **configs: str) -> None:
    settings = [{"name": name.replace("_", "."), "value": value} for name, value in configs.items()]
    wanted = [{"name": topic, "num_partitions": 1, "replication_factor": 1, "configs": settings}]
    assert machine.ask(19, 2, request(19, 2, topics=wanted)).topics[0].error_code == NONE


def produced(topic: str, records: bytes, *, acks: int = 1, version: int = 0) -> Any:
    data = [{"name": topic, "partition_data": [{"index": 0, "records": records}]}]
    return request(PRODUCE, version, acks=acks, timeout_ms=500, topic_data=data)


def produce(machine: Machine, records: bytes, *, version: int = 0, acks: int = 1, topic: str = "t") -> Any:
    """The partition's answer."""
    answer = machine.ask(PRODUCE, version, produced(topic, records, acks=acks, version=version))
    if not isinstance(answer, ProduceResponse):
        return answer
    return answer.responses[0].partition_responses[0]


def fetched(offset: int, *, version: int = 0, max_bytes: int = 1 << 20, all_bytes: int = 1 << 24, topic: str = "t") -> Any:
    part = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": max_bytes}
    limits = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": all_bytes}
    return request(FETCH, version, **limits, topics=[{"topic": topic, "partitions": [part]}])


def fetch(machine: Machine, offset: int = 0, *, version: int = 0, **more: Any) -> FetchResponse.PartitionData:
    """The partition's answer."""
    answer = machine.ask(FETCH, version, fetched(offset, version=version, **more))
    found: FetchResponse.PartitionData = answer.responses[0].partitions[0]
    return found


def values(data: FetchResponse.PartitionData, version: int) -> list[tuple[int, bytes | None]]:
    records = open_batches(data.records or b"") if version >= 4 else open_message_set(data.records or b"")
    return [(record.offset, record.value) for record in records.records()]


def magics(message_set: Any) -> set[int]:
    """The formats of the outer messages."""
    found, pos = set(), 0
    while len(message_set) - pos >= 17:
        found.add(message_set[pos + 16])
        pos += 12 + int.from_bytes(message_set[pos + 8 : pos + 12], "big")
    return found


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("version", [0, 1, 2])
def test_any_format_is_taken_in_any_version_and_read_in_any_other(version: int, magic: int, codec: str) -> None:
    """pykafka sends magic 1 in version 0, aiokafka magic 2 in version 2."""
    machine, number = machine_with("t"), codecs.NAMES.index(codec)
    if magic == 2:
        records = bytes(build([b"k", None], [b"a", b"b"], 1_700_000_000_000, codec=number))
    elif number:
        inner = plain(b"a", b"b", magic=magic)
        records = wrapper(1, magic, number, 1_500_000_000_000, codecs.compress(number, inner, magic=magic))
    else:
        records = plain(b"a", b"b", magic=magic)
    answer = produce(machine, records, version=version)
    assert (answer.error_code, answer.base_offset, answer.log_append_time_ms) == (NONE, 0, -1)
    for fetch_version, formats in ((0, {0}), (1, {0}), (2, {1}), (3, {1}), (4, {2})):
        data = fetch(machine, version=fetch_version)
        assert values(data, fetch_version) == [(0, b"a"), (1, b"b")]
        assert magics(data.records) == formats
        assert data.high_watermark == 2


def test_keys_values_order_and_times_survive_and_headers_are_lost() -> None:
    machine = machine_with("t")
    batch = build([b"k", None, b""], [b"a", None, b""], [5, 6, 7], [[("h", b"x")], None, None])
    assert machine.ask(PRODUCE, 9, produced("t", bytes(batch), version=9)).responses[0].partition_responses[0].error_code == NONE
    kept = [(b"k", b"a"), (None, None), (b"", b"")]
    old = open_message_set(fetch(machine, version=1).records or b"").records()
    assert old == [Record(offset, -1, 0, *pair, ()) for offset, pair in enumerate(kept)]
    newer = open_message_set(fetch(machine, version=3).records or b"").records()
    assert newer == [Record(offset, 5 + offset, 0, *pair, ()) for offset, pair in enumerate(kept)]


def test_the_brokers_time_goes_to_all_formats_that_have_one() -> None:
    machine = machine_with()
    create(machine, "t", message_timestamp_type="LogAppendTime")
    answer = produce(machine, plain(b"a", magic=0), version=2)
    assert answer.log_append_time_ms == machine.clock.now().wall_ms
    (record,) = open_message_set(fetch(machine, version=2).records or b"").records()
    assert (record.timestamp, record.timestamp_type) == (answer.log_append_time_ms, 1)


def test_a_message_torn_at_the_end_is_cut_off_in_silence() -> None:
    machine = machine_with("t")
    whole = plain(b"a", b"b")
    assert produce(machine, whole + whole[:20]).base_offset == 0
    assert values(fetch(machine), 0) == [(0, b"a"), (1, b"b")]
    nothing = produce(machine, whole[:20])
    assert (nothing.error_code, nothing.base_offset) == (NONE, -1)


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (plain(b"a")[:13] + b"\0" + plain(b"a")[14:], CORRUPT_MESSAGE),
        (message(b"a", magic=3), CORRUPT_MESSAGE),
        (wrapped(wrapped(plain(b"a"))), CORRUPT_MESSAGE),
        (wrapped(b""), CORRUPT_MESSAGE),
        (wrapper(0, 1, codecs.ZSTD, 0, b"zstd"), UNSUPPORTED_COMPRESSION_TYPE),
        (plain(bytes(1_100_000)), MESSAGE_TOO_LARGE),
    ],
    ids=["crc", "magic", "nested", "empty", "zstd", "large"],
)
def test_what_no_old_broker_takes_has_a_code_that_old_clients_know(records: bytes, code: int) -> None:
    machine = machine_with("t")
    answer = produce(machine, records)
    assert (answer.error_code, answer.base_offset) == (code, -1)
    assert fetch(machine).high_watermark == 0


def test_a_compacted_topic_wants_keys_from_old_clients_too() -> None:
    machine = machine_with()
    create(machine, "t", cleanup_policy="compact")
    assert produce(machine, message(b"a", key=None)).error_code == CORRUPT_MESSAGE
    assert produce(machine, message(b"a", key=b"k")).error_code == NONE


def test_times_are_checked_and_none_is_fine() -> None:
    machine = machine_with("t")
    now = machine.clock.now().wall_ms
    assert produce(machine, plain(b"a", magic=0)).error_code == NONE
    assert produce(machine, build_v1(b"a", now)).error_code == NONE
    assert produce(machine, build_v1(b"a", now + 2 * HOUR_MS)).error_code == INVALID_TIMESTAMP


def build_v1(value: bytes, timestamp: int) -> bytes:
    """One plain message of magic 1."""
    return wrapper(0, 1, 0, timestamp, value)


def test_a_large_set_of_small_messages_becomes_several_batches() -> None:
    """None may be above max.message.bytes, which counts for one message in old formats."""
    machine = machine_with(message_max_bytes=5000)
    create(machine, "t")
    assert produce(machine, plain(*(b"%04d" % n * 100 for n in range(100)))).error_code == NONE
    assert [value for _, value in values(fetch(machine), 0)] == [b"%04d" % n * 100 for n in range(100)]


@pytest.mark.parametrize(("acks", "code"), [(2, NONE), (-2, NONE), (-1, NONE), (1, NONE)])
def test_version_0_takes_any_acks_and_waits_for_the_replicas_that_there_are(acks: int, code: int) -> None:
    assert produce(machine_with("t"), plain(b"a"), acks=acks).error_code == code


def test_acks_above_1_are_refused_from_version_1_on_and_from_release_0_9_on() -> None:
    assert produce(machine_with("t"), plain(b"a"), acks=2, version=1).error_code == INVALID_REQUIRED_ACKS
    assert produce(machine_with("t", release="0.9.0"), plain(b"a"), acks=2).error_code == INVALID_REQUIRED_ACKS


def test_release_0_8_2_waits_for_as_many_replicas_as_acks_says_until_the_time_is_up() -> None:
    machine = machine_with("t", release="0.8.2")
    pending = machine.begin(PRODUCE, 0, produced("t", plain(b"a"), acks=2))
    assert isinstance(pending, DelayedReply)
    machine.pass_time(500)
    answer = machine.finish(PRODUCE, 0, pending).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (REQUEST_TIMED_OUT, 0)
    assert produce(machine_with("t", release="0.8.1"), plain(b"a"), acks=2).error_code == NONE


def test_acks_0_has_no_answer_and_an_error_closes() -> None:
    machine = machine_with("t")
    assert produce(machine, plain(b"a"), acks=0) is None
    assert isinstance(produce(machine, plain(b"a"), acks=0, topic="nowhere"), Close)
    assert fetch(machine).high_watermark == 1


def test_release_0_11_closes_where_a_batch_is_wanted_and_something_else_comes() -> None:
    assert isinstance(produce(machine_with("t", release="0.11.0"), plain(b"a"), version=3), Close)
    assert produce(machine_with("t", release="2.4"), plain(b"a"), version=3).error_code == 87


def test_release_0_10_knows_no_batches_and_0_8_1_no_lz4() -> None:
    batch = bytes(build(None, [b"a"], 1_700_000_000_000))
    assert produce(machine_with("t", release="0.10.2"), batch, version=2).error_code == CORRUPT_MESSAGE
    lz4 = wrapper(0, 0, codecs.LZ4, 0, codecs.compress(codecs.LZ4, plain(b"a"), magic=0))
    assert produce(machine_with("t", release="0.8.1"), lz4).error_code == UNKNOWN_SERVER_ERROR
    assert produce(machine_with("t", release="0.8.2"), lz4).error_code == NONE


def test_before_kip_74_bytes_are_cut_off_within_the_first_message() -> None:
    machine = machine_with("t")
    produce(machine, plain(b"a" * 100, b"b" * 100))
    size = len(plain(b"a" * 100))
    for version in (0, 1, 2):
        whole = bytes(fetch(machine, version=version).records or b"")
        for max_bytes in (0, 1, 20, size, size + 1, 2 * size):
            assert bytes(fetch(machine, version=version, max_bytes=max_bytes).records or b"") == whole[:max_bytes]


def test_from_kip_74_on_the_first_message_is_whole_and_all_share_one_limit() -> None:
    machine = machine_with("t", "u")
    for topic in ("t", "u"):
        produce(machine, plain(b"a" * 100, b"b" * 100), topic=topic)
    data = fetch(machine, version=3, max_bytes=1)
    assert values(data, 3) == [(0, b"a" * 100)]
    part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
    topics = [{"topic": topic, "partitions": [part]} for topic in ("t", "u")]
    answer = machine.ask(FETCH, 3, request(FETCH, 3, max_wait_ms=0, min_bytes=0, max_bytes=200, topics=topics))
    assert [len(topic.partitions[0].records or b"") for topic in answer.responses] == [200, 0]


def test_a_fetch_from_within_a_wrapper_gets_all_of_it_and_of_plain_messages_the_rest() -> None:
    machine = machine_with("t")
    produce(machine, wrapped(plain(b"a", b"b", b"c")))
    produce(machine, plain(b"d", b"e", b"f"))
    assert values(fetch(machine, 1), 0) == list(enumerate((b"a", b"b", b"c", b"d", b"e", b"f")))
    assert values(fetch(machine, 4), 0) == [(4, b"e"), (5, b"f")]


@pytest.mark.parametrize("codec", [codecs.NONE, codecs.LZ4])
def test_a_batch_larger_than_what_is_read_at_once_is_fetched_whole(codec: int) -> None:
    machine = machine_with("t", message_max_bytes=8 << 20)
    value = bytes(n * n >> 3 & 0xFF for n in range(40_009)) * 75
    batch = bytes(build(None, [b"a", value, b"b"], 1_700_000_000_000, codec=codec))
    assert produce(machine, batch, version=3).error_code == NONE
    assert values(fetch(machine, version=1, max_bytes=8 << 20), 1) == [(0, b"a"), (1, value), (2, b"b")]


def test_control_batches_do_not_keep_an_old_reader_for_ever() -> None:
    """They are left out, and a reader of nothing would ask for the same offset again and again."""
    machine = machine_with("t")
    partition = machine.broker.partitions.get("t", 0)
    assert partition is not None
    for number in range(5):
        marker = bytearray(
            build([b"\0\0\0\0"], [b"\0\0\0\0\0\0"], 1, producer_id=7, producer_epoch=0, transactional=True, control=True)
        )
        assert not partition.append(marker, (read_header(marker),), machine.clock.now(), origin_client=False).error_code
        assert number + 1 == partition.high_watermark
    produce(machine, plain(b"a"))
    assert values(fetch(machine, 0, max_bytes=100), 0) == [(5, b"a")]


def test_zstd_cannot_be_had_by_an_old_fetch_and_what_is_before_it_can() -> None:
    machine = machine_with("t")
    produce(machine, plain(b"a"))
    batch = bytes(build(None, [b"b"], 1_700_000_000_000, codec=codecs.ZSTD))
    assert produce(machine, batch, version=7).error_code == NONE
    assert values(fetch(machine), 0) == [(0, b"a")]
    for version in range(4):
        data = fetch(machine, 1, version=version)
        assert (data.error_code, data.high_watermark, bytes(data.records or b"")) == (UNSUPPORTED_COMPRESSION_TYPE, -1, b"")
    assert fetch(machine, 1, version=4).error_code == NONE


def test_a_topic_stored_in_zstd_is_for_fetches_from_version_10_on() -> None:
    machine = machine_with()
    create(machine, "t", compression_type="zstd")
    produce(machine, plain(b"a"))
    assert {version: fetch(machine, version=version).error_code for version in (0, 4, 9, 10)} == {
        0: UNSUPPORTED_COMPRESSION_TYPE,
        4: UNSUPPORTED_COMPRESSION_TYPE,
        9: UNSUPPORTED_COMPRESSION_TYPE,
        10: NONE,
    }


def test_an_old_fetch_waits_for_records_and_is_answered_in_its_format() -> None:
    machine = machine_with("t")
    part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
    body = request(FETCH, 1, max_wait_ms=5000, min_bytes=1, topics=[{"topic": "t", "partitions": [part]}])
    pending = machine.begin(FETCH, 1, body)
    assert isinstance(pending, DelayedReply)
    assert not pending.done
    produce(machine, plain(b"a", magic=1))
    assert magics(machine.finish(FETCH, 1, pending).responses[0].partitions[0].records) == {0}


def test_offsets_outside_the_log_are_told_with_no_high_watermark() -> None:
    machine = machine_with("t")
    for offset in (-1, 1):
        data = fetch(machine, offset)
        assert (data.error_code, data.high_watermark, bytes(data.records or b"")) == (OFFSET_OUT_OF_RANGE, -1, b"")


def listed(machine: Machine, timestamp: int, count: int = 10) -> list[int]:
    part = {"partition_index": 0, "timestamp": timestamp, "max_num_offsets": count}
    answer = machine.ask(LIST_OFFSETS, 0, request(LIST_OFFSETS, 0, replica_id=-1, topics=[{"name": "t", "partitions": [part]}]))
    found = answer.topics[0].partitions[0]
    assert found.error_code == NONE
    offsets: list[int] = found.old_style_offsets
    return offsets


def test_list_offsets_of_version_0_tells_where_segments_begin() -> None:
    machine = machine_with()
    create(machine, "t", internal_segment_bytes="400")
    assert listed(machine, -1) == [0]
    assert listed(machine, -2) == [0]
    times = []
    for number in range(6):
        machine.disk.wall_ms = machine.clock.now().wall_ms
        produce(machine, plain(b"%d" % number * 100))
        machine.clock.advance(1000)
        times.append(machine.clock.now().wall_ms)
    assert listed(machine, -1) == [6, 4, 2, 0]
    assert listed(machine, -1, 2) == [6, 4]
    assert listed(machine, -1, 0) == []
    assert listed(machine, -2) == [0]
    assert listed(machine, times[-1] + HOUR_MS) == [6, 4, 2, 0]
    assert listed(machine, times[3] - 500) == [2, 0]
    assert listed(machine, 5) == []


def commit_v0(machine: Machine, offset: int, *, group: str = "g", topic: str = "t", metadata: str = "") -> int:
    part = {"partition_index": 0, "committed_offset": offset, "committed_metadata": metadata}
    body = request(OFFSET_COMMIT, 0, group_id=group, topics=[{"name": topic, "partitions": [part]}])
    code: int = machine.ask(OFFSET_COMMIT, 0, body).topics[0].partitions[0].error_code
    return code


def committed(machine: Machine, version: int, *, group: str = "g", topic: str = "t") -> tuple[int, int, str | None]:
    body = request(OFFSET_FETCH, version, group_id=group, topics=[{"name": topic, "partition_indexes": [0]}])
    part = machine.ask(OFFSET_FETCH, version, body).topics[0].partitions[0]
    return part.error_code, part.committed_offset, part.metadata


def test_offsets_of_version_0_are_kept_in_the_registry_apart_from_the_others() -> None:
    machine = machine_with("t")
    machine.ask(10, 0, request(10, 0, key="g"))
    assert committed(machine, 0) == (UNKNOWN_TOPIC_OR_PARTITION, -1, "")
    assert committed(machine, 1) == (NONE, -1, "")
    assert commit_v0(machine, 42, metadata="dropped") == NONE
    path = consumer_offset_path("g", "t", 0)
    assert path == "/consumers/g/offsets/t/0"
    entry = machine.registry.get(path)
    assert entry is not None
    assert entry.value == b"42"
    machine.restart()
    assert committed(machine, 0) == (NONE, 42, "")
    assert committed(machine, 1) == (NONE, -1, "")


def test_commits_of_version_0_are_checked_as_little_as_they_were() -> None:
    machine = machine_with("t")
    assert commit_v0(machine, 1, topic="nowhere") == UNKNOWN_TOPIC_OR_PARTITION
    assert commit_v0(machine, 1, metadata="m" * 4097) == OFFSET_METADATA_TOO_LARGE
    for group in ("", "..", "a/b", "a\0b"):
        assert commit_v0(machine, 1, group=group) == UNKNOWN_SERVER_ERROR
        assert committed(machine, 0, group=group) == (UNKNOWN_SERVER_ERROR, -1, "")
    assert commit_v0(machine, -5) == NONE


def test_release_0_8_2_has_an_error_for_offsets_of_topics_that_are_not_there() -> None:
    machine = machine_with("t", release="0.8.2")
    assert machine.ask(10, 0, request(10, 0, key="g")).error_code == 15, "the offsets topic takes a moment"
    assert machine.ask(10, 0, request(10, 0, key="g")).error_code == NONE
    assert committed(machine, 1, topic="nowhere") == (UNKNOWN_TOPIC_OR_PARTITION, -1, "")
    assert committed(machine, 1) == (NONE, -1, "")


def test_a_commit_of_version_1_is_kept_for_as_long_as_its_own_time_says() -> None:
    machine = machine_with("t", offsets_retention_minutes=10, offsets_retention_check_interval_ms=60_000)
    machine.ask(10, 0, request(10, 0, key="g"))
    purgatory = machine.clock.now().wall_ms + HOUR_MS
    for group, timestamp in (("usual", -1), ("longer", purgatory)):
        part = {"partition_index": 0, "committed_offset": 7, "commit_timestamp": timestamp, "committed_metadata": ""}
        who = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": ""}
        answer = machine.ask(OFFSET_COMMIT, 1, request(OFFSET_COMMIT, 1, **who, topics=[{"name": "t", "partitions": [part]}]))
        assert answer.topics[0].partitions[0].error_code == NONE
    for _ in range(12):
        machine.pass_time(60_000)
    assert committed(machine, 1, group="usual") == (NONE, -1, "")
    assert committed(machine, 1, group="longer") == (NONE, 7, "")


def test_describe_configs_of_version_0_tells_defaults_from_what_was_set() -> None:
    machine = machine_with()
    create(machine, "t", segment_bytes="2000000")
    answer = machine.ask(32, 0, request(32, 0, resources=[{"resource_type": 2, "resource_name": "t"}]))
    told = {entry.name: entry.is_default for entry in answer.results[0].configs}
    assert (told["segment.bytes"], told["retention.ms"]) == (False, True)
