"""Where flush.messages wants each record flushed, it counts for a leader, and for its readers, when it is on stable storage."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from ottla.ports import Done, Syncable
from ottla.wire.errors import NONE
from tests.support.cluster_machine import ClusterMachine, role
from tests.unit.broker.test_replicas import copied, fetched, follow, leading, outcome, pending


def copied_first(machine: ClusterMachine, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The promise of a record that both followers have before it is on the leader's stable storage."""
    with monkeypatch.context() as patch:
        patch.setattr(machine.disk, "run_syncs", lambda: 0)
        promise = pending(machine, b"1")
        for node_id in (2, 3):
            fetched(machine, node_id, 1)
    return promise


def test_where_each_record_is_flushed_readers_see_what_is_on_stable_storage_of_the_leader_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = leading(log_flush_interval_messages=1, ottla_journal_bytes=0)
    promise = copied_first(machine, monkeypatch)
    assert machine.replica().high_watermark == 0
    assert not promise.done
    machine.settle()
    assert machine.replica().high_watermark == 1
    assert outcome(machine, promise) == NONE


def test_what_was_copied_and_not_flushed_counts_for_a_new_leader_when_it_is_on_stable_storage() -> None:
    machine = ClusterMachine(log_flush_interval_messages=1, ottla_journal_bytes=0)
    machine.tell_brokers(1, 2, 3)
    follow(machine)
    replica = machine.replica()
    replica.append_as_follower(memoryview(copied(b"1", base_offset=0, leader_epoch=5)), machine.clock.now())
    assert replica.log.synced_offset == 0
    assert machine.tell_roles(role(1, 6, isr=(1,))) == [NONE]
    assert (replica.log.synced_offset, replica.high_watermark) == (1, 1)


def test_records_that_are_copied_while_they_are_synced_are_not_synced_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next sync of the partition would wait for one that has nothing to do."""
    machine = leading(ottla_journal_bytes=0)
    asked = list[list[Syncable]]()
    sync_soon = machine.disk.sync_soon

    def noted(files: Iterable[Syncable], done: Done) -> None:
        asked.append(list(files))
        sync_soon(asked[-1], done)

    monkeypatch.setattr(machine.disk, "sync_soon", noted)
    promise = copied_first(machine, monkeypatch)
    assert machine.replica().high_watermark == 1
    assert not promise.done
    machine.settle()
    assert outcome(machine, promise) == NONE
    assert [len(files) for files in asked] == [1]
