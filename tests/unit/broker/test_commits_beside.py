"""Changes of the registry are made beside the broker's thread: one after the other, each to its end, and never half seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker.broker import BrokerMachine
from ottla.broker.serving.purgatory import DelayedReply
from ottla.cluster.features import SAFE_DOWNGRADE, TRANSACTION_VERSION
from ottla.registry.journal import JournalRegistry
from ottla.sim.disk import SimDisk, SimFile
from ottla.wire.errors import KAFKA_STORAGE_ERROR, NONE, TOPIC_ALREADY_EXISTS
from tests.support.machine import Machine, Outcome
from tests.support.messages import request
from tests.support.producing import create, produce, values

CREATE, DELETE, ALTER, GROW, ALTER_INCREMENTALLY, UPDATE_FEATURES = 19, 20, 33, 37, 44, 57
TOPIC, BROKER, SET = 2, 4, 0


class JournalMachine(Machine):
    """Its registry is a real one, on the simulated disk."""

    def _start(self, *, clean: bool) -> BrokerMachine:
        self.journal = JournalRegistry.open(self.disk)
        self.registry = self.journal  # type: ignore[assignment]  # tests of machines name the registry in memory
        return super()._start(clean=clean)

    def restart(self) -> None:
        assert self.broker.close()
        self.journal.close()
        self.disk.kill()
        self.broker = self._start(clean=True)

    def send(self, key: int, version: int, body: Any) -> DelayedReply:
        """A request that waits for the disk, which does nothing yet."""
        answer = self.broker.receive(self.frame_of(key, version, body), self.peer, self.clock.now())
        assert isinstance(answer, DelayedReply), "it waits for the registry"
        return answer

    def answered(self, key: int, version: int, pending: DelayedReply) -> Outcome:
        while not pending.done:
            self.pass_time(1)
        return self.finish(key, version, pending)


def creation(name: str = "t", partitions: int = 1) -> Any:
    return request(CREATE, 5, topics=[{"name": name, "num_partitions": partitions, "replication_factor": 1}])


def alteration(name: str, value: str, kind: int = TOPIC, resource: str = "t") -> Any:
    configs = [{"name": name, "config_operation": SET, "value": value}]
    return request(ALTER_INCREMENTALLY, 1, resources=[{"resource_type": kind, "resource_name": resource, "configs": configs}])


def levels(level: int) -> Any:
    update = {"feature": "transaction.version", "max_version_level": level, "upgrade_type": SAFE_DOWNGRADE}
    return request(UPDATE_FEATURES, 1, feature_updates=[update])


def error_codes(answer: Any) -> list[int]:
    rows = getattr(answer, "topics", None) or getattr(answer, "responses", None) or getattr(answer, "results", None) or [answer]
    return [row.error_code for row in rows]


REQUESTS = [
    (CREATE, 5, lambda: creation("new", 200)),
    (DELETE, 4, lambda: request(DELETE, 4, topic_names=["t"])),
    (GROW, 2, lambda: request(GROW, 2, topics=[{"name": "t", "count": 200, "assignments": None}])),
    (ALTER_INCREMENTALLY, 1, lambda: alteration("retention.ms", "7")),
    (ALTER_INCREMENTALLY, 1, lambda: alteration("log.cleaner.threads", "2", BROKER, "1")),
    (
        ALTER,
        1,
        lambda: request(
            ALTER,
            1,
            resources=[{"resource_type": TOPIC, "resource_name": "t", "configs": [{"name": "retention.ms", "value": "7"}]}],
        ),
    ),
    (UPDATE_FEATURES, 1, lambda: levels(1)),
]


@pytest.mark.parametrize(("key", "version", "body"), REQUESTS)
def test_no_change_of_the_registry_is_synced_on_the_brokers_thread(
    key: int, version: int, body: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = JournalMachine()
    create(machine, "t")
    synced = list[str]()
    sync, run_syncs = SimFile.sync, SimDisk.run_syncs

    def run(disk: SimDisk) -> int:
        """As another thread does."""
        with monkeypatch.context() as patch:
            patch.setattr(SimFile, "sync", sync)
            return run_syncs(disk)

    monkeypatch.setattr(SimDisk, "run_syncs", run)
    monkeypatch.setattr(SimFile, "sync", lambda file: synced.append(file.path))
    assert error_codes(machine.answered(key, version, machine.send(key, version, body()))) == [NONE]
    assert [path for path in synced if "registry" in path] == []


def test_a_change_is_decided_when_it_is_its_turn() -> None:
    machine = JournalMachine()
    create(machine, "t")
    first = machine.send(ALTER_INCREMENTALLY, 1, alteration("retention.ms", "7"))
    second = machine.send(ALTER_INCREMENTALLY, 1, alteration("segment.bytes", "2000000"))
    third, fourth = machine.send(CREATE, 5, creation("u")), machine.send(CREATE, 5, creation("u"))
    assert [error_codes(machine.answered(ALTER_INCREMENTALLY, 1, each)) for each in (first, second)] == [[NONE], [NONE]]
    assert error_codes(machine.answered(CREATE, 5, third)) == [NONE]
    assert error_codes(machine.answered(CREATE, 5, fourth)) == [TOPIC_ALREADY_EXISTS]
    for _ in range(2):
        assert machine.broker.image.topics["t"].configs == {"retention.ms": "7", "segment.bytes": "2000000"}
        machine.restart()


def test_a_level_of_a_feature_is_in_force_once_the_registry_holds_it_and_the_next_update_rests_on_it() -> None:
    machine = JournalMachine()
    first, second = machine.send(UPDATE_FEATURES, 1, levels(1)), machine.send(UPDATE_FEATURES, 1, levels(0))
    assert machine.broker.features.level(TRANSACTION_VERSION) == 2
    assert error_codes(machine.answered(UPDATE_FEATURES, 1, first)) == [NONE]
    assert error_codes(machine.answered(UPDATE_FEATURES, 1, second)) == [NONE]
    assert (machine.broker.features.level(TRANSACTION_VERSION), machine.broker.features.epoch) == (0, 2)
    machine.restart()
    assert machine.broker.features.level(TRANSACTION_VERSION) == 0


def test_a_topic_is_seen_once_the_registry_holds_it_on_stable_storage() -> None:
    machine = JournalMachine()
    pending = machine.send(CREATE, 5, creation())
    assert "t" not in machine.broker.image.topics
    assert error_codes(machine.answered(CREATE, 5, pending)) == [NONE]
    assert produce(machine, b"v").error_code == NONE


def test_a_change_is_made_to_its_end_though_its_client_went_away_and_the_next_one_has_its_turn() -> None:
    machine = JournalMachine()
    machine.broker.forget(machine.send(CREATE, 5, creation("gone", 300)))
    create(machine, "t")
    assert len(machine.broker.image.topics["gone"].partitions) == 300
    machine.pass_time(1)
    assert produce(machine, b"v", topic="gone", index=299).error_code == NONE


def test_an_internal_topic_that_is_needed_at_once_is_made_beside_a_change_that_is_under_way() -> None:
    machine = JournalMachine()
    pending = machine.send(CREATE, 5, creation())
    assert machine.create_internal("__consumer_offsets").error_code == NONE
    assert error_codes(machine.answered(CREATE, 5, pending)) == [NONE]
    machine.restart()
    assert set(machine.broker.image.topics) == {"t", "__consumer_offsets"}


def test_the_same_topic_is_made_once_though_it_is_needed_at_once_and_being_made() -> None:
    machine = JournalMachine()
    pending = machine.send(CREATE, 5, creation())
    assert machine.create_internal("t").error_code == NONE
    assert error_codes(machine.answered(CREATE, 5, pending)) == [NONE]
    assert produce(machine, b"v").error_code == NONE
    machine.restart()
    assert values(machine, "t") == [b"v"]


@pytest.mark.expects_errors("a change of topics was refused")
def test_a_change_whose_sync_fails_is_refused_and_so_are_those_behind_it() -> None:
    machine = JournalMachine()
    create(machine, "t")
    first = machine.send(ALTER_INCREMENTALLY, 1, alteration("retention.ms", "7"))
    second = machine.send(CREATE, 5, creation("u"))
    machine.disk.fail(0)
    assert error_codes(machine.answered(ALTER_INCREMENTALLY, 1, first)) == [KAFKA_STORAGE_ERROR]
    assert error_codes(machine.answered(CREATE, 5, second)) == [KAFKA_STORAGE_ERROR]
    assert machine.broker.image.topics["t"].configs == {}


def test_an_orderly_stop_between_a_topics_creation_and_that_of_its_logs_is_nothing_to_tell(
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine = JournalMachine()
    machine.send(CREATE, 5, creation())
    with caplog.at_level("WARNING", "ottla"):
        machine.restart()
    assert caplog.text == ""
    assert produce(machine, b"v").error_code == NONE


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_a_power_cut_leaves_a_change_made_or_not(seed: int) -> None:
    machine = JournalMachine()
    create(machine, "t")
    machine.send(CREATE, 5, creation("u", 300))
    machine.send(GROW, 2, request(GROW, 2, topics=[{"name": "t", "count": 300, "assignments": None}]))
    for _ in range(seed % 6):
        machine.disk.run_syncs()
        machine.broker.run_timers(machine.clock.advance(1))
    machine.cut_power(seed)
    topics = machine.broker.image.topics
    assert len(topics["t"].partitions) in (1, 300)
    assert "u" not in topics or len(topics["u"].partitions) == 300
    assert all(one.leader == 1 for topic in topics.values() for one in topic.partitions)
