"""A broker that cannot start says why in one sentence, with exit code 1 or 2 and no traceback."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from ottla.testing import BrokerProcess, DidNotStart
from tests.support.disks import unwritable


def refusal(broker: BrokerProcess) -> str:
    """Return the one line that a broker prints when it does not start."""
    with pytest.raises(DidNotStart) as caught:
        broker.start()
    assert caught.value.code in (1, 2), caught.value.log
    assert "Traceback" not in caught.value.log
    lines = caught.value.log.strip().splitlines()
    assert len(lines) == 1, caught.value.log
    return lines[0]


def test_the_port_is_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refusal(BrokerProcess(tmp_path / "data", port=port))
    assert f"Cannot listen on 127.0.0.1:{port}: Address already in use; stop the process that uses it, or choose" in said


def test_the_data_directory_is_held_by_another_broker(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data"):
        said = refusal(BrokerProcess(tmp_path / "data", log_path=tmp_path / "second.log"))
    assert str(tmp_path / "data") in said
    assert "another broker" in said


def test_a_killed_broker_holds_nothing(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        broker.restart(kill=True)
        assert broker.is_running


def test_the_data_directory_is_not_writable(tmp_path: Path) -> None:
    with unwritable(tmp_path / "data") as directory:
        assert str(directory) in refusal(BrokerProcess(directory, log_path=tmp_path / "log"))


def test_the_data_directory_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("not a directory")
    assert str(tmp_path / "data") in refusal(BrokerProcess(tmp_path / "data"))


def test_the_data_directory_is_of_a_newer_format(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data"):
        pass
    properties = tmp_path / "data" / "meta.properties"
    properties.write_text(properties.read_text().replace("version=1", "version=99"))
    assert "99" in refusal(BrokerProcess(tmp_path / "data"))


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"no.such.setting": "1"}, "no.such.setting"),
        ({"num.partitions": "many"}, "num.partitions"),
        ({"num.partitions": "0"}, "num.partitions"),
    ],
)
def test_a_setting_is_unknown_or_wrong(tmp_path: Path, settings: dict[str, object], named: str) -> None:
    assert named in refusal(BrokerProcess(tmp_path / "data", settings))


def test_the_configuration_file_is_missing(tmp_path: Path) -> None:
    missing = tmp_path / "missing.properties"
    assert str(missing) in refusal(BrokerProcess(tmp_path / "data", arguments=["--config", str(missing)]))


def test_the_configuration_file_is_no_text(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_bytes(b"num.partitions=\xff\n")
    said = refusal(BrokerProcess(tmp_path / "data", arguments=["--config", str(file)]))
    assert f"Cannot read {file}: it is not UTF-8" in said


def test_a_setting_has_no_value(tmp_path: Path) -> None:
    assert "--set NAME=VALUE" in refusal(BrokerProcess(tmp_path / "data", arguments=["--set", "num.partitions"]))


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:65536", "127.0.0.1:"])
def test_the_address_is_no_address(tmp_path: Path, address: str) -> None:
    assert f"'{address}' is not a listener's address" in refusal(BrokerProcess(tmp_path / "data", arguments=["--listen", address]))


def test_the_address_is_not_of_this_machine(tmp_path: Path) -> None:
    said = refusal(BrokerProcess(tmp_path / "data", host="nowhere.invalid", port=9))
    assert "nowhere.invalid:9" in said
    assert said.endswith("choose an address of this machine with --listen.")


def test_the_cluster_id_is_kept_over_restarts(tmp_path: Path) -> None:
    def identity() -> str:
        lines = (tmp_path / "data" / "meta.properties").read_text().splitlines()
        return next(line for line in lines if line.startswith("cluster.id="))

    with BrokerProcess(tmp_path / "data") as broker:
        before = identity()
        broker.restart()
        assert identity() == before
