"""Starts of a whole broker: with many partitions after a clean stop, beside Apache Kafka, and with much data after SIGKILL."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

import psutil

from bench.apache_kafka import ApacheKafka, Unavailable
from bench.figures import MB, Figure
from bench.log_served import create, fill
from bench.raw import batch, connect, produce_request, reply
from ottla.log.checkpoints import RECOVERY_POINTS
from ottla.testing.process import BrokerProcess

TOPICS, PER_TOPIC = 100, 100
KILLED_PARTITIONS, KILLED_MB = 50, 100
AFTER_MB = 2
"""What each partition gets after its recovery point."""

CHECKPOINT_S = 2


def many_partitions(address: str) -> None:
    """10 000 partitions, the first of each hundred with data."""
    for number in range(TOPICS):
        create(address, f"topic-{number}", PER_TOPIC)
        with connect(address) as connection:
            connection.sendall(produce_request(f"topic-{number}", batch(bytes(1000)), acks=1))
            reply(connection)


def starting(directory: str) -> list[Figure]:
    """A broker with 10 000 partitions is stopped and started anew; Apache Kafka does the same."""
    broker = BrokerProcess(f"{directory}/data")
    with broker:
        many_partitions(broker.address)
        broker.stop(60)
        began = time.monotonic()
        broker.start()
        took_s = time.monotonic() - began
        resident = psutil.Process(broker.pid).memory_info().rss / MB
        each = (resident - empty_mb(directory)) * MB / (TOPICS * PER_TOPIC)
    peer_s, peer_mb = starting_apache_kafka(directory)
    return [
        Figure("start with 10 000 partitions after a clean stop, s", f"{took_s:.2f}", peer_s, "< 3", took_s < 3),
        Figure("resident memory then, MB", f"{resident:.0f}", peer_mb, "< 150", resident < 150),
        Figure("memory of an idle partition, bytes", f"{each:.0f}", "what an empty broker takes left out", "< 4096", each < 4096),
    ]


def empty_mb(directory: str) -> float:
    with BrokerProcess(f"{directory}/empty") as broker:
        return psutil.Process(broker.pid).memory_info().rss / MB


def starting_apache_kafka(directory: str) -> tuple[str, str]:
    """What is said of it: how long it took, and its memory; or why it was not measured."""
    try:
        kafka = ApacheKafka(f"{directory}/kafka")
        with kafka:
            many_partitions(kafka.address)
            time.sleep(2)
            kafka.stop(180)
            kafka.start()
            resident = psutil.Process(kafka.pid).memory_info().rss / MB
            return f"Apache Kafka: {kafka.started_in_s:.1f}", f"Apache Kafka, 1 GB of heap: {resident:.0f}"
    except Unavailable as missing:
        return f"without Apache Kafka: {missing}", ""


def recovering(directory: str) -> list[Figure]:
    """5 GB in fifty partitions, 2 MB of each past its recovery point; then the same without recovery points."""
    interval = {"log.flush.offset.checkpoint.interval.ms": CHECKPOINT_S * 1000}
    data = Path(directory, "data")
    broker = BrokerProcess(data, interval, start_timeout_s=120)
    with broker:
        create(broker.address, "killed", KILLED_PARTITIONS)
        for index in range(KILLED_PARTITIONS):
            fill(broker.address, "killed", KILLED_MB * MB, index)
            fill(broker.address, "killed", 1, index, acks=-1)
        wait_for_recovery_points(data)
        broker.settings = {}
        broker.restart()
        baseline = read_bytes(broker.pid)
        for index in range(KILLED_PARTITIONS):
            fill(broker.address, "killed", AFTER_MB * MB, index)
        took_s, read = killed_and_started(broker)
        (data / RECOVERY_POINTS).unlink()
        whole_s, whole_read = killed_and_started(broker)
    shutil.rmtree(data)
    limit = f"reading all of it: {whole_s:.1f}"
    read_mb, whole_mb = (read - baseline) / MB, (whole_read - baseline) / MB
    most_mb = KILLED_PARTITIONS * AFTER_MB * 2.5
    beyond = f"{KILLED_PARTITIONS * AFTER_MB} MB lie past recovery points; without these: {whole_mb:.0f}"
    return [
        Figure("start after SIGKILL with 5 GB in 50 partitions, s", f"{took_s:.2f}", limit, "< 5", took_s < 5),
        Figure("bytes that it reads, MB", f"{read_mb:.0f}", beyond, f"< {most_mb:.0f}", read_mb < most_mb),
    ]


def wait_for_recovery_points(data: Path) -> None:
    """Until every partition has been noted as it is now."""
    time.sleep(3 * CHECKPOINT_S)
    lines = (data / RECOVERY_POINTS).read_text().splitlines()
    noted = [int(line.split()[2]) for line in lines if line.startswith("killed ")]
    assert len(noted) == KILLED_PARTITIONS, noted
    assert min(noted) > 0, noted


def killed_and_started(broker: BrokerProcess) -> tuple[float, int]:
    """(seconds of the next start, bytes that it read)"""
    broker.kill()
    began = time.monotonic()
    broker.start()
    return time.monotonic() - began, read_bytes(broker.pid)


def read_bytes(pid: int) -> int:
    """All that a process has asked files for since it began, from the page cache or not."""
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("rchar")))


if __name__ == "__main__":
    for figure in recovering(sys.argv[1]):
        print(figure)
