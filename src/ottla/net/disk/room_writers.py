"""Two ways to write into a room on another thread.

`NativeWriter` runs compiled code that never takes Python's lock, and the event loop watches a pipe for the end of a write. Beside a
busy event loop, one write of 4 KB took 0.16 ms in this way (99th percentile 0.5 ms). It took 0.35 ms (4 ms) on a thread of Python.
By Linux AIO it took 0.14 ms (4 ms), because the completion waits in the kernel for a tick of the busy processor. `PostedWriter` is
a thread of Python. It serves where the kernel is not compiled, where no loop watches, and where tests replace the system calls.
"""

from __future__ import annotations

import errno
import mmap
import os
import threading
from array import array
from collections.abc import Callable
from functools import partial
from typing import Protocol

from ottla.net import kernel_write
from ottla.net.disk.room_files import RoomFile
from ottla.net.disk.sync_workers import QueueWorker
from ottla.net.disk.system_calls import System
from ottla.ports import Post

Watch = Callable[[int, Callable[[], None] | None], None]
"""Register a callback for a handle: the broker's thread calls it whenever the handle has bytes to read. None removes it."""

Finished = Callable[[int], None]
"""The callback at the end of a write, on the broker's thread, with 0 or the errno of the failure."""

PWRITE = os.pwrite
WRITE, END = b"w", b"\0"


class RoomWriter(Protocol):
    """A writer of the beginning of a room's buffer. It has one write at a time."""

    def write(self, position: int, size: int) -> None:
        """Start a write of `size` bytes at `position`. Its end is reported by `Finished`."""

    def close(self) -> None:
        """Wait until the write under way is done, and release the thread. The end of the write is reported all the same."""


def open_writer(
    file: RoomFile, system: System, buffer: mmap.mmap, finished: Finished, post: Post, watch: Watch | None
) -> RoomWriter:
    """Return the writer for an open file. Raises OSError if there are no handles for it."""
    if watch is None or not kernel_write.COMPILED or system.pwrite is not PWRITE:
        return PostedWriter(file, system, buffer, finished, post)
    return NativeWriter(file, buffer, finished, post, watch)


class NativeWriter:
    """A thread without Python's lock. A byte in a pipe starts a write, and a byte in another pipe reports its end."""

    def __init__(self, file: RoomFile, buffer: mmap.mmap, finished: Finished, post: Post, watch: Watch) -> None:
        self._finished = finished
        self._post = post
        self._watch = watch
        self._request = array("q", (0, 0, 0))
        self._is_writing = False
        self._wakes, self._wake = os.pipe()
        try:
            self._answers, self._answer = os.pipe()
        except OSError:
            os.close(self._wakes)
            os.close(self._wake)
            raise
        arguments = (self._wakes, self._answer, file.fd, file.alignment, file.is_direct, buffer, self._request)
        self._thread = threading.Thread(target=kernel_write.serve_writes, args=arguments, name="ottla-room", daemon=True)
        self._thread.start()
        watch(self._answers, self._on_answer)

    def write(self, position: int, size: int) -> None:
        self._is_writing = True
        self._request[0], self._request[1] = position, size
        os.write(self._wake, WRITE)

    def close(self) -> None:
        os.write(self._wake, END)
        self._thread.join()
        self._watch(self._answers, None)
        for handle in (self._wakes, self._wake, self._answers, self._answer):
            os.close(handle)
        if self._is_writing:
            self._post(self._finish)

    def _on_answer(self) -> None:
        os.read(self._answers, 1)
        self._finish()

    def _finish(self) -> None:
        self._is_writing = False
        self._finished(self._request[2])


class PostedWriter(QueueWorker):
    """A thread of Python, which starts with the first write."""

    def __init__(self, file: RoomFile, system: System, buffer: mmap.mmap, finished: Finished, post: Post) -> None:
        super().__init__("ottla-room", post)
        self._file = file
        self._system = system
        self._buffer = buffer
        self._finished = finished

    def write(self, position: int, size: int) -> None:
        self._enqueue(partial(self._write, position, size))

    def close(self) -> None:
        self.stop()

    def _write(self, position: int, size: int) -> None:
        code = 0
        try:
            self._write_whole(position, size)
        except OSError as failure:
            code = failure.errno or errno.EIO
        self._post(partial(self._finished, code))

    def _write_whole(self, position: int, size: int) -> None:
        file, at = self._file, 0
        with memoryview(self._buffer) as buffer:
            while at < size:
                with buffer[at:size] as rest:
                    end = at + self._system.pwrite(file.fd, rest, position + at)
                if end < size:
                    end -= end % file.alignment  # the rest of a block that was cut off can only be written with its beginning
                if end <= at:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
                at = end
        if not file.is_direct:
            self._system.fdatasync(file.fd)
