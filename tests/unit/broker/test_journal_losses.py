"""A start whose journal lacks files: what is logged, and how loudly, after a killed process and after a power cut."""

from __future__ import annotations

import pytest

from ottla.log.journal.format import FILES, INCARNATION, JOURNAL, KEPT
from tests.support.machine import Machine
from tests.support.producing import create, produce


def machine_with_journal() -> Machine:
    machine = Machine(ottla_journal_bytes=65536)
    create(machine, "t")
    for _ in range(3):
        assert produce(machine, b"value", topic="t").error_code == 0
    return machine


def levels(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in caplog.records if record.levelname in ("WARNING", "ERROR")]


@pytest.mark.parametrize("name", [*FILES, INCARNATION])
def test_a_missing_file_loses_nothing_of_a_killed_process(name: str, caplog: pytest.LogCaptureFixture) -> None:
    machine = machine_with_journal()
    machine.disk.remove(f"{JOURNAL}/{name}")
    machine.kill()
    (level, message), *others = levels(caplog)
    assert (level, others) == ("WARNING", [])
    assert name in message
    assert "the partitions' own files have all of them" in message
    partition = machine.broker.partitions.get("t", 0)
    assert partition is not None
    assert partition.log.log_end_offset == 3


@pytest.mark.parametrize("name", [*FILES, INCARNATION])
@pytest.mark.expects_errors("cannot be named")
def test_a_missing_file_is_an_error_after_a_power_cut(name: str, caplog: pytest.LogCaptureFixture) -> None:
    machine = machine_with_journal()
    machine.disk.remove(f"{JOURNAL}/{name}")
    machine.disk.sync_dir(JOURNAL)
    machine.cut_power(1)
    assert any(level == "ERROR" and name in message and "may be lost" in message for level, message in levels(caplog))


@pytest.mark.expects_errors("cannot be named")
def test_a_missing_directory_is_an_error_after_a_power_cut_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """Such as that of a disk which is not mounted, to which a link leads."""
    machine = machine_with_journal()
    machine.disk.remove_tree(JOURNAL)
    machine.disk.sync_dir("")
    machine.cut_power(1)
    assert any(level == "ERROR" and "both are missing" in message for level, message in levels(caplog))
    caplog.clear()
    machine.cut_power(2)
    assert not [message for level, message in levels(caplog) if level == "ERROR"]


def test_a_journal_that_is_gone_at_a_clean_stop_is_not_missed_afterwards(caplog: pytest.LogCaptureFixture) -> None:
    machine = machine_with_journal()
    machine.disk.remove_tree(JOURNAL)
    machine.restart()
    machine.cut_power(1)
    assert produce(machine, b"value", topic="t").error_code == 0
    assert machine.disk.list(JOURNAL) == [*FILES, INCARNATION]
    assert not any("missing" in message for _, message in levels(caplog))


@pytest.mark.expects_errors("cannot be named")
def test_a_damaged_kept_file_is_an_error_also_of_a_killed_process(caplog: pytest.LogCaptureFixture) -> None:
    """Its records are those of an earlier start, which may have followed a power cut."""
    machine = machine_with_journal()
    machine.disk.write_file(f"{JOURNAL}/{KEPT}", bytes(4096))
    machine.kill()
    assert [level for level, _ in levels(caplog)] == ["ERROR"]


def test_a_file_that_a_killed_process_was_making_is_removed() -> None:
    machine = machine_with_journal()
    machine.disk.write_file(f"{JOURNAL}/0.new", bytes(4096))
    machine.kill()
    assert machine.disk.list(JOURNAL) == [*FILES, INCARNATION]
