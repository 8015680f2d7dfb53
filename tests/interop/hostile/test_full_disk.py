"""A disk that fills while appending: refused, nothing acknowledged lost, reads go on, appends resume when there is room."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

import pytest

from ottla.testing import BrokerProcess
from tests.support.disks import fill, small_disk
from tests.support.frames import Batch, Raw
from tests.support.waiting import eventually

KAFKA_STORAGE_ERROR = 56
BIG = Batch((b"x" * 60_000,)).encode()


class Full(Protocol):
    def empty(self) -> None:
        """Make room again."""


class Filled(NamedTuple):
    filler: Path

    def empty(self) -> None:
        self.filler.unlink()


class Limited(NamedTuple):
    broker: BrokerProcess

    def empty(self) -> None:
        resource.prlimit(self.broker.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


@contextmanager
def full_file_system(tmp_path: Path) -> Iterator[tuple[BrokerProcess, Full]]:
    disk = tmp_path / "disk"
    with small_disk(disk, size_bytes=32 << 20), BrokerProcess(disk / "data", log_path=tmp_path / "log") as broker:
        with Raw(broker.address) as raw:
            assert raw.create_topic("t") == 0
        fill(disk / "filler", leave_bytes=1 << 20)
        yield broker, Filled(disk / "filler")


@contextmanager
def limited_file_size(tmp_path: Path) -> Iterator[tuple[BrokerProcess, Full]]:
    limit = 1 << 20

    def prepare() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))

    with BrokerProcess(tmp_path / "data", prepare=prepare, log_path=tmp_path / "log") as broker:
        with Raw(broker.address) as raw:
            assert raw.create_topic("t") == 0
        yield broker, Limited(broker)


@pytest.fixture(params=[full_file_system, limited_file_size], ids=lambda way: way.__name__)
def full(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[BrokerProcess, Full]]:
    with request.param(tmp_path) as made:
        yield made


def append_until_refused(raw: Raw) -> tuple[int, int]:
    """(how many were acknowledged, the code that ended it)"""
    for acknowledged in range(2000):
        code, offset = raw.produce("t", BIG)
        if code:
            return acknowledged, code
        assert offset == acknowledged
    raise AssertionError("the disk never filled")


def read_all(raw: Raw) -> int:
    """How many batches can be fetched, each whole."""
    offset = 0
    while True:
        code, high_watermark, records = raw.fetch("t", offset, max_bytes=4 << 20)
        assert code == 0
        if offset == high_watermark:
            return offset
        count, rest = divmod(len(records), len(BIG))
        assert rest == 0
        assert count > 0
        assert all(records[at + 16 : at + len(BIG)] == BIG[16:] for at in range(0, len(records), len(BIG)))
        offset += count


@pytest.mark.rows(1, seconds=2)
@pytest.mark.expects_errors("No space left on device", "File too large")
def test_appends_fail_reads_go_on_and_appends_resume(full: tuple[BrokerProcess, Full]) -> None:
    broker, disk = full
    with Raw(broker.address) as raw:
        acknowledged, code = append_until_refused(raw)
        assert code == KAFKA_STORAGE_ERROR
        assert acknowledged > 0
        assert read_all(raw) == acknowledged
        assert raw.produce("t", BIG)[0] == KAFKA_STORAGE_ERROR
        disk.empty()
        eventually(lambda: raw.produce("t", BIG) == (0, acknowledged), timeout_s=10, what="appends resume")
        assert read_all(raw) == acknowledged + 1
    assert "Traceback" not in broker.log


@pytest.mark.rows(1, seconds=5)
@pytest.mark.expects_errors("No space left on device", "File too large")
def test_what_was_acknowledged_survives_a_kill_on_the_full_disk(full: tuple[BrokerProcess, Full]) -> None:
    broker, disk = full
    with Raw(broker.address) as raw:
        acknowledged, _ = append_until_refused(raw)
    broker.kill()
    if isinstance(disk, Filled):
        disk.empty()
    broker.start()
    with Raw(broker.address) as raw:
        assert read_all(raw) >= acknowledged
    assert "Traceback" not in broker.log
