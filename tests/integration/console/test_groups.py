"""Groups in the console over HTTP: kinds, members, lag, resets with a preview, refusals, and clients that push metrics."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest

import ottla
from ottla.console.config import ConsoleConfig
from tests.integration.console.conftest import console_client


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker() as broker:
        with ottla.Admin(broker.address) as admin:
            admin.create_topic("flights", 3)
            admin.create_topic("pushed", 1)
            admin.alter_group_offsets("tool", {("flights", 0): 4, ("flights", 1): 0})
            admin.alter_group_offsets("query", {("flights", 0): ottla.OffsetAndMetadata(2, "ottla-spark")})
            admin.alter_group_offsets("spark-kafka-source-1-driver-0", {("flights", 0): 2})
        with ottla.Producer(broker.address) as producer:
            for number in range(30):
                producer.send("flights", value=b"%d" % number, partition=number % 3)
        yield broker


@pytest.fixture(scope="module")
def client(broker: ottla.Broker) -> Iterator[httpx.Client]:
    config = ConsoleConfig({"bootstrap_servers": broker.address})
    with console_client(config) as client:
        client.get("/")
        yield client


def read(client: httpx.Client, path: str, status: int = 200) -> Any:
    answer = client.get(f"/api{path}")
    assert answer.status_code == status, answer.text
    if status == 200:
        page = client.get(path)
        assert page.status_code == 200
        assert "<h1>" in page.text
    return answer.json()


def act(client: httpx.Client, path: str, status: int = 200, **body: object) -> Any:
    answer = client.post(f"/api{path}", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def eventually(check: Callable[[], object], seconds: float = 30) -> None:
    """Wait until a check is true."""
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def rows(client: httpx.Client, query: str = "") -> dict[str, Any]:
    return {each["group"]: each for each in read(client, f"/groups{query}")["groups"]}


def test_a_group_can_have_any_name(client: httpx.Client, broker: ottla.Broker) -> None:
    name = "two\nlines /?#%2F<b>"
    with ottla.Admin(broker.address) as admin:
        admin.alter_group_offsets(name, {("flights", 0): 4})
    assert read(client, f"/groups/{quote(name, safe='')}")["group"] == name
    act(client, f"/groups/{quote(name, safe='')}/delete", typed=name)


def test_groups_have_kinds_and_lag(client: httpx.Client, broker: ottla.Broker) -> None:
    with ottla.Consumer("flights", bootstrap_servers=broker.address, group_id="board", auto_offset_reset="earliest") as consumer:
        next(iter(consumer))
        consumer.commit()
        eventually(lambda: rows(client).get("board", {}).get("members") == 1)
        kinds = {"board": "classic", "tool": "simple", "query": "spark", "spark-kafka-source-1-driver-0": "spark"}
        assert kinds.items() <= {name: row["kind"] for name, row in rows(client).items()}.items()
        eventually(lambda: rows(client)["tool"]["lag"] is not None)
        assert [row["lag"] for row in rows(client, "?sort=-lag&kind=simple&q=tool").values()] == [16]
        found = read(client, "/groups/board")
        (member,) = found["members"]
        assert (found["state"], member["assignment"], member["partitions"]) == ("Stable", {"flights": [0, 1, 2]}, 3)
        assert [each["end"] for each in found["partitions"]] == [10, 10, 10]
        preview = read(client, "/groups/board/reset")
        assert "has 1 active member (" in preview["sentence"]
        refused = act(client, "/groups/board/reset", 409, to="earliest")
        assert refused["error"] == preview["sentence"]
        assert "NON_EMPTY_GROUP" in act(client, "/groups/board/delete", 409, typed="board")["error"]
    eventually(lambda: read(client, "/groups/board")["state"] == "Empty")


def test_the_groups_of_a_topic_are_on_its_page(client: httpx.Client) -> None:
    eventually(lambda: {"tool", "query"} <= {each["group"] for each in read(client, "/topics/flights")["groups"]})
    assert 'href="/groups/tool"' in client.get("/topics/flights").text


def test_a_reset_is_shown_before_it_is_done(client: httpx.Client, broker: ottla.Broker) -> None:
    with ottla.Admin(broker.address) as admin:
        admin.alter_group_offsets("moved", {("flights", 0): 4, ("flights", 1): 5})

        def committed() -> dict[int, int]:
            return {where.partition: each.offset for where, each in admin.list_group_offsets("moved").items()}

        preview = read(client, "/groups/moved/reset?to=latest")
        assert [(each["before"], each["after"], each["lag"]) for each in preview["rows"]] == [(4, 10, 0), (5, 10, 0)]
        assert committed() == {0: 4, 1: 5}
        assert act(client, "/groups/moved/reset", to="latest")["sentence"] == "2 offsets of group moved changed."
        assert committed() == {0: 10, 1: 10}
        act(client, "/groups/moved/reset", to="shift", offset=-3)
        assert committed() == {0: 7, 1: 7}
        act(client, "/groups/moved/reset", to="offset", offset=99, topic="flights", partition="1-2")
        assert committed() == {0: 7, 1: 10, 2: 10}
        act(client, "/groups/moved/reset", to="time", time="1h", topic="flights", partition="0")
        assert committed() == {0: 0, 1: 10, 2: 10}
        assert (
            "nothing was changed"
            in act(client, "/groups/moved/reset", to="time", time="1h", partition="0", topic="flights")["sentence"]
        )
        act(client, "/groups/moved/forget", topic="flights")
        eventually(lambda: client.get("/api/groups/moved").status_code == 404 or not committed())


@pytest.mark.parametrize(
    ("query", "status", "reason"),
    [
        ("to=middle", 400, "no place for offsets"),
        ("to=time&time=noon", 400, "is not a time"),
        ("to=offset", 400, "The offset is missing"),
        ("to=shift&offset=1&topic=flights", 400, "has no committed offset to count from"),
        ("topic=nope", 404, "There is no topic nope"),
        ("topic=flights&partition=7", 400, "has no partition 7"),
        ("partition=x&topic=flights", 400, "is no partition"),
    ],
)
def test_a_reset_that_makes_no_sense_is_refused(client: httpx.Client, query: str, status: int, reason: str) -> None:
    assert reason in read(client, f"/groups/tool/reset?{query}", status)["error"]


def test_a_group_is_deleted_with_its_id_typed(client: httpx.Client, broker: ottla.Broker) -> None:
    with ottla.Admin(broker.address) as admin:
        admin.alter_group_offsets("gone/one", {("flights", 0): 4})
        assert read(client, "/groups/gone%2Fone")["lag"] == 6
        assert "type it exactly" in act(client, "/groups/gone%2Fone/delete", 400, typed="gone")["error"]
        act(client, "/groups/gone%2Fone/delete", typed="gone/one")
        assert "gone/one" not in {each.group_id for each in admin.list_groups()}
    assert "There is no group gone/one" in read(client, "/groups/gone%2Fone", 404)["error"]


def test_a_group_of_the_consumer_protocol_has_epochs_and_its_members_can_be_removed(
    client: httpx.Client, broker: ottla.Broker
) -> None:
    settings: Any = {"bootstrap_servers": broker.address, "group_id": "modern", "group_protocol": "consumer"}
    with ottla.Consumer("flights", auto_offset_reset="earliest", client_id="<b>reader", **settings) as consumer:
        next(iter(consumer))
        found = read(client, "/groups/modern")
        assert (found["kind"], found["epoch"] > 0, len(found["members"])) == ("consumer", True, 1)
        assert "&lt;b&gt;reader" in client.get("/groups/modern").text
        done = act(client, "/groups/modern/remove-member", member=found["members"][0]["member_id"])
        assert "joins again" in done["sentence"]


def test_clients_that_push_metrics_are_shown(client: httpx.Client, broker: ottla.Broker) -> None:
    assert read(client, "/clients?q=pusher")["clients"] == []
    with ottla.Admin(broker.address) as admin:
        admin.alter_configs(ottla.ConfigResource.client_metrics("all"), set={"metrics": "*", "interval.ms": "100"})
        with ottla.Producer(broker.address, client_id="pusher") as producer:
            producer.send("pushed", value=b"x").result(10)
            eventually(lambda: any(each["bytes"] for each in read(client, "/clients?q=pusher")["clients"]))
            (row,) = read(client, "/clients?q=pusher")["clients"]
            metrics = read(client, f"/clients/{row['instance']}")["metrics"]["value"]
            assert any(each["name"].startswith("org.apache.kafka.producer") for each in metrics)
    assert "No broker knows client instance x" in read(client, "/clients/x", 404)["error"]


def test_queues_show_what_is_left_and_can_be_reset(client: httpx.Client, broker: ottla.Broker) -> None:
    with ottla.Admin(broker.address) as admin:
        admin.create_topic("jobs", 1)
        admin.alter_configs(ottla.ConfigResource.group("workers"), set={"share.auto.offset.reset": "earliest"})
    with ottla.Producer(broker.address) as producer:
        for number in range(10):
            producer.send("jobs", value=b"%d" % number, partition=0)
    settings: dict[str, Any] = {"bootstrap_servers": broker.address, "group_id": "workers"}
    with (
        ottla.ShareConsumer("jobs", **settings, share_acknowledgement_mode="explicit", client_id="one") as one,
        ottla.ShareConsumer("jobs", **settings, client_id="other") as other,
    ):
        eventually(lambda: one.assignment() and other.assignment())
        records = one.poll(20_000)
        one.acknowledge(records[1:])
        one.acknowledge(records[0], "release")
        one.commit()
        eventually(lambda: read(client, "/queues")["queues"][0]["left"] == len(records[:1]) + 10 - len(records))
        (row,) = read(client, "/queues?q=WORK")["queues"]
        assert (row["group"], row["members"], row["topics"], row["partitions"]) == ("workers", 2, ["jobs"], 1)
        found = read(client, "/groups/workers")
        assert found["kind"] == "share"
        assert sorted(member["client_id"] for member in found["members"]) == ["one", "other"]
        refused = act(client, "/groups/workers/reset", 409, to="latest")
        assert "active members" in str(refused)
    eventually(lambda: read(client, "/groups/workers")["state"] == "Empty")
    preview = read(client, "/groups/workers/reset?to=latest")
    assert {(each["topic"], each["partition"]): each["after"] for each in preview["rows"]} == {("jobs", 0): 10}
    act(client, "/groups/workers/reset", to="latest")
    eventually(lambda: read(client, "/groups/workers")["partitions"][0]["committed"] == 10)
    assert "jobs" in act(client, "/groups/workers/forget", topic="jobs")["sentence"]
    act(client, "/groups/workers/delete", typed="workers")
    eventually(lambda: read(client, "/queues")["queues"] == [])
