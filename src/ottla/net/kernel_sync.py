"""The sync of several files while Python's other threads run. Cython compiles this module if it is available.

The module works on handles of open files. A loop over `os.fdatasync` would release Python's lock for each file, and then wait to
get the lock back. The types are in `kernel_sync.pyi`.
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
    """Sync these files in order. Return the duration of the shortest sync in ns, or 0 if there are no files.

    `outcomes` has the same length as `handles`. For each file it receives 0, the `errno` of the file's failure, or `NAMELESS` if
    the file has no name any more.
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
