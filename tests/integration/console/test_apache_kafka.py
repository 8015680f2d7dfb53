"""The console on Apache Kafka, today's and older ones: every page is there, and what a broker cannot do is said in its place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import ottla
from ottla.console.config import ConsoleConfig
from ottla.console.openapi import json_path
from ottla.console.views.in_flight import ELSEWHERE
from tests.helps.clusters import HelpCluster, apache_kafka, old_kafka
from tests.integration.console.browser import CHROMIUM, chromium, opened, violations
from tests.integration.console.conftest import console_client
from tests.integration.console.test_pages import SIMPLE, call, path_with_names
from tests.support.waiting import eventually

pytestmark = pytest.mark.java
OLD = ("0.10.2", "1.1", "2.8", "3.9")


@pytest.fixture(scope="module")
def today(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HelpCluster]:
    with apache_kafka(tmp_path_factory.mktemp("kafka")) as cluster:
        yield cluster


def fill(cluster: HelpCluster) -> None:
    """Create a topic with records, and a group that has read one of them."""
    with cluster.admin() as admin:
        if cluster.release >= (0, 10, 1):
            admin.create_topic("flights", 3, 1)
    with ottla.Producer(cluster.address, acks="all") as producer:
        for number in range(30):
            producer.send("flights", key=b"%d" % number, value=b"late")
    with ottla.Consumer("flights", bootstrap_servers=cluster.address, group_id="board", auto_offset_reset="earliest") as consumer:
        next(iter(consumer))
        consumer.commit()


def check_pages(client: httpx.Client) -> dict[str, Any]:
    """Get every page as HTML and as JSON. Return the JSON by path."""
    found = {}
    for page in SIMPLE:
        path = path_with_names(page.path)
        shown = client.get(path)
        assert shown.status_code == 200, (path, re.sub(r"<[^>]*>", "", shown.text))
        found[path] = client.get(path_with_names(json_path(page.path))).json()
    return found


@pytest.mark.full(seconds=40)
def test_every_page_is_there_on_apache_kafka(today: HelpCluster) -> None:
    fill(today)
    with console_client(ConsoleConfig({"bootstrap_servers": today.address})) as client:
        eventually(lambda: client.get("/api/topics").json()["topics"][0]["lag"], what="the first samples")
        found = check_pages(client)
        (topic,) = found["/topics"]["topics"]
        assert (topic["name"], topic["partitions"], topic["records"], topic["groups"]) == ("flights", 3, 30, ["board"])
        assert topic["lag"] == 29
        assert found["/brokers"]["brokers"][0]["release"] == "4.3"
        call(client, "/topics", name="made", partitions=2)
        call(client, "/topics/made/config", setting="retention.ms", value="5")
        settings = client.get("/api/topics/made/config?changed=true&q=retention.ms").json()["settings"]["value"]
        assert settings[0]["value"] == "5"
        call(client, "/users", name="carol", password="word-of-carol")
        assert "carol" in [each["name"] for each in client.get("/api/users").json()["users"]["value"]]
        call(client, "/acls", principal="User:carol", operation="read", resource="topic", name="made")
        call(client, "/quotas", user="carol", quota="producer_byte_rate", value=10)
        call(client, "/topics/made/delete", typed="made")


@pytest.mark.full(seconds=20)
def test_the_records_in_flight_of_apache_kafka_are_unknown_and_the_page_says_why(today: HelpCluster) -> None:
    settings: Any = {"bootstrap_servers": today.address, "group_id": "workers", "share_acknowledgement_mode": "explicit"}
    with today.admin() as admin, ottla.Producer(today.address, acks="all") as producer:
        admin.create_topic("jobs", 1, 1)
        admin.alter_configs(ottla.ConfigResource.group("workers"), set={"share.auto.offset.reset": "earliest"})
        producer.send("jobs", b"7").result(20)
    with (
        console_client(ConsoleConfig({"bootstrap_servers": today.address})) as client,
        ottla.ShareConsumer("jobs", **settings) as worker,
    ):
        records = eventually(lambda: worker.poll(2_000), timeout_s=60, what="the record is delivered")
        for path, rows in (("/queues", "queues"), ("/groups/workers", "members")):
            assert client.get(f"/api{path}").json()[rows][0]["in_flight"] is None
            assert "Only the broker that leads a partition knows its records in flight" in client.get(path).text
        found = client.get("/api/groups/workers").json()["in_flight"]
        assert (found["is_known"], found["notes"]) == (False, [ELSEWHERE])
        worker.acknowledge(records)


@pytest.mark.full(seconds=40)
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
def test_a_browser_shows_apache_kafka_without_barriers(today: HelpCluster) -> None:
    with (
        console_client(ConsoleConfig({"bootstrap_servers": today.address})) as client,
        chromium() as browser,
        opened(browser, str(client.base_url)) as page,
    ):
        if not client.get("/api/topics?q=flights").json()["topics"]:
            call(client, "/topics", name="flights", partitions=3)
        for each in SIMPLE:
            page.goto(path_with_names(each.path))
            assert violations(page) == [], each.path


@pytest.mark.full(seconds=15)
def test_a_user_of_apache_kafka_logs_in(today: HelpCluster) -> None:
    secured = dict(today.secured)
    name, password, mechanism = (secured.pop(f"sasl_{each}") for each in ("username", "password", "mechanism"))
    with console_client(ConsoleConfig(secured)) as client:
        wrong = client.post("/api/login", json={"mechanism": mechanism, "name": name, "password": "wrong"})
        assert wrong.status_code == 401
        assert client.post("/api/login", json={"mechanism": mechanism, "name": name, "password": password}).status_code == 200
        assert client.get("/api/brokers").json()["brokers"][0]["answers"] is True


@pytest.mark.full(seconds=40)
@pytest.mark.parametrize("release", OLD)
def test_every_page_is_there_on_older_releases(release: str, tmp_path: Path) -> None:
    with old_kafka(release, tmp_path) as cluster, console_client(ConsoleConfig({"bootstrap_servers": cluster.address})) as client:
        fill(cluster)
        found = check_pages(client)
        assert found["/brokers"]["brokers"][0]["answers"] is True
        assert "flights" in [each["name"] for each in found["/topics"]["topics"]]
        if cluster.release < (2, 7):
            assert "2.7" in found["/users"]["users"]["trouble"], "it names the release that the page needs"
