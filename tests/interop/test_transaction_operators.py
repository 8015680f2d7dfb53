"""What an operator can see of transactions and do about them, with Ottla's commands and admin clients; on Apache Kafka too.

The broker does not verify that records belong to a transaction, so that a late record can leave one that hangs.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import KafkaException, Producer

import ottla
from bench import raw
from ottla.cli.main import main
from ottla.client.admin.transactions import ActiveProducer
from ottla.records.batches.builder import build
from ottla.wire.api.produce import ProduceRequest, ProduceResponse
from ottla.wire.errors import NONE
from ottla.wire.framing import FrameHeader, decode_response, encode_request
from tests.interop.test_transactions import committed_values
from tests.support.peers import Peer, start_peer
from tests.support.toolbox import Toolbox
from tests.support.waiting import eventually

Unique = Callable[[str], str]
Command = Callable[..., tuple[int, list[str]]]
PATIENCE_S = 60
HOUR_MS = 3_600_000
AT_ONCE = -60_000
"""Transactions count however young they are, and whatever the clocks."""
PRODUCE, VERSION = ProduceRequest.WIRE.key, 9


@pytest.fixture(scope="module")
def peer(peer_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    settings: dict[str, object] = {"transaction.partition.verification.enable": "false"}
    with start_peer(peer_name, tmp_path_factory.mktemp("operators"), settings) as broker:
        yield broker


@pytest.fixture
def admin(peer: Peer) -> Iterator[ottla.Admin]:
    with ottla.Admin(peer.address) as admin:
        yield admin


@pytest.fixture
def topic(admin: ottla.Admin, unique: Unique) -> str:
    name = unique("operated")
    admin.create_topic(name, 2, 1)
    return name


@pytest.fixture
def command(peer: Peer, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command; gives its exit code and what it prints, its complaint included."""

    def run(*words: str) -> tuple[int, list[str]]:
        code = main([*words, "--bootstrap-server", peer.address])
        said = capsys.readouterr()
        return code, (said.out + said.err).splitlines()

    return run


def begun(peer: Peer, topic: str, transactional_id: str) -> Producer:
    """A producer with an open transaction in partition 0."""
    producer = Producer({"bootstrap.servers": peer.address, "transactional.id": transactional_id, "linger.ms": 0})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(PATIENCE_S)
    return producer


def hang(peer: Peer, topic: str, index: int, producer_id: int) -> None:
    """Write a record of a transaction that no coordinator knows."""
    now_ms = int(time.time() * 1000)
    records = bytes(build(None, [b"late"], now_ms, producer_id=producer_id, producer_epoch=3, base_sequence=0, transactional=True))
    data = ProduceRequest.PartitionProduceData(index=index, records=records)
    body = ProduceRequest(
        transactional_id="nobody",
        acks=-1,
        timeout_ms=30_000,
        topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[data])],
    )
    with raw.connect(peer.address) as connection:
        connection.sendall(b"".join(encode_request(FrameHeader(PRODUCE, VERSION, 1, "raw"), body)))
        response = decode_response(PRODUCE, VERSION, raw.reply(connection))[1]
    assert isinstance(response, ProduceResponse)
    assert response.responses[0].partition_responses[0].error_code == NONE


def test_an_open_transaction_is_listed_and_described(peer: Peer, admin: ottla.Admin, topic: str) -> None:
    before_ms = int(time.time() * 1000)
    producer = begun(peer, topic, topic)
    [listed] = admin.list_transactions(transactional_id_pattern=f"{topic}|nothing")
    assert (listed.transactional_id, listed.state) == (topic, "Ongoing")
    assert listed in admin.list_transactions(states=["Ongoing"])
    assert listed not in admin.list_transactions(states=["Empty", "CompleteCommit"])
    assert admin.list_transactions(producer_ids=[listed.producer_id]) == [listed]
    assert listed not in admin.list_transactions(min_duration_ms=HOUR_MS)
    described = admin.describe_transactions(topic)[topic]
    assert described.partitions == [(topic, 0)]
    assert (described.coordinator_id, described.producer_id) == (listed.coordinator_id, listed.producer_id)
    assert (described.state, described.producer_epoch, described.timeout_ms) == ("Ongoing", 0, 60_000)
    assert described.start_time_ms is not None
    assert described.start_time_ms >= before_ms - 1000
    [active] = admin.describe_producers([(topic, 0)])[ottla.TopicPartition(topic, 0)]
    assert (active.producer_id, active.producer_epoch, active.last_sequence) == (described.producer_id, 0, 0)
    assert (active.coordinator_epoch, active.transaction_start_offset) == (None, 0)
    producer.commit_transaction(PATIENCE_S)
    eventually(lambda: admin.describe_transactions(topic)[topic].state == "CompleteCommit")
    [active] = admin.describe_producers([(topic, 0)])[ottla.TopicPartition(topic, 0)]
    assert (active.coordinator_epoch, active.transaction_start_offset) == (0, None)


