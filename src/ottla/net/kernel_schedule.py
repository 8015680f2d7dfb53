"""The calling thread's slice in the system's scheduler. Cython compiles this module if it is available.

Linux lets a thread that wakes up run before a thread with longer slices, from 6.12 on. The share of the processor stays the same: a
thread with short slices runs sooner and is interrupted sooner. The types are in `kernel_schedule.pyi`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ottla.records import plain as cython

COMPILED = cython.compiled

if cython.compiled:
    from cython.cimports.ottla.net.slice_calls import ottla_request_slice
else:

    def ottla_request_slice(slice_ns: int) -> int:
        return 0


def request_slice(slice_ns: int) -> int:
    """Request slices of `slice_ns` for this thread and for those that it starts later. Return the slice in force, in ns.

    Return 0 if the system has no such setting or refuses it, or if this module is not compiled.
    """
    return int(ottla_request_slice(slice_ns))
