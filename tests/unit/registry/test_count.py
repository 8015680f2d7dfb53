"""The count of commits shows what both halves of a registry have lost in the same way, and nothing else."""

from __future__ import annotations

import logging
from random import Random

import pytest

from ottla.ports import Change, RegistryDamaged
from ottla.registry import lines
from ottla.registry.count import COUNT, read_count
from ottla.registry.generations import DIRECTORIES, FIRST, journal_name, numbers
from ottla.registry.journal import JournalRegistry
from ottla.registry.survey import best_of, put_back, survey
from ottla.sim.disk import IO_ERROR, SimDisk
from tests.support.entries import make_entry, put_entry

NAME = journal_name(0)
ENTRIES = ["a", "b", "c"]


def written(disk: SimDisk) -> list[int]:
    """A registry of three commits, ended by a kill; returns where each line ends."""
    registry = JournalRegistry.open(disk)
    for name in ENTRIES:
        make_entry(registry, f"/{name}")
    disk.run_syncs()
    disk.kill()
    data = disk.read_file(f"{FIRST}/{NAME}")
    return [position + 1 for position, byte in enumerate(data) if byte == ord("\n")]


def zero_both(disk: SimDisk, position: int) -> None:
    for directory in DIRECTORIES:
        data = disk.read_file(f"{directory}/{NAME}")
        disk.write_file(f"{directory}/{NAME}", data[:position] + bytes(len(data) - position))


@pytest.mark.parametrize("commits", range(len(ENTRIES)))
@pytest.mark.parametrize("lost_power", [False, True])
def test_both_halves_zeroed_from_the_same_line_on_are_no_older_registry(commits: int, lost_power: bool) -> None:
    disk = SimDisk()
    ends = written(disk)
    if lost_power:
        disk.crash(Random(1))
    zero_both(disk, ends[commits])
    with pytest.raises(RegistryDamaged, match=f"end at commit {commits}, but {COUNT} counts 3: .*ottla registry restore"):
        JournalRegistry.open(disk)


def test_a_torn_last_line_of_the_first_is_damage_where_its_commit_was_counted() -> None:
    """A power cut took it from the copy; that it was never acknowledged is not so."""
    disk = SimDisk()
    ends = written(disk)
    data = disk.read_file(f"{FIRST}/{NAME}")
    disk.write_file(f"{DIRECTORIES[1]}/{NAME}", data[: ends[2]] + bytes(len(data) - ends[2]))
    disk.flip_bit(f"{FIRST}/{NAME}", 8 * (ends[2] + 12))
    with pytest.raises(RegistryDamaged, match="counts 3"):
        JournalRegistry.open(disk)


def test_both_newest_journals_removed_are_missed_though_the_older_ones_do_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.registry.renewal.LEAST_BYTES", 1_000)
    disk = SimDisk()
    registry = JournalRegistry.open(disk)
    while len(numbers(disk, FIRST)) < 2:
        put_entry(registry, "/a", bytes(200))
        disk.run_syncs()
    put_entry(registry, "/a", b"in the newest alone")
    disk.kill()
    for directory in DIRECTORIES:
        older, newest = map(journal_name, numbers(disk, directory))
        disk.remove(f"{directory}/{newest}")
        data = disk.read_file(f"{directory}/{older}")
        last = data.index(b'{"continued"') - 9
        disk.write_file(f"{directory}/{older}", data[:last] + bytes(len(data) - last))
    with pytest.raises(RegistryDamaged, match=f"but {COUNT} counts"):
        JournalRegistry.open(disk)


def test_both_directories_removed_are_no_new_registry() -> None:
    disk = SimDisk()
    written(disk)
    for directory in DIRECTORIES:
        disk.remove_tree(directory)
    with pytest.raises(RegistryDamaged, match=r"there is no journal in registry and registry\.copy, but .* counts 3 commits"):
        JournalRegistry.open(disk)


def test_any_flipped_bit_of_the_count_is_told_and_mended(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimDisk()
    written(disk)
    for bit in range(8 * disk.size(COUNT)):
        disk.flip_bit(COUNT, bit)
        caplog.clear()
        JournalRegistry.open(disk)
        assert [record.getMessage() for record in caplog.records] == [f"{COUNT} was damaged: it is rewritten from the journals"]
        assert read_count(disk) == 3


@pytest.mark.parametrize("content", [b"", b"x", b"00000000 " + b"9" * 23, "²".encode() * 16, None])
def test_a_count_that_is_cut_or_something_else_does_no_harm(content: bytes | None, caplog: pytest.LogCaptureFixture) -> None:
    disk = SimDisk()
    written(disk)
    if content is None:
        disk.remove(COUNT)  # as an older version left the directory
    else:
        disk.write_file(COUNT, content)
    with caplog.at_level(logging.INFO, "ottla"):
        assert JournalRegistry.open(disk).children("/") == ENTRIES
    assert (COUNT in caplog.text) == (content is not None)
    assert read_count(disk) == 3


def test_a_count_that_cannot_be_written_costs_no_commit(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimDisk()
    registry = JournalRegistry.open(disk)
    make_entry(registry, "/a")
    disk.fail(3, IO_ERROR)  # both journals and the sync of the first come before
    make_entry(registry, "/b")
    assert "the count of the registry's commits could not be written: registry.commits: Input/output error" in caplog.text
    assert read_count(disk) == 1
    disk.kill()
    assert JournalRegistry.open(disk).children("/") == ["a", "b"]
    assert read_count(disk) == 2


def test_what_a_killed_process_left_in_memory_is_counted_when_it_is_on_stable_storage() -> None:
    """Or a power cut could take the commit and leave the number."""
    for seed in range(20):
        disk = SimDisk()
        registry = JournalRegistry.open(disk)
        make_entry(registry, "/a")
        line, _ = lines.write(lines.commit(2, [Change("/b", b"")]), registry._chain)
        disk.open(f"{FIRST}/{NAME}").write(len(disk.read_file(f"{FIRST}/{NAME}").rstrip(b"\0")), line)  # and not synced
        disk.kill()
        JournalRegistry.open(disk)
        disk.crash(Random(seed))
        assert "b" in JournalRegistry.open(disk).children("/")


def test_an_older_state_that_is_put_back_is_the_newest_from_then_on() -> None:
    disk = SimDisk()
    ends = written(disk)
    zero_both(disk, ends[1])
    best = best_of(survey(disk))
    assert best is not None
    put_back(disk, best.tree, best.commits)
    assert JournalRegistry.open(disk).children("/") == ["a"]
    assert read_count(disk) == 1
