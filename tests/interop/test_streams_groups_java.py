"""Applications of Kafka Streams in streams groups: exactly once, killed, scaled, queried, with standby tasks."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import pytest

import ottla
from tests.support.clients.confluent import Confluent
from tests.support.java_programs import Committed, write
from tests.support.peers import Peer, start_peer
from tests.support.streams_programs import (
    PATIENCE_S,
    STREAMS_SETTINGS,
    StreamsApplication,
    StreamsInstance,
    application,
    check_counts,
    wait_for_tasks,
)
from tests.support.toolbox import Toolbox
from tests.support.waiting import eventually

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(400)]
PARTITIONS = 4
TASKS = 2 * PARTITIONS
"""Words are repartitioned by one half of the tasks, and counted by the other."""


class Lines:
    """What was written to the application, and what it wrote so far."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.wanted: Counter[str] = Counter()
        self.counts = Committed(address, "counts", timeout_s=PATIENCE_S)

    def write(self, life: str) -> None:
        lines = [f"again {life} word{number % 5}" for number in range(20)]
        write(self._address, "lines", lines)
        self.wanted.update(word for line in lines for word in line.split())

    def check(self, app: StreamsApplication) -> None:
        """Wait until all that was written is counted, each word once."""
        alive = next(instance for instance in app.instances if not instance.is_ended)
        self.counts.wait_for(self.wanted.total(), alive.process, alive.log)
        check_counts(self.counts, self.wanted)


@pytest.fixture
def killable(peer_name: str, tmp_path: Path) -> Iterator[Peer]:
    """A broker of the test's own, to kill."""
    with start_peer(peer_name, tmp_path, {**STREAMS_SETTINGS}) as peer:
        yield peer


@pytest.fixture
def lines(killable: Peer) -> Lines:
    client = Confluent(killable.address)
    for topic in ("lines", "counts"):
        client.create_topic(topic, PARTITIONS)
        eventually(partial(_has_partitions, client, topic), what=f"{topic} is known")
    return Lines(killable.address)


def topic_configs(address: str, topic: str) -> dict[str, str]:
    with ottla.Admin(address) as admin:
        configs = admin.describe_topic_configs(topic)
    return {name: str(entry.value) for name, entry in configs.items()}


def _has_partitions(client: Confluent, topic: str) -> bool:
    return client.partitions(topic) == PARTITIONS


def test_a_word_count_gets_its_internal_topics_and_goes_on_from_its_restored_store(
    killable: Peer, lines: Lines, tmp_path: Path
) -> None:
    with application(killable.address, tmp_path) as app:
        for life in ("first", "second", "third"):
            lines.write(life)
            instance = app.start(life)
            if life == "second":
                instance.wait_running()
                killable.restart(kill=True)
            lines.check(app)
            wait_for_tasks([instance], TASKS)
            restored = int(instance.ask("restored"))
            assert (restored > 0) == (life != "first"), "a new state directory is filled from the changelog"
            instance.kill()
            shutil.rmtree(tmp_path / life)
        repartition, changelog = (
            topic_configs(killable.address, f"{app.group}-counts-{kind}") for kind in ("repartition", "changelog")
        )
        assert repartition["cleanup.policy"] == "delete"
        assert repartition["retention.ms"] == "-1"
        assert changelog["cleanup.policy"] == "compact"
        assert Confluent(killable.address).partitions(f"{app.group}-counts-changelog") == PARTITIONS


@pytest.mark.full(seconds=30)
def test_an_application_is_scaled_from_one_to_four_instances_and_back(killable: Peer, lines: Lines, tmp_path: Path) -> None:
    with application(killable.address, tmp_path) as app:
        instances = [app.start("i0")]
        lines.write("one")
        lines.check(app)
        for name in ("i1", "i2", "i3"):
            lines.write(name)
            instances.append(app.start(name))
            lines.write(f"with-{name}")
        wait_for_tasks(instances, TASKS)
        lines.write("four")
        lines.check(app)
        instances.pop(0).kill()
        lines.write("three")
        wait_for_tasks(instances, TASKS)
        while len(instances) > 1:
            instances.pop().close()
            lines.write(f"back-to-{len(instances)}")
        wait_for_tasks(instances, TASKS)
        lines.check(app)


