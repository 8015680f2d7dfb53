"""A journal whose blocks have rotted: each partition that has lost records by that is offline, and all others are served."""

from __future__ import annotations

import pytest

from ottla.log.journal.block_walk import heads
from ottla.log.journal.format import PLACES
from ottla.log.names import COMPACTED_SEGMENTS
from ottla.records.batches.builder import build
from ottla.wire import errors as codes
from tests.support.machine import Machine
from tests.support.producing import create, fetch, produce


@pytest.mark.expects_errors("is damaged")
def test_a_compacted_log_takes_no_loss_of_the_journal_for_a_gap_of_another_program() -> None:
    machine = Machine(ottla_journal_bytes=65536)
    create(machine, "t", cleanup_policy="compact")
    create(machine, "u")
    partition = machine.broker.partitions.get("t", 0)
    assert partition is not None
    for topic in "tttu":
        batch = build([b"key"], [b"value"], machine.clock.now().wall_ms)
        assert produce(machine, topic=topic, batch=batch).error_code == 0
        if topic == "t":
            partition.log.roll()
    disk = machine.disk
    disk.remove(f"t-0/{COMPACTED_SEGMENTS}")
    disk.open(partition.log.segments[0].path(".log")).truncate(0)
    for name in disk.list("t-0"):
        disk.open(f"t-0/{name}").sync()
    disk.sync_dir("t-0")
    blocks = [head for _, head in heads(disk.open("journal/0"), PLACES.index("0"))]
    for block in blocks[:-1]:
        disk.flip_bit("journal/0", 8 * block.data_from)
    machine.cut_power(1)
    assert fetch(machine, "t")[0] == codes.KAFKA_STORAGE_ERROR
    assert fetch(machine, "u")[0] == codes.NONE
