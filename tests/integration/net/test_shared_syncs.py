"""Syncs of one file by several threads, and syncs that take long beside others that do not."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Queue

import pytest

from ottla.net.disk.disk import RealDisk
from ottla.net.disk.real_file import SLOW_BYTES
from ottla.ports import StorageFailed, SyncFailed

Calls = Queue[Callable[[], None]]


@pytest.fixture
def calls() -> Calls:
    return Queue()


@pytest.fixture
def disk(tmp_path: Path, calls: Calls) -> Iterator[RealDisk]:
    disk = RealDisk(str(tmp_path), calls.put)
    yield disk
    disk.close()


def test_a_sync_that_fails_fails_for_everybody_who_syncs_the_file_meanwhile(
    disk: RealDisk, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel reports an error of writing back once, to one of the threads that ask."""
    started, go_on, asked = threading.Event(), threading.Event(), list[str]()

    def fdatasync(fd: int) -> None:
        asked.append(threading.current_thread().name)
        if len(asked) == 1:
            started.set()
            assert go_on.wait(10)
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    file, done = disk.open("log", create=True), list[StorageFailed | None]()
    file.append([b"1"])
    disk.sync_soon([file], done.append)
    assert started.wait(10)
    failures = list[str]()

    def sync_too() -> None:
        try:
            file.sync()
        except SyncFailed as failure:
            failures.append(str(failure))

    other = threading.Thread(target=sync_too)
    other.start()
    go_on.set()
    other.join(10)
    calls.get(timeout=10)()
    assert failures == [str(failure) for failure in done] == ["log: Input/output error"]


def test_a_sync_of_much_keeps_no_other_one_waiting(disk: RealDisk, calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on, done = threading.Event(), list[str]()
    large, small = disk.open("large", create=True), disk.open("small", create=True)
    for file in (large, small):
        file.sync()

    def fdatasync(fd: int) -> None:
        if fd == large.fileno():
            assert go_on.wait(10)

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    large.append([bytes(SLOW_BYTES + 1)])
    disk.sync_soon([large, small], lambda failure: done.append("large"))
    for _ in range(3):
        small.append([b"1"])
        disk.sync_soon([small], lambda failure: done.append("small"))
        calls.get(timeout=10)()
    assert done == ["small"] * 3
    go_on.set()
    calls.get(timeout=10)()
    assert done == ["small"] * 3 + ["large"]
    assert not large.is_slow
