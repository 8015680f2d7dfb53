"""Records in flight in the console: beside a broker, elsewhere, in a cluster, for users with few rights, and with hostile names."""

from __future__ import annotations

import html
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import ottla
from ottla.cli.serve_console import BrokerBeside
from ottla.console.config import ConsoleConfig
from ottla.console.views.in_flight import ELSEWHERE
from ottla.testing import BrokerProcess
from ottla.testing.cluster import Cluster, ClusterMember, ClusterSeat, free_port, ottla_member
from tests.integration.console.browser import chromium, needs_chromium, opened, violations
from tests.integration.console.conftest import console_client
from tests.integration.console.test_login import log_in
from tests.integration.console.test_pages import HOSTILE, conforms
from tests.support.waiting import eventually

EXPLICIT: dict[str, Any] = {"share_acknowledgement_mode": "explicit", "share_acquire_mode": "record_limit", "max_poll_records": 4}
LIMIT, LOCK_MS = 5, 15_000
"""The defaults of deliveries, and the shortest lock that brokers allow."""


def fill(address: str, topic: str = "jobs", group: str = "workers", *, partitions: int = 1, count: int = 10) -> None:
    """Create a topic with records for a share group that reads from its start."""
    with ottla.Admin(address) as admin, ottla.Producer(address) as producer:
        admin.create_topic(topic, partitions, 1)
        texts = {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": str(LOCK_MS)}
        admin.alter_configs(ottla.ConfigResource.group(group), set=texts)
        for number in range(count * partitions):
            producer.send(topic, b"%d" % number, partition=number % partitions)


def worker(address: str, topic: str = "jobs", group: str = "workers", **settings: Any) -> ottla.ShareConsumer[Any, Any]:
    return ottla.ShareConsumer(topic, bootstrap_servers=address, group_id=group, **{**EXPLICIT, **settings})


def beside(broker: ottla.Broker, **settings: Any) -> ConsoleConfig:
    """Return the settings of a console in the process of a broker."""
    assert broker._running is not None
    return ConsoleConfig({"bootstrap_servers": broker.address}, local_broker=BrokerBeside(broker._running.in_flight()), **settings)


def poll(consumer: ottla.ShareConsumer[Any, Any]) -> list[Any]:
    return eventually(lambda: consumer.poll(2_000), timeout_s=60, what="records are delivered")


def in_flight(client: httpx.Client, query: str = "", group: str = "workers") -> Any:
    answer = client.get(f"/api/groups/{group}{query}")
    assert answer.status_code == 200, answer.text
    assert client.get(f"/groups/{group}{query}").status_code == 200
    return answer.json()["in_flight"]


def states(client: httpx.Client, query: str = "") -> list[tuple[int, int, str, str, int]]:
    """Return (first offset, last offset, state, member's name, deliveries) of all rows."""
    rows = in_flight(client, query)["rows"]
    return [(row["first_offset"], row["last_offset"], row["state"], row["member"], row["deliveries"]) for row in rows]


def queue(client: httpx.Client) -> Any:
    (row,) = client.get("/api/queues").json()["queues"]
    return row


@pytest.fixture
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker() as broker:
        fill(broker.address)
        yield broker


@pytest.fixture
def client(broker: ottla.Broker) -> Iterator[httpx.Client]:
    with console_client(beside(broker)) as client:
        yield client


def test_two_members_hold_records_and_acknowledge_some(client: httpx.Client, broker: ottla.Broker) -> None:
    with worker(broker.address, client_id="one") as one, worker(broker.address, client_id="two") as two:
        eventually(lambda: one.assignment() and two.assignment())
        mine, other = poll(one), poll(two)
        assert [record.offset for record in (*mine, *other)] == list(range(8))
        one.acknowledge(mine[1])
        one.acknowledge(mine[2], "release")
        one.commit()
        first, second = "one on /127.0.0.1", "two on /127.0.0.1"
        expected = [(0, 0, "acquired", first, 1), (1, 1, "acknowledged", "", 1), (2, 2, "available", "", 1)]
        expected += [(3, 3, "acquired", first, 1), (4, 7, "acquired", second, 1), (8, 9, "available", "", 0)]
        assert states(client) == expected
        assert (queue(client)["in_flight"], queue(client)["done"]) == (6, 1)
        found = client.get("/api/groups/workers").json()
        assert {each["client_id"]: each["in_flight"] for each in found["members"]} == {"one": 2, "two": 4}
        assert [each["in_flight"] for each in found["partitions"]] == [6]
        holders = [(each["member"], each["records"]) for each in found["in_flight"]["holders"]]
        assert holders == [(second, 4), (first, 2)]
        member = next(each["member_id"] for each in found["members"] if each["client_id"] == "two")
        assert states(client, f"?member={member}") == [(4, 7, "acquired", second, 1)]
        assert states(client, "?state=available&sort=-records") == [(8, 9, "available", "", 0), (2, 2, "available", "", 1)]
        assert states(client, "?deliveries=2") == []
        page = client.get("/groups/workers").text
        assert 'href="/topics/jobs/messages/0/0"' in page
        assert "start=offset&amp;offset=4&amp;partition=0&amp;limit=4" in page
        assert client.get("/topics/jobs/messages?start=offset&offset=4&partition=0&limit=4").status_code == 200
        one.acknowledge([mine[0], mine[3]])
        two.acknowledge(other)
    eventually(lambda: queue(client)["in_flight"] == 0, what="a member that leaves holds nothing")


def test_json_is_as_openapi_describes_it(client: httpx.Client, broker: ottla.Broker) -> None:
    with worker(broker.address) as one:
        records = poll(one)
        described = client.get("/api/openapi.json").json()
        for path in ("/api/groups/{group}", "/api/queues"):
            schema = described["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
            answer = client.get(path.replace("{group}", "workers"))
            assert answer.status_code == 200
            conforms(answer.json(), schema, described["components"]["schemas"])
        one.acknowledge(records)


@pytest.mark.parametrize("query", ["state=x", "sort=x", "deliveries=x"])
def test_a_wrong_choice_is_one_sentence(client: httpx.Client, broker: ottla.Broker, query: str) -> None:
    with worker(broker.address) as one:
        one.acknowledge(poll(one))
        answer = client.get(f"/api/groups/workers?{query}")
        assert answer.status_code == 400
        assert answer.json()["error"].endswith(".")


@pytest.mark.full(seconds=20)
def test_a_renewed_lock_goes_on_and_one_that_expires_is_gone(client: httpx.Client, broker: ottla.Broker) -> None:
    with worker(broker.address, client_id="one") as one:
        records = poll(one)
        before = {row["first_offset"]: row["lock_ms"] for row in in_flight(client)["rows"] if row["state"] == "acquired"}
        assert 0 < max(before.values()) <= LOCK_MS + 10
        eventually(lambda: in_flight(client, "?sort=lock")["rows"][0]["lock_ms"] < LOCK_MS // 2, what="half of the lock is over")
        one.acknowledge(records[0], "renew")
        one.commit()
        row, *others = in_flight(client, "?state=acquired")["rows"]
        assert (row["first_offset"], row["last_offset"], row["member"]) == (0, 0, "one on /127.0.0.1")
        assert row["lock_ms"] > LOCK_MS // 2 > max(each["lock_ms"] for each in others)
        eventually(lambda: (1, 3, "available", "", 1) in states(client), what="the other locks have expired")
        assert (0, 0, "acquired", "one on /127.0.0.1", 1) in states(client)
        one.acknowledge(records[0])


def test_a_record_that_fails_again_and_again_stands_out(client: httpx.Client, broker: ottla.Broker) -> None:
    seen = []
    with worker(broker.address, max_poll_records=1) as one:
        for delivery in range(1, LIMIT + 1):
            (record,) = poll(one)
            assert (record.offset, record.delivery_count) == (0, delivery)
            seen.append(in_flight(client)["rows"][0]["warning"])
            if delivery < LIMIT:
                one.acknowledge(record, "release")
                one.commit()
        assert seen == ["", "", "", "one attempt left", "last attempt"]
        assert '<span class="badge bad">last attempt</span>' in client.get("/groups/workers").text
        assert [row["deliveries"] for row in in_flight(client, "?deliveries=4")["rows"]] == [LIMIT]
        one.acknowledge(record, "release")
        one.commit()


MEMBER = """
import sys, ottla
settings = {"bootstrap_servers": sys.argv[1], "group_id": "workers", "share_acknowledgement_mode": "explicit"}
with ottla.ShareConsumer("jobs", client_id="doomed", **settings) as worker:
    while not worker.poll(1_000):
        pass
    print("holds records", flush=True)
    sys.stdin.read()
"""


def test_the_records_of_a_killed_consumer_are_held_until_its_connection_is_gone(client: httpx.Client, broker: ottla.Broker) -> None:
    command = [sys.executable, "-c", MEMBER, broker.address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"holds records\n"
        assert states(client) == [(0, 9, "acquired", "doomed on /127.0.0.1", 1)]
        process.send_signal(signal.SIGSTOP)
        assert queue(client)["in_flight"] == 10, "a member that stands still holds them until its locks expire"
        process.kill()
    eventually(lambda: queue(client)["in_flight"] == 0, what="the records are released")
    found = in_flight(client)
    assert (found["acquired"], found["rows"]) == (0, [])
    assert "No member fetches records of 1 partition now" in found["notes"][0]


def test_a_read_only_console_shows_them(broker: ottla.Broker) -> None:
    with worker(broker.address) as one, console_client(beside(broker, read_only=True)) as client:
        records = poll(one)
        assert queue(client)["in_flight"] == 4
        one.acknowledge(records)


def test_no_member_of_a_queue_can_be_removed(client: httpx.Client, broker: ottla.Broker) -> None:
    """Kafka removes no member from a share group, so that the page offers nothing that must fail."""
    with worker(broker.address) as one:
        one.acknowledge(poll(one))
        assert "remove-member" not in client.get("/groups/workers").text


def test_a_console_elsewhere_says_why_it_does_not_know_them(broker: ottla.Broker) -> None:
    with worker(broker.address) as one, console_client(ConsoleConfig({"bootstrap_servers": broker.address})) as client:
        records = poll(one)
        found = in_flight(client)
        assert (found["is_known"], found["acquired"], found["rows"], found["notes"]) == (False, None, [], [ELSEWHERE])
        assert queue(client)["in_flight"] is None
        assert client.get("/api/queues").json()["notes"] == [ELSEWHERE]
        for path in ("/queues", "/groups/workers"):
            assert html.escape(ELSEWHERE) in client.get(path).text.replace("&#39;", "&#x27;")
        one.acknowledge(records)


def test_lists_of_groups_and_pages_of_topics_have_queues_too(broker: ottla.Broker) -> None:
    with worker(broker.address) as one:
        records = poll(one)
        one.acknowledge(records[1:])
        one.acknowledge(records[0], "release")
        one.commit()
    with console_client(beside(broker)) as client:
        (row,) = eventually(lambda: [each for each in client.get("/api/groups").json()["groups"] if each["lag"] is not None])
        assert (row["group"], row["kind"], row["topics"], row["lag"]) == ("workers", "share", ["jobs"], 7)
        assert client.get("/api/topics/jobs").json()["groups"] == [{"group": "workers", "lag": 7}]


def test_other_groups_have_no_records_in_flight(client: httpx.Client, broker: ottla.Broker) -> None:
    with ottla.Admin(broker.address) as admin:
        admin.alter_group_offsets("tool", {("jobs", 0): 4})
    assert in_flight(client, group="tool") is None
    assert "Records in flight" not in client.get("/groups/tool").text


@pytest.mark.full(seconds=10)
def test_ten_thousand_runs_stay_a_short_page() -> None:
    locks = {"group_share_max_partition_max_record_locks": 10_000, "group_share_partition_max_record_locks": 10_000}
    with ottla.Broker(**locks) as broker, console_client(beside(broker)) as client:  # type: ignore[arg-type]  # a dictionary
        fill(broker.address, "many", "many", count=10_000)
        check_many(broker, client)


def check_many(broker: ottla.Broker, client: httpx.Client) -> None:
    with worker(broker.address, "many", "many", max_poll_records=500, share_acquire_mode="batch_optimized") as one:
        records: list[Any] = []
        while len(records) < 10_000:
            found = poll(one)
            one.acknowledge([each for each in found if each.offset % 2], "accept")
            one.acknowledge([each for each in found if not each.offset % 2], "renew")
            records += found
        one.commit()
        page = in_flight(client, group="many")
        assert (page["matching"], page["found"], len(page["rows"]), page["place"]["pages"]) == (10_000, 1_000, 100, 10)
        assert page["acquired"] == 5_000
        assert len(client.get("/groups/many?page=7").text) < 120_000
        assert "The first 1\u202f000 of 10\u202f000 runs" in client.get("/groups/many").text
        one.acknowledge([each for each in records if not each.offset % 2])


def test_names_of_members_are_text(client: httpx.Client, broker: ottla.Broker) -> None:
    for name in [each for each in HOSTILE if "\x00" not in each]:
        with worker(broker.address, client_id=name) as one:
            records = poll(one)
            page = client.get("/groups/workers").text
            assert name in html.unescape(page)
            assert "<" not in name or name not in page
            one.acknowledge(records, "release")
            one.commit()
    filtered = client.get("/groups/workers", params={"member": HOSTILE[1]}).text
    assert HOSTILE[1] not in filtered
    assert HOSTILE[1] in html.unescape(filtered)


@contextmanager
def served(tmp_path: Path, *arguments: str) -> Iterator[tuple[BrokerProcess, str]]:
    """Run `ottla serve --console`. Return the broker and the console's URL."""
    port = free_port()
    with BrokerProcess(tmp_path / "data", arguments=["--console", f"127.0.0.1:{port}", *arguments]) as broker:
        url = f"http://127.0.0.1:{port}"
        eventually(lambda: answers(url), what="the console answers")
        yield broker, url


def answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/api/overview", timeout=20).status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.full(seconds=8)
def test_the_command_serves_them(tmp_path: Path) -> None:
    with served(tmp_path) as (broker, url), httpx.Client(base_url=url, timeout=30) as client:
        fill(broker.address)
        with worker(broker.address, client_id="one") as one:
            records = poll(one)
            assert states(client)[0] == (0, 3, "acquired", "one on /127.0.0.1", 1)
            assert queue(client)["in_flight"] == 4
            one.acknowledge(records)
        assert "Traceback" not in broker.log


def test_a_visitor_sees_them_only_of_groups_and_topics_that_he_may_describe() -> None:
    word = "a-word-of-tests"
    users = dict.fromkeys(("admin", "reader", "other"), word)
    authorizer = "kafka.security.authorizer.AclAuthorizer"
    with ottla.Broker(users=users, authorizer_class_name=authorizer, super_users="User:admin") as broker:
        admin_settings = broker.client_settings(user="admin")
        with ottla.Admin(**admin_settings) as admin, ottla.Producer(**admin_settings) as producer:
            for topic in ("jobs", "secrets"):
                admin.create_topic(topic)
                producer.send(topic, b"x").result(20)
            admin.alter_configs(ottla.ConfigResource.group("workers"), set={"share.auto.offset.reset": "earliest"})
            admin.alter_configs(ottla.ConfigResource.group("hidden"), set={"share.auto.offset.reset": "earliest"})
            rules = [("group", "workers"), ("topic", "jobs")]
            admin.create_acls([ottla.AclRule("User:reader", "describe", kind, name) for kind, name in rules])
            assert broker._running is not None
            local = BrokerBeside(broker._running.in_flight())
            config = ConsoleConfig({"bootstrap_servers": broker.address, "security_protocol": "SASL_PLAINTEXT"}, local_broker=local)
            groups = (("jobs", "workers"), ("jobs", "hidden"))
            with console_client(config) as reader, console_client(config) as other:
                log_in(reader, "reader", word)
                log_in(other, "other", word)
                consumers = [ottla.ShareConsumer(topic, group_id=group, **EXPLICIT, **admin_settings) for topic, group in groups]
                records = [poll(each) for each in consumers]
                assert in_flight(reader)["acquired"] == 1
                assert [(each["group"], each["in_flight"]) for each in reader.get("/api/queues").json()["queues"]] == [
                    ("workers", 1)
                ]
                assert reader.get("/api/groups/hidden").status_code == 403
                assert other.get("/api/groups/workers").status_code == 403
                assert other.get("/api/queues").json()["queues"] == []
                for each, found in zip(consumers, records, strict=True):
                    each.acknowledge(found)
                    each.close()
                check_topic(admin_settings, reader)


def check_topic(admin_settings: dict[str, Any], reader: httpx.Client) -> None:
    """Check that a member that also reads a hidden topic makes the group's records invisible."""
    with ottla.ShareConsumer("jobs", "secrets", group_id="workers", **EXPLICIT, **admin_settings) as both:
        records = poll(both)
        answer = eventually(lambda: refused(reader), what="the group's description is refused")
        assert "secrets" not in json.dumps(answer)
        both.acknowledge(records)


def refused(client: httpx.Client) -> Any:
    """Return the answer once no records in flight are known."""
    answer = client.get("/api/groups/workers").json()
    found = answer.get("in_flight")
    return answer if found is None or not found["is_known"] else None


def with_console(ports: dict[int, int]) -> Callable[[ClusterSeat], ClusterMember]:
    def make(seat: ClusterSeat) -> ClusterMember:
        member = ottla_member(seat)
        assert isinstance(member, BrokerProcess)
        ports[seat.node_id] = free_port()
        member.arguments += ["--console", f"127.0.0.1:{ports[seat.node_id]}"]
        return member

    return make


@pytest.mark.full(seconds=15)
def test_in_a_cluster_a_console_knows_the_partitions_of_its_own_broker() -> None:
    ports: dict[int, int] = {}
    topic = "share.coordinator.state.topic"
    settings = {f"{topic}.num.partitions": 3, f"{topic}.replication.factor": 2, f"{topic}.min.isr": 1}
    with Cluster(brokers=2, settings=settings, members=dict.fromkeys((1, 2), with_console(ports))) as cluster:
        fill(cluster.address, partitions=4, count=3)
        with worker(cluster.address, max_poll_records=500, share_acquire_mode="batch_optimized") as one:
            held: dict[int, list[Any]] = {}
            while len(held) < 4:
                for each in poll(one):
                    held.setdefault(each.partition, []).append(each)
                    one.acknowledge(each, "renew")
                one.commit()
            led = {node_id: [index for index in range(4) if cluster.leader("jobs", index) == node_id] for node_id in (1, 2)}
            for node_id, other in ((1, 2), (2, 1)):
                with httpx.Client(base_url=f"http://127.0.0.1:{ports[node_id]}", timeout=30) as client:
                    found = client.get("/api/groups/workers").json()
                    known = [each["partition"] for each in found["partitions"] if each["in_flight"] is not None]
                    assert known == led[node_id]
                    (note,) = found["in_flight"]["notes"]
                    assert f"which broker {node_id} leads" in note
                    assert f"led by broker {other}: open the console there, too (ottla serve --console)." in note
                    assert client.get("/api/queues").json()["notes"] == [note]
            one.acknowledge([record for records in held.values() for record in records])


@needs_chromium
@pytest.mark.full(seconds=10)
def test_a_browser_shows_them_live_and_without_barriers(broker: ottla.Broker, client: httpx.Client) -> None:
    hostile = HOSTILE[1]
    with chromium() as browser, worker(broker.address, client_id=hostile, max_poll_records=1) as one:
        for scheme in ("light", "dark"):
            with opened(browser, str(client.base_url), color_scheme=scheme) as page:
                record = poll(one)[0]
                page.goto("/groups/workers")
                page.wait_for_selector("#live[data-state=on]")
                table = page.locator("#in-flight tbody")
                assert hostile in table.inner_text()
                assert violations(page) == []
                one.acknowledge(record)
                one.commit()
                page.wait_for_selector(f'#in-flight :text("{record.offset + 1}")')
                page.goto("/groups/workers?state=acquired&deliveries=3")
                assert "No records match." in table.inner_text()
                assert violations(page) == []
                page.goto("/queues")
                assert violations(page) == []
