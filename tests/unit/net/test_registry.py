"""The registry on SQLite and the one in memory: one contract, kept by both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.net.registry import SQLiteRegistry
from ottla.ports import NEW, Change, Entry, EntryExists, NoEntry, Registry, StorageFailed, VersionConflict
from ottla.sim.registry import MemoryRegistry, MemoryTree
from tests.support.entries import make_entry, put_entry, remove_entry

Reopen = Callable[[], Registry]


@pytest.fixture(params=["sqlite", "memory"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Reopen:
    """Opens the registry: each time a new session on the same entries."""
    tree = MemoryTree()
    return lambda: SQLiteRegistry(str(tmp_path / "registry")) if request.param == "sqlite" else MemoryRegistry(tree)


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
    with pytest.raises(EntryExists):
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
    with pytest.raises(EntryExists):
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


def test_ephemeral_entries_that_a_killed_process_left_are_gone_at_the_next_start(tmp_path: Path) -> None:
    killed = SQLiteRegistry(str(tmp_path / "registry"))
    make_entry(killed, "/gone", b"1", ephemeral=True)
    killed._database.close()  # not the registry's own close, which would end its session
    registry = SQLiteRegistry(str(tmp_path / "registry"))
    assert registry.get("/gone") is None
    registry.close()


def test_a_session_that_ends_takes_its_own_ephemeral_entries_only() -> None:
    tree = MemoryTree()
    first, second = MemoryRegistry(tree), MemoryRegistry(tree)
    make_entry(first, "/one", ephemeral=True)
    make_entry(second, "/two", ephemeral=True)
    first.close()
    assert second.children("/") == ["two"]


def test_a_file_that_is_no_registry_is_told_as_a_storage_failure(tmp_path: Path) -> None:
    (tmp_path / "registry").write_bytes(b"not a database, and long enough to be looked at" * 100)
    with pytest.raises(StorageFailed, match="registry"):
        SQLiteRegistry(str(tmp_path / "registry"))


PATHS = st.sampled_from(["/a", "/a/b", "/a/b/c", "/a.b", "/b"])
CHANGES = st.builds(Change, PATHS, st.none() | st.binary(max_size=2), st.none() | st.integers(NEW, 2))


@settings(max_examples=60)
@given(batches=st.lists(st.lists(CHANGES, max_size=4), max_size=12))
def test_both_registries_answer_every_sequence_of_changes_alike(batches: list[list[Change]]) -> None:
    real, simulated = SQLiteRegistry(":memory:"), MemoryRegistry()
    for changes in batches:
        assert result(real, changes) == result(simulated, changes)
        for path in ("/a", "/a/b", "/a/b/c", "/a.b", "/b"):
            assert real.get(path) == simulated.get(path)
            assert real.children(path) == simulated.children(path)
    real.close()


def result(registry: Registry, changes: list[Change]) -> type[Exception] | None:
    try:
        registry.commit(changes)
    except (EntryExists, NoEntry, VersionConflict) as refused:
        return type(refused)
    return None
