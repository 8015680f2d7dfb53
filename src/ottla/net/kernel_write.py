"""A thread's loop of synchronous writes that never takes Python's lock. Cython compiles this module if it is available.

A thread of Python has to take the lock after each write, and waits for it while the event loop is busy. Then the callback of a
write comes late, and the loop is interrupted twice. The uncompiled module has no loop, because plain Python cannot do without the
lock. The types are in `kernel_write.pyi`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ottla.records import plain as cython

COMPILED = cython.compiled

if cython.compiled:
    from cython.cimports.libc.errno import EINTR, EIO, errno
    from cython.cimports.posix.unistd import fdatasync, pwrite, read, write

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _write_whole(
        handle: cython.int,
        data: cython.p_uchar,
        position: cython.longlong,
        size: cython.longlong,
        alignment: cython.longlong,
        is_direct: cython.bint,
    ) -> cython.int:
        """Write everything and make it durable. Return 0 or the errno of the failure."""
        written: cython.Py_ssize_t
        at: cython.longlong = 0
        end: cython.longlong
        while at < size:
            written = pwrite(handle, data + at, size - at, position + at)
            if written < 0:
                if errno == EINTR:
                    continue
                return errno
            end = at + written
            if end < size:
                end -= end % alignment  # the rest of a block that was cut off can only be written with its beginning
            if end <= at:
                return EIO
            at = end
        while not is_direct and fdatasync(handle) != 0:
            if errno != EINTR:
                return errno
        return 0

    def serve_writes(
        wakes: cython.int,
        answers: cython.int,
        handle: cython.int,
        alignment: cython.longlong,
        is_direct: cython.bint,
        buffer: cython.uchar[::1],
        request: cython.longlong[::1],
    ) -> None:
        """Write the beginning of `buffer` to `handle` for each byte that is read from `wakes`, until a byte is 0.

        `request` has the position and the size of the write, and receives 0 or the errno of the failure. Then a byte is written to
        `answers`. Unless the handle `is_direct`, each write is followed by fdatasync.
        """
        data = cython.declare(cython.p_uchar, cython.address(buffer[0]))
        wake = cython.declare(cython.char, 0)
        count: cython.Py_ssize_t
        with cython.nogil:
            while True:
                count = read(wakes, cython.address(wake), 1)
                if count < 0 and errno == EINTR:
                    continue
                if count != 1 or wake == 0:
                    break
                request[2] = _write_whole(handle, data, request[0], request[1], alignment, is_direct)
                while write(answers, cython.address(wake), 1) < 0 and errno == EINTR:
                    pass
