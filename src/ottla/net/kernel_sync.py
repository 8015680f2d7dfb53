"""Syncs files one after the other while Python's other threads run on: one source, which Cython compiles where it can.

Knows handles of open files, and nothing of what they are. To call `os.fdatasync` for each is to let go of Python's lock each time,
and to wait for whoever has it then. Types: `kernel_sync.pyi`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ottla.records import plain as cython

if cython.compiled:
    from cython.cimports.libc.errno import EINTR, errno
    from cython.cimports.posix.stat import fstat, struct_stat
    from cython.cimports.posix.time import CLOCK_MONOTONIC, clock_gettime, timespec
    from cython.cimports.posix.unistd import fdatasync
else:
    import os
    from time import monotonic_ns

COMPILED = cython.compiled
NAMELESS = -1

if cython.compiled:

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _outcome(handle: cython.int) -> cython.int:
        found = cython.declare(struct_stat)
        while fdatasync(handle) != 0:
            if errno != EINTR:
                return errno
        if fstat(handle, cython.address(found)) != 0:
            return errno
        return -1 if found.st_nlink == 0 else 0

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _now_ns() -> cython.longlong:
        now = cython.declare(timespec)
        clock_gettime(CLOCK_MONOTONIC, cython.address(now))
        return cython.cast(cython.longlong, now.tv_sec) * 1000000000 + now.tv_nsec

else:
    _now_ns = monotonic_ns

    def _outcome(handle: int) -> int:
        try:
            os.fdatasync(handle)
            return 0 if os.fstat(handle).st_nlink else NAMELESS
        except OSError as failure:
            return failure.errno or -2


def sync_each(handles: cython.int[::1], outcomes: cython.int[::1]) -> int:
    """Sync what these files hold, in their order; the shortest of these syncs in nanoseconds, 0 of none.

    `outcomes` has as much room, and gets for each 0, the `errno` of its failure, or `NAMELESS` where the file has no name left.
    """
    at: cython.Py_ssize_t
    count: cython.Py_ssize_t = len(handles)
    began_ns: cython.longlong
    took_ns: cython.longlong
    shortest_ns: cython.longlong = 0
    with cython.nogil:
        for at in range(count):
            began_ns = _now_ns()
            outcomes[at] = _outcome(handles[at])
            took_ns = _now_ns() - began_ns
            if at == 0 or took_ns < shortest_ns:
                shortest_ns = took_ns
    return shortest_ns
