"""Damage of the registry's files: of one of the two it is mended and told, of both it is told and refused. Never is it silent."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from ottla.ports import RegistryDamaged, StorageFailed
from ottla.registry import lines
from ottla.registry.generations import COPY, DIRECTORIES, FIRST, journal_name, numbers
from ottla.registry.journal import JournalRegistry
from ottla.registry.survey import best_of, finish, put_back, survey
from ottla.registry.tree import StoredEntry, Tree
from ottla.sim.disk import SimDisk
from tests.support.entries import make_entry, put_entry, remove_entry

NAME = journal_name(0)
Contents = dict[str, tuple[bytes, int]]


def contents(registry: JournalRegistry) -> Contents:
    return {path: (node.value, node.version) for path, node in sorted(registry._tree.entries())}


def written(disk: SimDisk) -> Contents:
    """A registry with some entries and some commits, ended by a kill."""
    tree = Tree()
    tree.put("/old", StoredEntry(b"before", 3, False))
    registry = JournalRegistry.open(disk, tree)
    make_entry(registry, "/brokers/topics/a", b'{"x":1}')
    put_entry(registry, "/brokers/topics/a", b"\x00\xff")
    make_entry(registry, "/b")
    remove_entry(registry, "/b")
    make_entry(registry, "/last", b"acknowledged")
    disk.run_syncs()
    disk.kill()
    return contents(registry)


def used(disk: SimDisk, path: str) -> int:
    return len(disk.read_file(path).rstrip(b"\0"))


def rewritten(disk: SimDisk, path: str, change: Callable[[bytes], bytes]) -> None:
    disk.write_file(path, change(disk.read_file(path)))


@pytest.mark.parametrize("directory", DIRECTORIES)
def test_any_flipped_bit_in_either_file_loses_nothing_and_is_told(directory: str, caplog: pytest.LogCaptureFixture) -> None:
    disk = SimDisk()
    expected = written(disk)
    path = f"{directory}/{NAME}"
    whole = disk.read_file(path)
    for byte in range(used(disk, path) + 3):
        for bit in (byte % 8, (byte + 5) % 8):
            caplog.clear()
            disk.flip_bit(path, byte * 8 + bit)
            with caplog.at_level(logging.INFO, "ottla"):
                registry = JournalRegistry.open(disk)
            assert contents(registry) == expected, f"bit {bit} of byte {byte}"
            assert path in caplog.text
            assert disk.read_file(path)[: len(whole)] == whole, "mended"


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "all zeros": lambda data: bytes(len(data)),
    "doubled": lambda data: data + data,
    "half": lambda data: data[: len(data.rstrip(b"\0")) // 2],
    "without its last line": lambda data: data[: data.rstrip(b"\0\n").rindex(b"\n") + 1],
    "without a line": lambda data: data[: data.index(b"\n") + 1] + data[data.index(b"\n", data.index(b"\n") + 1) + 1 :],
    "a line twice": lambda data: data[: data.index(b"\n") + 1] + data,
    "something else": lambda data: b"SQLite format 3\0" * 100,
    "a sector of zeros": lambda data: data[:100] + bytes(100) + data[200:],
}


@pytest.mark.parametrize("what", [*DAMAGE, "missing", "directory missing"])
@pytest.mark.parametrize("directory", DIRECTORIES)
def test_one_file_of_two_suffices(what: str, directory: str, caplog: pytest.LogCaptureFixture) -> None:
    disk = SimDisk()
    expected = written(disk)
    path = f"{directory}/{NAME}"
    if what == "missing":
        disk.remove(path)
    elif what == "directory missing":
        disk.remove_tree(directory)
    else:
        rewritten(disk, path, DAMAGE[what])
    with caplog.at_level(logging.INFO, "ottla"):
        registry = JournalRegistry.open(disk)
    assert contents(registry) == expected
    assert path in caplog.text
    make_entry(registry, "/more")
    disk.kill()
    assert contents(JournalRegistry.open(disk)) == expected | {"/more": (b"", 0)}


@pytest.mark.parametrize("first", [what for what in DAMAGE if what != "doubled"])
@pytest.mark.parametrize("copy", [what for what in DAMAGE if what != "doubled"])
def test_damage_of_both_is_refused_with_both_names_and_the_way_out(first: str, copy: str) -> None:
    disk = SimDisk()
    written(disk)
    rewritten(disk, f"{FIRST}/{NAME}", DAMAGE[first])
    rewritten(disk, f"{COPY}/{NAME}", DAMAGE[copy])
    before = {directory: disk.read_file(f"{directory}/{NAME}") for directory in DIRECTORIES}
    with pytest.raises(RegistryDamaged, match="ottla registry restore") as caught:
        JournalRegistry.open(disk)
    assert f"{FIRST}/{NAME}" in str(caught.value)
    assert f"{COPY}/{NAME}" in str(caught.value)
    assert {directory: disk.read_file(f"{directory}/{NAME}") for directory in DIRECTORIES} == before


def with_two_journals(monkeypatch: pytest.MonkeyPatch) -> tuple[SimDisk, JournalRegistry]:
    """A registry whose journal was begun anew once."""
    monkeypatch.setattr("ottla.registry.renewal.LEAST_BYTES", 1_000)
    disk = SimDisk()
    registry = JournalRegistry.open(disk)
    while len(numbers(disk, FIRST)) < 2:
        put_entry(registry, "/a", bytes(200))
        disk.run_syncs()
    return disk, registry


def test_an_older_journal_is_not_taken_for_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    disk, _ = with_two_journals(monkeypatch)
    disk.kill()
    for directory in DIRECTORIES:
        disk.remove(f"{directory}/{disk.list(directory)[-1]}")
    with pytest.raises(RegistryDamaged, match="is not the newest journal of the registry, and the newest is missing"):
        JournalRegistry.open(disk)


def test_damage_of_an_older_journal_does_no_harm(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    disk, registry = with_two_journals(monkeypatch)
    expected = contents(registry)
    disk.kill()
    for directory in DIRECTORIES:
        disk.write_file(f"{directory}/{disk.list(directory)[0]}", b"x")
    assert contents(JournalRegistry.open(disk)) == expected
    assert caplog.text == ""


def test_a_journal_of_a_newer_format_is_refused_with_what_to_do() -> None:
    disk = SimDisk()
    written(disk)
    line, _ = lines.write({"registry": lines.FORMAT + 1}, 0)
    for directory in DIRECTORIES:
        disk.write_file(f"{directory}/{NAME}", line)
    with pytest.raises(RegistryDamaged, match="has format 2, newer than 1: start the newer version that wrote it"):
        JournalRegistry.open(disk)


def test_a_restore_that_ended_half_way_is_gone_on_with() -> None:
    disk = SimDisk()
    expected = written(disk)
    best = best_of(survey(disk))
    assert best is not None
    disk.fail(9, count=1)  # between the renames
    with pytest.raises(StorageFailed):
        put_back(disk, best.tree, best.commits)
    disk.kill()
    finish(disk)
    assert contents(JournalRegistry.open(disk)) == expected
