"""What a client learns about the broker itself: versions, addresses, the controller, producer ids."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.serving.request import Close
from ottla.wire.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.errors import (
    INVALID_REQUEST,
    MISMATCHED_ENDPOINT_TYPE,
    NONE,
    NOT_COORDINATOR,
    REBOOTSTRAP_REQUIRED,
    UNSUPPORTED_ENDPOINT_TYPE,
    UNSUPPORTED_VERSION,
)
from ottla.wire.framing import decode_response
from tests.support.machine import Machine
from tests.support.routes import all_routes

SERVED = all_routes()

METADATA, API_VERSIONS, INIT_PRODUCER_ID, DESCRIBE_CLUSTER = 3, 18, 22, 60
CONTROLLED_SHUTDOWN = 7
TELEMETRY = {71, 72}  # announced while there are subscriptions to client metrics
UNANNOUNCED = TELEMETRY | {CONTROLLED_SHUTDOWN}
CLUSTER_ID = "simulated-cluster-id-0"


def versions(machine: Machine, version: int, **fields: Any) -> ApiVersionsResponse:
    body = ApiVersionsRequest(**{"client_software_name": "lib", "client_software_version": "1.0", **fields})
    response = machine.ask(API_VERSIONS, version, body)
    assert isinstance(response, ApiVersionsResponse)
    return response


@pytest.mark.parametrize("version", range(6))
def test_just_what_is_served_is_announced_except_what_only_brokers_of_old_ask_and_metrics_without_subscriptions(
    version: int,
) -> None:
    announced = {api.api_key: range(api.min_version, api.max_version + 1) for api in versions(Machine(), version).api_keys}
    assert announced == {key: route.versions for key, route in SERVED.items() if key not in UNANNOUNCED}


@pytest.mark.parametrize("body", [b"", b"\0\1a\0"])
def test_a_version_from_the_future_is_answered_in_version_0_with_the_list(body: bytes) -> None:
    machine = Machine()
    frame = bytearray((API_VERSIONS << 16 | 99).to_bytes(4, "big") + (7).to_bytes(4, "big") + b"\xff\xff" + body)
    answer = machine.broker.receive(memoryview(frame), machine.peer, machine.clock.now())
    assert not isinstance(answer, Close)
    parts = b"".join(bytes(part) for part in answer)  # type: ignore[union-attr, arg-type]  # small replies are buffers only
    correlation_id, response = decode_response(API_VERSIONS, 0, parts[4:])
    assert isinstance(response, ApiVersionsResponse)
    assert (correlation_id, response.error_code) == (7, UNSUPPORTED_VERSION)
    assert len(response.api_keys) == len(SERVED) - len(UNANNOUNCED)


@pytest.mark.parametrize(
    ("name", "code"),
    [("librdkafka", NONE), ("a-b.c1", NONE), ("", INVALID_REQUEST), ("a b", INVALID_REQUEST), ("-a", INVALID_REQUEST)],
)
def test_a_client_names_itself_in_plain_characters(name: str, code: int) -> None:
    machine = Machine()
    response = versions(machine, 3, client_software_name=name)
    assert response.error_code == code
    assert bool(response.api_keys) == (code == NONE)
    assert machine.peer.client_software_name == ("" if code else name)
    assert versions(machine, 2, client_software_name=name).error_code == NONE


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, NONE),
        ({"cluster_id": CLUSTER_ID, "node_id": 1}, NONE),
        ({"cluster_id": "another"}, REBOOTSTRAP_REQUIRED),
        ({"cluster_id": CLUSTER_ID, "node_id": 2}, REBOOTSTRAP_REQUIRED),
    ],
)
def test_a_client_that_looks_for_another_broker_is_told_so(fields: dict[str, Any], code: int) -> None:
    assert versions(Machine(), 5, **fields).error_code == code


def test_brokers_and_controller_are_the_same_in_metadata_and_describe_cluster() -> None:
    machine = Machine(broker_rack="r1")
    cluster = machine.ask(DESCRIBE_CLUSTER, 2, DescribeClusterRequest())
    metadata = machine.ask(METADATA, 13, MetadataRequest(topics=[]))
    assert [(one.broker_id, one.host, one.port, one.rack) for one in cluster.brokers] == [(1, "127.0.0.1", 9092, "r1")]
    assert [(one.node_id, one.host, one.port, one.rack) for one in metadata.brokers] == [(1, "127.0.0.1", 9092, "r1")]
    assert cluster.cluster_id == metadata.cluster_id == CLUSTER_ID
    assert cluster.controller_id == metadata.controller_id == 1


def test_clients_are_told_the_advertised_address() -> None:
    machine = Machine(advertised_listeners="PLAINTEXT://kafka.example:19092")
    metadata = machine.ask(METADATA, 13, MetadataRequest(topics=[]))
    assert [(one.host, one.port) for one in metadata.brokers] == [("kafka.example", 19092)]


def test_authorized_operations_are_told_only_when_asked_for() -> None:
    machine = Machine()
    asked = DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert machine.ask(DESCRIBE_CLUSTER, 0, asked).cluster_authorized_operations == 8096
    assert machine.ask(DESCRIBE_CLUSTER, 0, DescribeClusterRequest()).cluster_authorized_operations == -(1 << 31)
    topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in ("t", "a b")]
    response = machine.ask(METADATA, 9, MetadataRequest(topics=topics, include_topic_authorized_operations=True))
    assert [topic.topic_authorized_operations for topic in response.topics] == [3576, -(1 << 31)]


@pytest.mark.parametrize(("endpoint_type", "code"), [(1, NONE), (2, MISMATCHED_ENDPOINT_TYPE), (3, UNSUPPORTED_ENDPOINT_TYPE)])
def test_only_brokers_can_be_asked_for(endpoint_type: int, code: int) -> None:
    response = Machine().ask(DESCRIBE_CLUSTER, 1, DescribeClusterRequest(endpoint_type=endpoint_type))
    assert isinstance(response, DescribeClusterResponse)
    assert response.error_code == code
    assert bool(response.brokers) == (code == NONE)


def producer(machine: Machine, version: int = 5, **fields: Any) -> InitProducerIdResponse:
    response = machine.ask(INIT_PRODUCER_ID, version, InitProducerIdRequest(**{"transactional_id": None, **fields}))
    assert isinstance(response, InitProducerIdResponse)
    return response


def test_producer_ids_are_never_given_twice_not_even_over_restarts() -> None:
    machine = Machine()
    given: list[int] = []
    for count in (3, 1001, 2):
        answers = [producer(machine) for _ in range(count)]
        assert all((answer.error_code, answer.producer_epoch) == (NONE, 0) for answer in answers)
        given += [answer.producer_id for answer in answers]
        machine.restart()
    assert len(set(given)) == len(given)
    assert given == sorted(given)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"producer_id": 5, "producer_epoch": 1}, NONE),
        ({"producer_id": 5}, INVALID_REQUEST),
        ({"producer_epoch": 5}, INVALID_REQUEST),
        ({"transactional_id": ""}, INVALID_REQUEST),
        ({"transactional_id": "t"}, NOT_COORDINATOR),
    ],
)
def test_a_producer_id_is_refused_with_a_code_and_no_id(fields: dict[str, Any], code: int) -> None:
    answer = producer(Machine(), **fields)
    assert answer.error_code == code
    assert (answer.producer_id, answer.producer_epoch) == ((-1, -1) if code else (0, 0))
