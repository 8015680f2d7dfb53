"""Moves of a replica under load, with and without kills; `make torture-moves` is longer."""

from __future__ import annotations

from pathlib import Path

import pytest

import ottla
from ottla.cli.main import main
from tests.support.waiting import eventually
from tests.torture import replica_moves
from tests.torture.replica_moves import TOPIC, begin_move, check, loaded


@pytest.mark.full
def test_a_loaded_replica_moves_back_and_forth_and_loses_nothing(tmp_path: Path) -> None:
    with loaded(tmp_path) as (broker, load, places):
        for _ in range(6):
            target = begin_move(broker, places)
            eventually(target.is_dir, timeout_s=60)
            eventually(lambda: sum((place / f"{TOPIC}-0").is_dir() for place in places) == 1, timeout_s=60)
    check(load, places)


@pytest.mark.full
def test_kills_in_the_middle_of_moves_lose_nothing(tmp_path: Path) -> None:
    assert "5 kills" in replica_moves.run(tmp_path, 5, 7)


def test_a_replica_moves_by_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, other = tmp_path / "data", tmp_path / "other"
    with ottla.Broker(str(data), log_dirs=str(other)) as broker:
        with ottla.Admin(broker.address) as admin, ottla.Producer(broker.address) as producer:
            admin.create_topic("t", 2)
            for index in range(2):
                producer.send("t", b"v", partition=index).result(20)
            at = ["-b", broker.address]
            assert main(["cluster", "move-replicas", "t", str(other), "--dry-run", *at]) == 0
            assert capsys.readouterr().out.count("would move") == 1
            assert main(["cluster", "move-replicas", "t", str(other), *at]) == 0
            out = capsys.readouterr().out
            assert (out.count("moved"), out.count("is there")) == (1, 1)
            assert sorted(path.name for path in other.glob("t-*")) == ["t-0", "t-1"]
            assert main(["cluster", "move-replicas", "t:1", str(data), *at]) == 0
            assert [path.name for path in data.glob("t-*")] == ["t-1"]
            assert main(["cluster", "move-replicas", "t", "/nowhere", *at]) == 2
            assert f"No broker has the log directory '/nowhere': choose among {data}, {other}." in capsys.readouterr().err
        with ottla.Consumer("t", bootstrap_servers=broker.address, auto_offset_reset="earliest") as consumer:
            assert len([*consumer.poll(5000), *consumer.poll(1000)]) == 2
