"""A broker in the ZooKeeper of Kafka 0.7, simulated: what it tells there, and what becomes of that with its sessions and topics."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ottla.broker.scheduler import Scheduler
from ottla.broker.settings import BrokerSettings, SettingsInForce
from ottla.cluster import layout
from ottla.cluster.image import ClusterImage
from ottla.cluster.registry_entries import apply_entry
from ottla.kafka07.broker.registration import Registration07
from ottla.ports import Change, Now
from ottla.sim.ensemble import SimEnsemble
from ottla.sim.process import SimProcess
from ottla.sim.shared_registry import SimSharedRegistry
from ottla.sim.world import World

PATIENCE_MS = 60_000
TIMEOUT_MS = 6_000
BROKER = 7
ID = "/brokers/ids/7"


class Registered:
    """One broker as far as it registers: topics come and go in its image."""

    def __init__(self, ensemble: SimEnsemble) -> None:
        self.world = ensemble.world
        self.ensemble = ensemble
        self.image = ClusterImage()
        self.scheduler = Scheduler(self.world.clock)
        self.registry = SimSharedRegistry(ensemble, SimProcess(ensemble.world, "a broker"))
        settings = SettingsInForce(BrokerSettings({}))
        self.registration = Registration07(self.registry, self.image, settings, self.scheduler, BROKER)
        self.world.timed.append(self)
        self.registration.begin("kafka.example", 9093)

    def next_ms(self) -> int | None:
        return self.scheduler.next_ms()

    def run_due(self, now: Now) -> None:
        self.scheduler.run_due(now)

    def set_topic(self, name: str, replicas: Sequence[int], **configs: str) -> None:
        placed = {index: (replica,) for index, replica in enumerate(replicas)}
        apply_entry(self.image, layout.topic_path(name), layout.topic_json(name.encode().ljust(16, b"-")[-16:], placed))
        texts = {key.replace("_", "."): value for key, value in configs.items()}
        apply_entry(self.image, layout.topic_config_path(name), layout.config_json(texts))

    def drop_topic(self, name: str) -> None:
        apply_entry(self.image, layout.topic_path(name), None)

    @property
    def id(self) -> str | None:
        entry = self.ensemble.get(ID)
        return None if entry is None else entry.value.decode()

    @property
    def topics(self) -> dict[str, str]:
        """What clients are told of this broker's topics."""
        found = {name: self.ensemble.get(f"/brokers/topics/{name}/{BROKER}") for name in self.ensemble.children("/brokers/topics")}
        return {name: entry.value.decode() for name, entry in found.items() if entry is not None}

    def comes_to_tell(self, topics: dict[str, str]) -> bool:
        return self.world.run(PATIENCE_MS, lambda: self.id is not None and self.topics == topics)


@pytest.fixture
def ensemble() -> SimEnsemble:
    return SimEnsemble(World(0), timeout_ms=TIMEOUT_MS)


@pytest.fixture
def broker(ensemble: SimEnsemble) -> Registered:
    return Registered(ensemble)


def test_the_id_tells_who_made_it_and_where_the_broker_is(broker: Registered) -> None:
    assert broker.comes_to_tell({})
    creator, host, port = str(broker.id).split(":")
    assert (host, port) == ("kafka.example", "9093")
    assert creator.startswith("kafka.example-")
    assert creator.removeprefix("kafka.example-").isdigit()


def test_topics_are_told_as_they_come_and_grow_and_go(broker: Registered) -> None:
    broker.set_topic("a", [BROKER])
    broker.set_topic("b", [BROKER, BROKER])
    assert broker.comes_to_tell({"a": "1", "b": "2"})
    broker.set_topic("a", [BROKER] * 3)
    assert broker.comes_to_tell({"a": "3", "b": "2"})
    broker.drop_topic("b")
    assert broker.comes_to_tell({"a": "3"})


