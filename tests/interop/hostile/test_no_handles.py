"""A broker that has no file handle left: what needs one is refused or waits, no partition goes offline, and it goes on later."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.testing import BrokerProcess
from tests.support.frames import Batch, Raw
from tests.support.waiting import eventually

KAFKA_STORAGE_ERROR = 56
PARTITIONS = 40
RECORD = Batch((b"x" * 1000,)).encode()
SETTINGS = {
    "ottla.max.open.files": 16,
    "ottla.journal.bytes": 0,
    "log.retention.check.interval.ms": 500,
    "log.flush.offset.checkpoint.interval.ms": 500,
    "log.segment.delete.delay.ms": 0,
}


@contextmanager
def no_handle_left(broker: BrokerProcess) -> Iterator[None]:
    """Inside, the broker can open nothing; what it holds it keeps."""
    most = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (3, most[1]))
    try:
        yield
    finally:
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, most)


@pytest.mark.expects_errors("Too many open files")
def test_partitions_stay_online_without_handles(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", SETTINGS) as broker, Raw(broker.address) as raw:
        assert raw.create_topic("t", PARTITIONS, {"retention.bytes": "3000", "segment.bytes": "1048576"}) == 0
        acknowledged = dict.fromkeys(range(PARTITIONS), 0)
        for partition in acknowledged:
            assert raw.produce("t", RECORD, partition=partition)[0] == 0
            acknowledged[partition] += 1
        codes = set()
        with no_handle_left(broker):
            for partition in acknowledged:
                code, _ = raw.produce("t", RECORD, partition=partition, acks=1)
                acknowledged[partition] += not code
                codes.add(code)
        assert KAFKA_STORAGE_ERROR in codes, "sixteen handles are not enough for all"
        assert codes <= {0, KAFKA_STORAGE_ERROR}
        assert "Too many open files" in broker.log
        for partition in acknowledged:
            assert raw.produce("t", RECORD, partition=partition)[0] == 0
            assert raw.latest_offset("t", partition) == acknowledged[partition] + 1
        checkpoint = broker.data_dir / "recovery-point-offset-checkpoint"
        wanted = {f"t {partition} {count + 1}" for partition, count in acknowledged.items()}
        eventually(lambda: checkpoint.exists() and wanted <= {line.strip() for line in checkpoint.read_text().splitlines()})
        assert "offline" not in broker.log
        assert "Traceback" not in broker.log
        assert broker.stop() == 0