def test_what_does_not_exist_is_named(admin: ottla.Admin, topic: str) -> None:
    with pytest.raises(ottla.BrokerError, match="nobody: TRANSACTIONAL_ID_NOT_FOUND"):
        admin.describe_transactions("nobody")
    with pytest.raises(ottla.KafkaError, match="no state Nothing"):
        admin.list_transactions(states=["Nothing"])
    with pytest.raises(ottla.UnknownTopic):
        admin.find_hanging_transactions([f"{topic}-not"])


def test_a_producer_is_fenced_and_its_transaction_aborted(peer: Peer, admin: ottla.Admin, topic: str) -> None:
    producer = begun(peer, topic, topic)
    before = admin.describe_transactions(topic)[topic]
    fenced = admin.fence_producers(topic)[topic]
    assert (fenced.producer_id, fenced.producer_epoch > before.producer_epoch) == (before.producer_id, True)
    after = admin.describe_transactions(topic)[topic]
    assert (after.state, after.producer_epoch, after.partitions) == ("Empty", fenced.producer_epoch, [])
    with pytest.raises(KafkaException):
        producer.commit_transaction(PATIENCE_S)
    assert committed_values(peer.address, topic) == []


def test_a_transaction_that_nobody_will_end_is_found_and_aborted(peer: Peer, admin: ottla.Admin, topic: str) -> None:
    begun(peer, topic, topic)  # this one its coordinator will end
    hang(peer, topic, 1, 4_000_001)
    hang(peer, topic, 1, 4_000_002)
    assert admin.find_hanging_transactions([topic]) == [], "it may yet begin at its coordinator"
    found, other = admin.find_hanging_transactions([topic], min_open_ms=AT_ONCE)
    assert (found.partition, found.transactional_id) == ((topic, 1), None)
    assert (found.producer.producer_id, found.producer.producer_epoch, found.producer.transaction_start_offset) == (4_000_001, 3, 0)
    assert (other.partition, other.producer.transaction_start_offset) == ((topic, 1), 1)
    for hanging in admin.find_hanging_transactions(min_open_ms=AT_ONCE):
        admin.abort_transaction(*hanging.partition, hanging.producer.producer_id, hanging.producer.producer_epoch)
    assert admin.find_hanging_transactions(min_open_ms=AT_ONCE) == []
    with pytest.raises(ottla.BrokerError, match="INVALID_PRODUCER_EPOCH"):
        admin.abort_transaction(topic, 1, 4_000_001, 2)
    admin.fence_producers(topic)
    with ottla.Producer(peer.address) as producer:
        producer.send(topic, b"after", partition=1)
    assert committed_values(peer.address, topic) == [b"after"]


def test_the_asynchronous_client_does_the_same(peer: Peer, topic: str) -> None:
    async def operate() -> list[ActiveProducer]:
        async with ottla.AsyncAdmin(peer.address) as admin:
            hang(peer, topic, 0, 5_000_001)
            [found] = await admin.find_hanging_transactions([topic], min_open_ms=AT_ONCE)
            await admin.abort_transaction(topic, 0, found.producer.producer_id, found.producer.producer_epoch, 0)
            assert await admin.find_hanging_transactions([topic], min_open_ms=AT_ONCE) == []
            described = await admin.describe_producers([(topic, 0)])
            return described[ottla.TopicPartition(topic, 0)]

    [active] = asyncio.run(operate())
    assert (active.producer_id, active.transaction_start_offset) == (5_000_001, None)


