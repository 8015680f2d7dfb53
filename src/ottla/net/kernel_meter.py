"""Counts of durations in buckets of fixed sizes, without an object for each. Cython compiles this module if it is available.

An octave, from one power of two to the next, has four buckets of equal width. The first bucket is for all durations below
`FIRST_NS`, and the last one has no upper limit. The types are in `kernel_meter.pyi`.
"""

from __future__ import annotations

from array import array

try:
    import cython
except ImportError:
    from ottla.records import plain as cython

COMPILED = cython.compiled

BUCKETS = 97
WIDTH = BUCKETS + 1
FIRST_NS = 4 << 12
QUEUE, LOCAL, REMOTE, SYNC, SEND, TOTAL = range(6)

# C variables, which Python code cannot see
_shift = cython.declare(cython.int, 12)
_buckets = cython.declare(cython.Py_ssize_t, BUCKETS)
_width = cython.declare(cython.Py_ssize_t, WIDTH)
_local = cython.declare(cython.Py_ssize_t, LOCAL * WIDTH)
_total = cython.declare(cython.Py_ssize_t, TOTAL * WIDTH)


@cython.cfunc
@cython.inline
def _count(cells: cython.longlong[::1], start: cython.Py_ssize_t, duration_ns: cython.longlong) -> None:
    """Count one duration in the cells of a histogram that begin at `start`: the buckets, then the sum."""
    units: cython.longlong = duration_ns >> _shift
    index: cython.Py_ssize_t = 0
    if units >= 4:
        index = 1
        while units >= 8:
            units >>= 1
            index += 4
        index += units - 4
        if index >= _buckets:
            index = _buckets - 1
    cells[start + index] += 1
    if duration_ns > 0:
        cells[start + _buckets] += duration_ns


@cython.cclass
class StageHistograms:
    """The durations of several stages of requests, each in a histogram of its own. `cells` has them one after the other."""

    cells = cython.declare(object, visibility="readonly")
    _cells: cython.longlong[::1]

    def __init__(self, stages: cython.int) -> None:
        self.cells = array("q", bytes(8 * WIDTH * stages))
        self._cells = self.cells

    def add(self, stage: cython.Py_ssize_t, duration_ns: cython.longlong) -> None:
        """Count one duration of a stage."""
        _count(self._cells, stage * _width, duration_ns)

    def add_served(self, queue_ns: cython.longlong, local_ns: cython.longlong) -> None:
        """Count a request that was answered at once."""
        _count(self._cells, 0, queue_ns)
        _count(self._cells, _local, local_ns)
        _count(self._cells, _total, queue_ns + local_ns)

    def add_begun(self, queue_ns: cython.longlong, local_ns: cython.longlong) -> None:
        """Count the first two stages of a request whose reply is delayed."""
        _count(self._cells, 0, queue_ns)
        _count(self._cells, _local, local_ns)
