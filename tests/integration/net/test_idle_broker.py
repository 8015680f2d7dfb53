"""A broker that nobody asks anything keeps house all the same: its timers run from the start."""

from __future__ import annotations

from pathlib import Path

import ottla
from ottla.log.checkpoints import RECOVERY_POINTS
from tests.support.waiting import eventually

OLD_MS = 1000


def fill(directory: Path, timestamp_ms: int | None = None) -> None:
    with ottla.Broker(str(directory)) as broker, ottla.Producer(broker.address) as producer:
        for _ in range(5):
            producer.send("t", b"v", timestamp_ms=timestamp_ms).result(20)


def test_an_idle_broker_applies_retention(tmp_path: Path) -> None:
    fill(tmp_path, OLD_MS)
    with ottla.Broker(str(tmp_path), log_retention_check_interval_ms=50):
        (left,) = eventually(lambda: list((tmp_path / "t-0").glob("*5.log")), what="the old segment makes room for an empty one")
        assert left.name == "00000000000000000005.log"


def test_an_idle_broker_writes_checkpoints(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / RECOVERY_POINTS).unlink()
    with ottla.Broker(str(tmp_path), log_flush_offset_checkpoint_interval_ms=50):
        eventually((tmp_path / RECOVERY_POINTS).exists, what="a checkpoint is written")
        assert "t 0 5" in [line.strip() for line in (tmp_path / RECOVERY_POINTS).read_text().splitlines()]
