"""What a broker notes of its logs, so that a start after a crash reads little and takes no damage for a torn tail."""

from __future__ import annotations

import logging

import pytest

from ottla.cluster.controller_rules.entries import DELETIONS
from ottla.log.checkpoints import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS, read_offsets
from ottla.ports import Change, File
from ottla.sim.disk import SimFile
from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.errors import KAFKA_STORAGE_ERROR
from tests.support.machine import Machine
from tests.support.producing import CREATE, create, delete, fetch, produce, values

MINUTE_MS = 60_000
SEGMENT = "t-0/00000000000000000000.log"


def noted(machine: Machine, name: str = RECOVERY_POINTS) -> dict[str, int]:
    return {f"{topic}-{index}": offset for (topic, index), offset in read_offsets(machine.disk, name).items()}


def machine_with_records(count: int = 3) -> Machine:
    machine = Machine(ottla_journal_bytes=0)
    create(machine, "t")
    for number in range(count):
        produce(machine, b"%d" % number)
    return machine


def test_what_is_synced_is_noted_every_minute() -> None:
    machine = machine_with_records()
    assert noted(machine) == {}
    machine.pass_time(MINUTE_MS)
    assert noted(machine) == {"t-0": 3}
    assert noted(machine, HIGH_WATERMARKS) == {"t-0": 3}
    produce(machine, b"more", acks=1)
    machine.pass_time(MINUTE_MS)
    assert noted(machine) == {"t-0": 3}, "nobody asked for a sync of it"
    assert noted(machine, HIGH_WATERMARKS) == {"t-0": 4}


def test_closing_notes_everything() -> None:
    machine = machine_with_records()
    produce(machine, b"more", acks=1)
    machine.restart()
    assert noted(machine) == noted(machine, HIGH_WATERMARKS) == {"t-0": 4}
    assert values(machine) == [b"0", b"1", b"2", b"more"]


def test_a_topic_of_the_same_name_does_not_inherit_recovery_points() -> None:
    machine = machine_with_records()
    machine.pass_time(MINUTE_MS)
    delete(machine, "t")
    create(machine, "t")
    produce(machine, b"new")
    machine.kill()
    assert values(machine) == [b"new"]


@pytest.mark.parametrize("seed", range(8))
def test_a_power_cut_brings_no_recovery_point_back_to_a_topic_of_the_same_name(seed: int) -> None:
    machine = machine_with_records()
    machine.pass_time(MINUTE_MS)
    delete(machine, "t")
    machine.pass_time(MINUTE_MS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine.disk, "run_syncs", lambda: 0)
        if seed % 2:
            machine.broker.scheduler.begin("t", machine.broker.by_name.create_internal("t"), urgent=True)
        else:
            topic = CreateTopicsRequest.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
            machine.begin(CREATE, 7, CreateTopicsRequest(topics=[topic]))
    machine.cut_power(seed)
    if "t" not in machine.broker.image.topics:
        create(machine, "t")
    produce(machine, b"new")
    assert values(machine) == [b"new"]


def test_marks_that_a_power_cut_made_older_than_the_points_are_noted_again() -> None:
    machine = machine_with_records()
    machine.pass_time(MINUTE_MS)
    before = machine.disk.read_file(HIGH_WATERMARKS)
    produce(machine, b"more")
    machine.pass_time(MINUTE_MS)
    machine.disk.write_file(HIGH_WATERMARKS, before)
    machine.kill()
    machine.pass_time(MINUTE_MS)
    assert noted(machine) == noted(machine, HIGH_WATERMARKS) == {"t-0": 4}


def test_a_note_that_is_being_written_does_not_bring_a_deleted_topic_back() -> None:
    machine = machine_with_records()
    machine.clock.advance(MINUTE_MS)
    machine.broker.run_timers(machine.clock.now())  # the sync of the new files has been asked for, and not been made
    delete(machine, "t")
    machine.settle()
    assert noted(machine) == {}


def test_points_of_topics_that_are_no_more_go_at_the_start() -> None:
    machine = machine_with_records()
    machine.pass_time(MINUTE_MS)
    machine.registry.commit([Change("/brokers/topics/t", None), Change(f"{DELETIONS}/t", b"")])
    machine.kill()
    assert noted(machine) == {}


def test_partitions_of_which_nothing_but_a_recovery_point_is_left_are_told(caplog: pytest.LogCaptureFixture) -> None:
    machine = machine_with_records()
    create(machine, "deleted")
    produce(machine, b"v", topic="deleted")
    machine.pass_time(MINUTE_MS)
    delete(machine, "deleted")
    machine.restart()
    assert caplog.text == ""
    assert machine.broker.close()
    machine.registry.commit([Change("/brokers/topics/t", None)])
    machine.disk.remove_tree("t-0")
    machine.broker = machine._start(clean=True)
    assert "partitions that held records have neither a topic nor a directory any more: t-0" in caplog.text
    assert noted(machine) == {}


