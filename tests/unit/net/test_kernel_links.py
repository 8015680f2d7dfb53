"""The names of an open file are counted alike by the compiled and the uncompiled kernel."""

from __future__ import annotations

import errno
import importlib.util
import os
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from ottla.net import kernel_links


@pytest.fixture(params=[True, False], ids=["compiled", "uncompiled"])
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    if request.param:
        if not kernel_links.COMPILED:
            pytest.skip("the kernel is not compiled: install a C compiler, then reinstall Ottla")
        return kernel_links
    source = Path(import_module("ottla.net").__path__[0], "kernel_links.py")
    spec = importlib.util.spec_from_file_location("ottla.net.kernel_links", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert not module.COMPILED
    return module


def test_names_of_an_open_file_are_counted(kernel: ModuleType, tmp_path: Path) -> None:
    names = tmp_path / "log", tmp_path / "other"
    handle = os.open(names[0], os.O_RDWR | os.O_CREAT)
    assert kernel.count_links(handle) == 1
    os.link(*names)
    assert kernel.count_links(handle) == 2
    for name in names:
        name.unlink()
    assert kernel.count_links(handle) == 0
    os.close(handle)


def test_a_closed_handle_has_an_errno(kernel: ModuleType) -> None:
    closed, other = os.pipe()
    os.close(closed)
    assert kernel.count_links(closed) == -errno.EBADF
    os.close(other)
