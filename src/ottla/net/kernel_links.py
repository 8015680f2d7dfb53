"""The number of an open file's names, without a question for the file's times. Cython compiles this module if it is available.

A stat that reads times makes Linux store a new time with the next write into the file, which is one more write to the disk for each
sync. The uncompiled module uses such a stat. The types are in `kernel_links.pyi`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ottla.records import plain as cython

COMPILED = cython.compiled

if cython.compiled:
    from cython.cimports.ottla.net.link_calls import ottla_count_links
else:
    import errno
    import os

    def ottla_count_links(handle: int) -> int:
        try:
            return os.fstat(handle).st_nlink
        except OSError as failure:
            return -(failure.errno or errno.EIO)


def count_links(handle: cython.int) -> int:
    """Return how many names an open file has, or the `errno` of the failure, negated."""
    return int(ottla_count_links(handle))
