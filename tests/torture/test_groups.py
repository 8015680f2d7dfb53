"""A short `make torture-groups`: members and broker are killed, and the group loses nothing and gives nothing out twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture.groups import members, torture


@pytest.mark.full(seconds=19)
@pytest.mark.interop
@pytest.mark.slow
def test_a_tormented_group_processes_everything(tmp_path: Path) -> None:
    result = torture(tmp_path, members(5, mixed=True), seconds=6, seed=1)
    assert result.faults == []
    assert result.broker_kills >= 1
    assert result.member_kills >= 3
    assert result.records > 500
