"""Journals without room: on the disk, and for the entries that make others void."""

from __future__ import annotations

import pytest

from ottla.ports import Steps, StorageFailed
from tests.support.machine import Machine
from tests.support.producing import begin, create, produce


@pytest.mark.parametrize("is_room_made", [True, False])
@pytest.mark.expects_errors("cut failed")
def test_a_truncation_waits_as_long_as_syncs_of_own_files_will_make_room(is_room_made: bool) -> None:
    machine = Machine(ottla_journal_bytes=65536)
    for topic in ("t", "u"):
        create(machine, topic)
        for _ in range(3):
            assert produce(machine, b"value", topic=topic).error_code == 0
    partitions = machine.broker.partitions
    partition, other = partitions.get("t", 0), partitions.get("u", 0)
    journals, syncs = partitions.syncs.journals, partitions.syncs
    assert partition is not None
    assert other is not None
    assert journals.journals_with(partition), "its records are in the journal"
    failures, done = list[StorageFailed](), list[None]()

    def cut() -> Steps[None]:
        try:
            yield from partitions.before_cut(partition, 1, 0)
        except StorageFailed as failure:
            failures.append(failure)
            raise

    journal = journals.first.journal
    assert journal is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal, "void", lambda keys, done: False)  # both files are full
        if is_room_made:
            syncs._leaving.add(other)  # its own files are being synced, so that the other file can be used again
        machine.broker.scheduler.begin("cut", cut(), done.append)
        for _ in range(5):
            machine.settle()
            machine.pass_time(1)
        assert not done
    if not is_room_made:
        assert ["the journal is full" in str(failure) for failure in failures] == [True]
        return
    assert not failures
    syncs._note_own_sync(other)
    for _ in range(5):
        machine.settle()
        machine.pass_time(1)
    assert done
    assert not journals.journals_with(partition)


def test_a_journal_is_made_once_the_disk_has_space_for_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="ottla.broker")
    machine = Machine(ottla_journal_bytes=65536)
    create(machine, "t")
    partition = machine.broker.partitions.get("t", 0)
    assert partition is not None
    machine.disk.capacity_bytes = machine.disk.used_bytes + 70_000
    for _ in range(3):
        assert produce(machine, b"value").error_code == 0
        machine.pass_time(61_000)
    journals = machine.broker.partitions.syncs.journals
    assert not journals.journals_with(partition)
    machine.disk.capacity_bytes = None
    machine.pass_time(61_000)
    for _ in range(2):
        assert produce(machine, b"value").error_code == 0
        machine.settle()
    assert journals.journals_with(partition)
    said = [record.getMessage().split(" (")[0] for record in caplog.records if "journal" in record.getMessage()]
    assert said == ["journal: there is no journal until the next checkpoint tries again", "journal: there is a journal now"]


def test_a_write_takes_along_what_the_requests_append_beside_which_the_one_before_ends() -> None:
    machine = Machine(ottla_journal_bytes=65536)
    for topic in ("t", "u", "v"):
        create(machine, topic)
        for _ in range(3):
            assert produce(machine, b"value", topic=topic).error_code == 0
    journal = machine.broker.partitions.syncs.journals.first.journal
    assert journal is not None
    before = journal._sequence
    first = begin(machine, b"value", topic="t")
    waits = begin(machine, b"value", topic="u")
    assert journal._sequence == before + 1, "u waits for the end of the write of t"
    assert machine.disk.run_syncs()
    beside = begin(machine, b"value", topic="v")
    assert (first.done, waits.done, beside.done) == (True, False, False)
    assert machine.disk.run_syncs()
    assert waits.done
    assert beside.done
    assert journal._sequence == before + 2
