"""Producer ids of a lone broker: how many commits their blocks take, and what a restart leaves out."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ottla.cluster.producer_ids import BLOCK_SIZE, GROWTH
from ottla.ports import Change
from ottla.wire.api.init_producer_id import InitProducerIdRequest
from tests.support.machine import Machine

INIT = 22


def test_many_producer_ids_take_ever_fewer_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    machine, commits = Machine(), list[Sequence[Change]]()
    commit = machine.registry.commit

    def counted(changes: Sequence[Change]) -> None:
        commits.append(changes)
        commit(changes)

    monkeypatch.setattr(machine.registry, "commit", counted)
    ids, count = machine.broker.producer_ids, GROWTH * BLOCK_SIZE
    assert [ids.next() for _ in range(count)] == list(range(count))
    assert len(commits) == 2


def test_a_broker_that_restarts_leaves_out_no_more_than_a_block() -> None:
    machine = Machine()
    for life in range(20):
        answer = machine.ask(INIT, 4, InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000))
        assert (answer.error_code, answer.producer_id) == (0, life * BLOCK_SIZE)
        machine.restart()
