"""Five rounds of `make torture-power`: a broker whose disk loses power keeps what it acknowledged."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.torture.forgetful_disk import ForgetfulDisk, NotHere
from tests.torture.power_cuts import torture_by_power_cuts


@pytest.mark.full(seconds=15)
@pytest.mark.expects_errors("Input/output error")
def test_a_broker_whose_disk_loses_power_keeps_what_it_acknowledged(tmp_path: Path) -> None:
    try:
        cuts, lives, acknowledged, wrong = torture_by_power_cuts(tmp_path, rounds=5, seed=1, limit_s=60)
    except NotHere as reason:
        pytest.skip(str(reason))
    assert wrong == []
    assert cuts >= 5
    assert lives >= 3
    assert acknowledged > 1000


def test_a_disk_that_loses_power_forgets_what_is_not_synced(tmp_path: Path) -> None:
    try:
        with ForgetfulDisk(tmp_path, size_bytes=16 << 20) as disk:
            with (disk.path / "synced").open("wb") as file:
                file.write(b"1")
                file.flush()
                os.fsync(file.fileno())
            (disk.path / "written").write_bytes(b"2")
            disk.cut_power()
            with pytest.raises(OSError, match="Input/output error"):
                (disk.path / "late").write_bytes(b"3")
            disk.restore_power()
            assert sorted(path.name for path in disk.path.glob("[!l]*")) == ["synced"]
    except NotHere as reason:
        pytest.skip(str(reason))
