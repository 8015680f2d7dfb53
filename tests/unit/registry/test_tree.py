"""Entries in memory: forks that share them, removals that cost the same whatever they remove, and commits that are taken back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.ports import Change, DuplicateEntry, NoEntry, VersionConflict
from ottla.registry.tree import FREED_AT_ONCE, StoredEntry, Tree
from tests.unit.registry.test_contract import CHANGES

MANY = 10_000


def held(tree: Tree) -> dict[str, StoredEntry]:
    return dict(tree.entries())


def large() -> Tree:
    tree = Tree()
    tree.commit([Change(f"/t/partitions/{index}/state", b"{}") for index in range(MANY)])
    return tree


@settings(max_examples=100)
@given(batches=st.lists(st.tuples(st.lists(CHANGES, max_size=4), st.booleans(), st.booleans()), max_size=12))
def test_a_fork_holds_what_it_held_and_a_commit_that_is_taken_back_leaves_no_trace(
    batches: list[tuple[list[Change], bool, bool]],
) -> None:
    tree = Tree()
    forks: list[tuple[Tree, dict[str, StoredEntry]]] = []
    for changes, is_forked, is_taken_back in batches:
        before = held(tree)
        if is_forked:
            forks.append((tree.fork(), before))
        try:
            undo = tree.commit(changes)
        except (DuplicateEntry, NoEntry, VersionConflict):
            assert held(tree) == before
            continue
        if is_taken_back:
            tree.undo(undo)
            assert held(tree) == before
        else:
            list(tree.free_removed(undo))
        assert len(tree) == len(held(tree))
    assert all(held(fork) == then and len(fork) == len(then) for fork, then in forks)


def test_a_refused_commit_gives_back_the_last_entry_below_one_that_it_changed_as_well() -> None:
    tree = Tree()
    tree.commit([Change("/a/b", b"")])
    with pytest.raises(NoEntry):
        tree.commit([Change("/a", b"new"), Change("/a/b", None), Change("/missing", None)])
    assert held(tree) == {"/a": StoredEntry(b"", 0, False), "/a/b": StoredEntry(b"", 0, False)}


def test_entries_come_after_those_above_them_and_may_be_put_in_any_order() -> None:
    tree = Tree()
    for path in ("/a/b/c", "/a", "/a/b"):  # as older versions wrote them
        tree.put(path, StoredEntry(path.encode(), 3, False))
    assert list(tree.entries()) == [(path, StoredEntry(path.encode(), 3, False)) for path in ("/a", "/a/b", "/a/b/c")]


def test_removing_ten_thousand_entries_is_one_step_and_they_are_freed_some_at_a_time() -> None:
    tree = large()
    undo = tree.commit([Change("/t", None)])
    assert len(undo) == 1
    assert len(tree) == 0
    assert sum(1 for _ in tree.free_removed(undo)) == (2 * MANY + 2) // FREED_AT_ONCE


def test_what_a_fork_still_holds_is_not_freed() -> None:
    tree = large()
    fork = tree.fork()
    tree.commit([Change("/t/partitions/1/state", b"new")])
    list(tree.free_removed(tree.commit([Change("/t", None)])))
    assert len(held(fork)) == 2 * MANY + 2
    with pytest.raises(NoEntry):
        tree.commit([Change("/t", None)])
