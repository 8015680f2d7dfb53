"""Both disks for the tests of what the port promises: the real one and the simulated one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.ports import Disk
from tests.support.disk_subjects import Real, Simulated, Subject


@pytest.fixture(params=["real", "simulated"])
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Subject]:
    subject: Subject = Real(tmp_path) if request.param == "real" else Simulated()
    yield subject
    subject.end()


@pytest.fixture
def disk(subject: Subject) -> Disk:
    return subject.disk