@pytest.mark.full(seconds=25)
def test_standby_tasks_take_over_and_queries_find_their_instances(
    killable: Peer, lines: Lines, tmp_path: Path, toolbox: Toolbox
) -> None:
    with application(killable.address, tmp_path) as app:
        change = (
            "--entity-type",
            "groups",
            "--entity-name",
            app.group,
            "--alter",
            "--add-config",
            "streams.num.standby.replicas=1",
        )
        toolbox.at(killable.address)("configs", *change)
        instances = [app.start(name) for name in ("i0", "i1", "i2")]
        lines.write("first")
        lines.check(app)
        wait_for_tasks(instances, TASKS, standby=PARTITIONS)
        ports = {f"127.0.0.1:{instance.port}": instance for instance in instances}
        for word in ("again", "word1", "word2"):
            eventually(lambda: instances[0].ask(f"find {word}") in ports, timeout_s=PATIENCE_S, what=f"{word} is found")  # noqa: B023  # it is called in this round
            holder = ports[instances[0].ask(f"find {word}")]
            assert holder.ask(f"get {word}") == str(lines.wanted[word])
        eventually(lambda: _tells_all(instances[1], ports), timeout_s=PATIENCE_S, what="all are known")
        assert "standby count-lines-counts-repartition" in instances[1].ask("endpoints")
        lost = instances.pop(0)
        lost.kill()
        lines.write("second")
        wait_for_tasks(instances, TASKS, standby=PARTITIONS)
        lines.check(app)


def _tells_all(instance: StreamsInstance, ports: Iterable[str]) -> bool:
    said = instance.ask("endpoints")
    return all(f"{port} active" in said for port in ports)


@pytest.mark.full(seconds=40)
def test_an_application_changes_to_the_streams_protocol_and_back_between_its_lives(
    killable: Peer, lines: Lines, tmp_path: Path
) -> None:
    with application(killable.address, tmp_path) as app, ottla.Admin(killable.address) as admin:
        for life, protocol in enumerate(("classic", "streams", "classic")):
            more = {"session_timeout_ms": 6000} if protocol == "classic" else {}
            instance = app.start("state", group_protocol=protocol, **more)
            lines.write(f"life{life}")
            lines.check(app)
            instance.close()
            eventually(lambda: _is_empty(admin, app.group), timeout_s=PATIENCE_S, what="the group is empty")


def _is_empty(admin: ottla.Admin, group: str) -> bool:
    return any(listed.group_id == group and listed.state == "Empty" for listed in admin.list_groups())


@pytest.mark.full(seconds=10)
def test_a_static_member_is_refused_as_apache_kafka_refuses_it(killable: Peer, lines: Lines, tmp_path: Path) -> None:
    with application(killable.address, tmp_path) as app:
        instance = app.start("i0", group_instance_id="fixed")
        lines.write("first")
        instance.process.wait(PATIENCE_S)
        assert "static" in instance.tail().lower()


@pytest.mark.full(seconds=20)
def test_a_fatal_error_shuts_the_whole_application_down(killable: Peer, lines: Lines, tmp_path: Path) -> None:
    with application(killable.address, tmp_path) as app:
        instances = [app.start(name) for name in ("i0", "i1")]
        lines.write("first")
        lines.check(app)
        wait_for_tasks(instances, TASKS)
        instances[0].ask("fail")
        lines.write("second")
        eventually(
            lambda: {instance.ask("state") for instance in instances} <= {"ERROR", "NOT_RUNNING", "PENDING_ERROR"},
            timeout_s=PATIENCE_S,
            what="both instances stop",
        )
