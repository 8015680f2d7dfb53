"""Where neither a compiler nor Cython is installed, the source of each kernel runs as plain Python."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

import ottla.records

KERNELS = sorted(Path(ottla.records.__path__[0]).glob("kernel*.py"))


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.name)
def test_the_source_of_a_kernel_runs_without_cython(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cython", None)
    spec = importlib.util.spec_from_file_location(f"uncompiled_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert not getattr(module, "COMPILED", False)
