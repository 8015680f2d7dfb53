"""Apache Kafka's own command-line tools, run from its class path."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable

import pytest

from bench.apache_kafka import Unavailable, class_path, java

TOPICS = "org.apache.kafka.tools.TopicCommand"
PRODUCE = "org.apache.kafka.tools.ConsoleProducer"
CONSUME = "org.apache.kafka.tools.consumer.ConsoleConsumer"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
SHARE_CONSUME = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
VERIFIABLE_SHARE = "org.apache.kafka.tools.VerifiableShareConsumer"
SHARE_PERFORMANCE = "org.apache.kafka.tools.ShareConsumerPerformance"
PRODUCER_PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
CONSUMER_PERFORMANCE = "org.apache.kafka.tools.ConsumerPerformance"
LIGHT = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")


def java_tools() -> list[str]:
    """The command that a tool's class name and arguments are added to. Skips the test where it cannot be had."""
    try:
        return [java(), *LIGHT, "-cp", class_path()]
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka's tools cannot run: {missing}")


def run(tool: str, *arguments: str, stdin: str = "", timeout_s: float = 240, properties: Iterable[str] = ()) -> str:
    """What the tool printed. Fails the test when the tool fails, and shows all it said.

    `properties` are Java's own, as `-Dname=value`.
    """
    virtual_machine, *classes = java_tools()
    done = subprocess.run(
        [virtual_machine, *properties, *classes, tool, *arguments], input=stdin, capture_output=True, text=True, timeout=timeout_s
    )
    assert done.returncode == 0, f"{tool} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout
