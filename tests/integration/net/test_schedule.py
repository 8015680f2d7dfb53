"""The slice of the broker's threads in the system's scheduler."""

from __future__ import annotations

import importlib.util
import platform
from importlib import import_module
from pathlib import Path
from threading import Thread

import pytest

from ottla.net import kernel_schedule

HAS_SLICES = platform.system() == "Linux" and tuple(map(int, platform.release().split(".")[:2])) >= (6, 12)


def test_a_thread_gets_the_slice_that_it_requests() -> None:
    if not kernel_schedule.COMPILED or not HAS_SLICES:
        pytest.skip("needs the compiled kernel and Linux 6.12")
    found = list[int]()

    def request() -> None:
        found.append(kernel_schedule.request_slice(200_000))

    thread = Thread(target=request)  # the thread of the tests keeps its own slice
    thread.start()
    thread.join()
    assert found == [200_000]


def test_an_uncompiled_module_requests_nothing() -> None:
    source = Path(import_module("ottla.net").__path__[0], "kernel_schedule.py")
    spec = importlib.util.spec_from_file_location("ottla.net.kernel_schedule", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert not module.COMPILED
    assert module.request_slice(200_000) == 0
