"""Internal topics of streams groups: created once by two members at once, made by others, deleted at work, and refused."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

import ottla
from ottla.wire.api.streams_group_heartbeat import StreamsGroupHeartbeatRequest as Sent
from ottla.wire.api.streams_group_heartbeat import StreamsGroupHeartbeatResponse as Told
from ottla.wire.errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    NONE,
    NOT_COORDINATOR,
    STREAMS_INVALID_TOPOLOGY,
)
from tests.support.peers import Peer, start_peer
from tests.support.share_world import Lines
from tests.support.streams_programs import STREAMS_SETTINGS
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(180)
HEARTBEAT, PATIENCE_S = 88, 60
TRANSIENT = {COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR}
SOURCES, WRONG_COUNT, MISSING = 1, 2, 3
"""Kafka's status codes: source topics are missing, counts are wrong, internal topics are missing."""


@pytest.fixture(scope="module")
def peer(peer_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    settings = {**STREAMS_SETTINGS, "auto.create.topics.enable": "false", "offsets.topic.num.partitions": 1}
    with start_peer(peer_name, tmp_path_factory.mktemp("topics"), settings) as peer:
        yield peer


@pytest.fixture
def lines(peer: Peer) -> Iterator[Lines]:
    """Connections for the members of a test. The coordinator is there when they come."""
    with Lines(peer.address) as lines:
        lines.wait_for_coordinator()
        yield lines


class Instance:
    """A member that counts words: `group` names the application, its source and its internal topics."""

    def __init__(self, lines: Lines, group: str, name: str = "m", policy: str = "compact") -> None:
        self.group, self._name, self._lines = group, name, lines
        self._changelog = {"cleanup.policy": policy}
        self._epoch = 0
        self.tasks: dict[str, list[int]] = {}

    @property
    def repartition(self) -> str:
        return f"{self.group}-r"

    @property
    def changelog(self) -> str:
        return f"{self.group}-c"

    def _topology(self) -> Sent.Topology:
        configs = [Sent.KeyValue(key=key, value=value) for key, value in self._changelog.items()]
        return Sent.Topology(
            epoch=0,
            subtopologies=[
                Sent.Subtopology(
                    subtopology_id="0", source_topics=[f"{self.group}-in"], repartition_sink_topics=[self.repartition]
                ),
                Sent.Subtopology(
                    subtopology_id="1",
                    repartition_source_topics=[Sent.TopicInfo(name=self.repartition)],
                    state_changelog_topics=[Sent.TopicInfo(name=self.changelog, topic_configs=configs)],
                ),
            ],
        )

    def beat(self) -> Told:
        """Join, or report the tasks that it was given; and take those that it is given now."""
        is_new = self._epoch == 0
        owned = [] if is_new else [Sent.TaskIds(subtopology_id=name, partitions=each) for name, each in self.tasks.items()]
        body = Sent(
            group_id=self.group,
            member_id=self._name,
            member_epoch=self._epoch,
            endpoint_information_epoch=0,
            rebalance_timeout_ms=10_000 if is_new else -1,
            topology=self._topology() if is_new else None,
            active_tasks=owned,
            standby_tasks=[],
            warmup_tasks=[],
            process_id=self._name if is_new else None,
            client_tags=[] if is_new else None,
        )
        while (told := self._ask(body)).error_code in TRANSIENT:
            time.sleep(0.05)
        assert told.error_code == NONE, told.error_message
        self._epoch = told.member_epoch
        if told.active_tasks is not None:
            self.tasks = {each.subtopology_id: [*each.partitions] for each in told.active_tasks}
        return told

    def _ask(self, body: Sent) -> Told:
        found = self._lines.ask(f"{self.group} {self._name}", HEARTBEAT, 0, body)
        assert isinstance(found, Told)
        return found

    def statuses(self) -> dict[int, str]:
        return {status.status_code: status.status_detail for status in self.beat().status or ()}

    def wait_for(self, *codes: int) -> str:
        """Wait until the group has just these statuses; return what it says of the first."""
        found: list[dict[int, str]] = []

        def seen() -> bool:
            found.append(self.statuses())
            return found[-1].keys() == {*codes}

        eventually(seen, timeout_s=PATIENCE_S, what=f"statuses {codes}")
        return found[-1][codes[0]] if codes else ""

    def wait_for_tasks(self, **numbers: int) -> None:
        wanted = {name.removeprefix("s"): [*range(count)] for name, count in numbers.items()}

        def has() -> bool:
            self.beat()
            return {name: sorted(each) for name, each in self.tasks.items()} == wanted

        eventually(has, timeout_s=PATIENCE_S, what=f"tasks {wanted}")


@pytest.fixture
def admin(peer: Peer) -> Iterator[ottla.Admin]:
    with ottla.Admin(peer.address) as admin:
        yield admin


def test_two_members_at_once_have_their_topics_created_once(lines: Lines, admin: ottla.Admin) -> None:
    admin.create_topic("both-in", 4)
    members = [Instance(lines, "both", name) for name in ("one", "two")]
    joined = [threading.Thread(target=member.beat) for member in members]
    for thread in joined:
        thread.start()
    for thread in joined:
        thread.join()

    def shared() -> bool:
        for member in members:
            member.beat()
        given = [number for member in members for each in member.tasks.values() for number in each]
        return sorted(given) == sorted([*range(4), *range(4)]) and all(member.tasks for member in members)

    eventually(shared, timeout_s=PATIENCE_S, what="both have their share")
    for topic in ("both-r", "both-c"):
        assert len(admin.describe_topics(topic)[topic].partitions) == 4
    assert admin.describe_topic_configs("both-c")["cleanup.policy"].value == "compact"


def test_a_topic_that_appears_meanwhile_is_used(lines: Lines, admin: ottla.Admin) -> None:
    admin.create_topic("meanwhile-in", 2)
    admin.create_topic("meanwhile-c", 2)
    former = admin.list_topic_ids()["meanwhile-c"]
    member = Instance(lines, "meanwhile")
    member.wait_for_tasks(s0=2, s1=2)
    assert admin.list_topic_ids()["meanwhile-c"] == former
    assert len(admin.describe_topics("meanwhile-r")["meanwhile-r"].partitions) == 2


def test_a_topic_with_another_partition_count_stops_the_group_until_it_is_deleted(lines: Lines, admin: ottla.Admin) -> None:
    admin.create_topic("wrong-in", 2)
    admin.create_topic("wrong-r", 3)
    member = Instance(lines, "wrong")
    assert "wrong-r" in member.wait_for(WRONG_COUNT)
    assert not member.tasks
    admin.delete_topics("wrong-r")
    member.wait_for_tasks(s0=2, s1=2)


@pytest.mark.parametrize("kind", ["r", "c"])
def test_an_internal_topic_that_is_deleted_is_created_again(lines: Lines, admin: ottla.Admin, kind: str) -> None:
    group = f"deleted-{kind}"
    admin.create_topic(f"{group}-in", 2)
    member = Instance(lines, group)
    member.wait_for_tasks(s0=2, s1=2)
    former = admin.list_topic_ids()[f"{group}-{kind}"]
    admin.delete_topics(f"{group}-{kind}")

    def is_back() -> bool:
        member.beat()
        return admin.list_topic_ids().get(f"{group}-{kind}", former) != former

    eventually(is_back, timeout_s=PATIENCE_S, what="the topic is there again")
    member.wait_for()
    member.wait_for_tasks(s0=2, s1=2)
    assert len(admin.describe_topics(f"{group}-{kind}")[f"{group}-{kind}"].partitions) == 2


def test_a_group_waits_for_its_source_topic_and_grows_with_it(lines: Lines, admin: ottla.Admin) -> None:
    member = Instance(lines, "late")
    assert "late-in" in member.wait_for(SOURCES)
    admin.create_topic("late-in", 1)
    member.wait_for_tasks(s0=1, s1=1)
    admin.create_partitions({"late-in": 3})
    assert "late-" in member.wait_for(WRONG_COUNT), "its internal topics have as many partitions as before"


def test_the_status_says_why_a_topic_cannot_be_created(lines: Lines, admin: ottla.Admin) -> None:
    admin.create_topic("bad-in", 1)
    member = Instance(lines, "bad", policy="nonsense")
    eventually(lambda: "nonsense" in member.statuses().get(MISSING, ""), timeout_s=PATIENCE_S, what="the reason is told")
    assert not member.tasks


def test_names_of_the_greatest_length_are_created_and_longer_ones_refused(lines: Lines, admin: ottla.Admin) -> None:
    group = "l" * 246  # with "-in" 249
    admin.create_topic(f"{group}-in", 1)
    member = Instance(lines, group)
    member.wait_for_tasks(s0=1, s1=1)
    longer = Instance(lines, "l" * 248)
    with pytest.raises(AssertionError):
        longer.beat()
    body = Sent(
        group_id="x",
        member_id="m",
        rebalance_timeout_ms=1,
        topology=longer._topology(),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )
    assert lines.ask("line", HEARTBEAT, 0, body).error_code == STREAMS_INVALID_TOPOLOGY
