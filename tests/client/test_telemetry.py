"""Clients push their metrics to a broker that has subscribed to them (KIP-714), and tell it when they end."""

from __future__ import annotations

import logging

import pytest

import ottla
from ottla.broker.telemetry.client_metrics import ClientMetrics
from ottla.wire.errors import INVALID_REQUEST
from tests.support.waiting import eventually


def subscribe(admin: ottla.Admin, name: str, client_id: str, metrics: str) -> None:
    settings = {"metrics": metrics, "interval.ms": "100", "match": f"client_id={client_id}"}
    admin.alter_configs(ottla.ConfigResource.client_metrics(name), set=settings)


def client(admin: ottla.Admin, client_id: str) -> ottla.PushingClient | None:
    return next((each for each in admin.describe_client_metrics() if each.client_id == client_id), None)


@pytest.fixture
def own_broker() -> ottla.Broker:
    return ottla.Broker()


def test_a_producer_pushes_the_subscribed_metrics_until_its_end(own_broker: ottla.Broker) -> None:
    with own_broker as broker, ottla.Admin(broker.address) as admin:
        subscribe(admin, "sub", "pushing", "org.apache.kafka.producer.record.,org.apache.kafka.producer.topic.")
        with ottla.Producer(broker.address, client_id="pushing") as producer:
            for _ in range(10):
                producer.send("flights", b"v").result(20)
            instance_id = producer.client_instance_id()
            eventually(lambda: (found := client(admin, "pushing")) is not None and found.pushes > 1, what="two pushes")
            found = client(admin, "pushing")
            assert found is not None
            assert (found.instance_id, found.is_terminating, found.software_name) == (instance_id, False, "ottla")
            metrics = {(each.name, each.attributes.get("topic")): each for each in admin.read_client_metrics(found)}
        assert metrics["org.apache.kafka.producer.record.send.total", None].kind == "sum"
        assert metrics["org.apache.kafka.producer.topic.byte.rate", "flights"].kind == "gauge"
        assert not [name for name, _ in metrics if name.startswith("org.apache.kafka.producer.request")]
        eventually(lambda: (last := client(admin, "pushing")) is not None and last.is_terminating, what="the last push")


def test_consumers_and_admins_push_too_if_they_may(own_broker: ottla.Broker) -> None:
    with own_broker as broker, ottla.Admin(broker.address) as admin:
        subscribe(admin, "sub", "(reads|asks|mute)", "*")
        admin.create_topic("flights")
        with (
            ottla.Consumer("flights", bootstrap_servers=broker.address, client_id="reads", group_id="board") as consumer,
            ottla.Admin(broker.address, client_id="asks", enable_metrics_push=True) as asking,
            ottla.Producer(broker.address, client_id="mute", enable_metrics_push=False) as mute,
        ):
            asking.list_topics()
            mute.send("flights", b"v").result(20)
            for client_id in ("reads", "asks"):

                def has_pushed(client_id: str = client_id) -> bool:
                    consumer.poll(10)
                    found = client(admin, client_id)
                    return found is not None and found.pushes > 0

                eventually(has_pushed, what=f"a push of {client_id}")
            found = client(admin, "reads")
            assert found is not None
            names = {each.name for each in admin.read_client_metrics(found)}
            assert "org.apache.kafka.consumer.coordinator.heartbeat.total" in names
            assert "org.apache.kafka.consumer.node.request.latency.avg" in names
            assert client(admin, "mute") is None
            with pytest.raises(ottla.SettingError, match="enable_metrics_push=True"):
                mute.client_instance_id()


def test_the_instance_id_is_not_waited_for_once_a_broker_has_refused_it_for_good(
    own_broker: ottla.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ClientMetrics, "subscribe", lambda *_: (INVALID_REQUEST, bytes(16)))
    with own_broker as broker, ottla.Admin(broker.address, enable_metrics_push=True) as admin:
        subscribe(admin, "sub", "asks", "*")
        with ottla.Admin(broker.address, client_id="asks", enable_metrics_push=True) as asking:
            asking.list_topics()
            with pytest.raises(ottla.BrokerError, match="INVALID_REQUEST"):
                asking.client_instance_id(3_600_000)


def test_nothing_is_sent_to_a_broker_that_announces_no_telemetry(
    own_broker: ottla.Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """The broker has no subscriptions to metrics; those of other tests stay in a broker that they share."""
    caplog.set_level(logging.DEBUG, "ottla.client")
    with own_broker as broker, ottla.Producer(broker.address) as producer:
        producer.send("t", b"v").result(20)
        with pytest.raises(ottla.NotSupported, match="has no subscriptions"):
            producer.client_instance_id()
    assert not [line for line in caplog.messages if "Telemetry" in line]
