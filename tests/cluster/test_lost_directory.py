"""A broker whose data directory is empty, while the registry that brokers share counts on it: refused, or let in by an operator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ottla import Broker
from ottla.broker.membership.directory import BROKER_EPOCH
from ottla.broker.membership.membership import NotAMember
from ottla.cli.main import main
from ottla.cluster import layout
from ottla.ports import NEW, Change
from tests.support.shared_users import HostUser

LONG_MS = 60_000
STATE = layout.state_path("t", 0)


@pytest.fixture
def registry(tmp_path: Path) -> Path:
    """The registry of a cluster in which nobody has run yet."""
    (tmp_path / "registry").mkdir()
    return tmp_path / "registry"


@pytest.fixture
def user(registry: Path) -> Iterator[HostUser]:
    with closing(HostUser(registry, LONG_MS).begun()) as user:
        yield user


def broker(registry: Path, name: str = "1") -> Broker:
    settings: dict[str, Any] = {"controlled_shutdown_enable": "false", "zookeeper_session_timeout_ms": 1_000}
    settings["ottla_registry_directory"] = str(registry)
    return Broker(str(registry.parent / name), node_id=1, **settings)


def refused(registry: Path, name: str = "1") -> str:
    with pytest.raises(NotAMember) as refusal:
        broker(registry, name).start()
    return str(refusal.value)


def accept(registry: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = main(["registry", "accept-loss", f"sqlite:{registry}", "--node-id", "1"])
    said = capsys.readouterr()
    return code, said.out + said.err


def test_an_empty_directory_is_refused_again_and_again_until_no_partition_counts_on_it(registry: Path, user: HostUser) -> None:
    user.commit(Change(STATE, layout.state_json(1, 1, 0, [1]), NEW))
    for _ in range(2):
        assert refused(registry) == (
            "The data directory of broker 1 is empty or older than the one it registered with last, but broker 1 alone has all "
            "records of partition t-0: give it back its data directory, or accept the loss of its records with `ottla "
            "registry accept-loss ADDRESS --node-id 1`."
        )
    assert user.read(layout.broker_path(1)) == [None]
    user.commit(Change(STATE, layout.state_json(1, 2, 1, [2])))
    with broker(registry):
        (entry,) = user.read(layout.broker_path(1))
    noted = f"{entry.created}"
    assert (registry.parent / "1" / BROKER_EPOCH).read_text().strip() == noted
    assert user.read(layout.broker_epoch_path(1))[0].value.decode() == noted


def test_a_broker_waits_for_the_controller_before_it_is_refused_where_others_are_in_sync(registry: Path, user: HostUser) -> None:
    user.commit(Change(STATE, layout.state_json(1, 1, 0, [1, 2]), NEW))
    remedy = "restore its data directory, or start the other in-sync replicas first"
    assert f"is in sync of partition t-0: {remedy}" in refused(registry)


def test_another_directory_of_the_same_broker_is_as_good_as_none(registry: Path, user: HostUser) -> None:
    with broker(registry):
        pass
    user.commit(Change(STATE, layout.state_json(1, 1, 0, [1]), NEW))
    assert "is empty or older" in refused(registry, "another")
    (registry.parent / "1" / BROKER_EPOCH).write_text("1\n")
    assert "is empty or older" in refused(registry)


def test_an_operator_accepts_the_loss_with_one_command(registry: Path, user: HostUser, capsys: pytest.CaptureFixture[str]) -> None:
    topic = b'{"version":1,"partitions":{"0":[1,2]}}'
    user.commit(Change(layout.topic_path("t"), topic, NEW), Change(STATE, layout.state_json(1, 1, 0, [1]), NEW))
    refused(registry)
    assert accept(registry, capsys) == (
        0,
        "Accepted: at its next start broker 1 leaves its in-sync sets (1); in 1 of them it is alone, and the records "
        "that only it had are lost.\n",
    )
    with broker(registry):
        code, said = accept(registry, capsys)
        assert (code, "Broker 1 is registered" in said) == (1, True)
        (state,) = user.read(STATE)
        assert layout.read(state.value)["isr"] == [2]
        assert user.read(layout.accepted_loss_path(1)) == [None]
