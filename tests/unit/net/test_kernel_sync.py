"""Syncs of many files: what each comes to is known, and how many threads share them depends on what a sync takes."""

from __future__ import annotations

import errno
import importlib.util
import os
from array import array
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from ottla.net import kernel_sync
from ottla.net.disk.sync_workers import SHORT_NS, SYNCS_SIDE_BY_SIDE, divide


def uncompiled() -> ModuleType:
    """The module from its Python source, whatever was compiled from it."""
    source = Path(import_module("ottla.net").__path__[0], "kernel_sync.py")
    spec = importlib.util.spec_from_file_location("ottla.net.kernel_sync", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert not module.COMPILED
    return module


@pytest.fixture(params=[True, False], ids=["compiled", "uncompiled"])
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    if not request.param:
        return uncompiled()
    if not kernel_sync.COMPILED:
        pytest.skip("the kernel is not compiled: install a C compiler, then reinstall Ottla")
    return kernel_sync


@pytest.fixture
def handle(tmp_path: Path) -> Iterator[int]:
    handle = os.open(tmp_path / "log", os.O_RDWR | os.O_CREAT)
    os.write(handle, b"1")
    yield handle
    os.close(handle)


def test_each_file_has_its_outcome(kernel: ModuleType, handle: int, tmp_path: Path) -> None:
    nameless = os.open(tmp_path / "gone", os.O_RDWR | os.O_CREAT)
    (tmp_path / "gone").unlink()
    closed, other = os.pipe()
    os.close(closed)
    outcomes = array("i", [9] * 5)
    assert kernel.sync_each(array("i", [handle, nameless, closed, other, handle]), outcomes) >= 0
    assert list(outcomes) == [0, kernel.NAMELESS, errno.EBADF, errno.EINVAL, 0]
    os.close(nameless)
    os.close(other)


def test_of_no_file_nothing_is_said(kernel: ModuleType) -> None:
    assert kernel.sync_each(array("i"), array("i")) == 0


@pytest.mark.parametrize(
    ("count", "sync_ns", "parts"),
    [
        (1, 100 * SHORT_NS, 1),
        (9, SHORT_NS // 10, 1),
        (11, SHORT_NS // 10, 2),
        (3, SHORT_NS, 3),
        (100, SHORT_NS, SYNCS_SIDE_BY_SIDE),
        (100, 0, 1),
    ],
)
def test_a_pass_is_shared_by_more_threads_the_longer_it_takes(count: int, sync_ns: int, parts: int) -> None:
    found = divide(list(range(count)), sync_ns)
    assert len(found) == parts
    assert sorted(number for part in found for number in part) == list(range(count))