def test_after_a_kill_only_what_follows_the_recovery_point_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(ottla_journal_bytes=0)
    create(machine, "t", index_interval_bytes=0)
    for _ in range(50):
        produce(machine, bytes(50_000))
    machine.pass_time(MINUTE_MS)
    produce(machine, b"after")
    read: list[int] = []

    def counted(file: File, position: int, size: int, real: object = SimFile.read) -> bytes:
        data: bytes = real(file, position, size)  # type: ignore[operator]  # the method as it was
        read.append(len(data))
        return data

    monkeypatch.setattr(SimFile, "read", counted)
    machine.kill()
    monkeypatch.undo()
    assert sum(read) < 150_000
    assert values(machine, offset=50) == [b"after"]


@pytest.mark.expects_errors("is offline")
def test_damage_below_the_recovery_point_takes_one_partition_offline_and_is_told(caplog: pytest.LogCaptureFixture) -> None:
    machine = machine_with_records(1)
    create(machine, "other")
    produce(machine, b"well", topic="other")
    produce(machine, b"x" * 100)
    machine.pass_time(MINUTE_MS)
    machine.disk.flip_bit(SEGMENT, 8 * 150)
    with caplog.at_level(logging.ERROR, "ottla"):
        machine.kill()
    assert f"t-0 is offline: {SEGMENT}: at byte " in caplog.text
    assert "ottla log check --repair" in caplog.text
    assert fetch(machine)[0] == KAFKA_STORAGE_ERROR
    assert produce(machine, b"no").error_code == KAFKA_STORAGE_ERROR
    assert values(machine, "other") == [b"well"]
    before = machine.disk.read_file(SEGMENT)
    assert not machine.broker.close(), "the next start has to look closely again"
    assert noted(machine) == {"t-0": 2, "other-0": 1}
    assert machine.disk.read_file(SEGMENT) == before


@pytest.mark.expects_errors("the directory is missing")
def test_a_missing_directory_that_held_records_is_told_and_not_begun_anew(caplog: pytest.LogCaptureFixture) -> None:
    machine = machine_with_records()
    assert machine.broker.close()
    machine.disk.remove_tree("t-0")
    with caplog.at_level(logging.ERROR, "ottla"):
        machine.broker = machine._start(clean=True)
    assert "t-0: the directory is missing, though it held records below offset 3: restore it, or delete the topic" in caplog.text
    assert fetch(machine)[0] == KAFKA_STORAGE_ERROR
    delete(machine, "t")
    create(machine, "t")
    assert produce(machine, b"anew").base_offset == 0


def test_a_sealed_segment_is_synced_even_if_nobody_waits_for_it() -> None:
    machine = Machine(ottla_journal_bytes=0)
    create(machine, "t", segment_bytes=1 << 20)
    for _ in range(3):
        produce(machine, bytes(700_000), acks=1)
    machine.pass_time(MINUTE_MS)
    machine.pass_time(MINUTE_MS)
    assert noted(machine) == {"t-0": 3}


def test_an_unreadable_note_is_told_and_written_anew(caplog: pytest.LogCaptureFixture) -> None:
    machine = machine_with_records()
    machine.restart()
    machine.disk.write_file(RECOVERY_POINTS, b"0\n1\nt 0 1 3\n")
    with caplog.at_level(logging.WARNING, "ottla"):
        machine.kill()
    assert f"{RECOVERY_POINTS} cannot be parsed" in caplog.text
    machine.pass_time(MINUTE_MS)
    assert noted(machine) == {"t-0": 3}


@pytest.mark.expects_errors("No space left on device")
def test_a_full_disk_keeps_the_notes_that_were_there(caplog: pytest.LogCaptureFixture) -> None:
    machine = machine_with_records()
    machine.pass_time(MINUTE_MS)
    produce(machine, b"more")
    machine.disk.capacity_bytes = 0
    machine.pass_time(MINUTE_MS)
    assert "a checkpoint could not be written" in caplog.text
    assert noted(machine) == {"t-0": 3}
    machine.disk.capacity_bytes = None
    produce(machine, b"again")
    machine.pass_time(MINUTE_MS)
    assert noted(machine) == {"t-0": 5}
    assert noted(machine, LOG_START_OFFSETS) == {}


def test_an_empty_note_is_as_good_as_none(caplog: pytest.LogCaptureFixture) -> None:
    machine = machine_with_records()
    machine.disk.write_file(RECOVERY_POINTS, b"")
    with caplog.at_level(logging.WARNING, "ottla"):
        machine.kill()
    assert "cannot be parsed" not in caplog.text
    assert values(machine) == [b"0", b"1", b"2"]
