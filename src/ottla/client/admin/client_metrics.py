"""An admin client's requests about the metrics that clients pushed to a broker of Ottla (KIP-714). The module sends nothing.

Kafka has no request for them. A broker of Ottla returns them for the config `ottla.pushed` of DescribeConfigs.
"""

from __future__ import annotations

import json
from base64 import b64decode
from binascii import Error as BadBase64
from typing import Final, NamedTuple

from ottla.client.admin.otlp import ClientMetric, MalformedMetrics, read_metrics
from ottla.client.errors import KafkaError, NotSupported, raise_for
from ottla.wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from ottla.wire.errors import INVALID_REQUEST

CLIENT_METRICS_RESOURCE: Final = 16
PUSHED: Final = "ottla.pushed"
LIMIT_BYTES: Final = 64 << 20
"""The most bytes to which the metrics of one push are decompressed."""
NOT_KEPT: Final = "The broker keeps no metrics of clients: Apache Kafka hands them to a plugin. Connect to a broker of Ottla."


class PushingClient(NamedTuple):
    """A client instance that a broker knows, and its last push of metrics (KIP-714). Without a push, `pushed_at_ms` is None.

    `instance_id` is written as Kafka prints it. `subscriptions` are the metrics subscriptions that match the client. `seen_ms_ago`
    is the time since its last request.
    """

    node_id: int
    instance_id: str
    client_id: str
    software_name: str
    software_version: str
    address: str
    port: int
    subscriptions: tuple[str, ...]
    push_interval_ms: int
    seen_ms_ago: int
    pushes: int
    pushed_at_ms: int | None
    compression_type: int
    size_bytes: int
    is_terminating: bool


def pushed_request(instance_id: str = "") -> DescribeConfigsRequest:
    """Build the request for all client instances of a broker. With `instance_id`, it requests the metrics of that client
    instance.
    """
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=CLIENT_METRICS_RESOURCE, resource_name=instance_id, configuration_keys=[PUSHED]
    )
    return DescribeConfigsRequest(resources=[resource])


def read_clients(answer: DescribeConfigsResponse, node_id: int) -> list[PushingClient]:
    """Return the client instances that broker `node_id` reports.

    Raises `BrokerError`, and `NotSupported` for a broker of Apache Kafka.
    """
    (result,) = answer.results
    if result.error_code == INVALID_REQUEST:
        raise NotSupported(NOT_KEPT)
    raise_for(result.error_code, "Listing the clients that push metrics", result.error_message)
    return [_client(node_id, entry.name, json.loads(entry.value or "{}")) for entry in result.configs]


def _client(node_id: int, instance_id: str, shown: dict[str, object]) -> PushingClient:
    texts = {key: value for key, value in shown.items() if isinstance(value, str)}
    numbers = {key: value for key, value in shown.items() if isinstance(value, int)}
    subscriptions = shown.get("subscriptions")
    return PushingClient(
        node_id=node_id,
        instance_id=instance_id,
        client_id=texts.get("client_id", ""),
        software_name=texts.get("software_name", ""),
        software_version=texts.get("software_version", ""),
        address=texts.get("address", ""),
        port=numbers.get("port", 0),
        subscriptions=tuple(map(str, subscriptions)) if isinstance(subscriptions, list) else (),
        push_interval_ms=numbers.get("push_interval_ms", 0),
        seen_ms_ago=numbers.get("seen_ms_ago", 0),
        pushes=numbers.get("pushes", 0),
        pushed_at_ms=numbers.get("pushed_at_ms"),
        compression_type=numbers.get("compression_type", 0),
        size_bytes=numbers.get("bytes", 0),
        is_terminating=bool(shown.get("terminating")),
    )


def read_pushed(client: PushingClient, answer: DescribeConfigsResponse) -> list[ClientMetric]:
    """Return the metrics of a client's last push. Raises `BrokerError`, and `KafkaError` if they cannot be read."""
    # Imported here, because the codecs take longer to import than most commands take.
    from ottla.records.compression.codecs import CodecFailed, decompress

    (result,) = answer.results
    raise_for(result.error_code, f"Reading the metrics of client {client.instance_id}", result.error_message)
    try:
        pieces = b"".join(b64decode(entry.value or "", validate=True) for entry in result.configs)
        return read_metrics(bytes(decompress(client.compression_type, pieces, limit_bytes=LIMIT_BYTES)))
    except (CodecFailed, BadBase64, MalformedMetrics) as error:
        sentence = f"The metrics of client {client.instance_id} cannot be read ({error}): ask again after its next push."
        raise KafkaError(sentence) from error
