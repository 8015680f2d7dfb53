"""Quotas as clients and tools meet them: kafka-configs, confluent-kafka, and Ottla's own admin client and command."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial

import confluent_kafka
import pytest

import ottla
from ottla.cli.main import main
from ottla.client.admin.quotas import ClientQuota, QuotaOf
from ottla.client.errors import BrokerError
from tests.support.peers import Peer
from tests.support.toolbox import Toolbox

pytestmark = pytest.mark.interop
Unique = Callable[[str], str]


@pytest.fixture
def admin(broker: Peer) -> Iterator[ottla.Admin]:
    with ottla.Admin(broker.address) as admin:
        yield admin


@pytest.mark.java
def test_the_java_tool_sets_describes_and_removes_quotas(
    broker: Peer, toolbox: Toolbox, admin: ottla.Admin, unique: Unique
) -> None:
    user, client = unique("user"), unique("client")
    configs = partial(toolbox.at(broker.address), "configs")
    both = ("--entity-type", "users", "--entity-name", user, "--entity-type", "clients", "--entity-name", client)
    configs("--alter", "--add-config", "producer_byte_rate=1024,request_percentage=12.5", *both)
    described = configs("--describe", *both)
    assert "producer_byte_rate=1024.0" in described
    assert "request_percentage=12.5" in described
    configs("--alter", "--add-config", "connection_creation_rate=100", "--entity-type", "ips", "--entity-name", "10.9.8.7")
    assert ClientQuota(QuotaOf(ip="10.9.8.7"), {"connection_creation_rate": 100.0}) in admin.describe_quotas()
    configs("--alter", "--delete-config", "producer_byte_rate,request_percentage", *both)
    assert admin.describe_quotas(user, client) == []
    admin.alter_quotas({"connection_creation_rate": None}, ip="10.9.8.7")


def test_the_admin_client_sets_describes_and_removes_quotas(admin: ottla.Admin, unique: Unique) -> None:
    user, client = unique("user"), unique("client")
    admin.alter_quotas({"producer_byte_rate": 1000, "consumer_byte_rate": 2000}, user)
    admin.alter_quotas({"request_percentage": 50}, user, client)
    admin.alter_quotas({"request_percentage": 50}, user, "", validate_only=True)
    of_user = ClientQuota(QuotaOf(user), {"consumer_byte_rate": 2000.0, "producer_byte_rate": 1000.0})
    assert admin.describe_quotas(user) == [of_user, ClientQuota(QuotaOf(user, client), {"request_percentage": 50.0})]
    admin.alter_quotas({"producer_byte_rate": None, "consumer_byte_rate": None}, user)
    admin.alter_quotas({"request_percentage": None}, user, client)
    assert admin.describe_quotas(user) == []
    with pytest.raises(BrokerError, match="must be greater than 0"):
        admin.alter_quotas({"producer_byte_rate": 0}, user)


def test_the_command_sets_lists_and_removes_quotas(broker: Peer, unique: Unique, capsys: pytest.CaptureFixture[str]) -> None:
    user = unique("user")
    where = ("--bootstrap-server", broker.address)
    assert main(["quota", "set", "producer_byte_rate=1000000", "--user", user, "--client-id", "<default>", *where]) == 0
    assert capsys.readouterr().out == f"user {user}, client-id <default>: producer_byte_rate is 1000000.\n"
    assert main(["quota", "list", "--user", user, *where]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == [user, "<default>", "-", "producer_byte_rate", "1000000"]
    assert main(["quota", "list", "--user", user, "--json", *where]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "user": user, "client_id": "", "ip": None, "quota": "producer_byte_rate", "value": 1000000.0,
    }  # fmt: skip
    assert main(["quota", "remove", "producer_byte_rate", "--user", user, "--client-id", "<default>", *where]) == 0
    capsys.readouterr()
    assert main(["quota", "list", "--user", user, *where]) == 0
    assert capsys.readouterr().out == "No quotas are set.\n"
    assert main(["quota", "set", "producer_byte_rate=1", *where]) == 2
    assert main(["quota", "set", "producer_byte_rate=-1", "--user", user, *where]) == 1


def test_a_writer_and_a_reader_beyond_their_quota_are_slowed_down_and_lose_nothing(
    broker: Peer, admin: ottla.Admin, unique: Unique, request: pytest.FixtureRequest
) -> None:
    lets_save = request.config.getoption("--peer") == "apache-kafka"  # ten seconds' worth of the quota
    topic, client = unique("limited"), unique("client")
    admin.create_topic(topic)
    admin.alter_quotas({"producer_byte_rate": 500_000, "consumer_byte_rate": 500_000}, client_id=client)
    rests: list[int] = []

    def told(event: confluent_kafka.ThrottleEvent) -> None:
        rests.append(round(event.throttle_time * 1000))

    common = {"bootstrap.servers": broker.address, "client.id": client, "throttle_cb": told}
    producer = confluent_kafka.Producer(common | {"batch.size": 50_000, "linger.ms": 5})
    values = [b"%06d" % number + bytes(1000) for number in range(1000)]
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(60) == 0
    assert any(rests) or lets_save, "the producer was told to rest"
    rests.clear()
    consumer = confluent_kafka.Consumer(common | {"group.id": client, "enable.auto.commit": False})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    read: list[bytes | None] = []
    for _ in range(600):
        read += [message.value() for message in consumer.consume(500, 0.1)]
        if len(read) == len(values):
            break
    consumer.close()
    assert read == values
    assert any(rests) or lets_save, "the reader was told to rest"
    admin.alter_quotas({"producer_byte_rate": None, "consumer_byte_rate": None}, client_id=client)
