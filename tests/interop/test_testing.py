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

PLAIN_IMPORTS = """
from _pytest.assertion.rewrite import AssertionRewritingHook

def test_handlers_are_imported_by_pythons_own_loader(request):
    import ottla.broker.handlers.share_fetch as handlers
    import pyspark_ottla
    assert isinstance(request.module.__loader__, AssertionRewritingHook)
    for module in (handlers, pyspark_ottla):
        assert not isinstance(module.__loader__, AssertionRewritingHook)
"""

CLUSTER_TESTS = """
import ottla
import pytest

@pytest.fixture
def ottla_brokers():
    return 2

def test_what_a_dead_broker_took_is_read_from_the_other(ottla_cluster):
    with ottla_cluster.admin() as admin:
        admin.create_topic("kept", 1, 2)
    ottla_cluster.wait_in_sync("kept")
    with ottla.Producer(ottla_cluster.address, acks="all") as producer:
        producer.send("kept", b"value").result(60)
    dead = ottla_cluster.leader("kept", 0)
    ottla_cluster.kill(dead)
    ottla_cluster.wait_until(lambda: ottla_cluster.leader("kept", 0) not in (-1, dead))
    with ottla.Consumer("kept", bootstrap_servers=ottla_cluster.address, auto_offset_reset="earliest") as consumer:
        assert [record.value for record in consumer.poll(60_000)] == [b"value"]
    with pytest.raises(ValueError, match="give the cluster a ZooKeeper"):
        ottla_cluster.cut(1, 0)
"""

SECURED_TESTS = """
import ottla
import pytest

@pytest.fixture
def ottla_users():
    return {"alice": "secret"}

class TestPlain:
    def test_nobody_is_served_without_a_login(self, ottla_address):
        with pytest.raises(ottla.KafkaError), ottla.Admin(ottla_address, default_api_timeout_ms=500) as admin:
            admin.list_topics()

    def test_a_user_logs_in(self, ottla_broker):
        settings = ottla_broker.client_settings()
        assert (settings["security_protocol"], settings["sasl_username"]) == ("SASL_PLAINTEXT", "alice")
        with ottla.Admin(**settings) as admin:
            assert admin.list_topics() == []

    def test_a_wrong_password_is_refused(self, ottla_broker):
        settings = ottla_broker.client_settings() | {"sasl_password": "wrong"}
        with pytest.raises(ottla.AuthenticationFailed), ottla.Admin(**settings) as admin:
            admin.list_topics()

class TestEncrypted:
    @pytest.fixture
    def ottla_tls(self):
        return True

    def test_a_user_logs_in_over_tls(self, ottla_broker):
        assert ottla_broker.client_settings()["security_protocol"] == "SASL_SSL"
        with ottla.Admin(**ottla_broker.client_settings()) as admin:
            assert admin.list_topics() == []

class TestEncryptedOnly:
    @pytest.fixture
    def ottla_users(self):
        return None

    @pytest.fixture
    def ottla_tls(self):
        return True

    def test_whoever_trusts_the_certificate_is_served(self, ottla_broker):
        assert ottla_broker.client_settings()["security_protocol"] == "SSL"
        with ottla.Admin(**ottla_broker.client_settings()) as admin:
            assert admin.list_topics() == []

    def test_a_stranger_to_the_certificate_goes_away(self, ottla_address):
        with pytest.raises(ottla.KafkaError, match="not trusted"), ottla.Admin(ottla_address, security_protocol="SSL") as admin:
            admin.list_topics()
"""


@pytest.mark.rows(1, seconds=4)
@pytest.mark.parametrize(
    ("tests", "passed"), [(USERS_TESTS, 2), (SECURED_TESTS, 6), (CLUSTER_TESTS, 1)], ids=["plain", "secured", "cluster"]
)
def test_the_fixtures_give_each_test_its_own_broker(
    pytester: pytest.Pytester, request: pytest.FixtureRequest, tests: str, passed: int
) -> None:
    pytester.makepyfile(tests)
    plugin = () if request.config.pluginmanager.has_plugin("ottla") else ("-p", "ottla.testing.plugin")
    pytester.runpytest_subprocess("-q", "-p", "no:randomly", *plugin).assert_outcomes(passed=passed)


def test_modules_of_a_broker_are_not_parsed_by_pytest(pytester: pytest.Pytester) -> None:
    """A thread that imports one could meet another that parses, for which Python up to 3.11.7 raises a SystemError."""
    pytester.makepyfile(PLAIN_IMPORTS)
    pytester.runpytest_subprocess("-p", "no:randomly", "-p", "no:xdist").assert_outcomes(passed=1)


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


def test_a_relative_directory_stays_where_it_was_when_the_process_goes_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with Broker("data") as broker, ottla.Producer(broker.address) as producer:
        producer.send("before", b"value").result(10)
        monkeypatch.chdir(tmp_path / "elsewhere")
        producer.send("after", b"value").result(10)
    assert (tmp_path / "data" / "after-0").is_dir()
    assert not any((tmp_path / "elsewhere").iterdir())


def test_a_temporary_broker_leaves_nothing_behind() -> None:
    with Broker() as broker:
        directory = broker.data_dir
        assert directory is not None
        assert Path(directory).is_dir()
    assert not Path(directory).exists()
