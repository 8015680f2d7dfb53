"""A full disk whose reserve is used up, too, on ext4: every refusal says why, nothing acknowledged is lost, and room heals it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.net.disk.reserve import RESERVE
from ottla.testing import BrokerProcess
from ottla.testing.process import DidNotStart
from tests.support.disks import ext4_disk, fill_to_the_last_block
from tests.support.frames import Batch, Raw
from tests.support.waiting import eventually

KAFKA_STORAGE_ERROR = 56
RESERVE_BYTES = 1 << 20
SETTINGS = {"ottla.reserve.bytes": RESERVE_BYTES, "log.segment.delete.delay.ms": 0, "offsets.topic.num.partitions": 1}
BIG = Batch((b"x" * 60_000,)).encode()

pytestmark = [pytest.mark.interop, pytest.mark.expects_errors("No space left on device")]


@contextmanager
def full(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker with a topic, whose disk has no block left and whose reserve is gone."""
    disk = tmp_path / "disk"
    with ext4_disk(disk, size_bytes=48 << 20), BrokerProcess(disk / "data", SETTINGS, log_path=tmp_path / "log") as broker:
        with Raw(broker.address) as raw:
            assert raw.create_topic("t") == 0
            assert raw.produce("t", BIG) == (0, 0)
            fill_to_the_last_block(disk / "filler")
            while raw.produce("t", BIG)[0] == 0:
                pass
            use_up(broker, raw)
        yield broker


def use_up(broker: BrokerProcess, raw: Raw) -> None:
    """Create topics, each of which writes into the reserve, until none is taken; what is given up meanwhile is taken, too."""
    created = 0
    for number in range(2_000):
        if raw.create_topic(f"n{number}") == KAFKA_STORAGE_ERROR:
            break
        created += 1
    assert created < 2_000
    (broker.data_dir / RESERVE).unlink()
    fill_to_the_last_block(broker.data_dir.parent / "filler.more")


def make_room(broker: BrokerProcess) -> None:
    for name in ("filler", "filler.more"):
        (broker.data_dir.parent / name).unlink()


def assert_is_whole(broker: BrokerProcess) -> None:
    """It serves as ever: what was acknowledged, and new records and topics."""
    with Raw(broker.address) as raw:
        assert raw.fetch("t", 0, max_bytes=1 << 20)[0] == 0
        eventually(lambda: raw.produce("t", BIG)[0] == 0, timeout_s=20, what="appends resume")
        eventually(lambda: raw.create_topic("later") == 0, timeout_s=20, what="topics are made")
    eventually(lambda: reserve(broker) == RESERVE_BYTES, timeout_s=20, what="the reserve is whole again")
    assert "Traceback" not in broker.log
    assert "is offline" not in broker.log


def reserve(broker: BrokerProcess) -> int:
    path = broker.data_dir / RESERVE
    return path.stat().st_size if path.exists() else 0


def start_or_refusal(broker: BrokerProcess) -> str:
    """Start it; what it says if it does not."""
    try:
        broker.start()
    except DidNotStart as refused:
        return refused.log
    return ""


@pytest.mark.full(seconds=13)
def test_everything_is_read_and_every_write_is_refused_until_there_is_room(tmp_path: Path) -> None:
    with full(tmp_path) as broker:
        with Raw(broker.address) as raw:
            assert raw.fetch("t", 0, max_bytes=1 << 20)[0] == 0
            assert raw.produce("t", BIG)[0] == KAFKA_STORAGE_ERROR
        make_room(broker)
        assert_is_whole(broker)


@pytest.mark.full(seconds=15)
@pytest.mark.parametrize("killed", [False, True])
def test_it_stops_and_starts_or_says_what_to_do(tmp_path: Path, killed: bool) -> None:
    with full(tmp_path) as broker:
        if killed:
            broker.kill()
        else:
            assert broker.stop() == 0
        refusal = start_or_refusal(broker)
        assert not refusal or "make room" in refusal
        assert "Traceback" not in broker.log
        broker.stop()
        make_room(broker)
        broker.start()
        assert_is_whole(broker)
