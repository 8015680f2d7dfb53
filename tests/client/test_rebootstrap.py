"""Clients whose brokers have all moved to other ports begin again at their bootstrap servers (KIP-899, KIP-1102, KIP-1242)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import ottla
from bench.apache_kafka import free_port
from ottla.client.connection.versions import METADATA
from ottla.client.keywords import ConsumerKeywords
from ottla.client.settings.clients import ConsumerSettings, parse
from ottla.client.types import LATEST_TIMESTAMP
from ottla.net.client.cluster import ClusterLinks
from ottla.wire.api.metadata import MetadataResponse
from ottla.wire.errors import REBOOTSTRAP_REQUIRED
from ottla.wire.framing import encode_response
from tests.support.lossy import LossyWay
from tests.support.waiting import eventually

Broker = MetadataResponse.MetadataResponseBroker


@pytest.fixture
def bootstrap() -> Iterator[LossyWay]:
    """The bootstrap server, which leads to the broker that was started last."""
    with LossyWay() as made:
        yield made


def begun(home: Path, bootstrap: LossyWay, port: int | None = None) -> ottla.Broker:
    """Return a broker over a directory, on a port that no broker of its cluster had, to which the bootstrap server leads."""
    port = port or free_port()
    bootstrap.leads_to(port)
    return ottla.Broker(str(home), port=port, num_partitions=1)


def member(bootstrap: LossyWay) -> ottla.Consumer:
    settings: ConsumerKeywords = {"bootstrap_servers": address(bootstrap), "auto_offset_reset": "earliest", "group_id": "g"}
    return ottla.Consumer("t", **settings)


def address(bootstrap: LossyWay) -> str:
    return f"127.0.0.1:{bootstrap.port}"


def test_a_producer_and_a_member_of_a_group_follow_their_cluster_to_another_port(tmp_path: Path, bootstrap: LossyWay) -> None:
    with ExitStack() as clients:
        with begun(tmp_path / "data", bootstrap):
            producer = clients.enter_context(ottla.Producer(address(bootstrap)))
            consumer = clients.enter_context(member(bootstrap))
            exchange(producer, consumer, b"0")
        with begun(tmp_path / "data", bootstrap):
            exchange(producer, consumer, b"1")
        with begun(tmp_path / "data", bootstrap):
            exchange(producer, consumer, b"2")
            assert sum(at.offset for at in consumer.positions().values()) == 3
            clients.close()


def exchange(producer: ottla.Producer, consumer: ottla.Consumer, value: bytes) -> None:
    producer.send("t", value).result(20)
    assert [record.value for record in eventually(lambda: consumer.poll(200))] == [value]
    consumer.commit()


@pytest.mark.parametrize("strategy", ["rebootstrap", "none"])
def test_a_foreign_broker_at_a_known_address_is_not_written_to(tmp_path: Path, bootstrap: LossyWay, strategy: Any) -> None:
    """A cluster has moved, and another one has the address of its broker, and a topic of the same name."""
    with ottla.Producer(
        address(bootstrap), metadata_recovery_strategy=strategy, delivery_timeout_ms=20_000, request_timeout_ms=5_000
    ) as producer:
        with begun(tmp_path / "own", bootstrap) as broker:
            old_port = int(broker.address.rpartition(":")[2])
            producer.send("t", b"1").result(20)
        with begun(tmp_path / "foreign", bootstrap, old_port) as foreign, ottla.Admin(foreign.address) as foreign_admin:
            foreign_admin.create_topic("t", 1, 1)
            with begun(tmp_path / "own", bootstrap) as broker:
                delivery = producer.send("t", b"2")
                if strategy == "none":
                    with pytest.raises(
                        ottla.KafkaError, match=r"is not broker 1 of cluster .* any more, and metadata_recovery_strategy"
                    ):
                        delivery.result(30)
                else:
                    assert delivery.result(30).offset == 1
                with ottla.Admin(broker.address) as admin:
                    assert ends(admin) == (1 if strategy == "none" else 2)
            assert ends(foreign_admin) == 0


def ends(admin: ottla.Admin) -> int:
    return admin.list_offsets({("t", 0): LATEST_TIMESTAMP})[ottla.TopicPartition("t", 0)].offset


def test_without_recovery_the_known_brokers_alone_are_tried(tmp_path: Path, bootstrap: LossyWay) -> None:
    with ottla.Admin(address(bootstrap), metadata_recovery_strategy="none", default_api_timeout_ms=1_000) as admin:
        with begun(tmp_path / "data", bootstrap):
            admin.describe_cluster()
        with (
            begun(tmp_path / "data", bootstrap),
            pytest.raises(ottla.KafkaError, match="metadata_recovery_strategy=none: start one of them, or restart the client"),
        ):
            admin.describe_cluster()


@asynccontextmanager
async def scripted(answers: list[MetadataResponse | None]) -> AsyncIterator[tuple[str, list[int]]]:
    """Serve Metadata of Kafka 4.4 with these answers in turn, which name this server as broker 1, and end a connection for None.

    Yield the address, and the number of requests by connection.
    """
    requests: list[int] = []
    connections: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(asyncio.current_task())  # type: ignore[arg-type]  # asyncio starts one for each connection
        requests.append(0)
        number = len(requests) - 1
        while size := await reader.read(4):
            requests[number] += 1
            correlation_id = int.from_bytes((await reader.readexactly(int.from_bytes(size)))[4:8])
            answer = answers.pop(0)
            if answer is None:
                break
            host, port = server.sockets[0].getsockname()
            answer.brokers = [Broker(node_id=1, host=host, port=port)]
            writer.write(b"".join(bytes(part) for part in encode_response(correlation_id, METADATA, 13, answer)))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield "{}:{}".format(*server.sockets[0].getsockname()), requests
        await asyncio.gather(*connections)


def links(where: str, **settings: object) -> ClusterLinks:
    return ClusterLinks(parse(ConsumerSettings, {"bootstrap_servers": where, "api_version": "4.4", **settings}))


def test_a_client_bootstraps_again_when_the_broker_says_so(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ottla.client")
    answers: list[MetadataResponse | None] = [
        MetadataResponse(),
        MetadataResponse(error_code=REBOOTSTRAP_REQUIRED),
        MetadataResponse(cluster_id="new"),
    ]

    async def run() -> None:
        async with scripted(answers) as (where, requests):
            cluster = links(where)
            await cluster.refresh([])
            with pytest.raises(ottla.ConnectionFailed, match="ask the client to bootstrap again") as raised:
                await cluster.refresh([])
            assert raised.value.retriable
            assert cluster.metadata.nodes == {}
            await cluster.refresh([])
            assert cluster.metadata.cluster_id == "new"
            assert requests == [2, 1], "the old connection is not used again"
            await cluster.close()

    asyncio.run(run())
    assert caplog.text.count("bootstrapping again") == 1


def test_without_recovery_the_demand_of_a_broker_is_an_error() -> None:
    async def run() -> None:
        async with scripted([MetadataResponse(), MetadataResponse(error_code=REBOOTSTRAP_REQUIRED)]) as (where, _):
            cluster = links(where, metadata_recovery_strategy="none")
            await cluster.refresh([])
            with pytest.raises(ottla.BrokerError, match="bootstrap again, but metadata_recovery_strategy=none: restart") as raised:
                await cluster.refresh([])
            assert not raised.value.retriable
            await cluster.close()

    asyncio.run(run())


def test_brokers_without_an_answer_for_the_time_given_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1_000]
    monkeypatch.setattr("ottla.net.client.cluster.now_ms", lambda: clock[0])

    async def run() -> None:
        async with scripted([MetadataResponse(), None, None, None, MetadataResponse()]) as (where, _):
            cluster = links(where, metadata_recovery_rebootstrap_trigger_ms=60_000, reconnect_backoff_ms=0)
            await cluster.refresh([])
            for forgotten, now_ms in ((False, 1_000), (False, 60_999), (True, 61_000)):
                clock[0] = now_ms
                with pytest.raises(ottla.ConnectionFailed):
                    await cluster.refresh([])
                assert (cluster.metadata.nodes == {}) == forgotten
            await cluster.refresh([])
            assert list(cluster.metadata.nodes) == [1]
            await cluster.close()

    asyncio.run(run())


def test_a_client_that_gets_into_another_cluster_says_so(
    tmp_path: Path, bootstrap: LossyWay, caplog: pytest.LogCaptureFixture
) -> None:
    with ExitStack() as clients:
        with begun(tmp_path / "one", bootstrap):
            admin = clients.enter_context(ottla.Admin(address(bootstrap)))
            first = admin.describe_cluster().cluster_id
        with begun(tmp_path / "other", bootstrap):
            assert admin.describe_cluster().cluster_id not in (first, None)
    assert [line for line in caplog.messages if "and those before to cluster" in line and "bootstrap_servers" in line]
