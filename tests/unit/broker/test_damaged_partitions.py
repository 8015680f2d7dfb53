"""What a broker answers where a partition's files are no longer what it wrote."""

from __future__ import annotations

import logging

import pytest

from ottla.sim.disk import SimDisk
from ottla.wire.errors import CORRUPT_MESSAGE, KAFKA_STORAGE_ERROR
from tests.support.machine import Machine
from tests.support.producing import create, fetch, produce, values

MINUTE_MS = 60_000
SEGMENT = "t-0/00000000000000000000.log"


def machine_with_records(count: int = 5, **configs: object) -> Machine:
    machine = Machine()
    create(machine, "t", **configs)
    for number in range(count):
        produce(machine, b"%d" % number)
    return machine


def flip(disk: SimDisk, path: str, position: int) -> None:
    file = disk.open(path)
    file.write(position, bytes([file.read(position, 1)[0] ^ 1]))


def damaged(machine: Machine, offset: int) -> None:
    """Flip a bit in the record of `offset`, while the broker is stopped."""
    size = machine.disk.size(SEGMENT) // 5
    assert machine.broker.close()
    machine.disk.kill()
    flip(machine.disk, SEGMENT, size * offset + size - 2)
    machine.broker = machine._start(clean=True)
    machine.settle()


@pytest.mark.expects_errors("cannot be read")
def test_a_fetch_into_damage_is_answered_at_once_and_others_are_served() -> None:
    machine = machine_with_records()
    damaged(machine, 2)
    assert values(machine) == [b"0", b"1"]
    assert fetch(machine, offset=2)[0] == CORRUPT_MESSAGE
    assert values(machine, offset=3) == [b"3", b"4"]
    produce(machine, b"5")
    assert values(machine, offset=3) == [b"3", b"4", b"5"]
    assert fetch(machine, offset=2)[0] == CORRUPT_MESSAGE


@pytest.mark.expects_errors("was removed while the broker ran", "is missing")
@pytest.mark.parametrize("is_killed", [True, False])
@pytest.mark.parametrize("minutes", [0, 1])
def test_a_directory_that_is_removed_is_missed_and_never_made_anew(
    minutes: int, is_killed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    machine = machine_with_records()
    machine.pass_time(minutes * MINUTE_MS + 1)
    machine.disk.remove_tree("t-0")
    produce(machine, b"more", acks=1)
    machine.pass_time(MINUTE_MS)
    assert fetch(machine)[0] == KAFKA_STORAGE_ERROR
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert told == [
        f"t-0 is offline: {SEGMENT}: it was removed while the broker ran: restore it and restart the broker, or delete the topic "
        "and its records."
    ]
    if not is_killed:
        assert not machine.broker.close()
    caplog.clear()
    machine.kill()
    assert "t-0 is offline: t-0: the directory is missing, though it held records below offset 6" in caplog.text
    assert not machine.disk.exists("t-0")


@pytest.mark.expects_errors("was removed while the broker ran", "is missing")
@pytest.mark.parametrize("is_killed", [True, False])
def test_a_sync_that_meets_a_removed_directory_says_so_and_notes_at_once_what_was_held(
    is_killed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    machine = machine_with_records()
    machine.disk.remove_tree("t-0")
    assert produce(machine, b"more").error_code == KAFKA_STORAGE_ERROR
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(told) == 1
    assert f"t-0 is offline: {SEGMENT}: it was removed while the broker ran: restore it and restart the broker" in told[0]
    machine.pass_time(10)
    if not is_killed:
        machine.broker.close()
    caplog.clear()
    machine.kill()
    assert "t-0 is offline: t-0: the directory is missing, though it held records below offset" in caplog.text


@pytest.mark.expects_errors("was removed while the broker ran", "is missing")
def test_a_roll_makes_no_segment_where_the_directory_was_removed() -> None:
    machine = machine_with_records(5, **{"internal.segment.bytes": "200"})
    machine.disk.remove_tree("t-0")
    for _ in range(10):
        produce(machine, b"more", acks=1)
    assert not machine.disk.exists("t-0")
    machine.pass_time(MINUTE_MS)
    assert fetch(machine)[0] == KAFKA_STORAGE_ERROR
