"""`advertised.listeners`: which address clients of a listener are told, whatever the listener's release and name."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

import ottla
from ottla.testing import BrokerProcess
from ottla.testing.process import DidNotStart
from ottla.wire.api.metadata import MetadataRequest
from tests.support.bad_groups import Questioner

METADATA = 3
EXAMPLE = "kafka.example:19092"


def told(address: str) -> str:
    """The address of the one broker, as Metadata tells it."""
    with closing(Questioner(address)) as questioner:
        (broker,) = questioner.ask(METADATA, 1, MetadataRequest(topics=[])).brokers
        return f"{broker.host}:{broker.port}"


@pytest.mark.rows(1, seconds=2)
@pytest.mark.parametrize("name", ["PLAINTEXT", "RELEASE_2_8"])
def test_the_only_listener_is_told_by_its_release_or_as_plaintext(tmp_path: Path, name: str) -> None:
    settings = {"advertised.listeners": f"{name}://{EXAMPLE}"}
    with BrokerProcess(tmp_path / "data", settings, release="2.8") as broker:
        assert told(broker.address) == EXAMPLE


def test_each_listener_has_its_own_and_what_is_left_is_plaintexts(tmp_path: Path) -> None:
    settings = {"advertised.listeners": f"OLD://old.{EXAMPLE},PLAINTEXT://{EXAMPLE}"}
    listen = ["--listen", "127.0.0.1:0,release=0.9.0,name=OLD"]
    with BrokerProcess(tmp_path / "data", settings, release="2.8", arguments=listen) as broker:
        assert told(broker.address) == EXAMPLE


def test_an_embedded_broker_of_a_release_is_told_too() -> None:
    with ottla.Broker(release="2.8", advertised_listeners=f"PLAINTEXT://{EXAMPLE}") as broker:
        assert told(broker.address) == EXAMPLE


@pytest.mark.rows(1, seconds=2)
@pytest.mark.parametrize(("host", "expected"), [("localhost", "localhost"), ("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1")])
def test_a_listener_is_told_by_the_name_that_it_was_given_or_the_address_that_was_reached(
    tmp_path: Path, host: str, expected: str
) -> None:
    with BrokerProcess(tmp_path / "data", host=host) as broker:
        assert told(f"127.0.0.1:{broker.port}") == f"{expected}:{broker.port}"


@pytest.mark.rows(1, seconds=1)
@pytest.mark.parametrize(
    ("addresses", "arguments"),
    [
        (f"OTHER://{EXAMPLE}", []),
        (f"PLAINTEXT://{EXAMPLE}", ["--listen", "127.0.0.1:0,release=0.9.0"]),
        (f"RELEASE_2_8://{EXAMPLE},PLAINTEXT://{EXAMPLE}", []),
    ],
)
def test_an_address_that_belongs_to_no_listener_is_said_at_the_start(tmp_path: Path, addresses: str, arguments: list[str]) -> None:
    with pytest.raises(DidNotStart) as refused:
        BrokerProcess(tmp_path / "data", {"advertised.listeners": addresses}, release="2.8", arguments=arguments).start()
    name = "OTHER" if "OTHER" in addresses else "PLAINTEXT"
    assert refused.value.code == 2
    assert f"advertised.listeners names {name}, which is not in listeners" in refused.value.log
    assert "RELEASE_2_8" in refused.value.log
    assert "Traceback" not in refused.value.log
