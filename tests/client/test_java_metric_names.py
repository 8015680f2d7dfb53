"""The metrics of Ottla's clients beside those of Java's: `java_metrics.txt` is what clients of Apache Kafka 4.3.0 said.

A line has the client (a producer with transactions, a consumer of each group protocol, an admin client), the group, the name, the
names of tags, and as which kind Java pushes the metric in OTLP: a gauge, a sum, or not at all.
"""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping
from math import isnan
from pathlib import Path
from typing import Literal, NamedTuple

import pytest

import ottla
from bench.apache_kafka import Unavailable, class_path, java
from ottla.client.metrics.registry import Metric, MetricsSnapshot
from ottla.client.metrics.telemetry import metric_name
from tests.support.jars import SOURCES, compile_java
from tests.support.java import LIGHT
from tests.support.waiting import eventually

CLIENTS = ("producer", "classic", "consumer", "admin")
FACTS = Path(__file__).with_name("java_metrics.txt")
PAGE = Path(__file__).parents[2] / "docs" / "clients.md"
LEFT_OUT = {
    r"io-.*|select-(rate|total)": "`io-…`, `select-…`",
    r"successful-authentication-no-reauth-total": "`…-no-reauth-total`",
    r"(application|background)-event.*|unsent-requests-.*|time-between-network-thread-poll-.*": "`…-event-…`, `unsent-requests-…`, "
    "`time-between-network-thread-poll-…`",
    r"version|commit-id": "`version`, `commit-id`",
    r"record-size-max": "`record-size-max`",
    r"txn-prepare-time-ns-total": "`txn-prepare-time-ns-total`",
}
"""The names that only Java has, and how the page names them beside the reason."""
ONLY_OURS = {"request-latency-avg", "request-latency-max"}
"""Of all connections together: Java has them of producers alone, and else of each broker."""


class Fact(NamedTuple):
    """A metric by its names, without a value."""

    group: str
    name: str
    tags: str


class JavaMetrics(NamedTuple):
    """The metrics of one of Java's clients, and the pushed ones: OTLP's name -> what it is."""

    facts: set[Fact]
    pushed: set[tuple[str, str, str]]


def facts() -> dict[str, JavaMetrics]:
    found: dict[str, JavaMetrics] = defaultdict(lambda: JavaMetrics(set(), set()))
    for line in FACTS.read_text().splitlines():
        client, group, name, tags, kind = line.split("\t")
        found[client].facts.add(Fact(group, name, tags))
        if kind != "-":
            found[client].pushed.add((metric_name(Metric(group, name, {}, 0, "gauge")), attributes(tags.split(",")), kind))
    return found


def attributes(tags: list[str]) -> str:
    return ",".join(sorted(tag.replace("-", "_") for tag in tags if tag != "client-id"))


@pytest.fixture(scope="module")
def own() -> Mapping[str, MetricsSnapshot]:
    """The metrics of Ottla's clients after the work that Java's did."""
    found: dict[str, MetricsSnapshot] = {}
    with ottla.Broker() as broker, ottla.Admin(broker.address) as admin:
        admin.create_topic("metered", 1)
        with ottla.Producer(broker.address, transactional_id="metrics") as producer:
            for _ in range(5):
                with producer.transaction():
                    producer.send("metered", b"v" * 100, key=b"k")
            found["producer"] = producer.metrics()
        protocols: tuple[Literal["classic", "consumer"], ...] = ("classic", "consumer")
        for protocol in protocols:
            found[protocol] = consumer_metrics(broker, protocol)
        found["admin"] = admin.metrics()
    return found


def consumer_metrics(broker: ottla.Broker, protocol: Literal["classic", "consumer"]) -> MetricsSnapshot:
    with ottla.Consumer(
        "metered",
        bootstrap_servers=broker.address,
        group_id=f"of-{protocol}",
        group_protocol=protocol,
        auto_offset_reset="earliest",
    ) as consumer:
        eventually(lambda: consumer.poll(100), what="records")
        consumer.commit()
        consumer.committed(("metered", 0))
        return consumer.metrics()


def named(snapshot: MetricsSnapshot) -> Iterator[Fact]:
    return (Fact(metric.group, metric.name, ",".join(sorted(metric.tags))) for metric in snapshot)


@pytest.mark.parametrize("client", CLIENTS)
def test_our_metrics_are_among_javas_with_their_groups_and_tags(client: str, own: Mapping[str, MetricsSnapshot]) -> None:
    more = {fact for fact in named(own[client]) if fact not in facts()[client].facts}
    assert {fact.name for fact in more if fact.tags == "client-id"} == (set() if client == "producer" else ONLY_OURS)
    assert {fact for fact in more if fact.name not in ONLY_OURS} == set()


@pytest.mark.parametrize("client", CLIENTS)
def test_javas_metrics_that_we_do_not_have_are_left_out_for_a_reason(client: str, own: Mapping[str, MetricsSnapshot]) -> None:
    missing = facts()[client].facts - set(named(own[client]))
    unexplained = {fact for fact in missing if not any(re.fullmatch(pattern, fact.name) for pattern in LEFT_OUT)}
    assert unexplained == set()


def test_the_page_has_the_reason_for_each_metric_that_is_left_out(own: Mapping[str, MetricsSnapshot]) -> None:
    page = PAGE.read_text()
    for pattern, shown in LEFT_OUT.items():
        assert f"| {shown} |" in page
        present = [fact for client in CLIENTS for fact in named(own[client]) if re.fullmatch(pattern, fact.name)]
        assert present == [], "this one is not left out any more"


@pytest.mark.parametrize("client", CLIENTS)
def test_pushed_metrics_have_javas_names_attributes_and_kinds(client: str, own: Mapping[str, MetricsSnapshot]) -> None:
    pushed = {
        (metric_name(metric), attributes([*metric.tags]), metric.kind)
        for metric in own[client]
        if not isnan(metric.value) and metric.name not in ONLY_OURS
    }
    of_producers = {metric for metric in facts()["producer"].pushed if "request.latency" in metric[0]}
    assert pushed - facts()[client].pushed - of_producers == set()


def test_values_are_those_of_the_work_that_was_done(own: Mapping[str, MetricsSnapshot]) -> None:
    for client, snapshot in own.items():
        assert snapshot.value("count") == len(snapshot), client
        assert 0 <= snapshot.time_ms - snapshot.value("start-time-ms") < 600_000, client
    assert own["producer"].value("bufferpool-wait-ratio") == 0
    assert own["classic"].value("records-per-request-avg", topic="metered") > 0
    assert own["classic"].value("join-total") >= 1


@pytest.mark.java
@pytest.mark.full(seconds=15)
@pytest.mark.timeout(120)
def test_java_still_has_these_metrics(tmp_path: Path) -> None:
    try:
        program = [java(), *LIGHT, "-cp", compile_java([SOURCES / "ClientMetrics.java"], class_path(), tmp_path), "ClientMetrics"]
    except Unavailable as missing:
        pytest.skip(f"no Apache Kafka: {missing}")
    with ottla.Broker() as broker:
        done = subprocess.run([*program, broker.address], input="\n", capture_output=True, text=True, check=True, timeout=100)
    told = {tuple(line.split("\t")) for line in done.stdout.splitlines() if "\t" in line}
    assert told == {tuple(line.split("\t")[:4]) for line in FACTS.read_text().splitlines()}
