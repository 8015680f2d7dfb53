"""Streams groups in the console: tasks of each kind, tasks that move, endpoints, tags and the topology, without barriers."""

from __future__ import annotations

import html
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

import ottla
from ottla.console.config import ConsoleConfig
from ottla.wire.api.streams_group_heartbeat import StreamsGroupHeartbeatRequest as Heartbeat
from ottla.wire.errors import COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NONE, NOT_COORDINATOR
from tests.integration.console.browser import chromium, needs_chromium, opened, violations
from tests.integration.console.conftest import console_client
from tests.integration.console.test_pages import HOSTILE, conforms
from tests.support.share_world import Lines
from tests.support.waiting import eventually

HEARTBEAT, VERSION = 88, 1
TRANSIENT = {COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR}
GROUP = "words"
Tasks = dict[str, list[int]]


class Member:
    """A member that counts words. It takes the tasks that it is given, and reports how far their state is."""

    def __init__(self, lines: Lines, name: str, tag: str) -> None:
        self._lines, self._name, self._tag = lines, name, tag
        self._epoch = 0
        self.tasks: tuple[Tasks, Tasks, Tasks] = {}, {}, {}

    def beat(self, offset: int | None = None) -> None:
        """Send a heartbeat, with the offsets of the state of all standby and warm-up tasks."""
        own: dict[str, Any] = {}
        if not self._epoch:
            own = {"rebalance_timeout_ms": 10_000, "topology": topology(), "process_id": f"process-{self._name}", "rack_id": "r1"}
            own["user_endpoint"] = Heartbeat.Endpoint(host="10.0.0.7", port=8080)
            own["client_tags"] = [Heartbeat.KeyValue(key="zone", value=self._tag)]
        if offset is not None:
            restored = [(name, index) for some in self.tasks[1:] for name, indexes in some.items() for index in indexes]
            for field, at in (("task_offsets", offset), ("task_end_offsets", 100)):
                own[field] = [Heartbeat.TaskOffset(subtopology_id=name, partition=index, offset=at) for name, index in restored]
        kinds = zip(("active_tasks", "standby_tasks", "warmup_tasks"), self.tasks, strict=True)
        own |= {
            field: [Heartbeat.TaskIds(subtopology_id=name, partitions=indexes) for name, indexes in some.items()]
            for field, some in kinds
        }
        body = Heartbeat(
            **{"group_id": GROUP, "member_id": self._name, "member_epoch": self._epoch, "endpoint_information_epoch": 0, **own}
        )
        while (answer := self._lines.ask(self._name, HEARTBEAT, VERSION, body)).error_code in TRANSIENT:
            time.sleep(0.05)
        assert answer.error_code == NONE, answer.error_message
        self._epoch = answer.member_epoch
        if answer.active_tasks is not None:
            given = answer.active_tasks, answer.standby_tasks or (), answer.warmup_tasks or ()
            first, second, third = ({each.subtopology_id: [*each.partitions] for each in some} for some in given)
            self.tasks = first, second, third


def topology() -> Heartbeat.Topology:
    counts = Heartbeat.TopicInfo(name="words-c", topic_configs=[Heartbeat.KeyValue(key="cleanup.policy", value="compact")])
    reads = Heartbeat.Subtopology(subtopology_id="0", source_topics=["words-in"], repartition_sink_topics=["words-r"])
    sums = Heartbeat.Subtopology(
        subtopology_id="1", repartition_source_topics=[Heartbeat.TopicInfo(name="words-r")], state_changelog_topics=[counts]
    )
    return Heartbeat.Topology(epoch=0, subtopologies=[reads, sums])


@pytest.fixture
def members() -> Iterator[tuple[httpx.Client, Member, Member]]:
    """A console, and two members whose tasks have settled: each has half of the active ones, and the other's standby tasks."""
    settings: dict[str, Any] = {"group_streams_initial_rebalance_delay_ms": 0, "group_streams_assignment_interval_ms": 0}
    with (
        ottla.Broker(**settings) as broker,
        Lines(broker.address) as lines,
        console_client(ConsoleConfig({"bootstrap_servers": broker.address})) as client,
    ):
        with ottla.Admin(broker.address) as admin:
            admin.create_topic("words-in", 4)
            admin.alter_configs(ottla.ConfigResource.group(GROUP), set={"streams.num.standby.replicas": "1"})
        lines.wait_for_coordinator()
        one, two = Member(lines, "one", HOSTILE[0]), Member(lines, "two", HOSTILE[1])

        def are_settled() -> bool:
            one.beat()
            two.beat()
            return all(
                sum(map(len, some.values())) == count
                for each in (one, two)
                for some, count in zip(each.tasks, (4, 2, 0), strict=True)
            )

        eventually(are_settled, what="the tasks have settled")
        yield client, one, two


def test_tasks_endpoints_and_topology_are_shown(members: tuple[httpx.Client, Member, Member]) -> None:
    client, one, two = members
    one.beat(offset=60)
    two.beat(offset=100)
    found = client.get(f"/api/groups/{GROUP}").json()
    schemas = client.get("/api/openapi.json").json()["components"]["schemas"]
    conforms(found, schemas["GroupDetails"], schemas)
    row = next(each for each in found["members"] if each["member_id"] == "one")
    assert row["tasks"] == {"active": one.tasks[0], "standby": one.tasks[1]}
    assert row["target_tasks"] == {}, "nothing moves"
    assert row["task_lags"] == {f"1_{index}": 40 for index in one.tasks[1]["1"]}
    assert (row["endpoint"], row["process_id"], row["client_tags"]) == ("10.0.0.7:8080", "process-one", {"zone": HOSTILE[0]})
    page = client.get(f"/groups/{GROUP}").text
    text = html.unescape(page)
    assert "queries at 10.0.0.7:8080" in text
    assert f"1_{one.tasks[1]['1'][0]} (40 behind)" in text
    for each in HOSTILE[:2]:
        assert f"zone={each}" in text
        assert each not in page
    assert "remove-member" not in page, "Kafka removes no member from a streams group"


def test_tasks_that_move_are_shown(members: tuple[httpx.Client, Member, Member]) -> None:
    client, one, _ = members
    three = Member(one._lines, "three", "x")
    three.beat()
    found = client.get(f"/api/groups/{GROUP}").json()
    moving = [each for each in found["members"] if each["target_tasks"]]
    assert moving
    assert "is getting" in client.get(f"/groups/{GROUP}").text


@needs_chromium
@pytest.mark.full(seconds=6)
def test_the_page_of_a_streams_group_has_no_barrier(members: tuple[httpx.Client, Member, Member]) -> None:
    client, one, _ = members
    one.beat(offset=60)
    with chromium() as browser:
        for scheme in ("light", "dark"):
            with opened(browser, str(client.base_url), color_scheme=scheme) as page:
                page.goto(f"/groups/{GROUP}")
                page.wait_for_selector("#live[data-state=on]")
                assert violations(page) == []