def test_commands_show_an_open_transaction_and_abort_it(peer: Peer, topic: str, command: Command) -> None:
    producer = begun(peer, topic, topic)
    code, lines = command("transactions", "list", "--state", "Ongoing", "--pattern", topic)
    assert (code, lines[0].split("  ")[0], len(lines)) == (0, "TRANSACTIONAL ID", 2)
    assert lines[1].split()[0] == topic
    code, lines = command("transactions", "describe", topic)
    assert (code, lines[1].split()[-1]) == (0, f"{topic}-0")
    code, [line] = command("transactions", "describe", topic, "--json")
    found = json.loads(line)
    assert (found["transactional_id"], found["state"], found["partitions"]) == (topic, "Ongoing", [[topic, 0]])
    code, [line] = command("transactions", "abort", "--transactional-id", topic)
    assert (code, f"is fenced, and its transaction in {topic}-0 is aborted." in line) == (0, True)
    with pytest.raises(KafkaException):
        producer.commit_transaction(PATIENCE_S)
    code, [line] = command("transactions", "abort", "--transactional-id", topic)
    assert (code, line) == (1, f"ottla: {topic} has no open transaction (its state is Empty): there is nothing to abort.")


def test_commands_find_a_hanging_transaction_and_abort_it(peer: Peer, topic: str, command: Command) -> None:
    find = ("transactions", "find-hanging", "--topic", topic, "--min-open-ms", str(AT_ONCE))
    assert command(*find) == (0, ["There are no hanging transactions."])
    hang(peer, topic, 1, 6_000_001)
    hang(peer, topic, 1, 6_000_002)
    code, lines = command(*find)
    assert (code, lines[1].split()[:5]) == (1, [topic, "1", "0", "6000001", "3"])
    code, found = command(*find, "--json")
    assert [json.loads(line)["transaction_start_offset"] for line in found] == [0, 1]
    where = ("transactions", "abort", "--topic", topic, "--partition", "1")
    assert command(*where, "--start-offset", "0") == (0, [f"The transaction of producer 6000001 in {topic}-1 is aborted."])
    code, [line] = command(*where, "--start-offset", "0")
    assert (code, line.startswith(f"ottla: no open transaction begins at offset 0 of {topic}-1")) == (1, True)
    code, _ = command(*where, "--producer-id", "6000002", "--producer-epoch", "3", "--coordinator-epoch", "-1")
    assert (code, command(*find)[0]) == (0, 0)


@pytest.mark.java
def test_transactions_command_of_kafka_finds_a_hanging_transaction_and_aborts_it(peer: Peer, toolbox: Toolbox, topic: str) -> None:
    def transactions(*words: str) -> list[list[str]]:
        return [row for line in toolbox.at(peer.address)("transactions", *words).splitlines() if (row := line.split())]

    begun(peer, topic, topic)
    hang(peer, topic, 1, 7_000_001)
    assert [topic, "1"] in [row[:2] for row in transactions("list")]
    found = transactions("describe-producers", "--topic", topic, "--partition", "1")
    assert ["7000001", "3", "-1", "0"] in [row[:4] for row in found]
    assert transactions("abort", "--topic", topic, "--partition", "1", "--start-offset", "0") == []
    assert transactions("find-hanging", "--topic", topic, "--max-transaction-timeout", "0")[1:] == []


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--transactional-id", "a", "--topic", "t"],
        ["--topic", "t", "--partition", "0"],
        ["--topic", "t", "--start-offset", "0"],
        ["--topic", "t", "--partition", "0", "--start-offset", "0", "--producer-id", "1"],
        ["--topic", "t", "--partition", "0", "--producer-id", "1"],
    ],
)
@pytest.mark.rows(2, seconds=1)
def test_an_abort_must_say_what_it_is_about(command: Command, words: list[str]) -> None:
    code, [line] = command("transactions", "abort", *words)
    assert (code, line.startswith("ottla: the transaction is missing: ")) == (2, True)


def test_commands_describe_lower_and_raise_features(admin: ottla.Admin, command: Command) -> None:
    def level() -> int:
        return admin.describe_features().features["transaction.version"].level

    def has_level(wanted: int) -> None:
        eventually(lambda: level() == wanted)

    code, lines = command("features", "describe")
    assert (code, lines[0].split()) == (0, ["FEATURE", "LOWEST", "HIGHEST", "LEVEL"])
    assert ["transaction.version", "0", "2", "2"] in [line.split() for line in lines]
    assert command("features", "downgrade", "transaction.version=1", "--dry-run") == (0, ["transaction.version can have level 1."])
    has_level(2)
    assert command("features", "downgrade", "transaction.version=1") == (0, ["transaction.version has level 1."])
    has_level(1)
    code, [line] = command("features", "downgrade", "transaction.version=2")
    assert (code, "INVALID_UPDATE_VERSION" in line) == (1, True)
    epoch = admin.describe_features().epoch
    assert command("features", "upgrade", "transaction.version=2", "--json") == (0, ['{"name": "transaction.version", "level": 2}'])
    has_level(2)
    assert admin.describe_features().epoch > epoch
