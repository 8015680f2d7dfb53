"""`ottla mirror --from 0.7`: each message of a Kafka 0.7 gets into a cluster of today once, whatever happens to the mirror."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from bench.apache_kafka import free_port
from ottla import Consumer, Producer
from ottla.client.types import ConsumerGroupMetadata, TopicPartition
from ottla.kafka07 import wire as kafka07
from ottla.kafka07.records.messages import message_set
from ottla.net.client.admin.admin import Admin
from ottla.records.compression.codecs import GZIP, SNAPPY
from ottla.testing import BrokerProcess
from tests.old.kafka07.clients import SAMSA
from tests.old.kafka07.conftest import Listeners07
from tests.support.served07 import Broker07, Log07, served
from tests.support.waiting import eventually

Unique = Callable[[str], str]
PATIENCE_S = 120
pytestmark = [pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("target") / "data", {"num.partitions": 1}) as broker:
        yield broker


@pytest.fixture
def source() -> Iterator[Broker07]:
    with served() as broker:
        yield broker


def command(source: str, target: BrokerProcess, topic: str, *more: str) -> list[str]:
    words = ["mirror", topic, "--from", "0.7", "--bootstrap-server", source, "--to", target.address, "--group", topic]
    return [sys.executable, "-m", "ottla.cli.main", *words, *more]


def mirror(source: str, target: BrokerProcess, topic: str, *more: str) -> subprocess.CompletedProcess[str]:
    """Copy what is there now."""
    return subprocess.run(
        command(source, target, topic, "--once", *more), capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def copied(target: BrokerProcess, topic: str) -> dict[int, list[bytes | None]]:
    """What is committed at the target: the values of each partition in their order."""
    with Consumer(bootstrap_servers=target.address, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        there = consumer.partitions_for(topic)
        ends = consumer.end_offsets(there)
        consumer.assign(there)
        found: dict[int, list[bytes | None]] = {where.partition: [] for where in there}
        while any(consumer.position(where) < end for where, end in ends.items()):
            for record in consumer.poll(500, 100_000):
                found[record.partition].append(record.value)
        return found


def values(stem: str, count: int) -> list[bytes]:
    return [b"%s-%d" % (stem.encode(), number) for number in range(count)]


def in_sets(payloads: Sequence[bytes], kinds: Sequence[tuple[int, int]], each: int = 7) -> bytes:
    """Payloads as 0.7 has them, in sets of some, each of another magic and codec."""
    cuts = range(0, len(payloads), each)
    return b"".join(
        message_set(payloads[at : at + each], magic=kinds[index % len(kinds)][0], codec=kinds[index % len(kinds)][1])
        for index, at in enumerate(cuts)
    )


ALL_KINDS = ((0, 0), (1, 0), (1, GZIP), (1, SNAPPY))


def test_partitions_of_several_brokers_each_get_one_of_their_own_and_keep_their_order(
    source: Broker07, target: BrokerProcess, unique: Unique
) -> None:
    topic = unique("several")
    with served() as other:
        logs = {"0-0": values("a", 100), "0-1": values("b", 50), "3-0": values("c", 70)}
        for name, broker in (("0-0", source), ("0-1", source), ("3-0", other)):
            broker.logs[topic, int(name[-1])] = Log07(in_sets(logs[name], ALL_KINDS))
        brokers = f"0:{source.address},3:{other.address}"
        done = mirror(brokers, target, topic, "--json")
        assert done.returncode == 0, done.stderr
        steps = [json.loads(line) for line in done.stdout.splitlines()]
        assert (sum(step["messages"] for step in steps), steps[-1]["total_messages"], steps[-1]["lag_bytes"]) == (220, 220, 0)
        assert list(copied(target, topic).values()) == list(logs.values())
        other.logs[topic, 1] = Log07(in_sets(values("d", 20), ALL_KINDS))
        source.logs[topic, 0].data += in_sets(values("e", 10), ALL_KINDS)
        assert mirror(brokers, target, topic).returncode == 0
        found = copied(target, topic)
        assert [found[0], found[1], found[2], found[3]] == [
            logs["0-0"] + values("e", 10),
            *list(logs.values())[1:],
            values("d", 20),
        ]
        with Admin(target.address) as admin:
            committed = admin.list_group_offsets(topic)
        there = committed[TopicPartition(topic, 3)]
        assert (there.offset, there.metadata) == (other.logs[topic, 1].end, "kafka-0.7 3-1")


def test_what_a_listener_of_0_7_has_is_mirrored(listeners: Listeners07, target: BrokerProcess, unique: Unique) -> None:
    topic = unique("listened")
    SAMSA.run(listeners.old, "write", topic, 20)
    done = mirror(listeners.old, target, topic, "--prefix", "old.")
    assert done.returncode == 0, done.stderr
    assert "20 messages" in done.stdout
    assert copied(target, f"old.{topic}") == {0: [b"v%d" % number for number in range(20)]}
    assert "Done: 0 messages" in mirror(listeners.old, target, topic, "--prefix", "old.").stdout


def test_a_mirror_that_is_killed_again_and_again_copies_each_message_once(
    source: Broker07, target: BrokerProcess, unique: Unique
) -> None:
    topic = unique("killed")
    payloads = values("m", 5_000)
    source.logs[topic, 0] = Log07(in_sets(payloads, ALL_KINDS, 11))
    source.pause_s = 0.02
    for _ in range(3):
        before = committed(target, topic)
        running = subprocess.Popen(command(source.address, target, topic), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            eventually(partial(is_past, target, topic, before), timeout_s=PATIENCE_S, what="it gets on")
            source.logs[topic, 0].data += in_sets(payloads, ALL_KINDS, 11)
        finally:
            running.kill()
            running.wait()
    assert mirror(source.address, target, topic).returncode == 0
    assert copied(target, topic)[0] == payloads * 4


def is_past(target: BrokerProcess, topic: str, position: int) -> bool:
    return committed(target, topic) > position


def committed(target: BrokerProcess, topic: str) -> int:
    with Admin(target.address) as admin:
        return sum(found.offset for found in admin.list_group_offsets(topic).values())


def test_a_mirror_outlives_brokers_that_are_killed_on_both_sides(tmp_path: Path) -> None:
    old = f"127.0.0.1:{free_port()}"
    with (
        BrokerProcess(tmp_path / "source", arguments=["--listen", f"{old},release=0.7"]) as source,
        BrokerProcess(tmp_path / "target") as target,
    ):
        sent = values("m", 500)
        produce(old, "t", sent)
        running = subprocess.Popen(command(old, target, "t"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for broker in (source, target):
                before = committed(target, "t")
                eventually(lambda: committed(target, "t") > 0, timeout_s=PATIENCE_S, what="it gets on")
                broker.restart(kill=True)
                more = values(f"after-{before}", 500)
                produce(old, "t", more)
                sent += more
                eventually(partial(has, target, "t", sent), timeout_s=PATIENCE_S, what="all is copied")
        finally:
            running.kill()
            running.wait()
        assert copied(target, "t")[0] == sent


def has(target: BrokerProcess, topic: str, sent: Sequence[bytes]) -> bool:
    return len(copied(target, topic)[0]) >= len(sent)


def produce(address: str, topic: str, payloads: Sequence[bytes]) -> None:
    """Have a broker of 0.7 take in messages of all kinds; the answer to the question behind them shows it."""
    produced = kafka07.ProduceRequest07(topic, 0, in_sets(payloads, ALL_KINDS))
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
        for request in (produced, kafka07.OffsetsRequest07(topic, 0, -1, 1)):
            body = kafka07.encode_request(request)
            connection.sendall(len(body).to_bytes(4, "big") + body)
        assert connection.recv(1) == b"\x00"


def test_a_mirror_that_is_stopped_ends_what_it_is_at(source: Broker07, target: BrokerProcess, unique: Unique) -> None:
    topic = unique("stopped")
    source.logs[topic, 0] = Log07(in_sets(values("m", 100), ALL_KINDS))
    running = subprocess.Popen(command(source.address, target, topic), stdout=subprocess.PIPE, text=True)
    try:
        eventually(lambda: committed(target, topic) == source.logs[topic, 0].end, timeout_s=PATIENCE_S)
        running.send_signal(signal.SIGTERM)
        said, _ = running.communicate(timeout=PATIENCE_S)
    finally:
        running.kill()
    assert running.returncode == 0
    assert "Done: 100 messages" in said


def test_a_second_mirror_of_a_group_goes_on_in_the_place_of_the_first(
    source: Broker07, target: BrokerProcess, unique: Unique
) -> None:
    topic = unique("second")
    source.logs[topic, 0] = Log07(in_sets(values("m", 10), ALL_KINDS))
    first = subprocess.Popen(command(source.address, target, topic), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        eventually(lambda: committed(target, topic) == source.logs[topic, 0].end, timeout_s=PATIENCE_S)
        assert mirror(source.address, target, topic).returncode == 0
        source.logs[topic, 0].data += in_sets(values("n", 10), ALL_KINDS)
        _, said = first.communicate(timeout=PATIENCE_S)
    finally:
        first.kill()
    assert first.returncode == 1
    assert said == (
        f"ottla: Another mirror has begun with group {topic}, and goes on in this one's place: give each a --group of its own.\n"
    )
    assert mirror(source.address, target, topic).returncode == 0
    assert copied(target, topic)[0] == values("m", 10) + values("n", 10)


def test_what_was_deleted_at_the_source_meanwhile_is_told_and_left_out_if_wanted(
    source: Broker07, target: BrokerProcess, unique: Unique
) -> None:
    topic = unique("lost")
    source.logs[topic, 0] = Log07(in_sets(values("m", 10), ALL_KINDS), 1000)
    assert mirror(source.address, target, topic).returncode == 0
    position = source.logs[topic, 0].end
    source.logs[topic, 0] = Log07(in_sets(values("n", 10), ALL_KINDS), 5000)
    done = mirror(source.address, target, topic)
    assert (done.returncode, done.stderr) == (
        1,
        f"ottla: Partition 0-0 of {topic} is copied up to byte {position:,}, and begins at 5,000 at the source: what was between "
        "is deleted there; --skip-lost goes on without it.\n",
    )
    done = mirror(source.address, target, topic, "--skip-lost")
    assert done.returncode == 0, done.stderr
    assert copied(target, topic)[0] == values("m", 10) + values("n", 10)


def test_a_gap_in_a_log_ends_a_mirror_and_is_not_asked_for_again_and_again(
    source: Broker07, target: BrokerProcess, unique: Unique
) -> None:
    topic = unique("gap")
    source.logs[topic, 0] = Log07(in_sets(values("m", 10), ALL_KINDS))
    assert mirror(source.address, target, topic).returncode == 0
    log = source.logs[topic, 0]
    log.gap = range(log.end, log.end + 50)
    log.data += bytes(50) + in_sets(values("n", 10), ALL_KINDS)
    source.fetches = 0
    done = mirror(source.address, target, topic, "--skip-lost")
    assert done.returncode == 1
    assert f"Partition 0-0 of {topic} at byte {log.gap.start:,}. What was there could not be read" in done.stderr
    assert source.fetches < 100
    assert copied(target, topic)[0] == values("m", 10)


def test_another_log_in_the_place_of_the_first_is_not_taken_for_it(source: Broker07, target: BrokerProcess, unique: Unique) -> None:
    topic = unique("another")
    source.logs[topic, 0] = Log07(in_sets(values("m", 10), ALL_KINDS))
    assert mirror(source.address, target, topic).returncode == 0
    source.logs[topic, 0] = Log07(in_sets(values("n", 1), ALL_KINDS))
    done = mirror(source.address, target, topic, "--skip-lost")
    assert done.returncode == 1
    assert "it is another log now; name another group" in done.stderr
    assert done.stderr.count("\n") == 1


def test_all_before_a_damaged_message_is_copied_and_the_damage_named(
    source: Broker07, target: BrokerProcess, unique: Unique
) -> None:
    topic = unique("damaged")
    sound, damaged = in_sets(values("m", 10), ALL_KINDS), bytearray(in_sets(values("n", 10), ALL_KINDS))
    damaged[10] ^= 1
    source.logs[topic, 0] = Log07(sound + bytes(damaged))
    done = mirror(source.address, target, topic)
    assert done.returncode == 1
    assert f"from offset {len(sound)}" in done.stderr
    assert f"commit a later position for group {topic}" in done.stderr
    assert done.stderr.count("\n") == 1
    assert copied(target, topic)[0] == values("m", 10)


def test_a_group_that_is_somebody_elses_is_refused(source: Broker07, target: BrokerProcess, unique: Unique) -> None:
    topic = unique("taken")
    source.logs[topic, 0] = Log07(in_sets(values("m", 10), ALL_KINDS))
    with Producer(target.address, transactional_id=topic) as producer, producer.transaction():
        producer.send(topic, b"mine")
        producer.send_offsets({TopicPartition(topic, 0): 1}, ConsumerGroupMetadata(topic))
    done = mirror(source.address, target, topic)
    assert done.returncode == 1
    assert "which no mirror did: name another one with --group." in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["mirror", "t", "--to", "127.0.0.1:1"], 2, "--from"),
        (["mirror", " ,", "--from", "0.7", "--to", "127.0.0.1:1"], 2, "name topics"),
        (["mirror", "t", "--from", "0.8", "--to", "127.0.0.1:1"], 2, "0.7"),
    ],
)
def test_a_wrong_command_line_is_told_in_a_sentence(words: list[str], code: int, said: str) -> None:
    done = subprocess.run([sys.executable, "-m", "ottla.cli.main", *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (code, 1)
    assert said in done.stderr