def test_what_this_broker_does_not_serve_to_them_is_not_told(broker: Registered) -> None:
    broker.set_topic("a", [BROKER])
    broker.set_topic("compacted", [BROKER], cleanup_policy="compact")
    broker.set_topic("elsewhere", [BROKER, 8])
    broker.set_topic("__consumer_offsets", [BROKER])
    assert broker.comes_to_tell({"a": "1"})
    broker.set_topic("a", [BROKER], cleanup_policy="compact,delete")
    broker.set_topic("compacted", [BROKER], cleanup_policy="delete")
    assert broker.comes_to_tell({"compacted": "1"})


def test_a_thousand_topics_are_told(broker: Registered) -> None:
    for number in range(1000):
        broker.set_topic(f"t{number}", [BROKER])
    assert broker.comes_to_tell({f"t{number}": "1" for number in range(1000)})


def test_all_is_told_anew_after_a_session_ended(broker: Registered) -> None:
    broker.set_topic("a", [BROKER])
    assert broker.comes_to_tell({"a": "1"})
    first = broker.id
    broker.registry.expire()
    assert broker.world.run(PATIENCE_MS, lambda: broker.id is None)
    assert broker.topics == {}
    assert broker.comes_to_tell({"a": "1"})
    assert broker.id != first, "nobody takes the one for the other"


def test_what_came_while_zookeeper_was_away_is_told_when_it_is_back(broker: Registered) -> None:
    assert broker.comes_to_tell({})
    broker.registry.lose_connection()
    broker.set_topic("a", [BROKER])
    assert broker.comes_to_tell({"a": "1"})


def test_an_entry_that_somebody_removed_does_not_hold_up_the_others(broker: Registered) -> None:
    broker.set_topic("a", [BROKER])
    broker.set_topic("b", [BROKER])
    assert broker.comes_to_tell({"a": "1", "b": "1"})
    broker.ensemble.put(Change(f"/brokers/topics/a/{BROKER}", None))
    broker.drop_topic("a")
    broker.set_topic("c", [BROKER])
    assert broker.comes_to_tell({"b": "1", "c": "1"})


def test_the_end_of_its_life_before_is_waited_for(ensemble: SimEnsemble, caplog: pytest.LogCaptureFixture) -> None:
    ensemble.put(Change(ID, b"old-1:old:9092"))
    broker = Registered(ensemble)
    broker.world.run(TIMEOUT_MS // 2)
    ensemble.put(Change(ID, None))
    assert broker.comes_to_tell({})
    assert str(broker.id).endswith(":kafka.example:9093")
    assert "already registered" not in caplog.text


@pytest.mark.expects_errors("already registered")
def test_an_id_that_another_broker_has_is_said_once_and_taken_when_it_is_free(
    ensemble: SimEnsemble, caplog: pytest.LogCaptureFixture
) -> None:
    ensemble.put(Change(ID, b"other-1:other:9092"))
    broker = Registered(ensemble)
    broker.world.run(10 * TIMEOUT_MS)
    (said,) = [record.getMessage() for record in caplog.records if "already registered" in record.getMessage()]
    assert "other-1:other:9092" in said
    assert broker.id == "other-1:other:9092"
    ensemble.put(Change(ID, None))
    assert broker.world.run(PATIENCE_MS, lambda: str(broker.id).endswith(":kafka.example:9093"))


def test_a_zookeeper_that_is_not_reached_is_said(ensemble: SimEnsemble, caplog: pytest.LogCaptureFixture) -> None:
    ensemble.is_down = True
    broker = Registered(ensemble)
    broker.world.run(PATIENCE_MS)
    assert sum("is not reached" in record.getMessage() for record in caplog.records) == 1
    ensemble.restore_quorum()
    assert broker.comes_to_tell({})


def test_a_stop_removes_all_of_it(broker: Registered) -> None:
    broker.set_topic("a", [BROKER])
    assert broker.comes_to_tell({"a": "1"})
    broker.registry.close()
    assert (broker.id, broker.topics) == (None, {})
