"""The registry on a disk, real or simulated, and the one in memory: one contract, kept by all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.net.disk.disk import RealDisk
from ottla.ports import NEW, Change, DuplicateEntry, Entry, NoEntry, Registry, VersionConflict
from ottla.registry.journal import JournalRegistry
from ottla.sim.disk import SimDisk
from ottla.sim.registry import MemoryRegistry, MemoryTree
from tests.support.entries import make_entry, put_entry, remove_entry

Reopen = Callable[[], Registry]


@pytest.fixture(params=["real disk", "simulated disk", "memory"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Reopen]:
    """Opens the registry: each time a new session on the same entries."""
    if request.param == "memory":
        tree = MemoryTree()
        yield lambda: MemoryRegistry(tree)
    elif request.param == "real disk":
        with closing(RealDisk(str(tmp_path), lambda call: None)) as real:
            yield lambda: JournalRegistry.open(real)
    else:
        simulated = SimDisk()
        yield lambda: JournalRegistry.open(simulated)


def test_entries_have_values_and_versions_that_count_their_changes(reopen: Reopen) -> None:
    registry = reopen()
    assert registry.get("/a/b") is None
    make_entry(registry, "/a/b", b"1")
    assert registry.get("/a/b") == Entry(b"1", 0)
    put_entry(registry, "/a/b", b"2")
    put_entry(registry, "/a/b", b"3", version=1)
    assert registry.get("/a/b") == Entry(b"3", 2)
    registry.close()


def test_parents_are_made_and_children_listed(reopen: Reopen) -> None:
    registry = reopen()
    for path in ("/a/c", "/a/b/x", "/ab", "/a.b/y"):
        make_entry(registry, path)
    assert registry.children("/a") == ["b", "c"]
    assert registry.children("/") == ["a", "a.b", "ab"]
    assert registry.children("/a/c") == registry.children("/nothing") == []
    registry.close()


def test_what_is_expected_wrongly_changes_nothing(reopen: Reopen) -> None:
    registry = reopen()
    make_entry(registry, "/a", b"1")
    with pytest.raises(DuplicateEntry):
        make_entry(registry, "/a", b"2")
    with pytest.raises(VersionConflict):
        put_entry(registry, "/a", b"2", version=7)
    with pytest.raises(VersionConflict):
        remove_entry(registry, "/a", version=7)
    with pytest.raises(NoEntry):
        put_entry(registry, "/b", b"2", version=0)
    with pytest.raises(NoEntry):
        remove_entry(registry, "/b")
    assert registry.get("/a") == Entry(b"1", 0)
    registry.close()


def test_removing_an_entry_removes_all_below_it_and_nothing_beside_it(reopen: Reopen) -> None:
    registry = reopen()
    for path in ("/a/b/c", "/a/b/d", "/a/bc", "/a/b.c", "/a/b0"):
        make_entry(registry, path)
    remove_entry(registry, "/a/b")
    assert registry.children("/a") == ["b.c", "b0", "bc"]
    assert registry.get("/a/b/c") is None
    registry.close()


def test_several_changes_are_made_all_or_none(reopen: Reopen) -> None:
    registry = reopen()
    make_entry(registry, "/there")
    with pytest.raises(DuplicateEntry):
        registry.commit([Change("/new", b"1", NEW), Change("/there", b"1", NEW)])
    assert registry.get("/new") is None
    registry.commit([Change("/new", b"1", NEW), Change("/new", b"2", 0), Change("/there", None)])
    assert registry.get("/new") == Entry(b"2", 1)
    assert registry.get("/there") is None
    registry.close()


def test_entries_survive_a_restart_and_ephemeral_ones_do_not(reopen: Reopen) -> None:
    registry = reopen()
    make_entry(registry, "/kept", b"1")
    make_entry(registry, "/gone", b"1", ephemeral=True)
    registry.commit([Change("/gone.too", b"1", None, ephemeral=True)])
    registry.close()
    registry = reopen()
    assert registry.children("/") == ["kept"]
    registry.close()


def test_ephemeral_entries_that_a_killed_process_left_are_gone_at_the_next_start() -> None:
    disk = SimDisk()
    make_entry(JournalRegistry.open(disk), "/gone", b"1", ephemeral=True)
    disk.kill()
    assert JournalRegistry.open(disk).get("/gone") is None


def test_a_session_that_ends_takes_its_own_ephemeral_entries_only() -> None:
    tree = MemoryTree()
    first, second = MemoryRegistry(tree), MemoryRegistry(tree)
    make_entry(first, "/one", ephemeral=True)
    make_entry(second, "/two", ephemeral=True)
    first.close()
    assert second.children("/") == ["two"]


PATHS = st.sampled_from(["/a", "/a/b", "/a/b/c", "/a.b", "/b"])
CHANGES = st.builds(Change, PATHS, st.none() | st.binary(max_size=2), st.none() | st.integers(NEW, 2))


class PlainEntries(dict[str, Entry]):
    """The entries of a registry, as a model: each commit copies all entries."""

    ephemeral: frozenset[str] = frozenset()

    def commit(self, changes: list[Change]) -> None:
        after, ephemeral = dict(self), set(self.ephemeral)
        for path, value, version, is_ephemeral, *_ in changes:
            known = after.get(path)
            if version == NEW and known is not None:
                raise DuplicateEntry(path)
            if known is None and (value is None or version not in (None, NEW)):
                raise NoEntry(path)
            if known is not None and version not in (None, known.version):
                raise VersionConflict(path)
            if value is None:
                after = {name: entry for name, entry in after.items() if name != path and not name.startswith(f"{path}/")}
            else:
                names = path.split("/")[1:]
                for depth in range(1, len(names)):
                    after.setdefault("/" + "/".join(names[:depth]), Entry(b"", 0))
                after[path] = Entry(value, 0 if known is None else known.version + 1)
                if is_ephemeral and known is None:
                    ephemeral.add(path)
            ephemeral &= after.keys()
        self.clear()
        self.update(after)
        self.ephemeral = frozenset(ephemeral)

    def close(self) -> None:
        for path in self.ephemeral:
            if path in self:
                self.commit([Change(path, None)])

    def children(self, path: str) -> list[str]:
        return sorted(name.rpartition("/")[2] for name in self if name.rpartition("/")[0] == path)


@settings(max_examples=60)
@given(batches=st.lists(st.lists(CHANGES, max_size=4), max_size=12))
def test_both_registries_answer_every_sequence_of_changes_as_the_model_does(batches: list[list[Change]]) -> None:
    disk, model = SimDisk(), PlainEntries()
    real, simulated = JournalRegistry.open(disk), MemoryRegistry()
    for changes in batches:
        assert result(real, changes) == result(simulated, changes) == result(model, changes)
        for path in ("/a", "/a/b", "/a/b/c", "/a.b", "/b"):
            assert real.get(path) == simulated.get(path) == model.get(path)
            assert real.children(path) == simulated.children(path) == model.children(path)
        if len(changes) % 2:
            disk.kill()
            real = JournalRegistry.open(disk)
            simulated.close()
            simulated = MemoryRegistry(simulated.tree)
            model.close()


def result(registry: Registry | PlainEntries, changes: list[Change]) -> type[Exception] | None:
    try:
        registry.commit(changes)
    except (DuplicateEntry, NoEntry, VersionConflict) as refused:
        return type(refused)
    return None
