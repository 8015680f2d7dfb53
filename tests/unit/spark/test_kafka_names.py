"""Every setting of Kafka's clients is used, accepted without effect, or refused by name: none is passed over in silence."""

from __future__ import annotations

import pytest

from ottla.spark.errors import OptionError
from ottla.spark.kafka_options import REJECTED, SINK, SOURCE, USED, WITHOUT_EFFECT
from ottla.spark.options import read_options, write_options

BOTH = {
    "bootstrap.servers", "client.dns.lookup", "client.id", "connections.max.idle.ms", "enable.metrics.push",
    "interceptor.classes", "metadata.max.age.ms", "metadata.recovery.rebootstrap.trigger.ms", "metadata.recovery.strategy",
    "metric.reporters", "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms",
    "receive.buffer.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms", "request.timeout.ms",
    "retry.backoff.max.ms", "retry.backoff.ms", "sasl.mechanism", "sasl.jaas.config", "security.protocol",
    "security.providers", "send.buffer.bytes", "socket.connection.setup.timeout.max.ms",
    "socket.connection.setup.timeout.ms", "ssl.keystore.location", "ssl.truststore.location", "config.providers",
    "auto.include.jmx.reporter",
}  # fmt: skip
CONSUMER = {
    "allow.auto.create.topics", "auto.commit.interval.ms", "auto.offset.reset", "check.crcs", "client.rack",
    "default.api.timeout.ms", "enable.auto.commit", "exclude.internal.topics", "fetch.max.bytes", "fetch.max.wait.ms",
    "fetch.min.bytes", "group.id", "group.instance.id", "group.protocol", "group.remote.assignor", "heartbeat.interval.ms",
    "isolation.level", "key.deserializer", "max.partition.fetch.bytes", "max.poll.interval.ms", "max.poll.records",
    "partition.assignment.strategy", "session.timeout.ms", "value.deserializer",
}  # fmt: skip
PRODUCER = {
    "acks", "batch.size", "buffer.memory", "compression.gzip.level", "compression.lz4.level", "compression.type",
    "compression.zstd.level", "delivery.timeout.ms", "enable.idempotence", "key.serializer", "linger.ms", "max.block.ms",
    "max.in.flight.requests.per.connection", "max.request.size", "metadata.max.idle.ms",
    "partitioner.adaptive.partitioning.enable", "partitioner.availability.timeout.ms", "partitioner.class",
    "partitioner.ignore.keys", "retries", "transaction.timeout.ms", "transaction.two.phase.commit.enable",
    "transactional.id", "value.serializer",
}  # fmt: skip
MODULE = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="hidden";'
VALUES = {
    "acks": "1",
    "compression.type": "zstd",
    "isolation.level": "read_committed",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": MODULE,
}
SERVERS = {"kafka.bootstrap.servers": "h:1"}
SECURED = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": MODULE}


def take(side: str, given: dict[str, str]) -> None:
    if side == SOURCE:
        read_options(SERVERS | {"subscribe": "t"} | given, streaming=True)
    else:
        write_options(SERVERS | {"topic": "t"} | given)


@pytest.mark.parametrize("name", sorted({*BOTH, *CONSUMER, *PRODUCER}))
@pytest.mark.parametrize("side", [SOURCE, SINK])
def test_each_name_is_used_or_named_in_the_log_or_refused_by_name(side: str, name: str, caplog: pytest.LogCaptureFixture) -> None:
    given = {f"kafka.{name}": VALUES.get(name, "true" if name.startswith("enable.") else "7000")}
    if name.startswith(("sasl.", "ssl.", "security.")):
        given = {f"kafka.{each}": text for each, text in SECURED.items()} | (given if name not in SECURED else {})
    if name in REJECTED[side]:
        with pytest.raises(OptionError, match=f"Option kafka.{name}[ :]"):
            take(side, given)
    else:
        take(side, given)
        assert (f"kafka.{name}" in caplog.text) == (name not in USED[side])


def test_a_name_stands_in_one_place_only() -> None:
    for side in (SOURCE, SINK):
        assert not USED[side] & WITHOUT_EFFECT
        assert not REJECTED[side].keys() & (USED[side] | WITHOUT_EFFECT)


def test_a_batch_is_no_larger_than_a_request_may_be() -> None:
    def sizes(**more: str) -> tuple[int, int | None]:
        options = write_options(SERVERS | {f"kafka.{name}": text for name, text in more.items()})
        return options.client.batch_size, options.max_request_size

    assert sizes() == (1_000_000, None)
    assert sizes(**{"max.request.size": "5000"}) == (5000, 5000)
    assert sizes(**{"max.request.size": "5000000", "batch.size": "70000"}) == (70_000, 5_000_000)


def test_what_secures_a_job_goes_to_all_its_clients_and_into_no_text() -> None:
    given = SERVERS | {f"kafka.{name}": text for name, text in SECURED.items()} | {"kafka.ssl.keystore.password": "hidden"}
    read = read_options(
        given | {"subscribe": "t", "valueFormat": "json", "valueSchema": "a int", "deadLetterTopic": "d"}, streaming=True
    )
    write = write_options(given | {"topic": "t"})
    for client in (read.client, read.dead_letters, write.client):
        assert client is not None
        assert client.security_protocol == "SASL_SSL"
        assert client.login().password == "hidden"
    assert "hidden" not in repr(read) + repr(write)
    assert write.client.security_settings() == {**read.client.security_settings()}
