"""Client metrics (KIP-714) of real clients: subscriptions made by Kafka's tool, pushes of librdkafka, read from the broker."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import closing

import cramjam
import pytest
from confluent_kafka import Producer

import ottla
from ottla.cli.main import main
from ottla.wire.api.describe_configs import DescribeConfigsRequest
from ottla.wire.api.incremental_alter_configs import IncrementalAlterConfigsRequest
from ottla.wire.errors import NONE
from tests.support.bad_groups import Questioner
from tests.support.peers import Peer
from tests.support.toolbox import Toolbox
from tests.support.waiting import eventually

METRICS, SET = 16, 0
ZSTD = 4


@pytest.fixture
def questioner(broker: Peer, peer_name: str) -> Iterator[Questioner]:
    if peer_name != "ottla":
        pytest.skip("Apache Kafka keeps no metrics")
    with closing(Questioner(broker.address)) as questioner:
        yield questioner


def pushed(questioner: Questioner, name: str = "") -> dict[str, str]:
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=METRICS, resource_name=name, configuration_keys=["ottla.pushed"]
    )
    (result,) = questioner.ask(32, 4, DescribeConfigsRequest(resources=[resource])).results
    assert result.error_code == NONE, result.error_message
    return {entry.name: entry.value for entry in result.configs}


def test_librdkafka_pushes_what_a_subscription_asks_for_until_its_end(
    broker: Peer, questioner: Questioner, unique: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    client_id = unique("pushing")
    given = {
        "metrics": "*",
        "interval.ms": "100",
        "match": f"client_id={client_id},client_software_name=.*librdkafka.*|confluent.*",
    }
    configs = [
        IncrementalAlterConfigsRequest.AlterableConfig(name=key, config_operation=SET, value=value) for key, value in given.items()
    ]
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(resource_type=METRICS, resource_name=client_id, configs=configs)
    (altered,) = questioner.ask(44, 1, IncrementalAlterConfigsRequest(resources=[resource])).responses
    assert altered.error_code == NONE, altered.error_message

    def of_the_client() -> dict[str, dict[str, object]]:
        found = {name: json.loads(shown) for name, shown in pushed(questioner).items()}
        return {name: shown for name, shown in found.items() if shown["client_id"] == client_id}

    producer = Producer({"bootstrap.servers": broker.address, "client.id": client_id})
    producer.produce(unique("topic"), b"value")
    assert producer.flush(10) == 0
    eventually(lambda: any(shown["bytes"] for shown in of_the_client().values()))
    ((name, shown),) = of_the_client().items()
    assert shown["subscriptions"] == [client_id]
    assert shown["compression_type"] == ZSTD
    metrics = bytes(cramjam.zstd.decompress(b"".join(map(b64decode, pushed(questioner, name).values()))))
    assert b"org.apache.kafka.producer.connection.creation" in metrics
    with ottla.Admin(bootstrap_servers=broker.address) as admin:
        (client,) = (each for each in admin.describe_client_metrics() if each.client_id == client_id)
        read = admin.read_client_metrics(client)
    connections = [one for one in read if one.name.startswith("org.apache.kafka.producer.connection.creation")]
    assert connections
    assert all(one.kind in ("sum", "gauge") and one.value is not None for one in connections)
    assert main(["metrics", "clients", "--client-id", client_id, "-b", broker.address]) == 0
    assert re.search(rf"{name}\s+org\.apache\.kafka\.producer\.connection\.creation", capsys.readouterr().out)
    assert main(["metrics", "clients", "--json", "-b", broker.address]) == 0
    assert client_id in [json.loads(line)["client-id"] for line in capsys.readouterr().out.splitlines()]
    assert main(["metrics", "clients", "nobody", "-b", broker.address]) == 1
    assert "No broker knows client instance nobody" in capsys.readouterr().err
    del producer  # it ends, and says so with its last push
    eventually(lambda: of_the_client()[name]["terminating"] is True)


@pytest.mark.java
def test_kafkas_tool_makes_lists_describes_and_removes_a_subscription(
    broker: Peer, toolbox: Toolbox, unique: Callable[[str], str]
) -> None:
    tool, name = toolbox.at(broker.address), unique("subscription")
    assert f"Altered client metrics config for {name}." in tool(
        *("client-metrics", "--alter", "--name", name, "--metrics", "org.apache.kafka.", "--interval", "30000"),
        *("--match", "client_id=a.*"),
    )
    assert name in tool("client-metrics", "--list").split()
    said = tool("client-metrics", "--describe", "--name", name)
    assert all(each in said for each in ("interval.ms=30000", "metrics=org.apache.kafka.", "match=client_id=a.*"))
    said = tool("configs", "--describe", "--entity-type", "client-metrics", "--entity-name", name)
    assert "interval.ms=30000" in said
    assert f"Deleted client metrics config for {name}." in tool("client-metrics", "--delete", "--name", name)
    assert name not in tool("client-metrics", "--list").split()
