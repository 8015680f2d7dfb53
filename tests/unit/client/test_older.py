"""Requests and records in versions that say less than today's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.connection import older_administration
from ottla.client.connection.older_brokers import ADMINISTRATION, fit
from ottla.client.connection.versions import CREATE_PARTITIONS, SPOKEN, not_shared, versions_of
from ottla.client.errors import NotSupported
from ottla.client.older_records import as_batches, message_set
from ottla.records.batches.columns import build, open_batches
from ottla.records.compression.codecs import GZIP, LZ4, NONE, SNAPPY, ZSTD
from ottla.wire import encode
from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.leave_group import LeaveGroupRequest
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.api.produce import ProduceRequest
from ottla.wire.releases import NAMES

BYTES = st.none() | st.binary(max_size=30)
ROWS = st.lists(st.tuples(BYTES, BYTES, st.integers(0, 1 << 40)), min_size=1, max_size=20)


@given(ROWS, st.sampled_from([0, 1]), st.sampled_from([0, 1, 2, 3]))
def test_what_is_written_as_messages_reads_back_as_the_same_records(
    rows: list[tuple[bytes | None, bytes | None, int]], magic: int, codec: int
) -> None:
    keys, values, times = (list(column) for column in zip(*rows, strict=True))
    messages = message_set(build(keys, values, times, codec=codec), magic)
    found = open_batches(as_batches(memoryview(messages))).records()
    assert [(record.key, record.value) for record in found] == [(key, value) for key, value, _ in rows]
    assert [record.timestamp for record in found] == (times if magic else [-1] * len(rows))


@given(ROWS, st.integers(1, 30))
def test_a_message_torn_at_the_end_is_left_out(rows: list[tuple[bytes | None, bytes | None, int]], cut: int) -> None:
    keys, values, times = (list(column) for column in zip(*rows, strict=True))
    messages = message_set(build(keys, values, times), 1)
    found = open_batches(as_batches(memoryview(messages[:-cut]))).records() if cut < len(messages) else []
    assert [record.value for record in found] == values[: len(found)]
    assert len(found) < len(values)


def test_batches_behind_messages_stay_as_they_are() -> None:
    batch = bytes(build([None], [b"new"], [5]))
    both = message_set(build([None], [b"old"], [4]), 1) + batch
    rewritten = bytes(as_batches(memoryview(both)))
    assert rewritten.endswith(batch)
    assert [record.value for record in open_batches(rewritten).records()] == [b"old", b"new"]
    assert as_batches(memoryview(batch)) == batch


@pytest.mark.parametrize("version", [2, 3, 6])
def test_zstd_is_refused_for_brokers_before_it_and_other_codecs_are_not(version: int) -> None:
    def request(codec: int) -> ProduceRequest:
        part = ProduceRequest.PartitionProduceData(index=0, records=build([None], [b"v" * 100], [5], codec=codec))
        return ProduceRequest(topic_data=[ProduceRequest.TopicProduceData(name="t", partition_data=[part])])

    with pytest.raises(NotSupported, match=r"^compression_type=zstd needs Kafka 2\.1 or newer: choose lz4"):
        fit(version, request(ZSTD))
    for codec in (NONE, GZIP, SNAPPY, LZ4):
        fit(version, request(codec))
    assert fit(7, request(ZSTD)) == request(ZSTD)


def test_headers_are_refused_and_not_dropped() -> None:
    with pytest.raises(NotSupported, match="headers"):
        message_set(build([None], [b"v"], [1], [[("name", b"value")]]), 1)


@pytest.mark.parametrize("release", NAMES)
def test_every_release_shares_what_was_served_then(release: str) -> None:
    shared = versions_of(release)
    assert {0, 1, 2, 3} <= set(shared)
    assert all(lowest <= shared[key] <= highest for key, (lowest, highest) in SPOKEN.items() if key in shared)


def test_requests_for_all_topics_and_of_one_member_are_said_as_old_versions_say_them() -> None:
    everything = fit(0, MetadataRequest(topics=None, allow_auto_topic_creation=False))
    assert encode(everything, 0) == b"\0\0\0\0"
    one = LeaveGroupRequest(group_id="g", members=[LeaveGroupRequest.MemberIdentity(member_id="m")])
    assert encode(fit(0, one), 0) == b"\0\1g\0\1m"
    assert fit(3, one) is one
    find = FindCoordinatorRequest(coordinator_keys=["g"], key_type=1)
    assert encode(fit(1, find), 1) == b"\0\1g\1"
    assert fit(4, find) is find
    with pytest.raises(NotSupported, match=r"needs Kafka 3\.0"):
        fit(3, FindCoordinatorRequest(coordinator_keys=["g", "h"]))


def test_all_requests_of_admin_clients_that_are_converted_are_known_by_their_keys() -> None:
    converted = {found.WIRE.key for name, found in vars(older_administration).items() if name.endswith("Request")}
    assert converted == ADMINISTRATION


def test_defaults_that_older_brokers_lack_are_refused_and_not_sent() -> None:
    topic = CreateTopicsRequest.CreatableTopic
    explicit = CreateTopicsRequest(topics=[topic(name="t", num_partitions=1, replication_factor=1)])
    assert fit(3, explicit) is explicit
    for partitions, replicas in ((-1, 1), (1, -1), (-1, -1)):
        request = CreateTopicsRequest(topics=[topic(name="t", num_partitions=partitions, replication_factor=replicas)])
        assert fit(4, request) is request
        with pytest.raises(NotSupported, match=r"Kafka 2\.4 or newer"):
            fit(3, request)


def test_a_request_that_is_not_shared_names_the_first_release_that_serves_it() -> None:
    assert str(not_shared(CREATE_PARTITIONS)).endswith("which this client needs: use Kafka 1.0 or newer.")


@pytest.mark.parametrize("release", ["0.10.2", "1.1", "2.8", "3.9", "4.3"])
def test_what_a_release_does_not_serve_is_refused_with_the_release_that_does(release: str) -> None:
    served = versions_of(release)
    for key in SPOKEN.keys() - served.keys():
        sentence = str(not_shared(key))
        assert "Kafka " in sentence or "KRaft" in sentence or "newer broker" in sentence, sentence
