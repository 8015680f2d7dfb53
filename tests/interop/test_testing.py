"""`ottla.testing`, as a user's tests would use it."""

from __future__ import annotations

from pathlib import Path

import pytest

import ottla
from ottla.testing import Broker, BrokerProcess, DidNotStart

pytest_plugins = ("pytester",)

USERS_TESTS = """
import ottla
import pytest

@pytest.fixture
def ottla_settings():
    return {"num_partitions": 3}

def test_records_come_back(ottla_broker, ottla_address):
    assert ottla_address == ottla_broker.address
    with ottla.Producer(ottla_address) as producer:
        producer.send("mine", b"value").result(10)
    with ottla.Admin(ottla_address) as admin:
        assert len(admin.describe_topics("mine")["mine"].partitions) == 3

def test_each_test_has_a_broker_of_its_own(ottla_address):
    with ottla.Admin(ottla_address) as admin:
        assert admin.list_topics() == []
"""


def test_the_fixtures_give_each_test_its_own_broker(pytester: pytest.Pytester, request: pytest.FixtureRequest) -> None:
    pytester.makepyfile(USERS_TESTS)
    plugin = () if request.config.pluginmanager.has_plugin("ottla") else ("-p", "ottla.testing.plugin")
    pytester.runpytest_subprocess("-q", "-p", "no:randomly", *plugin).assert_outcomes(passed=2)


def test_a_broker_process_keeps_data_and_port_when_killed_and_restarted(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        address = broker.address
        with ottla.Producer(address) as producer:
            producer.send("kept", b"value").result(10)
        broker.restart(kill=True)
        assert broker.address == address
        with ottla.Consumer("kept", bootstrap_servers=address, auto_offset_reset="earliest") as consumer:
            assert [record.value for record in consumer.poll(10_000)] == [b"value"]
    assert not broker.is_running


def test_a_paused_broker_answers_when_it_is_resumed(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker, ottla.Producer(broker.address) as producer:
        producer.send("paused", b"before").result(10)
        broker.pause()
        delivery = producer.send("paused", b"meanwhile")
        with pytest.raises(ottla.TimedOut):
            delivery.result(0.3)
        broker.resume()
        assert delivery.result(10).offset == 1


def test_a_broker_that_does_not_start_raises_with_its_log(tmp_path: Path) -> None:
    with pytest.raises(DidNotStart, match=r"no\.such\.setting") as raised:
        BrokerProcess(tmp_path / "data", {"no.such.setting": 1}).start()
    assert raised.value.code == 2


def test_a_broker_in_this_process_can_be_restarted_on_its_data(tmp_path: Path) -> None:
    with Broker(str(tmp_path / "data")) as broker:
        with ottla.Producer(broker.address) as producer:
            producer.send("kept", b"value").result(10)
        address = broker.address
        broker.restart()
        assert broker.address == address
        with ottla.Consumer("kept", bootstrap_servers=address, auto_offset_reset="earliest") as consumer:
            assert [record.value for record in consumer.poll(10_000)] == [b"value"]


def test_a_temporary_broker_leaves_nothing_behind() -> None:
    with Broker() as broker:
        directory = broker.data_dir
        assert directory is not None
        assert Path(directory).is_dir()
    assert not Path(directory).exists()
