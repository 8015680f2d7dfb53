"""Commands that run in the test's process, with a broker of the test's module."""

from __future__ import annotations

import pytest

import ottla
from tests.support.commands import Run, exit_code


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr("sys.stdin", None)
    return lambda line: (exit_code(line), *capsys.readouterr())


@pytest.fixture
def ottla_(broker: ottla.Broker, run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run lines about the module's broker."""
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVER", broker.address)
    return run
